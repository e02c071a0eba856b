"""The prompt of an answer, in segments: system, one for each chunk, question. Pure text; knows no tokenizer.

Chunks are in document order: it is a function of the retrieved set alone, so that prompts about the same messages share
their beginning. The date is in the last segment, where it does not prevent reuse.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from engine.models.types import Ids, LanguageModel
from engine.text.dates import spell_date
from engine.text.time_sensitive import instruction_end, moment
from engine.text.words import sentences
from engine.types import Evidence
from prompts import prompt
from store.errors import PkbError
from store.kv_files import DocumentSegment, grouped
from store.types import Chunk


@dataclass(frozen=True, slots=True)
class PromptChunk:
    """One chunk as the model may be shown it: the source it belongs to, best first from 0, and that source's date."""

    chunk: Chunk
    source: int
    date: datetime | None


def in_document_order(shown: Sequence[PromptChunk]) -> list[PromptChunk]:
    """Sort by date, then document, then position; what has no date comes first."""
    return sorted(
        shown, key=lambda one: (one.date.timestamp() if one.date else 0.0, one.chunk.document, one.chunk.position)
    )


def chunk_segment(number: int, chunk: Chunk) -> str:
    """Return the segment of one chunk, under the number that the answer names it by.

    All lines of its text are indented, whatever they look like; the number and the header are not.
    """
    header, text = _unmarked(" ".join((chunk.origin or chunk.header).split())), chunk.text
    for span in reversed(sentences(text)):
        if end := instruction_end(text[span.start : span.end]):  # a clause that tells its reader what to answer
            text = f"{text[: span.start]}(left out: it says what to answer) {text[span.start + end :]}"
    return f"[{number}]\n{header}\n{fenced(text)}\n"


_LINE_ENDS = re.compile(r"\r\n|[\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_TEMPLATE_MARKS = re.compile(
    r"(?<=<)(?=[|｜])|(?<=[|｜])(?=>)|(?<=<)(?=/?(?:s|\w+_(?:id|turn|of_turn|call|response)|bos|eos|pad|unk|think)>)"
    r"|(?<=\[)(?=/?[A-Z_]{3,20}\])|(?<=<)(?=<)",
    re.IGNORECASE,
)
_STRUCTURE = re.compile(
    r"[\[(]?\d{1,3}[\])]|#{1,6}\s|[*_]{0,2}[^\W\d_]{2,20}(?:[ -][^\W\d_]{2,12})?(?:\s\d{1,3})?[*_]{0,2}\s?[:：]"
)


def fenced(text: str) -> str:
    """Return a text that cannot pass for a part of the prompt around it.

    Its lines are indented; one that looks like a number, a header line or a turn begins with a bar; and the control
    tokens of chat templates are taken apart.
    """
    lines = (line.strip() for line in _LINE_ENDS.split(_unmarked(text.strip())))
    return "\n".join(f" | {line}" if _STRUCTURE.match(line) else f" {line}" for line in lines)


def _unmarked(text: str) -> str:
    return _TEMPLATE_MARKS.sub(" ", text)


def question_segment(question: str, now: datetime) -> str:
    """Return the last segment: the time it is understood at, the question on one line, and where the answer begins."""
    today, rest = prompt("question").split("\n", 1)
    if (at := moment(question, now, dated=True)) is None:
        return rest.format(question=" ".join(question.split()))
    clock = f", {now:%H:%M}" if "T" in at else ""
    said = today.format(today=spell_date(now, weekday=True) + clock)
    return f"{said}\n{rest.format(question=' '.join(question.split()))}"


_ANSWER_SHARE = 4  # 1/4 of the context is reserved for the answer, if the answer may be that long
_SEAMS = 64  # tokens that cutting chunks in two may add
_ANY_NUMBER = 99  # takes as many tokens as any that a chunk will have
# Sources that a model with a role adapter is shown: so small a model answers as well from the best one as from five,
# several times sooner, and one source behind the system segment is what idle runs can prefetch.
_ROLE_SOURCES = 1


@dataclass(frozen=True, slots=True)
class Segments:
    """A prompt as token ids: system, chunks, question; with the text and the source of each chunk.

    `left_out` is how many chunks there was no room for. Chunks that are too short to be computed alone are joined with
    what is before them.
    """

    ids: tuple[Ids, ...]
    chunks: tuple[str, ...]
    sources: tuple[int, ...]
    left_out: int = 0

    @property
    def count(self) -> int:
        """Return the number of tokens."""
        return sum(len(ids) for ids in self.ids)


def prompt_of(model: LanguageModel, shown: Sequence[PromptChunk], last: str, *, in_blocks: bool) -> Segments:
    """Return the prompt of chunks in this order and a last segment; in blocks, a chunk's number and text are apart."""
    texts, cut = [chunk_segment(number, one.chunk) for number, one in enumerate(shown, 1)], [system_ids(model)]
    for text, one in zip(texts, shown, strict=True):
        number, end, rest = text.partition("\n") if in_blocks else ("", "", text)
        cut += [tuple(model.tokens(number + end)), DocumentSegment.of(model.tokens(rest), one.chunk.document)]
    cut = [ids for ids in cut if ids]
    before = cut if in_blocks else grouped(cut, model.sub_step)
    ids = (*before, (*model.tokens(last), *model.frame.closing))
    return Segments(ids, tuple(texts), tuple(one.source for one in shown))


def fit(
    model: LanguageModel, question: str, now: datetime, evidence: Evidence, most: int, *, in_blocks: bool = False
) -> Segments:
    """Make a prompt that leaves room for an answer, of the best chunks that fit; PkbError if not one does."""
    last, spare = question_segment(question, now), max(most, _SEAMS) if in_blocks else most
    left = model.context - min(spare, model.context // _ANSWER_SHARE)
    left -= len(system_ids(model)) + len(model.tokens(last)) + len(model.frame.closing)
    shown, fitting = candidates(evidence, _ROLE_SOURCES if model.has_roles else None), list[PromptChunk]()
    for one in shown:
        size = len(chunk_ids(model, _ANY_NUMBER, one.chunk))
        if size <= left:
            fitting.append(one)
            left -= size
    if not fitting:
        raise PkbError(f"{model.name} holds {model.context} tokens, too few to ask with one source", "pkb model list")
    made = prompt_of(model, in_document_order(fitting), last, in_blocks=in_blocks)
    return replace(made, left_out=len(shown) - len(fitting))


def candidates(evidence: Evidence, most: int | None = None) -> list[PromptChunk]:
    """Return the chunks of the `most` best sources, all by default, mandatory ones first."""
    places = evidence.shown or range(len(evidence.passages))
    best = [(rank, evidence.passages[rank]) for rank in places if not evidence.passages[rank].is_outranked()][:most]
    shown = ((rank, read, chunk) for rank, read in best for chunk in read.chunks if chunk.id not in read.outranked)
    return [PromptChunk(chunk, rank, read.date) for rank, read, chunk in shown]


def system_ids(model: LanguageModel) -> Ids:
    """Return the first segment of every prompt; with a role adapter what to do stands in the last one instead."""
    system = prompt("roles" if model.has_roles else "answer") + "\n"
    return (*model.frame.opening, *model.tokens(system), *model.frame.turning)


def chunk_ids(model: LanguageModel, number: int, chunk: Chunk) -> Ids:
    """Return the segment of a chunk under a number."""
    return DocumentSegment.of(model.tokens(chunk_segment(number, chunk)), chunk.document)
