"""What sums up a batch of chunks (PerCache 4.1.2): by a language model, or in the chunks' own sentences.

Knows chunks and what is known of their documents; asks a model through a function, and keeps nothing.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from math import log, sqrt

from engine.idle.types import IdleJob, Outcome, OutOfTime
from engine.models.types import LanguageModel
from engine.text.dates import spell_date
from engine.text.sentences import sentences
from engine.text.spans import find
from engine.text.terminal import shorten
from engine.text.words import FUNCTION_WORDS, words
from prompts import prompt
from store.hits import Hit
from store.summaries import Abstract

LONGEST = 40  # characters of a name
_MOST = 5  # of those to whom one message went
_NAMED = re.compile(r"[^\W\d_][\w.'’-]*(?: [^\W\d_][\w.'’-]*){0,3}")
_TURNED = re.compile(r"([^,]+), ?([^,]+)")


def shown_name(person: str) -> str:
    """Return a name as it is said: of "Lee, Ann <ann@example.org>", Ann Lee; empty where there is only an address."""
    name = " ".join(re.sub(r"<[^>]*>?|\([^)]*\)|\[[^\]]*\]|[\"*]", " ", person).split()).strip("'‘’ ")
    if not name or "@" in name or "/" in name:
        return ""
    turned = _TURNED.fullmatch(name)
    name = f"{turned[2].strip()} {turned[1].strip()}" if turned else name
    return name if len(name) <= LONGEST and _NAMED.fullmatch(name) else ""


def correspondents(hit: Hit) -> list[str]:
    """Return who wrote or speaks in a chunk, and then to whom it went."""
    people = [*hit.sender.split("\n"), *hit.recipients[:_MOST]]
    return list(dict.fromkeys(name for name in map(shown_name, people) if name))


def said(hit: Hit) -> list[tuple[str, str]]:
    """Return the sentences of a chunk, each with the name of who says it, as far as it is known."""
    text, sender = hit.chunk.text, "" if "\n" in hit.sender else shown_name(hit.sender)
    people = frozenset(word for one in (hit.sender, *hit.recipients) for word in words(one))
    found = list[tuple[str, str]]()
    for span in sentences(text):
        speaks = span.speaker and people.issuperset(words(span.speaker))
        found.append((shown_name(span.speaker or "") if speaks else sender, text[span.start : span.end]))
    return found


def named(hit: Hit) -> list[str]:
    """Return the people, or what has a name like one, that a chunk names in full, beside its correspondents."""
    text = hit.chunk.text
    found = [" ".join(text[one.start : one.end].split()) for one in find(text, "person")]
    # "Thanks Ann" is nobody else.
    known, places = tuple(correspondents(hit)), {text[one.start : one.end] for one in find(text, "place")}
    full = [name for name in found if " " in name and len(name) <= LONGEST and not name.isupper() and words(name)]
    return [name for name in dict.fromkeys(full) if not name.endswith(known) and name not in places]


Write = Callable[[Sequence[str]], str]  # segments of a prompt, each but the last ending in one newline, to what follows

BATCH = 8  # chunks
_SENTENCES = 2  # of an abstract in the chunks' own words
_LONGEST = 240  # characters of one of them
_MODEL_LONGEST = 600  # characters of what a model may sum up in
_SHORTEST, _FULL = 4, 12  # words of a sentence that says something, and that lets it count in full


def batches(hits: Sequence[Hit], size: int = BATCH) -> list[tuple[Hit, ...]]:
    """Put chunks into batches in order of date, of few documents each: one is parted only if it alone is too long."""
    found, batch = list[tuple[Hit, ...]](), list[Hit]()
    for _, of_one in groupby(sorted(hits, key=_place), key=lambda hit: hit.chunk.document):
        document = list(of_one)
        if batch and len(batch) + len(document) > size:
            found.append(tuple(batch))
            batch = []
        while len(document) > size:
            found.append(tuple(document[:size]))
            document = document[size:]
        batch += document
    return [*found, tuple(batch)] if batch else found


def by_model(batch: Sequence[Hit], kind: str, write: Write) -> str:
    """Let a model sum up a batch of somebody's `kind`; empty where it wrote nothing."""
    system, _, cue = prompt("abstract").rpartition("\n")
    parts = [f"{hit.chunk.header}\n{hit.chunk.text.strip()}\n" for hit in batch]
    written = write([system.replace("{kind}", kind) + "\n", *parts, cue])
    return shorten(written.strip().removeprefix(cue), _MODEL_LONGEST)


def by_quotes(batch: Sequence[Hit]) -> str:
    """Sum up a batch by its most central sentences, each behind who said it and when."""
    told = [(hit, who, text, frozenset(words(text)) - FUNCTION_WORDS) for hit in batch for who, text in _telling(hit)]
    weights, central = _weights([each for *_, each in told]), _central(batch)
    best = sorted(told, key=lambda one: -central[one[0].chunk.id] * _value(one[3], weights))
    chosen, held = list[tuple[Hit, str, str]](), set[str]()
    for hit, who, text, each in best:
        if len(chosen) < _SENTENCES and each and len(each & held) * 2 < len(each):
            chosen.append((hit, who, text))
            held |= each
    lines = [_line(hit, who, text) for hit, who, text in sorted(chosen, key=lambda one: _place(one[0]))]
    return " ".join(lines) or shorten(batch[0].chunk.header, _LONGEST)


def kind_of(mails: int, transcripts: int) -> str:
    """Name a collection for a prompt by what it holds."""
    names = [name for name, count in (("mail", mails), ("meeting notes", transcripts)) if count]
    return " and ".join(names) or "documents"


def _place(hit: Hit) -> tuple[float, str, int]:
    return (hit.date.timestamp() if hit.date else 0.0, hit.chunk.document, hit.chunk.position)


def _telling(hit: Hit) -> list[tuple[str, str]]:
    """Return the sentences of a chunk that say something, with who says each."""
    found = [(who, one) for who, one in said(hit) if len(one.split()) >= _SHORTEST]
    return [(who, one) for who, one in found if not one.startswith((">", "["))]


def _weights(said: Sequence[frozenset[str]]) -> dict[str, float]:
    """Weigh words by how many sentences of the batch hold them: those that one alone holds are not central."""
    counts = Counter(word for each in said for word in each)
    return {word: log(count) for word, count in counts.items()}


def _value(said: frozenset[str], weights: dict[str, float]) -> float:
    return sum(weights[word] for word in said) / sqrt(max(len(said), _FULL)) + 1e-3 * min(len(said), _FULL)


def _central(batch: Sequence[Hit]) -> dict[str, float]:
    """Return how near each chunk's vector is to the middle of them all, 1 where one is not embedded yet."""
    vectors = [hit.vector for hit in batch if hit.vector is not None]
    if len(vectors) < len(batch):
        return {hit.chunk.id: 1.0 for hit in batch}
    middle = sum(vectors[1:], vectors[0]) / len(vectors)
    size = max(1e-6, sqrt(float(middle @ middle)))
    return {hit.chunk.id: max(0.1, float(hit.vector @ middle) / size) for hit in batch if hit.vector is not None}


def _line(hit: Hit, who: str, text: str) -> str:
    day = spell_date(hit.date, weekday=True) if hit.date else ""
    about, line = ", ".join(part for part in (who, day) if part), shorten(text, _LONGEST)
    line += "" if line.endswith((".", "!", "?", "…")) else "."
    return f"{about}: {line}" if about else line


MOST = 400  # chunks looked at in a night
_GUESSED_S = 1.0  # a batch


@dataclass(frozen=True, slots=True)
class SummaryBank:
    """Where chunks come from, who sums them up, and where that goes; `keep` gives the number of those kept."""

    chunks: Callable[[Sequence[str]], list[Hit]]
    sum_up: Callable[[Sequence[Hit]], str]  # empty where it has nothing to say
    keep: Callable[[Sequence[Abstract]], int]
    writer: str
    now: float  # seconds since the epoch


def plan_summaries(bank: SummaryBank, wanted: Sequence[str]) -> list[IdleJob]:
    """Return a unit for each batch of these chunks."""
    why = "not summarized yet"
    return [
        IdleJob("abstract", batch[0].chunk.id, batch[0].chunk.header, why, 0.0, 0.0, _GUESSED_S,
             partial(_do, bank, [hit.chunk.id for hit in batch]))
        for batch in reversed(batches(bank.chunks(wanted)))
    ]  # fmt: skip


def _do(bank: SummaryBank, ids: Sequence[str]) -> Outcome:
    """Sum a batch up, of the chunks that are still there."""
    hits = {hit.chunk.id: hit for hit in bank.chunks(ids)}
    batch = [hits[name] for name in ids if name in hits]
    if not batch:
        return Outcome("there")
    text = bank.sum_up(batch) or by_quotes(batch)
    dates = [hit.date for hit in batch if hit.date]
    chunks = tuple(hit.chunk.id for hit in batch)
    bank.keep([Abstract(text, chunks, max(dates, default=None), bank.now, bank.writer)])
    return Outcome()


def writer(model: LanguageModel, most: int, late: Callable[[], bool]) -> Write:
    """Return what writes at most so many tokens; NoTime once it is late, as is asked before each segment and token.

    Middle segments that the context has no room for are left out, the last ones first.
    """

    def write(segments: Sequence[str]) -> str:
        system, *middle, cue = segments
        first = (*model.frame.opening, *model.tokens(system), *model.frame.turning)
        last = (*model.tokens(cue), *model.frame.closing)
        left = model.context - most - len(first) - len(last)
        cache = model.begin()
        for ids in (first, *_fitting([model.tokens(one) for one in middle], left)):
            _check(late)
            model.prefill(cache, ids)
        _check(late)
        written = list[str]()
        for piece in model.decode(cache, last, most):
            written.append(piece)
            _check(late)
        return "".join(written)

    return write


def _fitting(segments: Sequence[Sequence[int]], left: int) -> list[Sequence[int]]:
    fitting = list[Sequence[int]]()
    for ids in segments:
        left -= len(ids)
        if left < 0:
            break
        fitting.append(ids)
    return fitting


def _check(late: Callable[[], bool]) -> None:
    if late():
        raise OutOfTime
