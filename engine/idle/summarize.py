"""The job `summarize`: summaries of batches of chunks (PerCache 4.1.2), by a language model or by quotes.

Chunks come from a function and summaries go to one; a language model is called through a third.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, groupby
from math import log, sqrt

from engine.idle.types import Job, Outcome, check_time
from engine.llm.stopping import complete, timed
from engine.models.types import LanguageModel
from engine.text.dates import spell_date
from engine.text.spans import find
from engine.text.terminal import shorten
from engine.text.words import FUNCTION_WORDS, sentences, spoken_sentences, words
from prompts import prompt
from store.jobs import Abstract
from store.types import Chunk, Hit

LONGEST = 40  # characters of a name
_MOST = 5  # recipients of one message
_NAMED = re.compile(r"[^\W\d_][\w.'’-]*(?: [^\W\d_][\w.'’-]*){0,3}")
_INVERTED = re.compile(r"([^,]+), ?([^,]+)")


def shown_name(person: str) -> str:
    """Return a name in plain form: "Ann Lee" of "Lee, Ann <ann@example.org>"; empty if there is only an address."""
    name = " ".join(re.sub(r"<[^>]*>?|\([^)]*\)|\[[^\]]*\]|[\"*]", " ", person).split()).strip("'‘’ ")
    if not name or "@" in name or "/" in name:
        return ""
    inverted = _INVERTED.fullmatch(name)
    name = f"{inverted[2].strip()} {inverted[1].strip()}" if inverted else name
    return name if len(name) <= LONGEST and _NAMED.fullmatch(name) else ""


def correspondents(hit: Hit) -> list[str]:
    """Return the names of the senders or speakers of a chunk, then of its recipients."""
    people = [*hit.sender.split("\n"), *hit.recipients[:_MOST]]
    return list(dict.fromkeys(name for name in map(shown_name, people) if name))


def attributed_sentences(hit: Hit) -> list[tuple[str, str]]:
    """Return the sentences of a chunk, each with the name of its speaker, empty if it is not known."""
    text, author = hit.chunk.text, shown_name(hit.author)
    if hit.is_meeting:
        spoken = spoken_sentences(text, frozenset(hit.recipients))
        return [(shown_name(one.speaker or ""), text[one.start : one.end]) for one in spoken]
    # In a mail anybody can write "Ann:" in front of a line.
    people = frozenset(words(hit.author))
    found = list[tuple[str, str]]()
    for span in sentences(text):
        speaks = span.speaker and people.issuperset(words(span.speaker))
        found.append((shown_name(span.speaker or "") if speaks else author, text[span.start : span.end]))
    return found


def named(hit: Hit) -> list[str]:
    """Return the people (or things with such names) that a chunk names in full, without its correspondents."""
    text = hit.chunk.text
    found = [" ".join(text[one.start : one.end].split()) for one in find(text, "person")]
    # "Thanks Ann" is not another person.
    known, places = tuple(correspondents(hit)), {text[one.start : one.end] for one in find(text, "place")}
    full = [name for name in found if " " in name and len(name) <= LONGEST and not name.isupper() and words(name)]
    return [name for name in dict.fromkeys(full) if not name.endswith(known) and name not in places]


Write = Callable[[Sequence[str]], str]  # from prompt segments, all but the last ending in a newline, to a completion

AskAbout = Callable[[Sequence[Chunk], str], str]  # from chunks and a request about them to a completion

BATCH = 8  # chunks
_SENTENCES = 2  # quoted in a summary
_LONGEST = 240  # characters of one of them
_MODEL_LONGEST = 600  # characters of a summary by a model
_SHORTEST, _FULL = 4, 12  # words of a sentence that may be quoted, and of one that is long enough


def batches(hits: Sequence[Hit], size: int = BATCH) -> list[tuple[Hit, ...]]:
    """Return chunks in batches, in order of date and by document: one is split only if it alone is too long."""
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
    """Have a model summarize a batch of a collection of this `kind`; empty if it wrote nothing."""
    system, _, cue = prompt("abstract").rpartition("\n")
    parts = [f"{hit.chunk.header}\n{hit.chunk.text.strip()}\n" for hit in batch]
    written = write([system.replace("{kind}", kind) + "\n", *parts, cue])
    return shorten(written.strip().removeprefix(cue), _MODEL_LONGEST)


def by_quotes(batch: Sequence[Hit]) -> str:
    """Summarize a batch by its most central sentences, each with its speaker and date."""
    quotable = [
        (hit, who, text, frozenset(words(text)) - FUNCTION_WORDS) for hit in batch for who, text in _quotable(hit)
    ]
    weights, centrality = _weights([each for *_, each in quotable]), _centrality(batch)
    best = sorted(quotable, key=lambda one: -centrality[one[0].chunk.id] * _score(one[3], weights))
    chosen, covered = list[tuple[Hit, str, str]](), set[str]()
    for hit, who, text, each in best:
        if len(chosen) < _SENTENCES and each and len(each & covered) * 2 < len(each):
            chosen.append((hit, who, text))
            covered |= each
    lines = [_line(hit, who, text) for hit, who, text in sorted(chosen, key=lambda one: _place(one[0]))]
    return " ".join(lines) or shorten(batch[0].chunk.header, _LONGEST)


def kind_of(mails: int, transcripts: int) -> str:
    """Return the kind of documents in a collection, as prompts name it."""
    names = [name for name, count in (("mail", mails), ("meeting notes", transcripts)) if count]
    return " and ".join(names) or "documents"


def _place(hit: Hit) -> tuple[float, str, int]:
    return (hit.date.timestamp() if hit.date else 0.0, hit.chunk.document, hit.chunk.position)


def _quotable(hit: Hit) -> list[tuple[str, str]]:
    """Return the sentences of a chunk that may be quoted, with their speakers."""
    found = [(who, one) for who, one in attributed_sentences(hit) if len(one.split()) >= _SHORTEST]
    return [(who, one) for who, one in found if not one.startswith((">", "["))]


def _weights(sentences: Sequence[frozenset[str]]) -> dict[str, float]:
    """Return the weight of each word: 0 if one sentence alone holds it, more the more do."""
    counts = Counter(word for each in sentences for word in each)
    return {word: log(count) for word, count in counts.items()}


def _score(sentence: frozenset[str], weights: dict[str, float]) -> float:
    size = len(sentence)
    return sum(weights[word] for word in sentence) / sqrt(max(size, _FULL)) + 1e-3 * min(size, _FULL)


def _centrality(batch: Sequence[Hit]) -> dict[str, float]:
    """Return the cosine of each chunk's vector to the mean of all; 1 for a chunk without a vector."""
    vectors = [hit.vector for hit in batch if hit.vector is not None]
    if len(vectors) < len(batch):
        return {hit.chunk.id: 1.0 for hit in batch}
    mean = sum(vectors[1:], vectors[0]) / len(vectors)
    size = max(1e-6, sqrt(float(mean @ mean)))
    return {hit.chunk.id: max(0.1, float(hit.vector @ mean) / size) for hit in batch if hit.vector is not None}


def _line(hit: Hit, who: str, text: str) -> str:
    day = spell_date(hit.written, weekday=True) if hit.written else ""
    about, line = ", ".join(part for part in (who, day) if part), shorten(text, _LONGEST)
    line += "" if line.endswith((".", "!", "?", "…")) else "."
    return f"{about}: {line}" if about else line


MOST = 400  # chunks in one plan
_BATCH_S = 1.0  # to summarize one, estimated


@dataclass(slots=True)
class Summarizer:
    """Plans and runs the jobs that summarize chunks; holds the chunks of each batch that it planned."""

    chunks: Callable[[Sequence[str]], list[Hit]]
    summarize: Callable[[Sequence[Hit]], str]  # empty if there is nothing to say
    keep: Callable[[Sequence[Abstract]], int]  # stores summaries, returns how many
    writer: str
    now: float  # seconds since the epoch
    size: int = BATCH  # chunks in a summary
    _batches: dict[str, list[str]] = field(default_factory=dict, init=False)

    def plan(self, wanted: Sequence[str]) -> list[Job]:
        """Return a job for each batch of these chunks, the newest first."""
        jobs = list[Job]()
        for batch in reversed(batches(self.chunks(wanted), self.size)):
            first = batch[0].chunk
            self._batches[first.id] = [hit.chunk.id for hit in batch]
            jobs.append(Job("summarize", first.id, first.header, "not summarized yet", 0.0, 0.0, _BATCH_S))
        return jobs

    def run(self, job: Job) -> Outcome:
        """Summarize the chunks of a batch that still exist."""
        ids = self._batches[job.subject]
        hits = {hit.chunk.id: hit for hit in self.chunks(ids)}
        batch = [hits[name] for name in ids if name in hits]
        if not batch:
            return Outcome("cached")
        text = self.summarize(batch) or by_quotes(batch)
        dates = [hit.date for hit in batch if hit.date]
        chunks = tuple(hit.chunk.id for hit in batch)
        self.keep([Abstract(text, chunks, max(dates, default=None), self.now, self.writer)])
        return Outcome()


def writer(model: LanguageModel, most: int, is_over: Callable[[], bool]) -> Write:
    """Return a function that writes at most `most` tokens.

    It raises OutOfTime before a segment or token once `is_over`. Middle segments that do not fit the context are left
    out, the last ones first.
    """

    def write(segments: Sequence[str]) -> str:
        system, *middle, cue = segments
        first = (*model.frame.opening, *model.tokens(system), *model.frame.turning)
        last = (*model.tokens(cue), *model.frame.closing)
        left = model.context - most - len(first) - len(last)
        cache = model.begin()
        found = [model.tokens(one) for one in middle]
        fitting = [ids for ids, end in zip(found, accumulate(map(len, found)), strict=True) if end <= left]
        for ids in (first, *fitting):
            check_time(is_over)
            model.prefill(cache, ids)
        check_time(is_over)
        return complete(timed(model.decode(cache, last, most), partial(check_time, is_over)), most)

    return write
