"""Whether the evidence found for a new question bears an answer kept for another.

Knows the quote writer and what was read; neither bank nor files.
"""

from collections.abc import Sequence

from engine.ask.candidates import Read
from engine.ask.guard import loose
from engine.ask.question import Question
from engine.ask.quote import QuoteSettings, quote
from engine.ask.sense import sense
from engine.ask.words import words

PARTS = ("evidence", "answer", "loose")
LITTLE = 0.25  # of a question's words that say what it is about: so many may be missing where its answer stands


def unsupported(
    asked: Question,
    kept: Question,
    reads: Sequence[Read],
    chunks: Sequence[str],
    held: Sequence[str],
    answer: str | None,
    least: float,
    off: frozenset[str] = frozenset(),
) -> str | None:
    """Give the reason why what was read for a question does not bear the answer kept for another; None where it does.

    `chunks` were found now, `held` when the answer was made, best first. `answer` is the kept one where the quote
    writer made it; None where a model did: then both questions must be quoted the same. `least` is the support that the
    quote writer needs. `off` names parts left out, for measurement.
    """
    if "evidence" not in off and list(chunks[:1]) != list(held[:1]):
        return "other evidence"
    if off.issuperset(("answer", "loose")):
        return None  # quoting takes longer than all else here
    settings = QuoteSettings(least=least)
    said = quote(asked, reads, settings)
    wanted = quote(kept, reads, settings).answer if answer is None else answer
    if "answer" not in off and (said.answer is None or said.answer != wanted):
        return "another answer"
    if "loose" not in off and said.source is not None and not _borne(asked, kept, reads[said.source]):
        return "a word that the evidence does not support"
    return None


def _borne(asked: Question, kept: Question, source: Read) -> bool:
    """Tell whether a word that only one question has stands in the source of the answer, or is one of many."""
    left, there = loose(asked, kept), set(words(f"{source.header} {source.text}"))
    return all(
        len(_missing(question, more, there)) <= LITTLE * len(sense(question).content)
        for question, more in ((asked, left.asked), (kept, left.kept))
    )


def _missing(question: Question, more: Sequence[str], there: set[str]) -> list[str]:
    """Give those of some base forms of a question that do not stand there."""
    own = sense(question)
    written = zip(own.content, own.written, strict=True)
    return [token for form, token in written if form in more and not there.issuperset(words(token))]
