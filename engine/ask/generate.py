"""Evidence becomes a reply in words: prompt -> prefill -> draft -> decode -> parse -> citations checked.

What was read is kept when nobody waits any more. Knows the model by its protocol. A question whose evidence does not
fit the model's context is asked of the best of it.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from engine.ask.cite import cite
from engine.ask.evidence import Evidence
from engine.ask.means import Say, Written
from engine.ask.parse import Said, parse, visible
from engine.ask.prefill import Reading, keep, prefill
from engine.ask.prompt import Order, in_document_order
from engine.ask.question import Question
from engine.ask.reply import Reply, Tier
from engine.ask.segments import Ids, Segments, fit
from engine.ask.trace import Trace
from engine.kv import blocks
from engine.kv.blocks import Read
from engine.kv.pieces import in_blocks
from engine.models.drafts import Drafts
from engine.models.protocols import LanguageModel

_SEAMS = 64  # tokens that chunks may have more when they are cut in two


# Returns what an answer may repeat, as token ids, the likeliest last; called once the first token is there.
Draft = Callable[[LanguageModel, Question, Evidence, Segments], list[list[int]]]


@dataclass(slots=True)
class _Answer:
    """What the model has read, what it has written so far, how many tokens that took, and how many were guessed."""

    read: Read
    text: str = ""
    tokens: int = 0
    guessed: int = 0
    first_ms: float = 0.0


def generate(
    name: str,
    load: Callable[[], Reading],
    question: Question,
    evidence: Evidence,
    trace: Trace,
    now: datetime,
    most: int,
    say: Say | None = None,
    order: Order = in_document_order,
    drafts: int = 0,
    draft: Draft | None = None,
) -> Written:
    """Answer from the evidence in at most so many tokens; `say` is given the answer's text as it grows.

    Of them `drafts` are guessed at a time, at most, from the texts that `draft` returns as token ids. Where nothing
    was retrieved the model is not asked, and not even loaded.
    """
    if not evidence.reads:
        ms = trace.ms()
        return Written(Reply(question.text, None, "full", "model", name, (), ms | {"first_token": ms["total"]}))
    with trace.step("model"):
        reading = load()
    with trace.step("prompt") as step:
        segments = segments_of(reading, question, evidence, now, most, order)
        step.note = f"{segments.count} tokens, {len(segments.prompt.chunks)} chunks"
        if segments.left_out:
            trace.notices.append(f"{segments.left_out} of {segments.wanted} chunks did not fit the model's context")
    held = ExitStack()
    guesses = None
    if drafts and draft:
        guesses = Drafts(partial(draft, reading.model, question, evidence, segments), drafts)
    written = _write(reading, segments, trace, most, guesses, say, held)
    with trace.step("cite") as step:
        said = parse(written.text)
        unseen = reading.ropes is not None  # where no token of a chunk sees its number
        cited = cite(said, question.text, evidence.reads, segments.prompt.sources, words_first=unseen)
        step.note = _note(said, cited.stands)
        if said.answer and cited.stands and not any(cited.quotes):
            trace.notices.append("the answer shares no word with its sources; check it")
    reused, count = sum(written.read.reused), segments.count
    lead = (cited.first or 0) if cited.stands else 0
    reply = Reply(
        question=question.text,
        answer=said.answer if cited.stands else None,
        tier=_tier(reading) if reused else "full",
        writer="model",
        model=name,
        sources=evidence.sources(cited.quotes, lead),
        ms=trace.ms() | {"first_token": written.first_ms},
        tokens={
            "prompt": count,
            "reused": reused,
            "computed": count - reused,
            "generated": written.tokens,
            "guessed": written.guessed,
        },
        lead=lead,
    )
    return Written(reply, partial(_keep, written.read, held))


def read_ahead(
    load: Callable[[], Reading],
    question: Question,
    evidence: Evidence,
    trace: Trace,
    now: datetime,
    most: int,
    order: Order = in_document_order,
) -> None:
    """Read all that a question's prompt begins with, and keep it; nothing is answered."""
    if not evidence.reads:
        return
    reading = load()
    segments = segments_of(reading, question, evidence, now, most, order)
    with ExitStack() as held:
        _done(read(reading, segments.ids[:-1], trace, held))


def segments_of(
    reading: Reading,
    question: Question,
    evidence: Evidence,
    now: datetime,
    most: int,
    order: Order = in_document_order,
) -> Segments:
    """Write the prompt in the form that the settings name."""
    spare = max(most, _SEAMS) if reading.ropes else most
    segments = fit(reading.model, question.text, now, evidence, spare, order)
    return in_blocks(reading.model, segments) if reading.ropes else segments


def _tier(reading: Reading) -> Tier:
    return "blocks" if reading.ropes else "prefix"


def _write(
    reading: Reading,
    segments: Segments,
    trace: Trace,
    most: int,
    guesses: Drafts | None,
    say: Say | None,
    held: ExitStack,
) -> _Answer:
    """Read the prompt and write the answer; what may be shown of it is said at once."""
    *before, last = segments.ids
    written, said = _Answer(read(reading, before, trace, held)), ""
    with trace.step("prefill"):
        pieces = reading.model.decode(written.read.cache, last, most, guesses)
        piece = next(pieces, None)
    written.first_ms = trace.ms()["total"]
    if piece is not None and guesses and guesses.end is not None:
        said = _tell(visible(piece), said, say)
        with trace.step("draft"):
            guesses.learn()
    with trace.step("decode") as step:
        while piece is not None:
            written.text, written.tokens = written.text + piece, written.tokens + 1
            said = _tell(visible(written.text), said, say)
            piece = next(pieces, None)
        _tell(parse(written.text).answer or "", said, say)
        written.guessed = guesses.right if guesses else 0
        step.note = f"{written.tokens} tokens" + (f", {written.guessed} guessed right" if written.guessed else "")
    if written.tokens == most:
        trace.notices.append(f"the answer was cut at {most} tokens")
    return written


def read(reading: Reading, before: Sequence[Ids], trace: Trace, held: ExitStack) -> Read:
    """Read all segments but the last, in the form that the settings name."""
    if reading.ropes:
        return blocks.read(reading, before, trace, held)
    found, kept = prefill(reading, before, trace, held), reading.kept
    if kept is None:
        return Read(found.cache, found.reused, lambda: 0)
    release = partial(kept.model.release, found.cache)
    return Read(found.cache, found.reused, partial(keep, kept, before, found, evict=trace.asked), release)


def _keep(read: Read, held: ExitStack) -> None:
    """Keep what was computed, and let go of what was used; nobody waits for an answer any more."""
    with held:
        _done(read)


def _done(read: Read) -> None:
    read.keep()
    read.release()


def _tell(shown: str, said: str, say: Say | None) -> str:
    """Say what of the shown was not said yet; gives all that was said."""
    if say and len(shown) > len(said):
        say(shown[len(said) :])
    return max(said, shown, key=len)


def _note(said: Said, stands: bool) -> str:
    if said.answer is None:
        return "not found"
    numbers = ", ".join(map(str, said.cited)) or "none"
    return f"names {numbers}" + ("" if stands else "; no source bears the answer")
