"""The job `predict`: questions that may be asked next, in two views, once there is something new to look at.

new questions, or new mail, and then quiet -> as many as that view has earned -> what is not known waits to be readied
(PerCache 4.1.2). Knows predictors as functions, and what became of what they foresaw.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from engine.idle import populate
from engine.idle.asking import Asking
from engine.idle.learn import WEEKS, shares
from engine.idle.predict import Prediction, pick
from engine.idle.units import Outcome, Unit
from store.jobs import Foresights, Jobs

_PREFIX = "predicted."  # of the small values that say what a view saw last
_GUESSED_S = 2.0


@dataclass(frozen=True, slots=True)
class View:
    """One way to look ahead: `predict` gives about so many questions, `seen` names what it would look at now."""

    name: str
    why: str
    seen: str
    sources: Sequence[str]
    predict: Callable[[int], Sequence[Prediction]]


def plan(asking: Asking, views: Sequence[View], usual: int, near: Callable[[str], bool] | None = None) -> list[Unit]:
    """Give a unit for each view that has something new to look at.

    `usual` is the number of questions to predict, `near` tells of one that the bank knows one like.
    """
    new = [view for view in views if view.seen and asking.ledger.get(_PREFIX + view.name) != view.seen]
    return [
        Unit("predict", view.name, f"predict questions from {view.name}", view.why, 0.0, 0.0, _GUESSED_S,
             partial(_do, asking, view, usual, near))
        for view in new
    ]  # fmt: skip


def _do(asking: Asking, view: View, usual: int, near: Callable[[str], bool] | None) -> Outcome:
    foresights, now = Foresights(asking.ledger), asking.now.timestamp()
    yields = {one.source: one for one in foresights.all()}
    given = shares(view.sources, yields, usual, now, WEEKS)
    found = view.predict(usual) if sum(given.values()) else ()
    chosen = pick(found, given, _known(asking), near)
    populate.offer(asking, chosen)
    foresights.predicted(Counter(one.source for one in chosen), now)
    asking.ledger.set(_PREFIX + view.name, view.seen)
    return Outcome()


def _known(asking: Asking) -> list[str]:
    """Give the questions of the bank, of the history, and those that wait to be readied or were given up."""
    rows = asking.ledger.rows.execute("SELECT question FROM answers UNION SELECT question FROM asked")
    waiting = [job.subject for job in Jobs(asking.ledger).every(populate.KIND)]
    return [*waiting, *(question for (question,) in rows)]
