"""A question nobody has asked, readied as if somebody had: retrieved, read, and answered where that is wanted.

Nothing of it enters the history, and nothing it meets counts as used.
"""

from dataclasses import dataclass
from datetime import datetime

from engine.ask.begin import Room, begin, enter, look
from engine.ask.means import Manner, Means
from engine.ask.reply import Reply
from engine.ask.trace import Trace
from store.answers import Bank, Kept, Origin
from store.database import Ledger


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is now kept for a question, its reply where one was made, and the steps that took."""

    key: bytes
    kept: Kept
    reply: Reply | None
    trace: Trace


def prepare(
    ledger: Ledger,
    means: Means,
    room: Room,
    text: str,
    manner: Manner,
    now: datetime,
    *,
    decode: bool,
    origin: Origin = "predicted",
    source: str = "",
) -> Prepared:
    """Ready one question: with `decode` its answer is made, else only what it reads is; UsageError where it is empty.

    `source` says what foresaw it.
    """
    ask = begin(means, ledger, text, manner, now)
    ask.trace.asked = False
    asked = look(means, ask)
    reply = None
    if decode:
        written = means.write(asked.question, asked.evidence, ask.trace, None)
        reply = written.reply
        written.keep()
    else:
        means.read(asked.question, asked.evidence, ask.trace)
    return Prepared(ask.key.digest, enter(Bank(ledger), room, ask, asked, reply, origin, source), reply, ask.trace)
