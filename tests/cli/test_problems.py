"""What looks misread, was skipped or left out, as the commands tell it."""

from pathlib import Path

import pytest

from tests.cli.conftest import Pkb

HEAD = "From: ann@x.org\nDate: Fri, 3 May 2024 10:00:00 +0200\nMessage-ID: <{0}@x.org>\nSubject: Tonight\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with one message that is right, two that look misread, a draft, spam and a recording."""
    found = tmp_path / "Mail"
    for name, text in {
        "1.eml": HEAD.format(1) + "\nCome to the shed.\n",
        "2.eml": HEAD.format(2) + "\nThe <b>boat</b>, <b>not</b> the <b>shed</b>.\n",
        "3.eml": "Subject: Tonight\nMessage-ID: <3@x.org>\n\nThe tandem.\n",
        "Drafts/4.eml": HEAD.format(4) + "\nThe canoe.\n",
        "5.eml": "X-Spam-Flag: YES\n" + HEAD.format(5) + "\nThe lottery.\n",
        "6.m4a": "\0\1",
    }.items():
        (found / name).parent.mkdir(parents=True, exist_ok=True)
        (found / name).write_text(text)
    return found


def ingest(pkb: Pkb, *words: str) -> list[str]:
    return pkb("ingest", "--vectors", "later", *words).out.splitlines()


def test_ingest_says_what_looks_misread_and_what_was_left_out(fresh: Pkb, folder: Path) -> None:
    assert ingest(fresh, str(folder))[2:] == [
        f"skipped {folder}/6.m4a: a recording: make a transcript of it first, as with whisper",
        f"read with doubt: no sender: 1, such as {folder}/3.eml",
        f"read with doubt: no date in the header: 1, such as {folder}/3.eml",
        f"read with doubt: tags of HTML or XML: 1, such as {folder}/2.eml",
        "left out: spam 1, drafts 1; to index them: pkb config set ingest.leave_out '', then pkb ingest",
    ]
    assert ingest(fresh)[2:] == ["skipped again: 1; list them with: pkb list --problems"]


def test_all_of_it_is_listed_by_kind_and_file_and_told_by_doctor(fresh: Pkb, folder: Path) -> None:
    assert fresh("list", "--problems").out == "nothing was skipped, misread or left out\n"
    ingest(fresh, str(folder))
    assert fresh("list", "--problems").out.splitlines() == [
        "a recording: make a transcript of it first, as with whisper: 1",
        f"    {folder}/6.m4a",
        "no sender: 1",
        f"    {folder}/3.eml",
        "no date in the header: 1",
        f"    {folder}/3.eml",
        "tags of HTML or XML: 1",
        f"    {folder}/2.eml",
        "left out as spam: 1",
        f"    {folder}/5.eml",
        "left out as drafts: 1",
        f"    {folder}/Drafts/4.eml",
    ]
    told = [one["found"] for one in fresh("doctor", "--json").row["checks"] if one["name"] == "mail"]
    assert told[1] == f"no sender: 1, such as {folder}/3.eml"
    assert len(told) == 6


def test_what_is_left_out_is_nowhere_until_a_setting_indexes_it(fresh: Pkb, folder: Path) -> None:
    def found(word: str) -> list[str]:
        return [source["quote"] for source in fresh("search", word, "--json").row["sources"]]

    ingest(fresh, str(folder))
    assert (found("lottery"), found("canoe"), fresh("list", "--count").out) == ([], [], "3\n")
    assert fresh("list", "--from", "ann", "--count").out == "2\n"
    fresh("config", "set", "ingest.leave_out", "spam")
    ingest(fresh)
    assert (found("lottery"), len(found("canoe")), fresh("list", "--count").out) == ([], 1, "4\n")
    fresh("config", "set", "ingest.leave_out", "")
    ingest(fresh)
    (spam,) = fresh("search", "lottery", "--json").row["sources"]
    assert (spam["warnings"], fresh("list", "--count").out) == (["it is marked as spam"], "5\n")


def test_forgetting_a_message_forgets_what_was_said_of_it(fresh: Pkb, folder: Path) -> None:
    ingest(fresh, str(folder))
    assert fresh("forget", "3@x.org", "--yes").code == 0
    kinds = {one["kind"] for one in fresh("list", "--problems", "--json").row["kinds"]}
    assert kinds == {"skipped", "markup", "spam", "drafts"}
    ingest(fresh)
    assert kinds == {one["kind"] for one in fresh("list", "--problems", "--json").row["kinds"]}


@pytest.mark.parametrize(
    ("sender", "who", "found"),
    [
        ("Ann Miller via Rowers <rowers@lists.example>", "Reply-To: Ann Miller <ann@x.org>", True),
        ("'Ann Miller' via Rowers <rowers@lists.example>", "X-Original-From: Ann Miller <ann@x.org>", True),
        ("Rowers <rowers@lists.example>", "Reply-To: Ann Miller <ann@x.org>", False),
        ("Eve <eve@evil.example>", "Reply-To: Ann Miller <ann@x.org>", False),
        ("Ann Miller via Rowers <eve@evil.example>", "Reply-To: Ann Miller <ann@x.org>", False),
    ],
)
def test_list_mail_is_found_by_its_author_and_no_other_mail(
    fresh: Pkb, tmp_path: Path, sender: str, who: str, found: bool
) -> None:
    head = f"From: {sender}\n{who}\nList-Id: Rowers <rowers.lists.example>\nDate: Fri, 3 May 2024 10:00:00 +0200\n"
    (tmp_path / "1.eml").write_text(f"{head}Message-ID: <1@x.org>\nSubject: Boats\n\nThe canoe leaks.\n")
    fresh("ingest", "--vectors", "later", str(tmp_path / "1.eml"))
    assert fresh("list", "--from", "ann@x.org", "--count").out == f"{int(found)}\n"
