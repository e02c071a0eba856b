"""From evidence to a generated answer: prompt -> prefill -> draft -> decode -> parse -> check citations.

The KV cache is stored after the answer is shown. Knows the model by its protocol. Evidence that does not fit the
model's context is cut to its best chunks; all of a meeting or thread is read in parts, and the answer is made of the
notes of each. Other requests about chunks read these as answers do, so that all load each other's KV tensors.
"""

import dataclasses
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import chain

from msgspec import Struct

from engine.kv import blocks
from engine.kv.blocks import PrefixCache
from engine.kv.restore import PromptReader, keep, prefill
from engine.llm.prompt import PromptChunk, Segments, candidates, chunk_ids, fit, prompt_of, system_ids
from engine.llm.stopping import Output, complete
from engine.models.types import Drafter, Ids
from engine.text.dates import spell_date
from engine.text.question import Question
from engine.text.spans import find
from engine.text.terminal import count
from engine.text.time_sensitive import phrases, plain_words
from engine.text.words import FUNCTION_WORDS, content_words, sentences, terms, words
from engine.types import Answer, Evidence, OnText, OpenLoop, Passage, Passages, Tier, Trace, resting
from prompts import prompt, word_patterns
from store.kv_files import beginnings
from store.kv_index import path_keys
from store.types import Chunk, replace

_THOUGHT = re.compile(r"<think>.*?(?:</think>\s*|\Z)", re.DOTALL)
_LEAD = re.compile(r"\A\W*answer\s*:[\s*]*", re.IGNORECASE)
_NOUN = r"(?:source|message|note|chunk|document|number|reference)s?"
_LIST = r"\d{1,3}(?:\s*(?:[,;&–-]|and)\s*\d{1,3})*"
# Brackets alone make a number a citation, parentheses only with a word: "(42)" may be the answer.
_MARK = re.compile(
    rf"(?<!\s)\s*+(?:\[{{1,3}}\s*(?:{_NOUN}\s*)?#?({_LIST})\s*\]+|\(\s*(?:see )?{_NOUN}\s*#?({_LIST})\s*\))",
    re.IGNORECASE,
)
_LAST = re.compile(rf"\n\s*+\W{{0,2}}{_NOUN}\W{{0,3}}\s*({_LIST})\W*\Z", re.IGNORECASE)
_RANGE = re.compile(r"(\d+)(?:\s*[–-]\s*(\d+))+")  # "1-2-4" is from the first to the last
_OPEN = re.compile(
    rf"[\[(][^\])\n]{{0,40}}\Z|[\[(]\s*+(?:{_NOUN}\s*+)?#?[\dand\s,;&–-]*+\Z|(?:<[a-z]{{0,5}})+\Z", re.IGNORECASE
)
_LAST_OPEN = re.compile(r"\n\W{0,2}[a-z]*+[\s\d\W]*+\Z", re.IGNORECASE)
_NOTHING = re.compile(r"(?:\A|[.!?]\s+)\W*not[ -]found\W*(?:\Z|(?<=[.:,;–—-])\s)", re.IGNORECASE)
_MOST = 1000  # a list such as 1-999999 is not a list of sources
# What is right in every letter or not at all: addresses and links, and telephone numbers by their digits.
_ADDRESS = re.compile(r"[\w.+%-]+@[\w-]+(?:\.[\w-]+)+|(?:https?://|www\.)[^\s<>\"]+", re.IGNORECASE)
_PHONE = re.compile(r"(?<![\w.,:/-])\+?\(?\d(?:[ ().-]{0,3}\d){6,14}(?![\w/:-]|[.,]\d)")
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[.-]\d{1,2}[.-]\d{4}")
_DIGIT_GAP = re.compile(r"(?<=\d)[ ().,/-]+(?=\(?\d)")


class ParsedAnswer(Struct, frozen=True):
    """An answer, None if the model wrote none, and the numbers of what it is from, in the order they are named."""

    answer: str | None
    cited: tuple[int, ...]


def parse(written: str) -> ParsedAnswer:
    """Read all that a model wrote."""
    text, answer = _THOUGHT.sub("", written), visible(written, done=True)
    if _NOTHING.search(answer):
        return ParsedAnswer(None, ())
    last, cited = _LAST.search(_MARK.sub("", text)), list[int]()
    lists = [mark[1] or mark[2] for mark in _MARK.finditer(text)] + ([last[1]] if last else [])
    for part in (part for found in lists for part in re.split(r"\s*(?:[,;&]|and)\s*", found, flags=re.IGNORECASE)):
        span = _RANGE.fullmatch(part)
        cited += range(int(span[1]), min(int(span[2]), _MOST) + 1) if span else [int(part)]
    return ParsedAnswer(answer or None, tuple(dict.fromkeys(cited)))


def visible(written: str, *, done: bool = False) -> str:
    """Return the part of an unfinished text that may be shown: each is the beginning of all later ones."""
    text = _THOUGHT.sub("", written).lstrip()
    if not done:
        text = _OPEN.sub("", _LAST_OPEN.sub("", _OPEN.sub("", text)))
        letters = re.sub(r"[\W_]+", " ", _LEAD.sub("", text).casefold()).strip()
        if any(whole.startswith(letters) for whole in ("answer", "not found")):  # it may still become that
            return ""
    return _MARK.sub("", _LAST.sub("", _LEAD.sub("", text))).strip()


_VERDICTS = frozenset(words("yes no"))  # not expected in a source that supports them


class Cited(Struct, frozen=True):
    """A quote for each source, empty if it does not support the answer; and whether the answer is accepted."""

    quotes: tuple[str, ...]
    stands: bool
    first: int | None = None  # the index of the first source that supports it


def cite(
    said: ParsedAnswer, question: str, reads: Passages, shown: Sequence[int], *, words_first: bool = False
) -> Cited:
    """Check an answer: `shown` has the source, an index into `reads`, of each number that the model was shown, from 1.

    A source that the model names counts if it holds a word of the answer that the question lacks. Where it names none
    that does, the one that holds most is taken; what no source shown holds anything of does not stand, nor does an
    answer with an email address, a link or a telephone number that none of them has. Only where words
    cannot judge, because the sources hold none of the question either, as in another language, or the answer is a mere
    "Yes", it stands on the sources that the model names, in another language without a quote. Where there is no answer,
    each source shown is quoted with what comes nearest to the question. With `words_first` a source that the model
    names counts only if none holds more of the answer: for models that do not see the numbers of sources.
    """
    if said.answer is None:
        return Cited(_quotes(reads, shown, frozenset(), question), stands=False)
    telling = _telling(said.answer, question)
    named = list(dict.fromkeys(shown[number - 1] for number in said.cited if 0 < number <= len(shown)))
    if _invents(said.answer, question, [reads[index] for index in shown]):
        return Cited(_quotes(reads, [], telling, question), stands=False)
    if not telling:  # "Yes"
        return Cited(_quotes(reads, named, telling, question), bool(named), next(iter(named), None))
    asked = frozenset(words(question)) - FUNCTION_WORDS
    in_sources = {at: frozenset(words(f"{reads[at].header}\n{reads[at].text}")) for at in dict.fromkeys(shown)}
    held = {index: len(telling & found) for index, found in in_sources.items()}
    least = max([1, *held.values()]) if words_first else 1
    bearing = [index for index in named if held[index] >= least]
    if not bearing and any(held.values()):
        bearing = [max(held, key=lambda index: (held[index], -index))]
    judged = any(asked & found for found in in_sources.values())
    stands = bool(bearing) or (bool(named) and not judged)
    return Cited(_quotes(reads, bearing, telling, question), stands, next(iter(bearing or named), None))


def _telling(answer: str, question: str) -> frozenset[str]:
    """Return the words of an answer that the question does not have already; all of them where it has them all."""
    said = frozenset(words(answer)) - FUNCTION_WORDS - _VERDICTS
    return (said - frozenset(words(question))) or said


def _invents(answer: str, question: str, shown: Passages) -> bool:
    origins = (chunk.origin for read in shown for chunk in read.chunks)
    known = "\n".join([question, *(f"{read.header}\n{read.text}" for read in shown), *origins]).casefold()
    addresses = [found.rstrip(".,;:!?)]'").casefold() for found in _ADDRESS.findall(answer)]
    numbers = [_digits(found) for found in _PHONE.findall(_ADDRESS.sub(" ", answer)) if not _DATE.search(found)]
    return any(one not in known for one in addresses) or any(one not in _digits(known) for one in numbers)


def _digits(text: str) -> str:
    return _DIGIT_GAP.sub("", text).lstrip("+(")


def _quotes(reads: Passages, bearing: Sequence[int], telling: frozenset[str], question: str) -> tuple[str, ...]:
    asked = frozenset(words(question)) - FUNCTION_WORDS
    return tuple(_sentence(read, telling, asked) if i in bearing else "" for i, read in enumerate(reads))


def _sentence(read: Passage, telling: frozenset[str], asked: frozenset[str]) -> str:
    """Return the sentence of a source that has most of the answer, then of the question."""
    found = [read.text[span.start : span.end] for span in read.sentences()]

    def fit(sentence: str) -> tuple[int, int]:
        held = frozenset(words(sentence))
        return len(held & telling), len(held & asked)

    return max(found, key=fit, default="")


Judge = Callable[[ParsedAnswer], Answer]  # returns what is answered where a model wrote this
Load = Callable[[], PromptReader]  # returns the model, which stays in memory


class GenerateOptions(Struct, frozen=True):
    """How an answer is generated: by the model of this name, as of `now`, in at most `max_tokens` tokens.

    `load` returns the model. Of the tokens up to `drafts` at a time are guessed from what was read. `gate` returns the
    judge of answers to a question, None if words decide.
    """

    load: Load
    name: str
    now: datetime
    max_tokens: int
    drafts: int = 0
    about: str = ""  # the user's adapter, and the options of KV that are on, for users
    gate: Callable[[Question, Evidence], Judge | None] = lambda *_: None


def generate(
    question: Question, evidence: Evidence, trace: Trace, options: GenerateOptions, say: OnText | None = None
) -> Answer:
    """Answer from the evidence, and `say` it as it grows; where nothing was retrieved the model is not even loaded."""
    if not evidence.passages:
        return Answer(question.text, None, "full", "model", options.name, (), trace.ms())
    with trace.step("model") as step:
        reading = options.load()
        step.note = options.about
    judge = options.gate(question, evidence)  # then nothing is shown before it is known what is answered
    with trace.step("prompt") as step:
        segments = segments_of(reading, question, evidence, options.now, options.max_tokens)
        step.note = f"{segments.count} tokens, {count(len(segments.chunks), 'chunk')}"
        if segments.left_out:
            wanted = len(segments.chunks) + segments.left_out
            trace.notices.append(f"{segments.left_out} of {wanted} chunks did not fit the model's context")
    found = read(reading, segments.ids[:-1], trace)
    trace.keep = found.keep
    run = _Generation(reading, question, evidence, trace, segments, Output(options.max_tokens))
    run.write(found, options, None if judge else say)
    reply = run.judged(judge) if judge else run.cited()
    counts = (segments.count, sum(found.reused), run.output.tokens)
    reply = _measured(reply, reading, options, trace, counts, run.guessed)
    if judge:
        _show(reply.text or "", "", say)
    return reply


class _Generation(Struct):
    reading: PromptReader
    question: Question
    evidence: Evidence
    trace: Trace
    segments: Segments
    output: Output
    guessed: int = 0

    def write(self, found: PrefixCache, options: GenerateOptions, say: OnText | None) -> None:
        """Decode the answer behind the prompt; `say` is given the text as it is written, where it may be shown."""
        trace, output, guesses, shown = self.trace, self.output, None, ""
        if options.drafts:
            known = [*chain(*self.segments.ids)][len(system_ids(self.reading.model)) :]
            guesses = Drafter(lambda: [known], options.drafts)
        with trace.step("prefill"):
            pieces = self.reading.model.decode(found.cache, self.segments.ids[-1], output.most, guesses)
            piece = next(pieces, None)
        trace.first_ms = trace.ms()["total"]
        if piece is not None and guesses and guesses.end is not None:
            shown = _show(visible(piece), shown, say)
            with trace.step("draft"):
                guesses.learn()
        with trace.step("decode") as step:
            while piece is not None and output.add(piece):
                shown = _show(visible(output.settled), shown, say)
                piece = next(pieces, None)
            _show(parse(output.close()).answer or "", shown, say)
            self.guessed = guesses.right if guesses else 0
            step.note = f"{output.tokens} tokens" + (f", {self.guessed} guessed right" if self.guessed else "")
            step.note += f"; {output.ended}" if output.ended else ""

    def judged(self, judge: Judge) -> Answer:
        """Return the answer that the judge puts in place of the written one."""
        with self.trace.step("cite") as step:
            said = parse(self.output.text)
            reply = judge(said)
            own = reply.writer == "model"
            step.note = "a source supports it" if own else "no source supports it" if said.answer else "not found"
        if self.output.ended and own:
            self.trace.notices.append(self.output.ended)
        self.trace.first_ms = self.trace.ms()["total"]  # nothing was shown before
        return reply if reply.answered else replace(reply, writer="model")

    def cited(self) -> Answer:
        """Return the part of the written answer that words of the sources support, with its sources."""
        with self.trace.step("cite") as step:
            said = parse(self.output.text)
            about = (said, self.question.text, self.evidence.passages, self.segments.sources)
            cited = cite(*about, words_first=self.reading.ropes is not None)  # then no token of a chunk sees its number
            step.note = f"names {', '.join(map(str, said.cited)) or 'none'}" if said.answer else "not found"
            step.note += "; declined: the sources do not support the answer" if said.answer and not cited.stands else ""
        if self.output.ended:
            self.trace.notices.append(self.output.ended)
        if said.answer and cited.stands and not any(cited.quotes):
            self.trace.notices.append("the answer shares no word with its sources; check it")
        lead = (cited.first or 0) if cited.stands else 0
        # Where the quote has the answer word for word.
        start = cited.quotes[lead].lower().find(said.answer.lower()) if said.answer else -1
        place = (start, start + len(said.answer)) if said.answer and start >= 0 else None
        sources = resting(self.evidence.sources(cited.quotes, lead), place)
        text = said.answer if cited.stands else None
        return Answer(self.question.text, text, "full", "model", None, sources, {}, lead=lead)


def _measured(
    reply: Answer, reading: PromptReader, options: GenerateOptions, trace: Trace, counts: Sequence[int], guessed: int
) -> Answer:
    """Return an answer with its figures: the tokens of the prompt, those reused, and those written."""
    count, reused, generated = counts
    tokens = {"prompt": count, "reused": reused, "computed": count - reused}
    tokens |= {"generated": generated, "guessed": guessed}
    tier: Tier = ("blocks" if reading.ropes else "prefix") if reused else "full"
    return replace(reply, tier=tier, model=options.name, tokens=tokens, ms=trace.ms())


def prefill_prompt(question: Question, evidence: Evidence, trace: Trace, options: GenerateOptions) -> None:
    """Prefill all but the last segment of a question's prompt, without answering; nothing if no KV is kept.

    Runs while the question is typed. The last word often decides the sources; a cancelled run keeps its finished steps.
    """
    if not evidence.passages or (kept := (reading := options.load()).kept) is None:
        return
    *before, _ = segments_of(reading, question, evidence, options.now, options.max_tokens).ids
    step = sys.maxsize if reading.ropes else kept.store.sub_step  # part of a block is of no use
    shorter = list[Ids]()
    for part in beginnings(before, step) if trace.goes_on else [before]:
        if trace.goes_on and not trace.goes_on():
            return
        read(reading, part, trace).keep()
        if len(shorter) == len(part):  # the longer node holds it, too
            kept.store.evict_unused(path_keys(kept.root, shorter)[-1:])
        shorter = part


def segments_of(reading: PromptReader, question: Question, evidence: Evidence, now: datetime, most: int) -> Segments:
    """Return the prompt's segments, for prefix reuse or in blocks."""
    return fit(reading.model, question.text, now, evidence, most, in_blocks=bool(reading.ropes))


def read(reading: PromptReader, before: Sequence[Ids], trace: Trace) -> PrefixCache:
    """Prefill every segment except the last, as a prefix or in blocks."""
    if reading.ropes:
        return blocks.read(reading, before, trace)
    found, kept = prefill(reading, before, trace), reading.kept
    if kept is None:
        return PrefixCache(found.cache, found.reused, lambda: 0)
    return PrefixCache(found.cache, found.reused, partial(keep, kept, before, found, evict=trace.evicts))


def _show(visible_text: str, shown: str, say: OnText | None) -> str:
    """Give `say` the part of a text that was not shown yet; returns all that was shown."""
    if say and len(visible_text) > len(shown):
        say(visible_text[len(shown) :])
    return max(shown, visible_text, key=len)


_PART = 1500  # tokens of the chunks read at once: of more, small models overlook the middle
_HELD = 0.5  # least share of the content words of an answer's line in one source
_NOTES = 150  # tokens of the notes of a part
_MARKS = "-*•–· \t"  # in front of a line of a list


def ask_about(
    reader: PromptReader, chunks: Sequence[Chunk], request: str, most: int, check_time: Callable[[], None]
) -> str:
    """Return at most `most` tokens of a model's text about chunks; empty if they do not fit. `check_time` may raise."""
    return _write(reader, chunks, request, most, Trace(asked=False), check_time)[0]


def _write(
    reader: PromptReader, chunks: Sequence[Chunk], request: str, most: int, trace: Trace, check_time: Callable[[], None]
) -> tuple[str, tuple[int, int, int]]:
    """Return a model's text on a request, and the tokens of the prompt, those reused, and those written."""
    shown = [PromptChunk(chunk, at, None) for at, chunk in enumerate(chunks)]
    segments = prompt_of(reader.model, shown, request, in_blocks=bool(reader.ropes))
    if segments.count + most > reader.model.context:
        return "", (0, 0, 0)
    found = read(reader, segments.ids[:-1], trace)
    with trace.step("decode"):
        output = complete(reader.model.decode(found.cache, segments.ids[-1], most), most, check_time)
    found.keep()
    return output.text, (segments.count, sum(found.reused), output.tokens)


def synthesize(question: Question, evidence: Evidence, trace: Trace, options: GenerateOptions) -> Answer:
    """Answer from all of the evidence, in lines whose numbers and most words a source holds, each with its number."""
    with trace.step("model"):
        run = _Synthesis(options.load(), question, trace, options)
    text = run.answer(evidence)
    with trace.step("cite") as step:
        lines = [line for span in sentences(text) if (line := text[span.start : span.end].strip(_MARKS))]
        texts = [f"{one.header}\n{one.text}" for one in evidence.passages]
        places = [_bearing(line, question.text, texts) for line in lines]
        sound = [(line, at) for line, at in zip(lines, places, strict=True) if at is not None]
        step.note = f"sources support {len(sound)} of {count(len(lines), 'line')}"
    if 0 < len(sound) < len(lines):
        trace.notices.append(f"{count(len(lines) - len(sound), 'line')} left out: no source says so")
    lead = sound[0][1] if sound else 0
    order = [lead, *(at for at in range(len(evidence.passages)) if at != lead)]
    lines = [f"{line} [{order.index(at) + 1}]" for line, at in sound]
    text = lines[0] if len(lines) == 1 else "\n".join(f"- {line}" for line in lines)
    said = {at: " ".join(line for line, other in sound if other == at) for _, at in sound}
    telling = {at: _telling(one, question.text) for at, one in said.items()}
    asked = frozenset(words(question.text)) - FUNCTION_WORDS
    quotes = [_sentence(one, telling[at], asked) if at in said else "" for at, one in enumerate(evidence.passages)]
    told = Answer(question.text, text or None, "full", "model", None, evidence.sources(quotes, lead), {}, lead=lead)
    return _measured(told, run.reading, options, trace, run.spent, 0)  # checked before it is shown


def _bearing(line: str, question: str, texts: Sequence[str]) -> int | None:
    """Return the text that supports a line best; None if none has its numbers, links and most of its words."""
    said, asked = terms(line) - FUNCTION_WORDS, terms(question)
    telling = (said - asked) or said
    held = [terms(one) for one in texts]
    shares = [len(telling & there) / len(telling) if telling else 0.0 for there in held]
    numbers = frozenset(filter(str.isdecimal, said - asked))
    links = [word.strip("()[]<>.,;:!?*`'\"") for word in line.split() if "://" in word or "@" in word]
    linked = [all(link in one for link in links) for one in texts]
    bears = [at for at, there in enumerate(held) if linked[at] and numbers <= there and shares[at] >= _HELD]
    return max(bears, key=lambda at: (shares[at], -at), default=None)


_AT_ONCE, _LINE = 6, 40  # items that a model is shown at a time, tokens of what it may say of one
_NUMBERED = re.compile(r"\A\d{1,2}[.):]\s")
_TOLD = ("date", "task", "question", "decision")  # kinds of items whose quotes can be told in other words


def in_words(load: Load, items: Sequence[OpenLoop], goes_on: Callable[[], bool]) -> list[OpenLoop]:
    """Return items, each with what the model says of it if quote and source support that, while there is time."""
    found, reader = [*items], dataclasses.replace(load(), kept=None)  # each is read once
    places = [at for at, one in enumerate(items) if one.kind in _TOLD]
    for first in range(0, len(places), _AT_ONCE):
        some = places[first : first + _AT_ONCE]
        chunks = [_chunk_of(items[place], at) for at, place in enumerate(some)]
        written = ask_about(reader, chunks, prompt("digest"), _LINE * len(some), lambda: None) if goes_on() else ""
        for said in map(parse, written.splitlines()):
            shown = [at - 1 for at in said.cited if 0 < at <= len(some)] or [*range(len(some))]
            line = _NUMBERED.sub("", (said.answer or "").strip(_MARKS)).strip(_MARKS)
            texts = [f"{chunks[at].header}\n{chunks[at].text}" for at in shown]
            at = _bearing(line, "", texts)
            if at is not None and _says_the_same(line, one := items[some[shown[at]]]):
                found[some[shown[at]]] = replace(one, words=line)
    return found


def _chunk_of(one: OpenLoop, position: int) -> Chunk:
    due = f"by {spell_date(one.due, weekday=True)}" if one.due else ""
    text = " ".join(filter(None, [one.text, f"for {one.who}" if one.who else "", due]))
    header = " · ".join(filter(None, [one.source.speaker or one.source.sender, one.source.title]))
    return Chunk("", one.source.path, position, header, text, 1, 1)


def _says_the_same(line: str, one: OpenLoop) -> bool:
    """Return whether a line only leaves out words of an item, none that limits it, and names the doer first.

    Words keep their order, but for names of people and dates. What says "I" or "you" is the item once more.
    """
    people = [words(who or "") for who in (one.who, one.asked_by, one.source.speaker or one.source.sender)]
    dates = chain.from_iterable(words(one.text[each.start : each.end]) for each in find(one.text, "date"))
    free, said = {*chain.from_iterable(people), *dates}, [word for word in words(line) if word not in FUNCTION_WORDS]
    limits = {"t", "if", "unless", "until", "only", *word_patterns("question_words")["negations"].split()}
    is_limited = [limits.intersection(plain_words(part)) for part in (line, one.text)]
    doer, by = ([at for at, word in enumerate(words(line)) if word in each] for each in people[:2])
    is_turned = bool(by) and min(doer, default=sys.maxsize) > min(by)
    is_same = any(phrases("open_loops", "person", "en").find(plain_words(line)))
    wanted, told = content_words(one.text), iter(words(one.text))
    is_told = len(wanted.intersection(said)) >= _HELD * len(wanted)
    keeps = all(word in free or word in told for word in said)
    return is_told and keeps and is_limited[0] == is_limited[1] and not (is_turned or is_same)


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
        for one in sorted(evidence.passages, key=_position):
            size = sum(len(chunk_ids(model, len(one.chunks), chunk)) for chunk in one.chunks)
            if size > room:
                found.append([])
                room = min(_PART, model.context // 2)
            found[-1].append(one)
            room -= size
        return [replace(evidence, passages=tuple(passages)) for passages in found]

    def _write(self, request: str, part: Evidence, most: int) -> str:
        """Return the model's text on a request about a part; empty if it finds nothing there."""
        chunks = [one.chunk for one in candidates(part)]
        asked = prompt(request).format(question=self.question.text)
        written, spent = _write(self.reading, chunks, asked, most, self.trace, lambda: None)
        self.spent = tuple(sum(pair) for pair in zip(self.spent, spent, strict=True))
        return parse(written).answer or ""


def _position(one: Passage) -> tuple[float, str, int]:
    return (one.date.timestamp() if one.date else 0.0, one.document, one.chunks[0].position)


def _noted(part: Evidence, note: str) -> Passage:
    hit = (first := part.passages[0]).hits[0]
    return replace(first, hits=(replace(hit, chunk=replace(hit.chunk, text=note)),))
