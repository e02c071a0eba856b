"""What is counted of open loops: over made-up rows, and over a made-up mailbox."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from engine.app import Pkb
from engine.retrieval.open_loops import read_documents
from store.types import Scope
from tests.bench.open_loops import Found, Judged, closings, digest, examine, judged, recall_lines, shown_lines

MAIL = """From: {sender} <{sender}@example.org>
To: {to} <{to}@example.org>
Subject: {subject}
Date: Mon, {day} Jun 2024 12:00:00 +0000
Message-ID: <{day}@example.org>

{text}
"""


def row(kind: str, name: str, label: str, draw: int = 2, half: str = "test") -> Judged:
    """Return a judged sentence of this name."""
    return Judged(kind, draw, half, "enron", (name, name), label)


def numbers(lines: list[str], title: str) -> list[str]:
    """Return the words behind the title of a line."""
    (line,) = (line for line in lines if line.startswith(title))
    return line.removeprefix(title).split()


def found_in(folder: Path, *messages: tuple[str, str, str, int, str]) -> Found:
    """Write and index messages, and examine them; each file is named by its day."""
    mail = folder / "Mail"
    mail.mkdir()
    for sender, to, subject, day, text in messages:
        content = MAIL.format(sender=sender, to=to, subject=subject, day=day, text=text)
        (mail / f"{day}.eml").write_text(content, "utf-8")
    with Pkb(folder / "home", environ={}) as pkb:
        pkb.ingest([mail], embed=False)
        reader, catalogue = pkb.session.reader, pkb.session.catalogue
        ids, _ = reader.by_date(Scope(), (), None, oldest=False)
        files = {id: [Path(place.path).name for place in catalogue.places(id)] for id in ids}
        return examine(read_documents(reader, ids), files)


def test_recall_is_of_the_sentences_that_are_there() -> None:
    rows = [
        row("recall", "a", "task"),
        row("recall", "b", "question"),
        row("recall", "gone", "task"),
        row("recall", "c", "none"),
    ]
    found = Found({(name, name) for name in "abc"}, {("a", "a"), ("c", "c")})
    counted = numbers(list(recall_lines(rows, found)), "draw 2, held out: enron")
    assert counted == ["1", "of", "2", "0.500", "0.095", "to", "0.905", "1", "of", "1", "1"]


def test_draws_are_added_up_by_what_they_were_used_for() -> None:
    rows = [row("recall", "a", "task", 1, "dev"), row("recall", "b", "task"), row("recall", "c", "task", 4)]
    found = Found({(name, name) for name in "abc"}, {("a", "a")})
    lines = list(recall_lines(rows, found))
    totals = {status: numbers(lines, f"all draws {status}")[:3] for status in ("tuned on", "looked at", "held out")}
    assert totals == {"tuned on": ["1", "of", "1"], "looked at": ["0", "of", "1"], "held out": ["0", "of", "1"]}


def test_sentences_without_a_cue_are_counted_apart() -> None:
    rows = [row("recall", "a", "task"), replace(row("recall", "b", "task"), cue=False)]
    lines = list(recall_lines(rows, Found({("a", "a"), ("b", "b")}, {("a", "a")})))
    assert numbers(lines, "draw 2, held out, no cue: all")[:3] == ["0", "of", "1"]
    assert numbers(lines, "all draws held out")[:3] == ["1", "of", "1"]


def test_precision_is_of_what_is_still_shown() -> None:
    rows = [
        row("shown", name, label, 3) for name, label in zip("abcd", ["right", "wrong", "right", "wrong"], strict=True)
    ]
    shown = [frozenset({("a", "a"), ("copy of a", "a")}), frozenset({("b", "b")}), frozenset({("new", "new")})]
    found = Found({("a", "a"), ("b", "b"), ("c", "c")}, set(), shown)
    lines = list(shown_lines(rows, found))
    counted = numbers(lines, "draw 3, held out: all")
    assert counted[:4] == ["1", "of", "2", "0.500"]
    assert counted[-3:] == ["1", "0", "1"]  # c is gone, d is not there
    assert lines[-1] == "3 are shown now; 1 of them were never judged"


def test_the_rules_are_run_over_a_mailbox(tmp_path: Path) -> None:
    found = found_in(
        tmp_path,
        ("ann", "ben", "Fair", 3, "I will send you the plan of the stalls. The sun shone."),
        ("ann", "ben", "Choir", 10, "Do you know where the lamps are?"),
        ("ben", "ann", "Re: Choir", 17, "In the cellar."),
    )
    plan, sun, lamps = (
        ("3.eml", digest("I will send you the plan of the stalls.")),
        ("3.eml", digest("the  SUN shone.")),
        ("10.eml", digest("Do you know where the lamps are?")),
    )
    assert {plan, sun, lamps} <= found.present
    assert found.open == {plan, lamps}
    assert [*map(set, found.shown)] == [{plan}]


def test_closings_are_of_what_an_answer_closes_and_of_what_must_be_done() -> None:
    counts = Counter({"documents": 9, "open": 8, "distinct": 7, "shown": 4, "replies": 3, "replies shown": 1})
    line = closings(counts + Counter({"tasks": 4, "tasks shown": 3}))
    assert "2 of    3 by an answer,    1 of    4 as done" in line


def test_judged_sentences_hold_no_text() -> None:
    rows = judged()
    assert {len(bytes.fromhex(one.key[1])) for one in rows} == {8}
    assert {one.label for one in rows} == {"task", "question", "none", "right", "wrong"}


def test_no_sentence_is_judged_twice_for_one_thing() -> None:
    counted = Counter((one.judged, one.key) for one in judged())
    assert [key for key, times in counted.items() if times > 1] == []


@pytest.mark.parametrize("text", ["Please call", " please\n call "])
def test_digests_are_of_words(text: str) -> None:
    assert digest(text) == digest("please call")


def test_a_row_is_read(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    line = {
        "judged": "recall",
        "draw": 1,
        "half": "dev",
        "set": "enron",
        "path": "a",
        "sentence": "00",
        "label": "none",
    }
    file.write_text(json.dumps(line) + "\n", "utf-8")
    assert judged(file) == [Judged("recall", 1, "dev", "enron", ("a", "00"), "none")]
