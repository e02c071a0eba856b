"""What a model wrote against the sources: borne by a sentence, replaced by a quote, or left to words."""

from datetime import UTC, datetime
from functools import partial

import pytest

from engine.ask.semantic import judge_of, part_of_quote
from engine.llm.generate import ParsedAnswer
from engine.models.minilm import SpanReader
from engine.text.question import understand
from engine.types import Answer, Evidence, Source
from store.types import Chunk
from tests.engine.ask.passages import passage
from tests.engine.models.test_minilm import find_weights_or_skip

NOW = datetime(2024, 6, 18, 8, tzinfo=UTC)
SUPPER = "Dear all,\nthe supper is on Friday at 7 pm in the parish hall. Bring your folders."
TRIP = "The coach to Bergen costs £25 a head. Tom Hale collects the money, his number is 01632 960118."
GOSSIP = "Lovely evening yesterday. My sister Ruth moved to Leeds last spring."


def evidence() -> Evidence:
    day = datetime(2024, 6, 12, tzinfo=UTC)
    reads = [
        passage(
            [Chunk(f"{name}0", name, 0, f"From: {name}, choir", text, 1, 2)], f"{name} <{name}@example.org>", (), day,
            1.0, (Source(f"/{name}", None, name, day.isoformat(), (1, 1), 1.0, ""),),
        )
        for name, text in (("ann", SUPPER), ("tom", TRIP), ("ruth", GOSSIP))
    ]  # fmt: skip
    return Evidence(tuple(reads), tuple(one.hits[0].chunk.id for one in reads), 1.0)


@pytest.fixture(scope="module")
def reader() -> SpanReader:
    return SpanReader(find_weights_or_skip())


def judged(reader: SpanReader, question: str, answer: str | None, *cited: int) -> Answer:
    judge = judge_of(understand(question, NOW), evidence(), 0.5, reader)
    assert judge
    return judge(ParsedAnswer(answer, cited))


@pytest.mark.parametrize(
    ("question", "answer", "path", "quote"),
    [
        ("When is the supper?", "The supper is on Friday at 7 pm.", "/ann", "the supper is on Friday"),
        ("When is the supper?", "Friday 14 June 2024", "/ann", "the supper is on Friday"),  # a day that it means
        ("Where is the supper?", "In the parish hall.", "/ann", "the supper is on Friday"),
        ("How much is the coach to Bergen?", "£25", "/tom", "The coach to Bergen"),
        ("Where did Ruth move?", "Ruth moved to Leeds.", "/ruth", "My sister Ruth"),
    ],
)
@pytest.mark.parametrize("cited", [(), (1,), (2, 3), (9,)])
def test_an_answer_stands_on_the_source_that_bears_it_whatever_it_cites(
    reader: SpanReader, question: str, answer: str, path: str, quote: str, cited: tuple[int, ...]
) -> None:
    found = judged(reader, question, answer, *cited)
    assert (found.text, found.writer, found.grade) == (answer, "model", "answer")
    assert found.sources[0].path == path
    assert found.sources[0].quote.startswith(quote)
    assert found.sources[0].span


@pytest.mark.parametrize(
    ("question", "first"), [("When is the supper?", 0), ("How much is the coach to Bergen?", 1), ("Where is Ruth?", 2)]
)
def test_the_likeliest_sources_are_chosen_and_stay_in_order(reader: SpanReader, question: str, first: int) -> None:
    judge = judge_of(understand(question, NOW), evidence(), 0.5, reader)
    assert judge
    assert judge.likeliest(1) == (first,)
    assert (first in judge.likeliest(2), [*judge.likeliest(2)]) == (True, sorted(judge.likeliest(2)))
    assert judge.likeliest(9) == (0, 1, 2)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("When is the supper?", "The supper is on Saturday at 8 pm."),
        ("When is the supper?", "Wednesday 12 June 2024"),  # the day of the mail
        ("When is the supper?", "The supper is the supper."),
        ("Where is the supper?", "In Ahrenswalde."),
        ("How much is the coach to Bergen?", "The coach costs £52."),
        ("How much is the coach to Bergen?", "Tom Hale collects it, on 01632 960118."),
        ("What is Tom Hale's number?", "Tom Hale's number is 01632 960181."),
    ],
)
def test_an_invented_answer_is_never_given(reader: SpanReader, question: str, answer: str) -> None:
    found = judged(reader, question, answer, 1)
    assert (found.writer, found.text != answer) == ("quote", True)


def test_what_the_sources_do_answer_is_quoted_in_the_place_of_an_invention(reader: SpanReader) -> None:
    found = judged(reader, "How much is the coach to Bergen?", "The coach costs £52.", 2)
    assert found.text
    assert ("£25" in found.text, found.sources[0].path, found.grade) == (True, "/tom", "answer")


@pytest.mark.parametrize("answer", ["Clara has a spaniel.", None])
def test_where_no_source_answers_nothing_is_answered(reader: SpanReader, answer: str | None) -> None:
    found = judged(reader, "What breed is Clara's dog?", answer, 1)
    assert (found.text, found.grade, len(found.sources)) == (None, None, 3) or found.grade == "closest"


@pytest.mark.parametrize("cited", [(), (1,), (3,), (9,)])
def test_not_found_or_a_number_alone_is_answered_with_what_the_reader_finds(
    reader: SpanReader, cited: tuple[int, ...]
) -> None:
    found = judged(reader, "How much is the coach to Bergen?", None, *cited)
    assert found.text
    assert ("£25" in found.text, found.sources[0].path, found.writer) == (True, "/tom", "quote")


@pytest.mark.parametrize("question", ["Is the supper on Friday?", "Summarize what was said.", "Wann ist das Essen?"])
def test_questions_that_the_reader_does_not_know_are_left_to_words(reader: SpanReader, question: str) -> None:
    assert judge_of(understand(question, NOW), evidence(), 0.5, reader) is None


def test_without_a_reader_the_smallest_models_say_a_part_of_the_quote_or_nothing() -> None:
    judge = partial(part_of_quote, understand("Where is the supper?", NOW), evidence(), 0.5)
    part = judge(ParsedAnswer("the parish hall", (1,)))
    assert (part.text, part.writer, part.sources[0].path) == ("the parish hall", "model", "/ann")
    for said in ("in Ahrenswalde", None):
        found = judge(ParsedAnswer(said, (1,)))
        assert (found.text or "").startswith("the supper is on Friday")
        assert found.writer == "quote"
