"""Fit and judge what tells questions that the sources answer from those that they do not.

Run `python -m tests.bench.declining DATA`, as for tests.bench.quoting. Unanswerable are questions made so by their
authors ("made"), of another set ("other"), and answerable ones without the documents that answer them ("removed").
Weights are fitted on all but a fold of users and judged on it, then on all but a set, then for good.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.ask.candidates import candidates, time_constraint
from engine.ask.extract import QuoteSettings, wanted
from engine.ask.support import Signs, SupportWeights, signs
from engine.retrieval.retrieve import RetrievalLimits, retrieve
from engine.text.question import Question, understand
from engine.types import Passage
from store.types import Scope
from tests.bench.indexed import IndexedUser, load
from tests.bench.quoting import NOW, SETS, K, auc

Array = NDArray[np.float64]
NAMES = ("start", *(one.name for one in fields(Signs)))
FIXED = {"elsewhen": -4.0, "speaks": 0.0}  # too rare in these sets; an offset that levels sets, set by hand
WEIGHTS = {"answerable": 1.0, "made": 3.0, "other": 1.5, "removed": 0.0}  # the last may be answered elsewhere
FOLDS = 6


@dataclass(frozen=True, slots=True)
class Case:
    """The signs of one question, None where nothing was found."""

    corpus: str
    fold: int
    group: str
    signs: tuple[float, ...] | None


def main() -> None:
    """Print the scores of the weights in use, of fits by folds of users and by sets, then the weights fitted on all."""
    users = [user for name in SETS for user in load(Path(sys.argv[1]), name)]
    cases = [case for number, user in enumerate(users) for case in asked(number, user, users)]
    used = SupportWeights()
    report("in use", cases, odds(cases, np.array([getattr(used, name) for name in NAMES])))
    report("by users", cases, held_out(cases, [case.fold for case in cases]))
    report("by sets", cases, held_out(cases, [SETS.index(case.corpus) for case in cases]))
    for name, weight in zip(NAMES, fit(cases), strict=True):
        print(f"{name:10}{weight:7.2f}")


def asked(number: int, user: IndexedUser, users: Sequence[IndexedUser]) -> Iterator[Case]:
    """Ask each question of its own user, of another set's, and without its documents."""
    others = [other for other in users if other.corpus != user.corpus]
    alone = sum(other.corpus == user.corpus for other in users) == 1  # then a fold is a stretch of its questions
    for place, row in enumerate(user.rows):
        question = understand(" ".join(row["question"].split()), NOW)
        fold = (place // 20 if alone else number) % FOLDS
        made = bool(row.get("unanswerable"))
        groups = {"made" if made else "answerable": found(user, question)}
        if not made:
            groups["other"] = found(others[place * 7 % len(others)], question)
            groups["removed"] = found(user, question, frozenset(row["doc_ids"]))
        yield from (Case(user.corpus, fold, group, signs_of(question, reads)) for group, reads in groups.items())


def found(user: IndexedUser, question: Question, without: frozenset[str] = frozenset()) -> list[Passage]:
    """Retrieve by words alone, and leave out documents by their paths."""
    reads = retrieve(user.bank, None, question, Scope(), 3 * K if without else K, RetrievalLimits()).passages

    def paths(read: Passage) -> set[str]:
        return {path for hit in read.all_hits for path in user.paths.get(hit.chunk.document, ())}

    return [read for read in reads if without.isdisjoint(paths(read))][:K]


def signs_of(question: Question, reads: Sequence[Passage]) -> tuple[float, ...] | None:
    """Return the signs as the quote writer has them, after a constant."""
    kind = wanted(question)
    when = time_constraint(question, kind)
    sentences = candidates(question, reads, kind, when, QuoteSettings().weights)
    return (1.0, *map(float, astuple(signs(question, reads, sentences, when)))) if sentences else None


def held_out(cases: Sequence[Case], parts: Sequence[int]) -> Array:
    """Return the log odds of each case by weights that were fitted without its part."""
    values = np.zeros(len(cases))
    for part in set(parts):
        weights = fit([case for case, each in zip(cases, parts, strict=True) if each != part])
        values = np.where(np.array(parts) == part, odds(cases, weights), values)
    return values


def fit(cases: Sequence[Case]) -> Array:
    """Return the weights of greatest likelihood with a small ridge, by Newton's method."""
    kept = [case for case in cases if case.signs]
    rows, weights = np.array([case.signs for case in kept]), np.array([FIXED.get(name, 0.0) for name in NAMES])
    free = np.array([name not in FIXED for name in NAMES])
    labels = np.array([case.group == "answerable" for case in kept])
    counts = np.array([WEIGHTS[case.group] for case in kept])
    ridge = np.diag([0.0, *rows.var(axis=0)[1:]])[np.ix_(free, free)]
    for _ in range(50):
        likely = 1 / (1 + np.exp(-rows @ weights))
        slope = rows[:, free].T @ (counts * (labels - likely)) - ridge @ weights[free]
        bend = (rows[:, free].T * (counts * likely * (1 - likely))) @ rows[:, free] + ridge
        weights[free] += np.linalg.solve(bend, slope)
    return weights


def odds(cases: Sequence[Case], weights: Array) -> Array:
    """Return the log odds of each case."""
    return np.array([float(np.dot(case.signs, weights)) if case.signs else -20.0 for case in cases])


def report(title: str, cases: Sequence[Case], values: Array) -> None:
    """Print by set: shares answered and declined at even odds, declined where 90 % are answered, and the AUC."""
    print(f"{title:20}{'group':12}{'n':>5}  below .5  at .90 answered   AUC")
    for corpus in SETS:
        of = {
            group: np.array(
                [
                    value
                    for case, value in zip(cases, values, strict=True)
                    if (case.corpus, case.group) == (corpus, group)
                ]
            )
            for group in WEIGHTS
        }
        level = float(np.quantile(of["answerable"], 0.1))
        for group, own in of.items():
            if len(own):
                shares = f"{np.mean(own < 0):10.3f}{np.mean(own < level):17.3f}"
                print(f"{corpus:20}{group:12}{len(own):5}{shares}{auc(list(of['answerable']), list(own)):7.3f}")


if __name__ == "__main__":
    main()
