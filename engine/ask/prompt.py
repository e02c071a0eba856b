"""The prompt of an answer, in segments: system, one for each chunk, question. Pure text; knows no tokenizer.

Chunks stand in document order: it is a function of the retrieved set alone, so that prompts about
the same messages share their beginning. The date stands in the last segment, where it spoils nothing that could be
reused.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from engine.ingest.label import day
from prompts import prompt
from store.types import Chunk


@dataclass(frozen=True, slots=True)
class Shown:
    """One chunk as the model may be shown it: the source it belongs to, best first from 0, and that source's date."""

    chunk: Chunk
    source: int
    date: datetime | None


@dataclass(frozen=True, slots=True)
class Prompt:
    """The text of each segment; all but the last end in one newline. `sources` has the source of each chunk."""

    system: str
    chunks: tuple[str, ...]
    question: str
    sources: tuple[int, ...]


Order = Callable[[Sequence[Shown]], list[Shown]]  # puts chunks that come best first into the order of a prompt


def in_document_order(shown: Sequence[Shown]) -> list[Shown]:
    """Sort by date, then document, then position; what has no date comes first."""
    return sorted(
        shown, key=lambda one: (one.date.timestamp() if one.date else 0.0, one.chunk.document, one.chunk.position)
    )


def answer_prompt(question: str, now: datetime, shown: Sequence[Shown], order: Order = in_document_order) -> Prompt:
    """Write the prompt for a question asked now."""
    ordered = order(shown)
    chunks = tuple(chunk_segment(number, one.chunk) for number, one in enumerate(ordered, 1))
    return Prompt(system_segment(), chunks, question_segment(question, now), tuple(one.source for one in ordered))


def system_segment() -> str:
    """Give the segment that every prompt begins with."""
    return prompt("answer") + "\n"


def chunk_segment(number: int, chunk: Chunk) -> str:
    """Give the segment of one chunk, under the number that the answer names it by."""
    return f"[{number}]\n{chunk.header}\n{chunk.text.strip()}\n"


def halved(segment: str) -> tuple[str, str]:
    """Cut the segment of a chunk in two: the line with its number, and the rest."""
    line, end, rest = segment.partition("\n")
    return line + end, rest


def question_segment(question: str, now: datetime) -> str:
    """Give the last segment: the day, the question on one line, and where the answer begins."""
    return prompt("question").format(today=day(now), question=" ".join(question.split()))
