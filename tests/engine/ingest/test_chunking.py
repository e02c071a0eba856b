"""Chunks contain the whole text, in order, on the right lines, near the target size."""

from collections.abc import Sequence
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from engine.ingest.chunking import MOST, TARGET, chunk, weigh
from store.types import Chunk, Document, DocumentPassage, Role
from tests.effort import examples


def mail(
    passages: Sequence[DocumentPassage] = (), title: str = "Rehearsal", sender: str = "Ann Lee <ann@example.org>"
) -> Document:
    return Document(
        id="d1",
        kind="mail",
        title=title,
        sender=sender,
        recipients=("Bob Ray <bob@example.org>", "carl@example.org", "Dora", "Emil"),
        date=datetime(2024, 5, 3, 19, 5, tzinfo=UTC),
        message_id=None,
        text="",
        passages=tuple(passages),
    )


def meeting(passages: Sequence[DocumentPassage], date: datetime | None = None) -> Document:
    return Document("d2", "transcript", "Weekly sync", "", (), date, None, "", tuple(passages))


def chunks_of(*passages: DocumentPassage) -> list[Chunk]:
    return chunk(mail(passages), passages)


def sentences(count: int) -> str:
    return " ".join(f"Sentence number {place} has six words." for place in range(count))


def letters(text: str) -> str:
    return "".join(text.split())


TEXTS = st.text(st.sampled_from('ab.!? \n\t,"日本。ก́🙂'), max_size=60) | st.builds(
    lambda word, count: f"{word} " * count, st.sampled_from(["word", "End.", "日本語", "x" * 70]), st.integers(0, 400)
)
ROLES: st.SearchStrategy[Role] = st.sampled_from(["body", "body", "body", "quote", "attachment"])
SPEAKERS = st.sampled_from([None, "Ann", "The Chair (Hon. A. Rota)", " B\n C "])


@st.composite
def passage_lists(draw: st.DrawFn) -> list[DocumentPassage]:
    line, passages = 1, list[DocumentPassage]()
    for text in draw(st.lists(TEXTS, max_size=12)):
        last = line + draw(st.sampled_from([text.count("\n"), 0, 3]))
        passages.append(DocumentPassage(text, line, last, draw(ROLES), draw(SPEAKERS)))
        line = last + 1
    return passages


@given(passage_lists())
@examples(150)
def test_the_letters_of_the_chunks_are_those_of_the_passages_in_order(passages: list[DocumentPassage]) -> None:
    bare = [DocumentPassage(passage.text, passage.first, passage.last, passage.role) for passage in passages]
    chunks = chunk(mail(bare, title=""), bare)
    assert letters("".join(piece.text for piece in chunks)) == letters("".join(passage.text for passage in bare))


@given(passage_lists())
@examples(150)
def test_chunks_have_the_lines_of_their_passages_in_order(passages: list[DocumentPassage]) -> None:
    chunks = chunk(mail(passages, title=""), passages)
    lines = {line for passage in passages for line in range(passage.first, passage.last + 1)}
    assert all(piece.first <= piece.last and {piece.first, piece.last} <= lines for piece in chunks)
    assert [piece.first for piece in chunks] == sorted(piece.first for piece in chunks)
    assert [piece.last for piece in chunks] == sorted(piece.last for piece in chunks)
    assert [piece.position for piece in chunks] == list(range(len(chunks)))


@given(passage_lists())
@examples(150)
def test_no_chunk_is_far_above_the_maximum_and_none_is_blank(passages: list[DocumentPassage]) -> None:
    for piece in chunk(mail(passages, title=""), passages):
        assert weigh(piece.text) <= MOST + 1
        assert piece.text == piece.text.strip("\n")
        assert piece.text.strip()


@given(passage_lists())
@examples(50)
def test_chunking_is_a_function_of_its_input(passages: list[DocumentPassage]) -> None:
    first, again = chunk(mail(passages), passages), chunk(mail(passages), list(passages))
    assert first == again
    assert len({piece.id for piece in first}) == len(first)


def test_small_paragraphs_are_packed_to_about_the_target() -> None:
    chunks = chunks_of(*[DocumentPassage("five words of one paragraph", line, line) for line in range(1, 61)])
    assert [(weigh(piece.text), piece.first, piece.last) for piece in chunks] == [
        (100, 1, 20),
        (100, 21, 40),
        (100, 41, 60),
    ]


def test_a_paragraph_up_to_the_maximum_is_not_split() -> None:
    assert len(chunks_of(DocumentPassage(sentences(MOST // 6), 1, 1))) == 1


def test_a_long_paragraph_is_split_after_sentences_and_keeps_its_line() -> None:
    chunks = chunks_of(DocumentPassage(sentences(80), 7, 7))
    assert all(piece.text.endswith("words.") and (piece.first, piece.last) == (7, 7) for piece in chunks)
    assert all(TARGET - 10 <= weigh(piece.text) <= TARGET + 10 for piece in chunks[:-1])


def test_a_cut_paragraph_of_many_lines_gives_each_part_its_own_lines() -> None:
    text = "\n".join("A line of six words here." for _ in range(60))
    chunks = chunks_of(DocumentPassage(text, 11, 70))
    assert [(piece.first, piece.last) for piece in chunks] == [(11, 27), (28, 44), (45, 61), (62, 70)]


def test_a_sentence_without_end_is_cut_between_words() -> None:
    chunks = chunks_of(DocumentPassage("word " * 450, 1, 1))
    assert [weigh(piece.text) for piece in chunks] == [100, 100, 100, 100, 50]


def test_text_without_blanks_is_counted_and_cut_by_letters() -> None:
    chunks = chunks_of(DocumentPassage("字" * 1000, 1, 1), DocumentPassage("x" * 32 * 250, 2, 2))
    assert [len(piece.text) for piece in chunks[:5]] == [200] * 5
    assert [len(piece.text) for piece in chunks[5:]] == [3200, 3200, 1600]


def test_chinese_is_cut_behind_its_full_stops() -> None:
    chunks = chunks_of(DocumentPassage("今天我们讨论预算的问题。" * 60, 1, 1))
    assert len(chunks) == 4
    assert all(piece.text.endswith("。") for piece in chunks)


def test_a_quote_never_shares_a_chunk_with_the_body() -> None:
    chunks = chunks_of(
        DocumentPassage("Yes.", 1, 1), DocumentPassage("Coming?", 2, 2, "quote"), DocumentPassage("See you.", 3, 3)
    )
    assert [piece.text for piece in chunks] == ["Yes.", "Coming?", "See you."]
    assert [piece.header.endswith(" [quoted, undated]") for piece in chunks] == [False, True, False]


def test_each_part_of_a_split_turn_starts_with_the_speaker() -> None:
    turns = [DocumentPassage("Hello.", 1, 1, "body", "Bob"), DocumentPassage(sentences(60), 2, 2, "body", "Ann")]
    chunks = chunk(meeting(turns), turns)
    assert chunks[0].text.startswith("Bob: Hello.\nAnn: Sentence number 0")
    assert all("Ann: Sentence" in piece.text for piece in chunks)


def test_a_mail_header_says_from_whom_to_whom_when_and_what() -> None:
    header = chunks_of(DocumentPassage("Hi.", 1, 1))[0].header
    assert header == "From: Ann Lee, To: Bob Ray, carl@example.org (+2), Friday 3 May 2024 19:05, Rehearsal"


def test_a_meeting_header_says_what_and_when() -> None:
    turns = [DocumentPassage("Hi.", 1, 1, "body", "Ann")]
    day = chunk(meeting(turns, datetime(2024, 5, 3, tzinfo=UTC)), turns)[0]
    assert (day.header, day.text) == ("Meeting: Weekly sync, Friday 3 May 2024", "Ann: Hi.")
    assert chunk(meeting(turns), turns)[0].header == "Meeting: Weekly sync"


def test_a_header_is_one_line_under_forty_words_whatever_the_subject() -> None:
    document = mail(title="a subject\n\rthat " * 500, sender='"Ann\n Lee ' + "x" * 500 + '" <ann@example.org>')
    header = chunk(document, [DocumentPassage("Hi.", 1, 1)])[0].header
    assert "\n" not in header
    assert len(header.split()) < 50
    assert len(header) < 400


def test_a_mail_with_only_a_subject_can_be_found() -> None:
    assert [f"{piece.header}\n{piece.text}".count("Rehearsal") for piece in chunk(mail(), [])] == [2]


def test_a_document_with_nothing_at_all_has_no_chunk() -> None:
    assert chunk(mail(title=" "), [DocumentPassage(" \n ", 1, 2)]) == []


def test_the_id_changes_with_the_header_and_with_the_text() -> None:
    one = chunk(mail(), [DocumentPassage("Hi.", 1, 1)])[0]
    other_text = chunk(mail(), [DocumentPassage("Ho.", 1, 1)])[0]
    other_title = chunk(mail(title="Concert"), [DocumentPassage("Hi.", 1, 1)])[0]
    assert len({one.id, other_text.id, other_title.id}) == 3
    assert len(one.id) == 32
