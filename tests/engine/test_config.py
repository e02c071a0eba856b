"""The config file: what a file or a person may say, and what is refused."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.settings import Settings, keys, load, meanings, put, save, unknown
from store.errors import UsageError
from tests.reference import DATA

GUIDE = Path(__file__).parents[2] / "docs" / "guide.md"


def test_without_a_file_every_value_is_the_default(tmp_path: Path) -> None:
    assert load(tmp_path / "none.toml") == Settings()


def test_a_file_changes_what_it_names_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[ask]\nk = 8\n")
    assert keys(load(path)) == keys(Settings()) | {"ask.k": 8}


def test_saving_one_key_keeps_the_comments_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("# mine\n[ask]\nk = 8  # more\n")
    save(path, "bank.bytes", "1000")
    assert path.read_text() == "# mine\n[ask]\nk = 8  # more\n\n[bank]\nbytes = 1000\n"


def test_a_saved_file_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "config.toml"
    save(path, "ask.k", "3")
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ask.k", "0"), ("ask.k", "51"), ("ask.k", "five"), ("ask.k", "2.5"), ("ask.decline_below", "nan"),
        ("ask.decline_below", "-0.1"), ("bank.bytes", "-1"), ("ask", "1"), ("a.b.c", "1"),
        ("kv.bits", "4"), ("kv.bits", "eight"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_is_refused_by_name(key: str, value: str) -> None:
    with pytest.raises(UsageError, match=key):
        put(Settings(), key, value)


@pytest.mark.parametrize("text", ["[ask]\nk = true\n", "[ask]\nk = '5x'\n", "[ask\n"])
def test_a_file_that_cannot_be_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=str(path)):
        load(path)


# A key stays only as long as a user has a reason to change it.
def test_every_key_has_a_meaning_a_user_story_and_a_section_of_the_guide_that_explains_it() -> None:
    assert list(keys(Settings())) == list(DATA["settings"])
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", GUIDE.read_text(), re.MULTILINE | re.DOTALL))
    for key, (story, section) in DATA["settings"].items():
        assert meanings()[key]
        assert story
        assert key in sections[section]


def test_an_unknown_key_in_a_file_is_ignored_and_named(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('[kv]\norder = "reuse"\n[ask]\nk = 8\nwhole = "thread"\n[embed]\nworkers = 2\n')
    assert load(path) == put(Settings(), "ask.k", 8)
    assert unknown(path) == ["ask.whole", "embed.workers", "kv.order"]


@pytest.mark.parametrize("key", ["kv.order", "serve.memory_share", "experiment.guard", "experiment.gone_count"])
def test_what_no_user_sets_cannot_be_set(key: str) -> None:
    with pytest.raises(UsageError, match=key):
        put(Settings(), key, "on")


def test_an_experiment_in_a_file_is_no_key(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[experiment]\nguard = false\n")
    assert (load(path), unknown(path)) == (Settings(), ["experiment.guard"])


@given(text=st.text())
def test_any_text_is_settings_or_a_named_error(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_text(text, "utf-8", newline="")
    assert _said(path).startswith(str(path))


def _said(path: Path) -> str:
    """Return what is said of a file, its name where nothing is wrong."""
    try:
        load(path)
    except UsageError as error:
        return error.message
    return str(path)
