"""The job `convert`: what was read ahead is answered, once foreseen questions are to be answered (PerCache 4.3.3).

The threshold fell, so more hits are let through: an entry without an answer is decoded from what is kept of its prompt,
and only what has gone of that is read again. The other way round, reading what went for lack of room, is `refill`.
"""

from functools import partial

from engine.idle.asking import Asking, worth
from engine.idle.units import Outcome, Unit, by_rate
from store.answers import Bank, Kept, typical_s, undecoded

MOST = 500  # entries looked at in a night
_GUESSED_S = 1.0  # an answer, until one was made


def plan(asking: Asking, *, decode: bool) -> list[Unit]:
    """Give a unit for each entry that was read and not answered, where answers are wanted."""
    if not decode:
        return []
    bank, seconds = Bank(asking.ledger), typical_s(asking.ledger, asking.means.writer) or _GUESSED_S
    found = ((key, bank.find(key)) for key in undecoded(asking.ledger, asking.mine, MOST))
    return by_rate(
        Unit(
            kind="convert",
            subject=key.hex(),
            what=kept.question,
            why="prefilled, not answered yet",
            expected=worth(kept),
            saves=seconds,
            seconds=seconds,
            do=partial(_do, asking, key, kept),
            source=kept.source,
        )
        for key, kept in found
        if kept and asking.makes(kept)
    )


def _do(asking: Asking, key: bytes, kept: Kept) -> Outcome:
    now = Bank(asking.ledger).find(key)
    if now is None or now.state != "undecoded":
        return Outcome("there")
    return Outcome("done", (asking.anew(kept).key,))
