"""The job `populate`: questions that were foreseen are readied as if they had been asked (PerCache 4.1.2, 4.3.2).

rows of foreseen questions -> not known, nor like a known one? -> by the threshold: read and answered, or read only.
Knows no predictor: who foresaw a question is a word in its row.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from engine.ask.question import begin, key_of, prepare
from engine.idle.asking import Asking
from engine.idle.units import Kind, Outcome, Unit
from engine.types import Manner
from store.answers import Bank, typical_s
from store.jobs import Job, Jobs

if TYPE_CHECKING:
    from engine.idle.predict import Prediction

KIND: Kind = "populate"
MOST_WAITING = 1000  # foreseen questions
_GUESSED_S = 1.0  # an answer, until one was made


@dataclass(frozen=True, slots=True)
class Strategy:
    """How foreseen questions are readied: in which manner, whether they are answered, which are one to the bank."""

    manner: Manner
    decode: bool
    tau: float


def decodes(tau: float, cutoff: float) -> bool:
    """Tell whether foreseen questions are answered, or only read: where few hits are let through, few pay.

    PerCache 4.3.2.
    """
    return tau <= cutoff


def quota(most: int) -> Callable[[], bool]:
    """Give what tells, each time that it is asked, whether `most` questions were let through before."""
    left = count(most, -1)
    return lambda: next(left) <= 0


def offer(asking: Asking, found: "Iterable[Prediction]") -> int:
    """Keep foreseen questions until they are readied; gives how many are waiting."""
    jobs, seconds, at = Jobs(asking.ledger), _seconds(asking), asking.now.timestamp()
    jobs.offer([Job(KIND, one.question, seconds, one.promise * seconds, at, one.source) for one in found])
    waiting = jobs.waiting(KIND)
    for job in waiting[MOST_WAITING:]:
        jobs.end(KIND, job.subject)
    return min(len(waiting), MOST_WAITING)


def plan(asking: Asking, strategy: Strategy, taken: Callable[[], bool]) -> list[Unit]:
    """Give a unit for each foreseen question that the bank lacks, best first; none is done once all are taken.

    Those that were given up are among them: a row that nobody plans is let go of, and would be begun anew.
    """
    jobs = [job for job in Jobs(asking.ledger).every(KIND) if not _known(asking, strategy, job.subject)]
    return [_unit(asking, strategy, job, taken) for job in jobs]


def _seconds(asking: Asking) -> float:
    return typical_s(asking.ledger, asking.means.writer) or _GUESSED_S


def _unit(asking: Asking, strategy: Strategy, job: Job, taken: Callable[[], bool]) -> Unit:
    why = f"predicted by {job.source}" if job.source else "predicted"
    return Unit(
        kind=KIND,
        subject=job.subject,
        what=job.subject,
        why=why + ("" if strategy.decode else "; prefill only"),
        expected=job.benefit_s / job.cost_s if job.cost_s else 0.0,
        saves=job.cost_s,
        seconds=job.cost_s,
        do=partial(_do, asking, strategy, job, taken),
        source=job.source,
    )


def _known(asking: Asking, strategy: Strategy, question: str) -> bool:
    key = key_of(asking.means, question, strategy.manner, asking.now)
    return Bank(asking.ledger).find(key.digest) is not None


def _do(asking: Asking, strategy: Strategy, job: Job, taken: Callable[[], bool]) -> Outcome:
    """Ready a question, unless the bank has learnt it meanwhile or knows one like it."""
    question = job.subject
    if _known(asking, strategy, question) or is_near(asking, strategy, question):
        return Outcome("there")
    if taken():
        return Outcome("units")
    parts = (asking.ledger, asking.means, asking.room, question, strategy.manner, asking.now)
    return Outcome("done", (prepare(*parts, decode=strategy.decode, source=job.source).key,))


def is_near(asking: Asking, strategy: Strategy, question: str) -> bool:
    """Tell whether a question of the bank is so near that it would be lent its answer."""
    ask = begin(asking.means, asking.ledger, question, strategy.manner, asking.now)
    vector, questions = asking.means.embed(question, ask.trace), asking.means.questions()
    if vector is None or questions is None:
        return False
    from engine.ask.paraphrase import refuse
    from engine.text.question import understand

    key, asked = ask.key, understand(question, asking.now)
    near = questions.near(vector, scope=key.scope, writer=key.writer, day=key.day, least=strategy.tau)
    return any(refuse(asked, understand(one.kept.question, asking.now)) is None for one in near)
