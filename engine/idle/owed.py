"""The job `owed`: a question that was given another one's answer gets its own, and what was served is judged by it.

the own answer -> the same? -> a label -> where it was wrong: the entry that served it asks for more likeness, the next
one who asks is told, and the threshold of the whole bank is learnt anew (PerCache 4.2.1 owes; the labels are ours).
"""

import math
from collections.abc import Iterator
from functools import partial
from itertools import islice

from engine.ask.semantic import learnt
from engine.idle.asking import Asking
from engine.idle.same import same
from engine.idle.units import Outcome, Unit, by_rate
from store.answers import Bank, Debt, Kept, Notice, Notices, Owed, typical_s

MOST = 500  # debts paid in a night
TAU = "tau"  # the small value of the ledger that holds the learnt threshold
_GUESSED_S = 1.0  # an answer, until one was made


def plan(asking: Asking, tau: float, max_error: float) -> list[Unit]:
    """Give a unit for each question that is owed its answer."""
    seconds = typical_s(asking.ledger, asking.means.writer) or _GUESSED_S
    return by_rate(
        Unit(
            kind="owed",
            subject=debt.key.hex(),
            what=kept.question,
            why=f"semantic hit to verify, similarity {debt.similarity:.2f}",
            expected=kept.uses + 1.0,
            saves=seconds,
            seconds=seconds,
            do=partial(_do, asking, debt, kept, tau, max_error),
        )
        for debt, kept in islice(_open(asking), MOST)
    )


def _open(asking: Asking) -> Iterator[tuple[Debt, Kept]]:
    """Yield the debts that can be paid now, oldest first; nothing is learnt where a question had its answer since."""
    bank, owed = Bank(asking.ledger), Owed(asking.ledger)
    for debt in owed.all():
        kept = bank.find(debt.key)
        if kept and kept.state != "owed":
            owed.drop(debt.key)
        elif kept and asking.makes(kept):
            yield debt, kept


def _do(asking: Asking, debt: Debt, kept: Kept, tau: float, max_error: float) -> Outcome:
    prepared = asking.anew(kept)
    reply = prepared.reply
    assert reply, "it was to be answered"
    span = reply.answer[slice(*reply.highlight)] if reply.answer and reply.highlight else ""
    right = same(reply.answer, debt.served, span)
    judged = right or prepared.kept.evidence == kept.evidence  # else mail came since, and says nothing of likeness
    _settle(asking, debt, right=right, judged=judged)
    if not right:
        about = (debt.served, reply.answer, "", asking.now.timestamp())
        Notices(asking.ledger).put(Notice(debt.key, "wrong" if judged else "changed", *about))
    if judged:
        tau = learnt(Owed(asking.ledger).labels(None), max_error, tau)
        asking.ledger.set(TAU, str(tau))
    return Outcome("done", (prepared.key,))


def _settle(asking: Asking, debt: Debt, *, right: bool, judged: bool) -> None:
    owed, at = Owed(asking.ledger), asking.now.timestamp()
    if not judged:
        owed.drop(debt.key)
        return
    owed.settle(debt.key, right, at)
    if not right:
        Bank(asking.ledger).raise_tau(debt.matched, math.nextafter(debt.similarity, math.inf))
