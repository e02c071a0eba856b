"""Fit and judge what tells questions that the sources answer from those that they do not.

Run `python -m tests.bench.declining DATA`, as for tests.bench.quoting. Unanswerable are questions made so by their
authors ("made"), of another set ("other"), about another of the speakers ("swapped", on which nothing is fitted), and
answerable ones without the documents that answer them ("removed"). Weights are judged as they are in use, then as
fitted on all but a fold of users; those fitted on all are printed last.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from engine.ask.candidates import candidates, wanted
from engine.ask.extract import QuoteSettings
from engine.ask.support import MATTER, SPEAKER, Signs, Weights, signs
from engine.ask.time_constraints import time_constraint
from engine.retrieval.retrieve import RetrievalLimits, retrieve
from engine.text.question import Question, understand
from engine.types import Passage
from store.types import Scope
from tests.bench.indexed import IndexedUser, load
from tests.bench.quoting import NOW, SETS, K, auc

TABLES = (MATTER, SPEAKER)
FIXED = ("elsewhen",)  # as in use
COUNTS = {
    "answerable": 1.0,
    "made": 1.5,
    "other": 1.0,
    "swapped": 0.0,
    "removed": 0.0,
}  # what is removed may be said elsewhere, too
FOLDS = 6


@dataclass(frozen=True, slots=True)
class Case:
    """The signs of one question, None where nothing was found."""

    corpus: str
    fold: int
    group: str
    signs: Signs | None


def main() -> None:
    """Print the scores of the weights in use and of fits by folds, then the weights fitted on all and the means."""
    users = [user for name in SETS for user in load(Path(sys.argv[1]), name)]
    cases = [case for number, user in enumerate(users) for case in asked(number, user, users)]
    report("in use", cases, [odds(case, *TABLES) for case in cases])
    folds = [fitted([case for case in cases if case.fold != fold]) for fold in range(FOLDS)]
    report("fitted on others", cases, [odds(case, *folds[case.fold]) for case in cases])
    for table in fitted(cases):
        print("".join(f"{name} {weight:.2f}  " for name, weight in table.items()))
    answered = [case.signs for case in cases if case.signs and case.group == "answerable"]
    for name in dict.fromkeys(name for table in TABLES for name in list(table)[1:]):
        print(f"usual {name} {fmean(getattr(each, name) or 0.0 for each in answered):.2f}")


def asked(number: int, user: IndexedUser, users: Sequence[IndexedUser]) -> Iterator[Case]:
    """Ask each question of its own user, and an answerable one where or so that it has no answer."""
    others = [other for other in users if other.corpus != user.corpus]
    alone = sum(other.corpus == user.corpus for other in users) == 1  # then a fold is a stretch of its questions
    for place, row in enumerate(user.rows):
        question = understand(" ".join(row["question"].split()), NOW)
        fold = (place // 20 if alone else number) % FOLDS
        reads = found(user, question)
        if row.get("unanswerable"):
            yield Case(user.corpus, fold, "made", signs_of(question, reads))
            continue
        yield Case(user.corpus, fold, "answerable", signs_of(question, reads))
        yield Case(user.corpus, fold, "other", signs_of(question, found(others[place * 7 % len(others)], question)))
        without = found(user, question, frozenset(row["doc_ids"]))
        yield Case(user.corpus, fold, "removed", signs_of(question, without))
        if other := swapped(question, reads):
            yield Case(user.corpus, fold, "swapped", signs_of(other, found(user, other)))


def found(user: IndexedUser, question: Question, without: frozenset[str] = frozenset()) -> list[Passage]:
    """Retrieve by words alone, and leave out documents by their paths."""
    reads = retrieve(user.bank, None, question, Scope(), 3 * K if without else K, RetrievalLimits()).passages

    def paths(read: Passage) -> set[str]:
        return {path for hit in read.all_hits for path in user.paths.get(hit.chunk.document, ())}

    return [read for read in reads if without.isdisjoint(paths(read))][:K]


def swapped(question: Question, reads: Sequence[Passage]) -> Question | None:
    """Return a question with the name of another speaker; None where it names none or several."""
    speakers = sorted({name for read in reads if read.is_meeting for name in read.recipients})
    named = [name for name in speakers if name in question.text]
    if len(named) != 1 or len(speakers) == 1:
        return None
    other = next(name for name in speakers if name not in named)
    return understand(question.text.replace(named[0], other), NOW)


def signs_of(question: Question, reads: Sequence[Passage]) -> Signs | None:
    """Return the signs as the quote writer has them."""
    kind = wanted(question)
    when = time_constraint(question, kind)
    sentences = candidates(question, reads, kind, when, QuoteSettings().weights)
    return signs(question, reads, sentences, when) if sentences else None


def row_of(each: Signs, weights: Weights) -> list[float]:
    """Return the signs that a table weighs, after a constant."""
    return [1.0, *(float(getattr(each, name)) for name in list(weights)[1:])]


def odds(case: Case, matter: Weights, speaker: Weights) -> float:
    """Return the log odds of an answer."""
    if case.signs is None:
        return -20.0
    weights = matter if case.signs.others is None else speaker
    return float(np.dot(row_of(case.signs, weights), list(weights.values())))


def fitted(cases: Sequence[Case]) -> tuple[Weights, Weights]:
    """Return both tables as fitted on the cases for which each is used."""
    pairs = [(case, case.signs) for case in cases if case.signs]
    matter, speaker = (
        fit([(case, each) for case, each in pairs if (each.others is not None) is is_of_speaker], TABLES[is_of_speaker])
        for is_of_speaker in (False, True)
    )
    return matter, speaker


def fit(pairs: Sequence[tuple[Case, Signs]], table: Weights) -> Weights:
    """Return the weights of greatest likelihood with a small ridge, by Newton's method."""
    rows: NDArray[np.float64] = np.array([row_of(each, table) for _, each in pairs])
    weights = np.array([table[name] if name in FIXED else 0.0 for name in table])
    free = np.array([name not in FIXED for name in table])
    labels = np.array([case.group == "answerable" for case, _ in pairs])
    counts = np.array([COUNTS[case.group] for case, _ in pairs])
    ridge = np.diag([0.0, *rows.var(axis=0)[1:] + 1e-6])[np.ix_(free, free)]
    for _ in range(50):
        likely = 1 / (1 + np.exp(-rows @ weights))
        slope = rows[:, free].T @ (counts * (labels - likely)) - ridge @ weights[free]
        bend = (rows[:, free].T * (counts * likely * (1 - likely))) @ rows[:, free] + ridge
        weights[free] += np.linalg.solve(bend, slope)
    return dict(zip(table, weights.tolist(), strict=True))


def report(title: str, cases: Sequence[Case], values: Sequence[float]) -> None:
    """Print by set: shares declined at even odds and where 90 % are answered, and the AUC."""
    print(f"{title:20}{'group':12}{'n':>5}  below .5  at .90 answered   AUC")
    for corpus in SETS:
        of: dict[str, list[float]] = {group: [] for group in COUNTS}
        for case, value in zip(cases, values, strict=True):
            if case.corpus == corpus:
                of[case.group].append(value)
        level = float(np.quantile(of["answerable"], 0.1))
        for group, own in of.items():
            if own:
                shares = f"{np.mean(np.array(own) < 0):10.3f}{np.mean(np.array(own) < level):17.3f}"
                print(f"{corpus:20}{group:12}{len(own):5}{shares}{auc(of['answerable'], own):7.3f}")


if __name__ == "__main__":
    main()
