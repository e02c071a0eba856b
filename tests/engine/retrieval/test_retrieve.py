"""Retrieval over a bank in memory."""

import dataclasses
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, date, datetime
from math import log
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ingest.chunking import chunk
from engine.ingest.transcripts import read_transcripts
from engine.ingest.types import ParseLimits
from engine.retrieval.retrieve import RankWeights, bm25, join, retrieve
from engine.text.question import understand
from engine.text.words import words
from engine.types import Passage
from store.types import Document, DocumentPassage, Hit, Scope, Totals, Vectors, replace
from tests.engine.retrieval.memory_bank import Item, MemoryBank, hits

NOW = datetime(2024, 5, 15, tzinfo=UTC)
ANYWHERE, DEFAULT = Scope(), RankWeights()


class LetterEmbedder:
    """A unit vector of letter counts: real arithmetic, no model."""

    fingerprint, width = "letters", 26

    def embed(self, texts: Sequence[str]) -> Vectors:
        counts = np.array([[1e-3 + text.lower().count(chr(97 + i)) for i in range(26)] for text in texts], np.float32)
        unit: Vectors = counts / np.linalg.norm(counts, axis=1, keepdims=True)
        return unit


def mail(name: str, text: str, sender: str = "Ann <ann@choir.org>", day: int = 1, to: tuple[str, ...] = ()) -> Item:
    passages = [DocumentPassage(part, line, line) for line, part in enumerate(text.split("\n"), 1)]
    date = datetime(2024, 4, day, tzinfo=UTC)
    document = Document(name, "mail", name, sender, to, date, None, text, tuple(passages))
    return Item(document, tuple(chunk(document, passages)))


ITEMS = [
    mail("Rehearsal", "The rehearsal moved to Friday at 6pm in room 204."),
    mail("Budget", "The hall costs 450 euros, please pay by June.", "Bob <bob@hall.org>", 5, ("carol.ng@choir.org",)),
    mail("会议", "明天的会议改到星期五下午三点。", "Li <li@choir.org>", 9),
]
BANK = MemoryBank(hits(ITEMS))


def ranked(text: str, bank: MemoryBank = BANK, scope: Scope = ANYWHERE, now: datetime = NOW) -> list[Hit]:
    return retrieve(bank, None, understand(text, now), scope, DEFAULT)


def asked(text: str, bank: MemoryBank = BANK, scope: Scope = ANYWHERE, k: int = 5) -> list[Passage]:
    return join(ranked(text, bank, scope), k)


def titles(found: list[Passage]) -> list[str]:
    return [source.document for source in found]


def test_the_mail_that_answers_comes_first() -> None:
    assert titles(asked("When is the rehearsal?"))[0] == "Rehearsal"


def test_a_near_day_is_found_by_its_date() -> None:
    bank = MemoryBank(hits([*ITEMS, mail("Fair", "The summer fair is on 18 May.")]))
    assert titles(asked("What is on this Saturday?", bank))[0] == "Fair"
    friday = understand("What is on tomorrow?", datetime(2024, 5, 17, tzinfo=UTC))
    assert titles(join(retrieve(bank, None, friday, ANYWHERE, DEFAULT), 5))[0] == "Fair"


def test_a_chinese_question_finds_its_mail() -> None:
    assert titles(asked("会议改到什么时候？"))[0] == "会议"


def test_a_recipient_that_the_header_leaves_out_is_found_by_address() -> None:
    assert titles(asked("what did we send to carol.ng@choir.org"))[0] == "Budget"


def test_an_empty_bank_gives_nothing() -> None:
    assert (ranked("When?", MemoryBank([])), MemoryBank([]).totals().covered) == ([], 1.0)


@pytest.mark.parametrize("text", ["", "???", "zzzz"])
def test_a_question_that_meets_no_word_gives_nothing(text: str) -> None:
    assert ranked(text) == []


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        (Scope(sender="BOB@"), ["Budget"]),
        (Scope(recipient="carol"), ["Budget"]),
        (Scope(since=date(2024, 4, 5)), ["Budget"]),
        (Scope(until=date(2024, 4, 5)), ["Rehearsal"]),
        (Scope(collection="other"), []),
    ],
)
def test_a_scope_filters_before_k(scope: Scope, expected: list[str]) -> None:
    assert titles(asked("the rehearsal, the hall", scope=scope, k=1)) == expected


def test_function_words_in_the_order_of_the_question_tell_mails_of_equal_words_apart() -> None:
    bank = MemoryBank(hits([mail("One", "For now he is set."), mail("Two", "Now he is set for.")]))
    first, second = ranked("What is he set for?", bank)
    assert first.chunk.document == "Two"
    assert first.score > second.score


def test_a_mail_whose_whole_subject_is_quoted_comes_before_a_reply_that_holds_more_of_the_words() -> None:
    bank = MemoryBank(hits([*ITEMS, mail("Plan", "Here it is."), mail("Re: Plan", "I sent the plan to Ann.")]))
    assert titles(asked("Who sent the mail with the subject 'Plan' to Ann?", bank))[0] == "Plan"
    assert titles(asked("Who sent the mail with the subject 'Re: Plan' to Ann?", bank))[0] == "Re: Plan"
    assert titles(asked("Who sent the mail with the subject Plan to Ann?", bank))[0] == "Re: Plan"


def test_quotation_marks_around_no_word_do_not_quote_the_title_of_a_mail_without_one() -> None:
    bank = MemoryBank(hits([mail("", "The hall is free."), mail("Hall", "The hall is taken.")]))
    untitled = dataclasses.replace(RankWeights(), title=0)
    question = understand('Is the hall "..." free?', NOW)
    found = [retrieve(bank, None, question, ANYWHERE, each) for each in (DEFAULT, untitled)]
    assert question.quoted == ("...",)
    assert found[0] == found[1]


def test_without_words_in_common_the_vectors_find() -> None:
    embedder = LetterEmbedder()
    found = hits(ITEMS)
    rows = embedder.embed([hit.chunk.text for hit in found])
    bank = MemoryBank([replace(hit, vector=row) for hit, row in zip(found, rows, strict=True)])
    found = retrieve(bank, embedder.embed(["eeoorr"])[0], understand("eeoorr", NOW), ANYWHERE, DEFAULT)
    assert {source.document for source in join(found, 3)} >= {item.document.id for item in ITEMS[:2]}
    assert bank.totals().covered == 1.0


def test_what_shares_neither_words_nor_meaning_is_not_listed() -> None:
    embedder = LetterEmbedder()
    found = hits(ITEMS)
    rows = embedder.embed([hit.chunk.text for hit in found])
    bank = MemoryBank([replace(hit, vector=row) for hit, row in zip(found, rows, strict=True)])
    assert retrieve(bank, embedder.embed(["zzzz"])[0], understand("zzzz", NOW), ANYWHERE, DEFAULT) == []


def test_a_half_embedded_bank_says_so_and_still_finds_by_words() -> None:
    embedder = LetterEmbedder()
    found = hits(ITEMS)
    bank = MemoryBank([replace(found[2], vector=embedder.embed([found[2].chunk.text])[0]), *found[:2]])
    question = understand("When is the rehearsal?", NOW)
    first, *_ = retrieve(bank, embedder.embed([question.text])[0], question, ANYWHERE, DEFAULT)
    assert first.chunk.document == "Rehearsal"
    assert bank.totals().covered == pytest.approx(1 / 3)


@given(st.lists(st.lists(st.sampled_from("abcdefg"), max_size=12), min_size=1, max_size=12), st.integers(1, 12))
def test_a_pool_scores_as_brute_force_over_the_whole_bank(corpus: list[list[str]], size: int) -> None:
    held = Counter(word for each in corpus for word in set(each))
    mean = max(1.0, sum(map(len, corpus)) / len(corpus))
    totals = Totals(len(corpus), mean, 0)
    idf = {word: totals.inverse_frequency(held[word]) for word in ("a", "b", "c", "zz")}
    expected = []
    for each in corpus[:size]:
        count, norm = Counter(each), 1.5 * (0.25 + 0.75 * len(each) / mean)
        expected.append(
            sum(
                log(1 + (len(corpus) - held[word] + 0.5) / (held[word] + 0.5))
                * count[word]
                * 2.5
                / (count[word] + norm)
                for word in ("a", "b", "c")
                if count[word]
            )
        )
    where = [{word: [0] * count for word, count in Counter(each).items()} for each in corpus[:size]]
    assert bm25(where, [len(each) for each in corpus[:size]], idf, mean) == pytest.approx(expected)


def test_the_next_of_something_is_on_the_first_day_to_come() -> None:
    bank = MemoryBank(
        hits([mail("Concert", f"The {day} concert is on {day}, at seven.") for day in ("3 March", "9 June")])
    )
    for day, first in (
        (datetime(2024, 2, 1, tzinfo=UTC), "3 March"),
        (NOW, "9 June"),
        (datetime(2025, 1, 1, tzinfo=UTC), None),
    ):
        found = ranked("When is the next concert?", bank, now=day)
        scores = {one.chunk.text[4:11].strip(): one.score for one in found}
        assert len(set(scores.values())) == (2 if first else 1)
        assert first in (None, max(scores, key=scores.__getitem__))


def test_the_patterns_of_dates_wait_for_a_question_that_needs_them() -> None:
    code = "import engine.retrieval.retrieve, sys; print('engine.text.spans' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_of_what_comes_next_the_matter_counts_and_hardly_the_word() -> None:
    music = mail("Music", "The concert is in the old church by the river, at seven.")
    bank = MemoryBank(hits([mail("Repairs", "The next repairs are next Monday, the next next week."), music]))
    assert ranked("When is the next concert?", bank)[0].chunk.document == music.document.id


def test_with_bm25_alone_ranks_are_those_of_brute_force_over_real_chunks(shared: Path) -> None:
    items = []
    for file in sorted((shared / "data" / "locomo" / "conv-30" / "docs").iterdir()):
        document = read_transcripts(file.name, file.read_bytes(), ParseLimits())[0].document
        assert document is not None
        items.append(Item(document, tuple(chunk(document, document.passages))))
    bank = MemoryBank(hits(items))
    off = dict.fromkeys((field.name for field in fields(RankWeights)), 0.0)
    plain = RankWeights(**off | {"function": 1, "asking": 1, "names": 1})
    for text in ("When did Jon lose his job?", "What does Gina sell in her store?", "Where is the dance studio?"):
        found = retrieve(bank, None, understand(text, NOW), ANYWHERE, plain)[:10]
        wanted = list(dict.fromkeys(words(text)))
        pool = [bank.hits.index(hit) for hit in bank.by_words(understand(text, NOW).content, ANYWHERE, 200)]
        best = sorted((bank.score(place, wanted) for place in pool), reverse=True)[:10]
        assert [scored.score * best[0] for scored in found] == pytest.approx(best)


def test_a_sender_in_the_scope_finds_turns_of_a_transcript_not_its_chunks() -> None:
    text = (
        "ann lee: The hall costs 450 euros.\nBob: The hall is cold.\nann lee: Bob: it is not.\n\nThe hall is closed.\n"
    )
    document = read_transcripts("call.txt", text.encode(), ParseLimits())[0].document
    assert document
    item = Item(document, tuple(chunk(document, document.passages)))
    bank = MemoryBank([replace(hit, sender="\n".join(document.recipients)) for hit in hits([item])])
    for sender, expected in (
        ("Ann", "ann lee: The hall costs 450 euros.\nann lee: Bob: it is not."),
        ("BOB", "Bob: The hall is cold."),
    ):
        assert [passage.text for passage in asked("the hall", bank, scope=Scope(sender=sender))] == [expected]
    assert ranked("the hall", bank, Scope(sender="Cy")) == []


def test_a_quote_that_two_speakers_say_is_of_neither() -> None:
    document = read_transcripts(
        "call.txt", b"ann: The hall is cold.\nBob: The hall is cold.\nBob: Bring coats.\n", ParseLimits()
    )[0]
    assert document.document
    (hit,) = hits([Item(document.document, tuple(chunk(document.document, document.document.passages)))])
    assert [hit.speaker_of(quote) for quote in ("The hall is cold.", "Bring coats.")] == [None, "Bob"]
