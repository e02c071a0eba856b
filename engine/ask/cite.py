"""Holds a model's answer against what it was shown: which sources bear it, and the sentence of each that does.

Compares words: what says the same in other words or another language it cannot see.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.ask.evidence import Read
from engine.ask.parse import Said
from engine.ask.sentences import sentences
from engine.ask.words import FUNCTION_WORDS, words

_VERDICTS = frozenset(words("yes no"))  # stand in no source that bears them


@dataclass(frozen=True, slots=True)
class Cited:
    """One quote a source, empty where it bears nothing of the answer; and whether the answer may stand."""

    quotes: tuple[str, ...]
    stands: bool
    first: int | None = None  # the index of the first source that bears it


def cite(said: Said, question: str, reads: Sequence[Read], shown: Sequence[int], *, words_first: bool = False) -> Cited:
    """Check an answer: `shown` has the source, an index into `reads`, of each number that the model was shown, from 1.

    A source that the model names counts if it holds a word of the answer that the question lacks. Where it names none
    that does, the one that holds most is taken; what no source shown holds anything of does not stand. Only where the
    sources hold no word of the question either, as when they are in another language, words cannot judge: then the
    answer stands on the sources that the model names, without a quote. Where there is no answer, each source shown is
    quoted with what comes nearest to the question. With `words_first` a source that the model names counts only if none
    holds more of the answer: for models that do not see which number a source has.
    """
    if said.answer is None:
        return Cited(_quotes(reads, shown, frozenset(), question), stands=False)
    telling = _telling(said.answer, question)
    named = list(dict.fromkeys(shown[number - 1] for number in said.cited if 0 < number <= len(shown)))
    if not telling:  # "Yes"
        bearing = named or list(shown[:1])
        return Cited(_quotes(reads, bearing, telling, question), bool(bearing), next(iter(bearing), None))
    asked = frozenset(words(question)) - FUNCTION_WORDS
    in_sources = {index: _words(reads[index]) for index in dict.fromkeys(shown)}
    held = {index: len(telling & found) for index, found in in_sources.items()}
    least = max([1, *held.values()]) if words_first else 1
    bearing = [index for index in named if held[index] >= least]
    if not bearing and any(held.values()):
        bearing = [max(held, key=lambda index: (held[index], -index))]
    judged = any(asked & found for found in in_sources.values())
    stands = bool(bearing) or (bool(named) and not judged)
    return Cited(_quotes(reads, bearing, telling, question), stands, next(iter(bearing or named), None))


def _telling(answer: str, question: str) -> frozenset[str]:
    """Give the words of an answer that the question does not have already; all of them where it has them all."""
    said = frozenset(words(answer)) - FUNCTION_WORDS - _VERDICTS
    return (said - frozenset(words(question))) or said


def _words(read: Read) -> frozenset[str]:
    return frozenset(words(f"{read.header}\n{read.text}"))


def _quotes(reads: Sequence[Read], bearing: Sequence[int], telling: frozenset[str], question: str) -> tuple[str, ...]:
    asked = frozenset(words(question)) - FUNCTION_WORDS
    return tuple(_sentence(read, telling, asked) if i in bearing else "" for i, read in enumerate(reads))


def _sentence(read: Read, telling: frozenset[str], asked: frozenset[str]) -> str:
    """Give the sentence of a source that has most of the answer, then of the question."""
    found = [read.text[span.start : span.end] for span in sentences(read.text)]

    def fit(sentence: str) -> tuple[int, int]:
        held = frozenset(words(sentence))
        return len(held & telling), len(held & asked)

    return max(found, key=fit, default="")
