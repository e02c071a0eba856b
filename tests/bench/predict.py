"""What prediction is worth on streams of public questions: how many predicted questions pay, and what hits they add.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.predict [DATA] [--sets NAME...] [--vectors FOLDER] [--night N]
[--after N] [--parts PART...] [--show]`. Each user's documents come in the order of time, some each night; then N
questions are predicted by the forms of those asked so far, and then those questions are asked that the documents so far
can answer, after each of which N more are predicted. No language model is asked.
"""

from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.idle.learn import SPARED, shares
from engine.idle.predict import Prediction, pick
from engine.idle.predict_quote import SOURCES, from_forms
from engine.models.minilm import MiniLM
from store.foreseen import Foreseen
from tests.bench.nights import Asked, Bank, Stream, streams

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
SETS = ("locomo", "enron-annotated", "clinton-foia")
PARTS = ("none", "history", "history, parted")
HISTORY = 50  # questions that are looked back to (PerCache 4.1.2)
LOOKED_AT = 120  # chunks
DAY_S, WEEKS = 86_400.0, 3.0


@dataclass(slots=True)
class Sum:
    """What a replay comes to, as it grows."""

    questions: int = 0
    exact: int = 0
    semantic: int = 0
    same_top: int = 0
    slots: int = 0
    found: int = 0
    predicted: Counter[str] = field(default_factory=Counter)
    paid: Counter[str] = field(default_factory=Counter)  # was asked later
    useful: Counter[str] = field(default_factory=Counter)  # the same chunk comes first for a later question


def main() -> None:
    """Print a table for each set."""
    options = arguments()
    embedder = MiniLM(workers=1)
    for name in options.sets:
        users = list(streams(options.data / name, embedder, options.vectors))
        print(f"\n{name}: {sum(len(day) for user in users for day in user.days)} questions of {len(users)} users")
        for part in options.parts:
            show(part, [replayed(user, part, options.night, options.after, shown=options.show) for user in users])


def arguments() -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, nargs="?", default=DATA)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--vectors", type=Path)
    parser.add_argument("--night", type=int, default=5, help="predictions each night")
    parser.add_argument("--after", type=int, default=5, help="predictions after each question")
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    parser.add_argument("--show", action="store_true", help="print what paid")
    return parser.parse_args()


def replayed(user: Stream, part: str, night: int, after: int, *, shown: bool = False) -> Sum:
    """Live through one user's nights and days."""
    total, bank, past = Sum(), Bank(user), list[str]()
    judge = Judge(total, parted="," in part)
    for number, day in enumerate(user.days):
        user.live(number)
        now = number * DAY_S
        for one in foreseen(user, bank, past, judge, night, now) if part != "none" else ():
            judge.predicted(one, bank.keep(one.question, predicted=True), now)
        for question in day:
            asked = bank.ask(question)
            judge.asked(asked, now, shown=shown)
            past.append(question)
            if after and part != "none":
                for one in foreseen(user, bank, past, judge, after, now):
                    judge.predicted(one, bank.keep(one.question, predicted=True), now)
    return total


def foreseen(user: Stream, bank: Bank, past: Sequence[str], judge: "Judge", usual: int, now: float) -> list[Prediction]:
    """Predict from what is known: the chunks that no question retrieved yet, newest first, and the last questions."""
    hits, lately = bank.little_asked(user.hits())[:LOOKED_AT], past[-HISTORY:]
    shares = judge.shares(SOURCES, usual, now)
    return pick(from_forms(hits, lately), shares, bank.known(), bank.is_near)


class Judge:
    """Counts what was predicted and what of it paid, by source, and parts budgets by that."""

    def __init__(self, total: Sum, *, parted: bool) -> None:
        self._total, self._parted = total, parted
        self._yields = dict[str, Foreseen]()
        self._waiting = list[tuple[Prediction, int | None, str | None]]()

    def shares(self, sources: Sequence[str], usual: int, now: float) -> dict[str, int]:
        """Part the predictions of one view."""
        known = self._yields if self._parted else {}
        return shares(sources, known, usual, now, WEEKS)

    def predicted(self, one: Prediction, kept: tuple[int, str | None], now: float) -> None:
        """Count a prediction, kept under a number, and the chunk that came first for it."""
        self._total.predicted[one.source] += 1
        had = self._yields.get(one.source) or Foreseen(one.source, 0, 0.0, now, now, None)
        self._yields[one.source] = Foreseen(one.source, had.predicted + 1, had.paid, had.first, now, had.last_paid)
        self._waiting.append((one, *kept))

    def asked(self, asked: Asked, now: float, *, shown: bool) -> None:
        """Count what one question found, and which predictions that pays for."""
        total = self._total
        total.questions += 1
        total.exact += asked.how == "exact"
        total.semantic += asked.how == "semantic"
        total.slots += asked.slots
        total.found += asked.found
        total.same_top += asked.same_top
        left = list[tuple[Prediction, int | None, str | None]]()
        for one, number, top in self._waiting:
            hit = number is not None and number == asked.entry
            useful = top is not None and top == asked.top
            total.paid[one.source] += hit
            total.useful[one.source] += useful
            if hit or useful:
                self._pay(one, 1.0 if hit else SPARED, now)
            if hit and shown:
                print(f"    {one.source}: {one.question} = {asked.text}")
            if not hit or not useful:
                left.append((one, None if hit else number, None if useful else top))
        self._waiting = left

    def _pay(self, one: Prediction, paid: float, now: float) -> None:
        had = self._yields[one.source]
        self._yields[one.source] = Foreseen(one.source, had.predicted, had.paid + paid, had.first, had.last, now)


def show(part: str, sums: Sequence[Sum]) -> None:
    """Print one line of all users, one of each user's bank hits, and one for each source."""
    n, slots = sum(one.questions for one in sums), sum(one.slots for one in sums)
    exact, semantic = sum(one.exact for one in sums), sum(one.semantic for one in sums)
    top, found = sum(one.same_top for one in sums), sum(one.found for one in sums)
    predicted, paid, useful = (added(sums, key) for key in ("predicted", "paid", "useful"))
    made, pays = predicted.total(), (share(one.total(), predicted.total()) for one in (paid, useful))
    print(f"  {part:16} bank {(exact + semantic) / n:6.1%} (exact {exact}, semantic {semantic})", end="")
    print(f"  first chunk {top / n:6.1%}  prefix {found / slots:6.1%}", end="")
    print("  predicted {}, asked {}, useful {}".format(made, *pays))
    by_user = [f"{(one.exact + one.semantic) / one.questions:.1%} {one.found / one.slots:.1%}" for one in sums]
    print(f"  {'':16} by user, bank and prefix: {' | '.join(by_user)}", flush=True)
    for source in sorted(predicted):
        parts = (share(paid[source], predicted[source]), share(useful[source], predicted[source]))
        print(f"  {'':16} {source:22} {predicted[source]:6}, asked {parts[0]}, useful {parts[1]}", flush=True)


def share(part: int, whole: int) -> str:
    """Give a share and what it is of."""
    return f"{part / whole:.1%}" if whole else "-"


def added(sums: Sequence[Sum], key: str) -> Counter[str]:
    """Add up one kind of count."""
    whole = Counter[str]()
    for one in sums:
        whole += getattr(one, key)
    return whole


if __name__ == "__main__":
    main()
