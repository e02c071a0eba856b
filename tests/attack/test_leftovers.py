"""A home as earlier versions of pkb left it: what they trained, mirrored and set evades no forgetting."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.app import Pkb
from engine.settings import RETIRED
from store.types import Scope
from tests.attack.lab import Lab, mail
from tests.demo import NANO
from tests.engine.models.adapter_kit import add_trained, make_adapter
from tests.engine.recovery import Secret, traces

WORD = "Zebulonite"
SECRET = Secret((WORD,))
KEPT = "outside"  # a folder of the user's, which no command may touch
Leave = Callable[[Pkb, Path], None]


@pytest.fixture
def pkb(lab: Lab, tmp_path: Path) -> Iterator[Pkb]:
    """Return a home that has read a mail to forget, and another one."""
    (tmp_path / KEPT).mkdir()
    (tmp_path / KEPT / "adapter.json").write_text("{}")
    lab.read({"a.eml": mail(f"The {WORD} is in locker 9."), "b.eml": mail("The rent is 900 euros.", title="Money")})
    with lab.open() as opened:
        yield opened


def trained(pkb: Pkb, _: Path, notes: str | None = None) -> None:
    """Leave an adapter whose notes hold what it learnt, or other notes."""
    home = pkb.session.home
    home.adapters.mkdir(exist_ok=True)
    made = home.data.parent / "made"
    if not made.exists():
        make_adapter(NANO, made)
    add_trained(home.adapters, "own", made)
    about = home.adapters / "own" / "adapter.json"
    found = json.loads(about.read_text()) | {"learnt": {"1": [WORD]}}
    about.write_text(json.dumps(found) if notes is None else notes)


def notes_in_a_folder(pkb: Pkb, kept: Path) -> None:
    trained(pkb, kept)
    about = pkb.session.home.adapters / "own" / "adapter.json"
    about.unlink()
    about.mkdir()
    (about / "learnt").write_text(WORD)


def a_link(pkb: Pkb, kept: Path) -> None:
    pkb.session.home.adapters.mkdir()
    (pkb.session.home.adapters / "own").symlink_to(kept)


def unfinished(pkb: Pkb, _: Path) -> None:
    folder = pkb.session.home.adapters / ".training-own" / "0001"
    folder.mkdir(parents=True)
    (folder / "weights").write_text(WORD)


def a_link_to_an_unfinished_one(pkb: Pkb, kept: Path) -> None:
    pkb.session.home.adapters.mkdir()
    (pkb.session.home.adapters / ".training-own").symlink_to(kept)


def a_killed_bench(pkb: Pkb, _: Path) -> None:
    (pkb.session.home.trial / "data").mkdir(parents=True)
    shutil.copyfile(pkb.session.home.ledger, pkb.session.home.trial / "data" / "ledger.db")
    (pkb.session.home.trial / "data" / "tables").symlink_to(pkb.session.home.tables)
    (pkb.session.home.trial / "data" / "note").write_text(WORD)


def a_link_in_the_place_of_a_bench(pkb: Pkb, kept: Path) -> None:
    pkb.session.home.trial.symlink_to(kept)


LEFT: dict[str, Leave] = {
    "a trained adapter": trained,
    "one whose notes are cut off": lambda pkb, kept: trained(pkb, kept, f'{{"training": {{"1": "{WORD}"'),
    "one whose notes are empty": lambda pkb, kept: trained(pkb, kept, ""),
    "one whose notes are a list": lambda pkb, kept: trained(pkb, kept, f'["{WORD}"]'),
    "one whose notes are a folder": notes_in_a_folder,
    "a link in the place of an adapter": a_link,
    "an unfinished training": unfinished,
    "a link in the place of one": a_link_to_an_unfinished_one,
    "a copy by a killed benchmark": a_killed_bench,
    "a link in the place of the copy": a_link_in_the_place_of_a_bench,
}


@pytest.mark.parametrize("leave", LEFT.values(), ids=LEFT)
def test_forgetting_takes_what_earlier_versions_left_and_nothing_outside(
    pkb: Pkb, tmp_path: Path, leave: Leave
) -> None:
    leave(pkb, tmp_path / KEPT)
    planned = pkb.plan_forgetting([], Scope(sender="ann"))
    assert pkb.forget(planned).left == ()
    home = pkb.session.home
    assert traces(home.data, SECRET) == set()
    assert [*home.adapters.glob("*"), *home.adapters.glob(".*"), *home.data.glob("trial*")] == []
    assert [path.name for path in (tmp_path / KEPT).iterdir()] == ["adapter.json"]


def test_all_retired_settings_at_once_change_no_answer_and_show_no_credential(lab: Lab, pkb: Pkb) -> None:
    before = pkb.ask("How much is the rent?").text
    sections: dict[str, list[str]] = {"kv": ['remote = "s3://KEY:secret@bucket/x"']}
    for key in sorted(RETIRED):
        section, name = key.split(".")
        sections.setdefault(section, []).append(f'{name} = "idle"')
    text = "".join(f"[{name}]\n" + "\n".join(lines) + "\n" for name, lines in sections.items())
    Path(lab.environ["PKB_CONFIG"]).write_text(text)
    with lab.open() as opened:
        told = list[str]()
        opened.session.on_notice = told.append
        assert opened.ask("How much is the rent?").text == before
        assert (opened.session.settings.kv.remote, "secret" in "".join(told)) == ("", False)
        assert all(key in "".join(told) for key in (*RETIRED, "kv.remote"))
