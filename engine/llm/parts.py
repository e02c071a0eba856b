"""What a model is asked beside questions about a few sources: about chunks, and about all of a meeting or thread.

All of it is read in order, in parts that fit a prompt; notes are taken of each, and the answer is made of those. Chunks
are read as in the prompt of an answer, so that all of these load each other's KV tensors.
"""

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from engine.kv.restore import PromptReader
from engine.llm.generate import GenerateOptions, parse, quoted, read
from engine.llm.prompt import (
    Prompt,
    Segments,
    candidates,
    chunk_ids,
    chunk_segment,
    in_blocks,
    system_ids,
    system_segment,
)
from engine.llm.stopping import Output, timed
from engine.models.types import Ids, LanguageModel
from engine.text.question import Question
from engine.text.terminal import count
from engine.text.words import FUNCTION_WORDS, sentences, terms
from engine.types import Answer, Evidence, GeneratedAnswer, Passage, Tier, Trace
from prompts import prompt
from store.types import Chunk, replace

_PART = 1500  # tokens of the chunks read at once: of more, small models overlook what stands in the middle
_HELD = 0.5  # of the words that tell a line of the answer, so many stand in one source
_NOTES = 150  # tokens of the notes of a part
_MARKS = "-*•–· \t"  # in front of a line of a list


def request_segments(reader: PromptReader, chunks: Sequence[Chunk], request: str) -> Segments:
    """Return the prompt of a request about chunks."""
    model = reader.model
    last: Ids = (*model.tokens(request), *model.frame.closing)
    texts = tuple(chunk_segment(number, chunk) for number, chunk in enumerate(chunks, 1))
    documents = tuple(chunk.document for chunk in chunks)
    written = Prompt(system_segment(roles=True), texts, request, tuple(range(len(chunks))), documents)
    ids = (system_ids(model), *(chunk_ids(model, number, chunk) for number, chunk in enumerate(chunks, 1)), last)
    segments = Segments(written, ids, 0)
    return in_blocks(model, segments) if reader.ropes else segments


def ask_about(
    reader: PromptReader, chunks: Sequence[Chunk], request: str, most: int, check_time: Callable[[], None]
) -> str:
    """Return what a model writes on a request about chunks; empty if they do not fit its context.

    It writes at most so many tokens; `check_time` is called after each, and may raise.
    """
    return _write(reader, chunks, request, most, Trace(asked=False), check_time)[0]


def _write(
    reader: PromptReader, chunks: Sequence[Chunk], request: str, most: int, trace: Trace, check_time: Callable[[], None]
) -> tuple[str, tuple[int, int, int]]:
    """Return what a model writes on a request, and the tokens of the prompt, those reused, and those written."""
    segments = request_segments(reader, chunks, request)
    if segments.count + most > reader.model.context:
        return "", (0, 0, 0)
    with ExitStack() as held:
        found, output = read(reader, segments.ids[:-1], trace, held), Output(most)
        with trace.step("decode"):
            for piece in timed(reader.model.decode(found.cache, segments.ids[-1], most), check_time):
                if not output.add(piece):
                    break
        found.keep()
        found.release()
    return output.close(), (segments.count, sum(found.reused), output.tokens)


def synthesize(
    load: Callable[[], PromptReader], question: Question, evidence: Evidence, trace: Trace, options: GenerateOptions
) -> GeneratedAnswer:
    """Answer from all of the evidence, line by line, each with the number of a source that bears it.

    A line is left out where no source holds its numbers and most of its words.
    """
    with trace.step("model"):
        run = _Synthesis(load(), question, trace, options)
    text = run.answer(evidence)
    with trace.step("cite") as step:
        lines = [line for span in sentences(text) if (line := text[span.start : span.end].strip(_MARKS))]
        places = [_bearing(line, question.text, evidence.passages) for line in lines]
        sound = [(line, at) for line, at in zip(lines, places, strict=True) if at is not None]
        step.note = f"sources bear {len(sound)} of {count(len(lines), 'line')}"
    if 0 < len(sound) < len(lines):
        trace.notices.append(f"{count(len(lines) - len(sound), 'line')} left out: no source says so")
    return GeneratedAnswer(run.measured(_told(question.text, sound, evidence)))


def _told(question: str, sound: Sequence[tuple[str, int]], evidence: Evidence) -> Answer:
    """Return the answer of these lines and the sources that bear them, the first of which leads."""
    lead = sound[0][1] if sound else 0
    order = [lead, *(at for at in range(len(evidence.passages)) if at != lead)]
    lines = [f"{line} [{order.index(at) + 1}]" for line, at in sound]
    text = lines[0] if len(lines) == 1 else "\n".join(f"- {line}" for line in lines)
    said = {at: " ".join(line for line, other in sound if other == at) for _, at in sound}
    quotes = [quoted(one, said[at], question) if at in said else "" for at, one in enumerate(evidence.passages)]
    sources = evidence.sources(quotes, lead)
    return Answer(question, text or None, "full", "model", None, sources, {}, lead=lead)


def _bearing(line: str, question: str, passages: Sequence[Passage]) -> int | None:
    """Return the passage that bears a line best; None where none has its numbers, links and most of its words."""
    said, asked = terms(line) - FUNCTION_WORDS, terms(question)
    telling = (said - asked) or said
    held = [terms(f"{one.header}\n{one.text}") for one in passages]
    shares = [len(telling & there) / len(telling) if telling else 0.0 for there in held]
    numbers = frozenset(filter(str.isdecimal, said - asked))
    links = [word.strip("()[]<>.,;:!?*`'\"") for word in line.split() if "://" in word or "@" in word]
    linked = [all(link in f"{one.header}\n{one.text}" for link in links) for one in passages]
    bears = [at for at, there in enumerate(held) if linked[at] and numbers <= there and shares[at] >= _HELD]
    return max(bears, key=lambda at: (shares[at], -at), default=None)


@dataclass(slots=True)
class _Synthesis:
    """One answer from all of the evidence in the making, and the tokens that it took so far."""

    reading: PromptReader
    question: Question
    trace: Trace
    options: GenerateOptions
    spent: tuple[int, ...] = (0, 0, 0)

    def answer(self, evidence: Evidence) -> str:
        """Return the lines of the answer; what does not fit one prompt is replaced by notes of its parts."""
        while len(parts := self._parts(evidence)) > 1:
            noted = [(part, self._write("notes", part, _NOTES)) for part in parts]
            evidence = replace(evidence, passages=tuple(_noted(part, note) for part, note in noted if note))
            self.reading = dataclasses.replace(self.reading, kept=None)  # notes are read once
        return self._write("lines", parts[0], self.options.max_tokens) if parts else ""

    def _parts(self, evidence: Evidence) -> list[Evidence]:
        """Cut evidence into parts that fit one prompt, in order of date, document and position."""
        model, found, room = self.reading.model, list[list[Passage]](), 0
        for one in sorted(evidence.passages, key=_place):
            size = sum(len(chunk_ids(model, len(one.chunks), chunk)) for chunk in one.chunks)
            if size > room:
                found.append([])
                room = min(_PART, model.context // 2)
            found[-1].append(one)
            room -= size
        return [replace(evidence, passages=tuple(passages)) for passages in found]

    def _write(self, request: str, part: Evidence, most: int) -> str:
        """Return what the model writes on a request about a part; empty if it finds nothing there."""
        chunks = [one.chunk for one in candidates(part)]
        asked = prompt(request).format(question=self.question.text)
        written, spent = _write(self.reading, chunks, asked, most, self.trace, lambda: None)
        self.spent = tuple(sum(pair) for pair in zip(self.spent, spent, strict=True))
        return parse(written).answer or ""

    def measured(self, reply: Answer) -> Answer:
        """Return an answer with the figures of all that was read and written for it."""
        count, reused, generated = self.spent
        tokens = {"prompt": count, "reused": reused, "computed": count - reused, "generated": generated, "guessed": 0}
        tier: Tier = ("blocks" if self.reading.ropes else "prefix") if reused else "full"
        ms = (taken := self.trace.ms()) | {"first_token": taken["total"]}  # all is checked before it is shown
        return replace(reply, tier=tier, model=self.options.name, tokens=tokens, ms=ms)


def _place(one: Passage) -> tuple[float, str, int]:
    return (one.date.timestamp() if one.date else 0.0, one.document, one.chunks[0].position)


def _noted(part: Evidence, note: str) -> Passage:
    """Return the notes of a part as a passage in its place."""
    hit = (first := part.passages[0]).hits[0]
    return replace(first, hits=(dataclasses.replace(hit, chunk=replace(hit.chunk, text=note)),))


def check_ids(model: LanguageModel, question: str, answer: str) -> Ids:
    """Return the last segment that asks whether the chunks support an answer."""
    said = prompt("check").format(question=" ".join(question.split()), answer=" ".join(answer.split()))
    return (*model.tokens(said), *model.frame.closing)


VERDICTS = ("yes", "no")
LEAST_YES = 0.5  # probability of a yes that confirms another question's answer
