"""`pkb list` over real homes: what is listed, in which order, how many there are, and how it is shown."""

from email.message import EmailMessage
from pathlib import Path

import pytest

from cli.inspect import _line
from engine.text.terminal import cells
from tests.cli.conftest import Pkb, prepared


@pytest.fixture(scope="module")
def indexed(private: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Index three mails, one of them twice, one without a date, and a meeting."""
    home = tmp_path_factory.mktemp("listed")
    folder = home / "Mail"
    folder.mkdir()
    mails = (
        ("Ann Miller <ann@example.org>", "Budget of the fair", "Mon, 06 May 2024 10:00:00 +0000", "a"),
        ("Ben Oak <ben@example.org>", "Re: budget", "Tue, 07 May 2024 10:00:00 +0000", "b"),
        ("Ann Miller <ann@example.org>", "Tents", None, "c"),
    )
    for sender, title, date, name in mails:
        message = EmailMessage()
        message["From"], message["To"], message["Subject"], message["Message-ID"] = (
            sender,
            "me@x.org",
            title,
            f"<{name}>",
        )
        if date:
            message["Date"] = date
        message.set_content(f"Some words about {name}.")
        (folder / f"{name}.eml").write_bytes(message.as_bytes())
    (folder / "copy.eml").write_bytes((folder / "a.eml").read_bytes())
    (folder / "2024-05-08 fair meeting.txt").write_text("Ann Miller: We need tents.\nCarl Reed: I have two.\n" * 3)
    return prepared(home, ("ingest", str(folder)))


@pytest.fixture
def archive(indexed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Pkb:
    """Return pkb in that home, which listing only reads."""
    return Pkb(indexed, monkeypatch, capsys)


def titles(pkb: Pkb, *args: str) -> list[str]:
    return [row["title"] for row in pkb("list", "--json", *args).row["documents"]]


def test_documents_are_listed_newest_first_and_undated_ones_last(archive: Pkb) -> None:
    assert titles(archive) == ["fair meeting", "Re: budget", "Budget of the fair", "Tents"]
    assert titles(archive, "--oldest") == ["Budget of the fair", "Re: budget", "fair meeting", "Tents"]
    assert titles(archive, "-n", "1") == ["fair meeting"]


def test_people_days_and_words_of_the_title_limit_the_list(archive: Pkb) -> None:
    assert titles(archive, "--from", "ann") == ["fair meeting", "Budget of the fair", "Tents"]
    assert titles(archive, "--from", "ann", "--to", "me@x.org") == ["Budget of the fair", "Tents"]
    assert titles(archive, "--since", "2024-05-07", "--until", "2024-05-07") == ["Re: budget"]
    assert titles(archive, "BUDGET", "fair") == ["Budget of the fair"]


def test_words_of_title_or_text_limit_the_list(archive: Pkb) -> None:
    assert titles(archive, "--about", "tent") == ["fair meeting", "Tents"]
    assert titles(archive, "budget", "--about", "words b") == ["Re: budget"]
    assert archive("list", "--about", "zebra").code == 4


def test_me_stands_for_the_addresses_that_are_set(archive: Pkb) -> None:
    assert archive("me", "me@x.org").out == "me.addresses = me@x.org\n"
    assert titles(archive, "--to", "me", "--from", "ben") == ["Re: budget"]
    assert archive("me").out == "me@x.org\n"


def test_copies_count_once(archive: Pkb) -> None:
    row = archive("list", "budget", "fair", "--json").row
    assert (row["total"], [one["copies"] for one in row["documents"]]) == (1, [1])
    assert "(1 copy)" in archive("list", "fair", "--from", "ann@example.org").out


def test_the_count_is_of_all_that_fit(archive: Pkb) -> None:
    assert archive("list", "--count", "-n", "1").out == "4\n"
    assert archive("list", "--count", "--from", "ben").out == "1\n"


def test_a_list_that_is_cut_says_how_to_see_all(archive: Pkb) -> None:
    ran = archive("list", "-n", "2")
    assert (len(ran.out.splitlines()), ran.err) == (2, "2 of 4; all: pkb list -n 0\n")
    assert (len(archive("list", "-n", "0").out.splitlines()), archive("list", "-n", "0").err) == (4, "")


def test_nothing_to_list_says_why(archive: Pkb) -> None:
    ran = archive("list", "--from", "nobody")
    assert (ran.code, ran.out) == (4, "")
    assert "no indexed message is from nobody" in ran.err
    assert archive("list", "--count", "xyzzy").out == "0\n"


def test_paths_can_be_piped(archive: Pkb) -> None:
    listed = archive("list", "--paths", "budget").out.splitlines()
    assert [Path(one).name for one in listed] == ["b.eml", "a.eml"]


@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_line_fits_the_terminal(width: int) -> None:
    row = {
        "date": "2024-05-06T10:00:00+00:00", "kind": "transcript", "copies": 3, "sender": "",
        "title": "会議の記録 " * 40, "recipients": ["Bartholomew Featherstonehaugh-Cholmondeley", "B"],
    }  # fmt: skip
    shown = _line(row, width)
    assert cells(shown) <= width
    assert shown.endswith("… (3 copies)")


def test_a_word_of_a_title_is_a_whole_word_which_may_be_inflected(archive: Pkb) -> None:
    assert (titles(archive, "tent"), titles(archive, "ten"), titles(archive, "ents")) == (["Tents"], [], [])


@pytest.mark.parametrize(
    "title", ["(", "a|b", "[x", "%", "'", "\\", "a b", "{2}", "C++", "é", "\udcff", "ent", "#", "&&", "~"]
)
def test_any_text_is_a_word_that_no_title_has(archive: Pkb, title: str) -> None:
    assert (archive("list", title).code, titles(archive, title)) == (4, [])
