"""Quality of the quote writer's answers against the best BM25 sentence, and of its refusals.

Run `python -m tests.bench.quoting DATA [SET...]`: DATA holds sets of users, each with questions.jsonl beside docs/ or
mail/. Words are compared as in SQuAD. Every answerable question is also asked of a user of another set, where it must
be declined.
"""

import sys
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import log
from pathlib import Path
from statistics import fmean
from time import process_time
from typing import Any

from engine.ask.candidates import wanted
from engine.ask.extract import Quote, QuoteSettings, quote
from engine.retrieval.retrieve import RankWeights, bm25, join, places_of, retrieve
from engine.text.question import Question, synthesis, understand
from engine.text.words import sentences, words
from engine.types import Passage
from store.types import Scope
from tests.bench.indexed import IndexedUser, best, load
from tests.bench.metrics import exact, f1, rouge_l

SETS = ("locomo", "qmsum", "clinton-foia", "enron-annotated")
NOW = datetime(2024, 5, 15, tzinfo=UTC)
OPEN = QuoteSettings(least=0.0, forced=True)  # declines nothing, so that every threshold can be judged
K = 5


@dataclass(frozen=True, slots=True)
class Case:
    """One question asked of one user: `group` is answerable, unanswerable, or other (of another set)."""

    user: IndexedUser
    group: str
    row: dict[str, Any]
    question: Question
    passages: tuple[Passage, ...]
    given: Quote
    seconds: float


def main() -> None:
    """Print scores by set, then what is declined, and which questions need a synthesis."""
    folder, chosen = Path(sys.argv[1]), sys.argv[2:] or SETS
    users = [user for name in chosen for user in load(folder, name)]
    cases = [case for user in users for case in asked(user, users)]
    scores(cases)
    declines(cases)
    syntheses(cases)
    spent = sorted(1e3 * case.seconds for case in cases)
    print(f"\nms of processor time: median {spent[len(spent) // 2]:.1f}, p95 {spent[len(spent) * 95 // 100]:.1f}")


def asked(user: IndexedUser, users: Sequence[IndexedUser]) -> Iterator[Case]:
    """Ask each question of its own user, and the answerable ones of another set's."""
    others = [other for other in users if other.corpus != user.corpus]
    for number, row in enumerate(user.rows):
        group = "unanswerable" if row.get("unanswerable") else "answerable"
        yield ask(user, user, group, row)
        if others and group == "answerable":
            yield ask(user, others[number * 7 % len(others)], "other", row)


def ask(user: IndexedUser, of: IndexedUser, group: str, row: dict[str, Any]) -> Case:
    """Retrieve by words alone, and quote."""
    question = understand(" ".join(row["question"].split()), NOW)
    found = tuple(join(retrieve(of.bank, None, question, Scope(), RankWeights()), K))
    start = process_time()
    given = quote(question, found, OPEN)
    return Case(user, group, row, question, found, given, process_time() - start)


def scores(cases: Sequence[Case]) -> None:
    """Print the scores of the best BM25 sentence and of the quote writer, by set and by what is asked for."""
    rows: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for case in cases:
        if case.group == "answerable":
            found = (*judged(case, best_sentence(case)), *judged(case, case.given.answer or ""))
            rows[case.user.corpus].append(found)
            rows[f"{case.user.corpus} {wanted(case.question) or 'sentence'}"].append(found)
    print(f"{'':28}{'n':>5}   best BM25 sentence   quote writer\n{'':36}" + "   em    f1 rougeL" * 2)
    for name in sorted(rows):
        print(
            f"{name:28}{len(rows[name]):5}   "
            + "".join(f"{fmean(column):7.3f}" for column in zip(*rows[name], strict=True))
        )


def declines(cases: Sequence[Case]) -> None:
    """Print how well support tells answerable questions from others, and what is declined at some thresholds."""
    support: dict[str, list[float]] = defaultdict(list)
    for case in cases:
        for name in (case.group, f"{case.user.corpus} {case.group}"):
            support[name].append(case.given.support if case.given.answer is not None else 0.0)
    levels = [level / 20 for level in range(2, 17, 2)]
    print(
        f"\n{'declined below':32}{'n':>5}" + "".join(f"{level:7.2f}" for level in levels) + "    AUC against answerable"
    )
    for name, values in sorted(support.items()):
        rest = support["answerable" if " " not in name else f"{name.split()[0]} answerable"]
        shares = "".join(f"{fmean(value < level for value in values):7.3f}" for level in levels)
        print(f"{name:32}{len(values):5}{shares}{auc(rest, values):9.3f}")


def syntheses(cases: Sequence[Case]) -> None:
    """Print the shares of questions that are taken to need a synthesis, so that quotes decline them."""
    needs: dict[str, list[bool]] = defaultdict(list)
    for case in cases:
        if case.group != "other":
            needs[f"{case.user.corpus} {case.group}"].append(synthesis(case.question.text) is not None)
    print(f"\n{'need a synthesis':32}{'n':>5}  share")
    for name, values in sorted(needs.items()):
        print(f"{name:32}{len(values):5}{fmean(values):7.3f}")


def auc(high: Sequence[float], low: Sequence[float]) -> float:
    """Return the chance that one of the first is above one of the second, ties counted half."""
    ordered = sorted(low)
    above = sum(bisect_left(ordered, value) + bisect_right(ordered, value) for value in high)
    return above / max(1, 2 * len(high) * len(low))


def best_sentence(case: Case) -> str:
    """Return the sentence of the sources with the highest BM25, its frequencies taken over these sentences."""
    texts = [each.text[span.start : span.end] for each in case.passages for span in sentences(each.text)]
    said = [words(text) for text in texts]
    counts = {word: sum(word in each for each in map(set, said)) for word in case.question.words}
    idf = {word: log(1 + (len(said) - count + 0.5) / (count + 0.5)) for word, count in counts.items()}
    lengths, where = [len(each) for each in said], places_of([" ".join(each) for each in said], idf)
    values = bm25(where, lengths, idf, fmean(lengths)) if said else []
    return texts[values.index(max(values))] if values else ""


def judged(case: Case, answer: str) -> tuple[float, float, float]:
    """Return exact match, F1 and ROUGE-L against the best of the gold answers."""
    return best(exact, answer, case.row), best(f1, answer, case.row), best(rouge_l, answer, case.row)


if __name__ == "__main__":
    main()
