"""Evidence becomes a reply: the quote writer's words, and every source with a sentence that really stands in it."""

from engine.ask.candidates import Read as Quotable
from engine.ask.evidence import Evidence
from engine.ask.means import Written
from engine.ask.question import Question
from engine.ask.quote import Quote, QuoteSettings, quote
from engine.ask.reply import Reply
from engine.ask.trace import Trace


def write(question: Question, evidence: Evidence, trace: Trace, least: float) -> Written:
    """Answer from the evidence, or say that nothing supports an answer by at least so much."""
    with trace.step("write") as step:
        quoted = quote(question, quotable(evidence), QuoteSettings(least=least))
        step.note = f"support {quoted.support:.2f}: {'declined' if quoted.answer is None else 'answered'}"
        lead = quoted.source or 0
        sources = evidence.sources(_checked(evidence, quoted), lead)
    ms = trace.ms()
    reply = Reply(
        question=question.text,
        answer=quoted.answer,
        tier="full",
        writer="quote",
        model=None,
        sources=sources,
        ms=ms | {"first_token": ms["total"]},
        highlight=quoted.highlight,
        lead=lead,
    )
    return Written(reply)


def _checked(evidence: Evidence, quoted: Quote) -> list[str]:
    """Hold the promise that a quote stands in its source."""
    pairs = list(zip(evidence.reads, quoted.quotes, strict=True))
    assert all(said in read.text for read, said in pairs), "a quote is not in its source"
    return [said for _, said in pairs]


def quotable(evidence: Evidence) -> list[Quotable]:
    """Give the sources as the quote writer reads them."""
    return [
        Quotable(read.header, read.text, read.date, read.sender, read.score, number, read.recipients)
        for number, read in enumerate(evidence.reads)
    ]
