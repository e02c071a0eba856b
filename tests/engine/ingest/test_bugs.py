"""A bug that one document brings out fails that document alone, by name; the rest of its file and run goes on.

Functions of libraries and of Python itself are made to raise: what they are given is as real as the code around them.
"""

import unicodedata
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from selectolax.lexbor import LexborHTMLParser

from engine.ingest import html, pipeline, types
from store.documents import read_anew
from tests.engine.ingest.box import Box, mail

SECRET = "tandém"  # not ASCII: its words are normalized


def break_pages(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Make the HTML parser fail on pages with the secret, and quote them in its message."""

    def parse(source: str, *args: Any, **options: Any) -> LexborHTMLParser:
        if SECRET in source:
            error.args = (source,)
            raise error
        return LexborHTMLParser(source, *args, **options)

    monkeypatch.setattr(html, "LexborHTMLParser", parse)


def break_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make Python's normalization of the words to index fail on the secret."""
    normalize = unicodedata.normalize

    def broken(form: Any, text: str) -> str:
        if SECRET in text:
            raise IndexError(text)
        return normalize(form, text)

    monkeypatch.setattr(unicodedata, "normalize", broken)


def break_digests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the digest fail on a text with the secret."""

    class Broken:
        def __init__(self, digest_size: int) -> None:
            self._digest = blake2b(digest_size=digest_size)

        def update(self, data: bytes) -> None:
            if SECRET.encode() in data:
                raise RecursionError(data)
            self._digest.update(data)

        def hexdigest(self) -> str:
            return self._digest.hexdigest()

    monkeypatch.setattr(types, "blake2b", Broken)


def page(name: str, text: str) -> str:
    """Return a message of an mbox file whose body is a page."""
    head = f"From ann@x.org Fri May  3 10:00:00 2024\nFrom: ann@x.org\nMessage-ID: <{name}@x.org>\n"
    return f"{head}Content-Type: text/html; charset=utf-8\n\n<p>{text}</p>\n\n"


def mailbox(box: Box) -> Path:
    """Write ten messages of which the fourth holds the secret, and a file beside them."""
    path = box.mail / "a.mbox"
    path.write_text("".join(page(f"m{n}", SECRET if n == 3 else f"word{n}") for n in range(10)))
    mail(box.mail / "z.eml", "last")
    return path


def texts(*missing: int) -> list[str]:
    return sorted(["last", *(f"word{n}" for n in range(10) if n not in (3, *missing))])


def test_a_message_on_which_a_parser_fails_is_named_and_the_others_are_read(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = mailbox(box)
    break_pages(monkeypatch, IndexError())
    (problem,) = box.ingest().problems
    assert (problem.path, problem.item, box.texts()) == (str(path), 3, texts())
    assert problem.reason.startswith("bug in pkb: IndexError at engine.ingest.html:")
    assert SECRET not in problem.reason


def test_a_document_that_cannot_be_indexed_is_named_and_the_others_are_kept(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = mailbox(box)
    mail(box.mail / "quote.eml", f"well\n\n> {'so it is, as we said. ' * 5}\n")
    break_index(monkeypatch)
    summary = box.ingest()
    (problem,) = summary.problems
    assert (problem.path, problem.item, summary.kept) == (str(path), 3, 11)
    assert problem.reason.startswith("bug in pkb: IndexError at engine.text.")
    assert (SECRET in " ".join(box.texts()), box.opened.wrong()) == (False, [])


def test_a_quote_of_a_document_that_cannot_be_indexed_is_found_in_the_document_that_quotes_it(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "The rehearsal is on Friday at seven, in the hall beside the church, as it was last year."
    mail(box.mail / "a.eml", f"{said}\n\n{SECRET}", name="a", day=1)
    answer = "\n".join(["Fine.", "", "On 1 May 2024, Ann wrote:", f"> {said}"])
    mail(box.mail / "b.eml", answer, name="b", answers="a", day=2, subject="Re: x", sender="bob")
    break_index(monkeypatch)
    assert len(box.ingest().problems) == 1
    assert any(said in text for text in box.texts())


def test_a_day_of_a_chat_that_cannot_be_read_leaves_the_other_days(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"[{day:02}/05/2024, 10:0{n}:00] {who}: word{day} number {n}" for day in (1, 2, 3) for n in (1, 2, 3)
             for who in ("Ann", "Bob")]  # fmt: skip
    (box.mail / "chat.txt").write_text("\n".join(lines).replace("word2", SECRET) + "\n")
    break_digests(monkeypatch)
    (problem,) = box.ingest().problems
    assert problem.reason.startswith("bug in pkb: RecursionError at engine.ingest.types:")
    assert (problem.item, len(box.opened.documents())) == (1, 2)


def test_files_with_a_bug_are_read_again_by_another_version_only(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    mailbox(box)
    with monkeypatch.context() as broken:
        break_pages(broken, IndexError())
        box.ingest()
        again = box.ingest()
        assert (again.changed, again.problems, len(again.known_problems)) == (0, [], 1)
    assert box.ingest().changed == 0
    read_anew(box.opened.ledger, box.opened.ledger.get("decoded_by") or "", "of tomorrow")
    summary = box.ingest()
    assert (summary.changed, summary.known_problems, box.texts()) == (1, [], sorted([*texts(), SECRET]))


def test_a_newer_parser_that_fails_on_a_message_keeps_what_the_older_one_read(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    mailbox(box)
    box.ingest()
    before, places = box.texts(), box.places()
    monkeypatch.setattr(pipeline, "PARSER_VERSION", "next")
    break_pages(monkeypatch, IndexError())
    summary = box.ingest()
    assert (len(summary.problems), summary.removed, box.texts(), box.places()) == (1, 0, before, places)
    assert box.opened.wrong() == []


@pytest.mark.parametrize("kind", [MemoryError, KeyboardInterrupt, SystemExit])
def test_what_is_no_bug_ends_the_run(box: Box, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException]) -> None:
    mailbox(box)
    break_pages(monkeypatch, kind())
    with pytest.raises(kind):
        box.ingest()
    assert (box.opened.documents(), box.opened.catalogue.counts()["problems"]) == (set(), 0)
