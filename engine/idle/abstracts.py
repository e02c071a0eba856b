"""What sums up a batch of chunks (PerCache 4.1.2): by a language model, or in the chunks' own sentences.

Knows chunks and what is known of their documents; asks a model through a function, and keeps nothing.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby
from math import log, sqrt

from engine.idle.people import said
from engine.text.label import day, one_line
from engine.text.words import FUNCTION_WORDS, words
from prompts import prompt
from store.hits import Hit

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
    return one_line(written.strip().removeprefix(cue), _MODEL_LONGEST)


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
    return " ".join(lines) or one_line(batch[0].chunk.header, _LONGEST)


def kind_of(mails: int, transcripts: int) -> str:
    """Name a collection for a prompt by what it holds."""
    names = [name for name, count in (("mail", mails), ("meeting notes", transcripts)) if count]
    return " and ".join(names) or "documents"


def _place(hit: Hit) -> tuple[float, str, int]:
    return (hit.date.timestamp() if hit.date else 0.0, hit.chunk.document, hit.chunk.position)


def _telling(hit: Hit) -> list[tuple[str, str]]:
    """Give the sentences of a chunk that say something, with who says each."""
    found = [(who, one) for who, one in said(hit) if len(one.split()) >= _SHORTEST]
    return [(who, one) for who, one in found if not one.startswith((">", "["))]


def _weights(said: Sequence[frozenset[str]]) -> dict[str, float]:
    """Weigh words by how many sentences of the batch hold them: those that one alone holds are not central."""
    counts = Counter(word for each in said for word in each)
    return {word: log(count) for word, count in counts.items()}


def _value(said: frozenset[str], weights: dict[str, float]) -> float:
    return sum(weights[word] for word in said) / sqrt(max(len(said), _FULL)) + 1e-3 * min(len(said), _FULL)


def _central(batch: Sequence[Hit]) -> dict[str, float]:
    """Give how near each chunk's vector is to the middle of them all, 1 where one is not embedded yet."""
    vectors = [hit.vector for hit in batch if hit.vector is not None]
    if len(vectors) < len(batch):
        return {hit.chunk.id: 1.0 for hit in batch}
    middle = sum(vectors[1:], vectors[0]) / len(vectors)
    size = max(1e-6, sqrt(float(middle @ middle)))
    return {hit.chunk.id: max(0.1, float(hit.vector @ middle) / size) for hit in batch if hit.vector is not None}


def _line(hit: Hit, who: str, text: str) -> str:
    about, line = ", ".join(part for part in (who, day(hit.date) if hit.date else "") if part), one_line(text, _LONGEST)
    line += "" if line.endswith((".", "!", "?", "…")) else "."
    return f"{about}: {line}" if about else line
