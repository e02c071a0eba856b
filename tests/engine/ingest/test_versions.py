"""New versions of documents replace the former ones: nothing that a file no longer says is found any more."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from engine.ingest import files as parsers
from engine.ingest import pipeline
from engine.ingest.files import read
from engine.ingest.pipeline import Guard, Ingest, Summary
from engine.ingest.scan import replacements
from engine.ingest.types import ParseLimits
from store.catalog import SourceRoot
from store.types import ParsedItem, Place, replace
from tests.effort import examples
from tests.engine.ingest.box import LIMITS, Box, mail, naive
from tests.store.kit import HashEmbedder, Killed, Opened, home_in

NOTHING_MAY_GO = Guard(0.0, 0)


def ingest(box: Box, guard: Guard = NOTHING_MAY_GO) -> Summary:
    """Ingest the folder of mail; unless told otherwise, the guard withholds every removal."""
    run = Ingest(box.opened.ledger, box.opened.knowledge, LIMITS, guard)
    for _ in run.run(SourceRoot(str(box.mail), "mail", None)):
        pass
    return run.summary


def found(box: Box) -> list[str]:
    """Return the texts that can be retrieved: of chunks whose document has a place."""
    rows = box.opened.tables.select("chunks", "true", ["document", "text"])
    return sorted(row["text"] for row in rows if box.opened.catalogue.places(row["document"]))


def fresh(box: Box) -> list[str]:
    """Return the texts that an ingest of the folder into a new home finds."""
    other = box.folder / "fresh"
    shutil.rmtree(other, ignore_errors=True)
    opened = Opened(home_in(other))
    list(Ingest(opened.ledger, opened.knowledge, LIMITS, NOTHING_MAY_GO).run(SourceRoot(str(box.mail), "mail", None)))
    texts = sorted(opened.chunks().values())
    opened.ledger.close()
    return texts


def agrees(box: Box) -> None:
    """Check that the home holds what its files say now, and nothing else."""
    places, documents = naive(box.mail)
    assert (box.texts(), box.places(), box.opened.documents()) == (fresh(box), places, set(documents))
    assert (box.opened.wrong(), box.missing_words()) == ([], set())


def message(body: str, name: str = "", day: int = 1) -> str:
    """Return a message of an mbox file; `name` is its Message-ID, if it has one."""
    lines = ["From ann@x.org Fri May  3 10:00:00 2024", "From: ann@x.org", f"Date: {day} May 2024 10:00:00 +0000"]
    return "\n".join([*lines, *([f"Message-ID: <{name}@x.org>"] if name else []), "Subject: s", "", body, "", ""])


@pytest.mark.parametrize("named", [True, False])
def test_many_files_changed_in_place_are_no_missing_disk(box: Box, named: bool) -> None:
    for number in range(60):
        mail(box.mail / f"m{number}.eml", f"The code of locker {number} is red.", name=f"m{number}" if named else "")
    ingest(box)
    for path in box.mail.iterdir():
        path.write_text(path.read_text().replace("red", "blue"))
    summary = ingest(box)
    assert (summary.refused, summary.changed, summary.removed, any("red" in text for text in box.texts())) == (
        *(0, 60, 60),
        False,
    )
    agrees(box)


def test_transcripts_and_containers_changed_in_place_give_their_new_text(box: Box) -> None:
    (box.mail / "talk.txt").write_text("Ann: the code is red\nBob: thanks\n")
    (box.mail / "named.mbox").write_text("".join(message(f"word{n}", f"m{n}") for n in range(60)))
    (box.mail / "bare.mbox").write_text("".join(message(f"bare{n}") for n in range(60)))
    ingest(box)
    for path in box.mail.iterdir():
        path.write_text(path.read_text().replace("red", "blue").replace("word", "new").replace("bare", "other"))
    assert (ingest(box).refused, len(box.texts())) == (0, 121)
    agrees(box)


@pytest.mark.slow
def test_a_message_file_that_becomes_a_mailbox_is_replaced(box: Box) -> None:
    mail(box.mail / "a", "red")
    ingest(box)
    (box.mail / "a").write_text(message("blue") + message("green"))
    assert ingest(box).refused == 0
    agrees(box)


def test_items_lost_by_a_mailbox_are_gone_and_those_changed_beside_them_are_replaced(box: Box) -> None:
    (box.mail / "a.mbox").write_text("".join(message(f"word{n}", f"m{n}") for n in range(4)))
    ingest(box)
    (box.mail / "a.mbox").write_text(message("word0", "m0") + message("changed", "m2"))
    refused = ingest(box).refused
    assert (refused, box.texts()) == (2, ["changed", "word0", "word1", "word3"])
    ingest(box, Guard(0.0, 0, prune=True))
    agrees(box)


@pytest.mark.slow
def test_other_files_in_place_of_removed_ones_do_not_hide_how_many_are_gone(box: Box) -> None:
    for number in range(60):
        mail(box.mail / f"m{number}", f"word{number}", name=f"m{number}")
    ingest(box)
    for path in list(box.mail.iterdir()):
        path.unlink()
    for number in range(60):
        mail(box.mail / f"n{number}", f"other{number}", name=f"n{number}")
    assert (ingest(box, Guard(0.2, 50)).refused, len(box.texts())) == (60, 120)


def test_withheld_documents_are_a_finding(box: Box) -> None:
    (box.mail / "a.mbox").write_text(message("red", "m0") + message("blue", "m1"))
    ingest(box)
    (box.mail / "a.mbox").write_text(message("red", "m0"))
    ingest(box)
    assert [finding.name for finding in box.opened.wrong()] == ["places"]
    ingest(box, Guard(0.0, 0, prune=True))
    assert box.opened.wrong() == []


def _decoding(word: str, path: Path, limits: ParseLimits) -> Iterator[ParsedItem]:
    """Parse as a newer version might: every text reads differently, and a file named "none" is not understood."""
    for item in read(path, limits):
        document = item.document
        assert document is not None
        passages = tuple(replace(one, text=one.text.replace("word", word)) for one in document.passages)
        text = document.text.replace("word", word)
        other = replace(document, id=f"{word}{document.id}", text=text, passages=passages)
        yield ParsedItem(item.item, None if path.name == "none" else other, item.offset)


def _renew(monkeypatch: pytest.MonkeyPatch, word: str = "new") -> None:
    monkeypatch.setattr(pipeline, "PARSER_VERSION", word)
    monkeypatch.setattr(parsers, "read", partial(_decoding, word))


Change = Callable[[Box, pytest.MonkeyPatch], None]


def _fill(box: Box) -> None:
    for number in range(3):
        mail(box.mail / f"m{number}", f"word{number}", name=f"m{number}" if number else "")
    (box.mail / "talk.txt").write_text("Ann: the word is red\nBob: thanks\n")
    (box.mail / "a.mbox").write_text("".join(message(f"word{n}", f"i{n}" if n % 2 else "") for n in range(10, 17)))


def test_a_new_version_of_the_parsers_replaces_all_text(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    _fill(box)
    mail(box.mail / "none", "word9")
    ingest(box)
    before = box.texts()
    _renew(monkeypatch)
    summary = ingest(box)
    assert (summary.refused, box.opened.wrong()) == (0, [])
    assert box.texts() == sorted(text.replace("word", "new") for text in before if text != "word9")
    assert (ingest(box).changed, len(box.texts())) == (0, len(before) - 1)


def test_a_new_version_of_the_parsers_that_changes_nothing_keeps_chunks_and_vectors(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fill(box)
    ingest(box)
    box.opened.vectors.use("hash-1")
    rows = box.opened.vectors.wanted(99)
    box.opened.vectors.put([row["id"] for row in rows], HashEmbedder().embed([row["text"] for row in rows]))
    before = box.opened.chunks()
    monkeypatch.setattr(pipeline, "PARSER_VERSION", "next")
    assert (ingest(box).removed, box.opened.chunks(), box.opened.vectors.missing) == (0, before, 0)


def _edit(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """Change every file in place."""
    for path in box.mail.iterdir():
        path.write_text(path.read_text().replace("word", "new"))


def _edit_in_small_commits(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "_COMMIT", 2)
    _edit(box, monkeypatch)


def _decode_anew(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the version of the parsers, which decode everything differently from now on."""
    _renew(monkeypatch)


def _prepare(folder: Path) -> list[str]:
    """Fill a home and keep it, to be copied back to where it was; returns its texts."""
    (folder / "box").mkdir()
    box = Box(folder / "box")
    _fill(box)
    ingest(box)
    before = box.texts()
    box.opened.ledger.close()
    (folder / "box").rename(folder / "kept")
    return before


def _kill(folder: Path, before: list[str], change: Change, step: int) -> bool:
    """Change everything and ingest up to a step, where it dies: each text is found as it was or as it is now.

    Returns whether it died before it was done.
    """
    box = Box(Path(shutil.copytree(folder / "kept", folder / "box")))
    with pytest.MonkeyPatch.context() as monkeypatch:
        change(box, monkeypatch)
        box.fuse.length = box.fuse.burnt + step
        with suppress(Killed):
            ingest(box)
        died = box.fuse.burnt >= box.fuse.length
        box = box.again()
        now = found(box)
        assert [(text in now) + (text.replace("word", "new") in now) for text in before] == [1] * len(before)
        assert ingest(box).refused == 0
        assert (box.texts(), box.opened.wrong()) == ([text.replace("word", "new") for text in before], [])
    box.opened.ledger.close()
    shutil.rmtree(folder / "box")
    return died


@pytest.mark.slow
@pytest.mark.parametrize("change", [_edit, _edit_in_small_commits, _decode_anew])
def test_a_kill_at_any_step_leaves_the_old_text_or_the_new(tmp_path: Path, change: Change) -> None:
    before = _prepare(tmp_path)
    steps = next(step for step in count(1) if not _kill(tmp_path, before, change, step))
    assert steps >= 10


# Any history of changes ends in what a new home would hold.

_NAMES = st.sampled_from(["a", "b", "sub/c", "sub/d"])
_WORDS = st.sampled_from(["red", "blue", "green", "grey", "white", "black"])
_BODIES = st.lists(_WORDS, min_size=1, max_size=4)
_KINDS = st.sampled_from(["mail", "bare mail", "talk"])
_CHANGES = st.one_of(
    st.tuples(st.just("new"), _NAMES, _KINDS, _WORDS),
    st.tuples(st.just("edit"), _NAMES, _WORDS),
    st.tuples(st.just("move"), _NAMES, _NAMES),
    st.tuples(st.just("truncate"), _NAMES),
    st.tuples(st.just("mailbox"), _NAMES, _BODIES, st.booleans()),
    st.tuples(st.just("item"), _NAMES, st.integers(0, 3), _WORDS),
    st.tuples(st.just("gain"), _NAMES, st.integers(0, 4), _WORDS),
    st.tuples(st.just("ingest")),
)
_LOSSES = st.one_of(
    st.tuples(st.just("edit and move"), _NAMES, _NAMES, _WORDS),
    st.tuples(st.just("lose"), _NAMES, st.integers(0, 3)),
    st.tuples(st.just("remove"), _NAMES),
    st.tuples(st.just("empty"), _NAMES),
)


def _items(path: Path) -> list[str]:
    return [f"From ann@{part}" for part in path.read_text().split("From ann@")[1:]]


def _change(box: Box, step: tuple[Any, ...], number: int) -> None:
    """Change the folder; a step that does not apply to what is there does nothing."""
    kind, path = step[0], box.mail / step[1]
    path.parent.mkdir(exist_ok=True)
    if kind == "new" and not path.exists():
        if step[2] == "talk":
            path.write_text(f"Ann: {step[3]} and {number}\nBob: well then\n\nAnn: later {step[3]}\nBob: yes\n")
        else:
            mail(path, f"{step[3]} and {number}\n\nlater", name=f"m{number}" if step[2] == "mail" else "")
    elif kind == "mailbox" and (not path.exists() or len(_items(path)) == 0):
        items = [message(f"{word} {number} {n}", f"i{number}.{n}" if step[3] else "") for n, word in enumerate(step[2])]
        path.write_text("".join(items))
    elif not path.exists():
        return
    elif kind == "edit":
        path.write_text(path.read_text().replace(" and ", f" {step[2]} {number} and "))
    elif kind in ("move", "edit and move"):
        _move(box, path, box.mail / step[2], f" {step[3]} {number} and " if len(step) > 3 else " and ")
    elif kind == "truncate":
        path.write_text(path.read_text().replace("later", ""))
    elif kind == "remove":
        path.unlink()
    elif kind == "empty":
        path.write_text("")
    elif kind in ("item", "gain", "lose") and (items := _items(path)):
        _change_items(path, items, step, number)


def _move(box: Box, path: Path, other: Path, text: str) -> None:
    """Rename a file, or move it into another folder under its name; then edit it."""
    other = other if "Message-ID" in path.read_text() else other.parent / path.name
    if not other.exists():
        other.parent.mkdir(exist_ok=True)
        path.rename(other)
        other.write_text(other.read_text().replace(" and ", text))
    assert box.mail in other.parents


def _change_items(path: Path, items: list[str], step: tuple[Any, ...], number: int) -> None:
    at = step[2] % len(items)
    match step[0]:
        case "item":
            head, _, _ = items[at].partition("\n\n")
            items[at] = f"{head}\n\n{step[3]} {number}\n\n"
        case "gain":
            items.insert(at, message(f"{step[3]} {number}", f"g{number}" if "Message-ID" in items[at] else ""))
        case "lose" if len(items) > 1:
            del items[at]
    path.write_text("".join(items))


def _run(box: Box, steps: list[tuple[Any, ...]], guard: Guard) -> int:
    """Apply steps, ingesting where they say so; returns how many documents the guard withheld."""
    refused = 0
    for number, step in enumerate([*steps, ("ingest",)]):
        if step[0] == "ingest":
            refused += ingest(box, guard).refused
        else:
            _change(box, step, number)
            for path in box.mail.rglob("*"):
                os.utime(path, ns=(number * 10**9, number * 10**9))
    return refused


@pytest.mark.slow
@examples(25, suppress_health_check=list(HealthCheck))
@given(st.lists(_CHANGES, min_size=4, max_size=14))
def test_any_history_of_new_versions_ends_as_a_new_home_and_nothing_is_withheld(
    tmp_path_factory: Any, steps: list[Any]
) -> None:
    box = Box(tmp_path_factory.mktemp("box"))
    assert _run(box, steps, NOTHING_MAY_GO) == 0
    agrees(box)
    box.opened.ledger.close()


@pytest.mark.slow
@examples(25, suppress_health_check=list(HealthCheck))
@given(st.lists(_CHANGES | _LOSSES, min_size=4, max_size=16))
def test_any_history_of_versions_and_losses_ends_as_a_new_home(tmp_path_factory: Any, steps: list[Any]) -> None:
    box = Box(tmp_path_factory.mktemp("box"))
    _run(box, steps, Guard(0.2, 50))
    agrees(box)
    box.opened.ledger.close()


# The rule by itself.


def _places(*items: str) -> list[Place]:
    """Return places of items as "document" or "document:Message-ID"."""
    split = [item.partition(":") for item in items]
    return [Place("/f", at, name, given or None, None, "c") for at, (name, _, given) in enumerate(split)]


@pytest.mark.parametrize(
    ("former", "now", "pairs"),
    [
        (["a"], ["b"], {"a": "b"}),
        (["a:1"], ["b:2"], {"a": "b"}),
        (["a"], [], {}),
        (["a:1", "b:2"], ["c:2"], {"b": "c"}),
        (["a:1", "b:2"], ["c:2", "d:1"], {"a": "d", "b": "c"}),
        (["a", "b", "c"], ["a", "x", "c"], {"b": "x"}),
        (["a", "b", "c"], ["a", "c", "x"], {}),
        (["a", "b", "c", "d"], ["a", "x", "d"], {"b": "x"}),
        (["a", "b", "c"], ["x", "y", "z", "q"], {"a": "x", "b": "y", "c": "z"}),
        (["a", "b:1", "c"], ["x", "n:1", "c"], {"a": "x", "b": "n"}),
        (["a", "b"], ["b", "a"], {}),
        (["a:1", "b"], ["x", "y:2"], {"b": "x"}),
    ],
)
def test_items_are_the_same_by_message_id_else_by_position_between_those_that_stayed(
    former: list[str], now: list[str], pairs: dict[str, str]
) -> None:
    assert {
        one.document: by for one, by in replacements(_places(*former), _places(*now), complete=True, anew=False)
    } == pairs


@given(st.lists(st.sampled_from("abcdefgh"), unique=True), st.lists(st.sampled_from("abcdefgh"), unique=True))
def test_what_stayed_is_never_replaced_and_what_came_replaces_one_at_most(former: list[str], now: list[str]) -> None:
    found = {one.document: by for one, by in replacements(_places(*former), _places(*now), complete=True, anew=False)}
    assert found.keys() <= set(former) - set(now)
    assert len(former) == 1 or (set(found.values()) <= set(now) and len(set(found.values())) == len(found))
