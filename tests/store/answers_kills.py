"""One of several processes that change an answer cache until it is killed; run as a module.

`start` begins one, and `wrong` lists what is inconsistent in what they left behind.
"""

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

from store.answers import AnswerBank, PendingVerification, RefreshCandidates, State, Verifications
from store.database import open_ledger
from tests.store.answers_kit import EMBEDDER, by_hand, direction, entry, vectors
from tests.store.kv_kit import PROJECT

BUDGET, SEEDS = 20_000, 200
_STATES: tuple[State, ...] = ("answered", "answered", "answered", "pending", "prefilled")


def main(folder: Path, seed: int) -> None:
    """Store, use, delete, verify and search, for ever."""
    chance, ledger = random.Random(seed), open_ledger(folder / "ledger.db", create=True)
    bank, verifications, hints, found = (
        AnswerBank(ledger),
        Verifications(ledger),
        RefreshCandidates(ledger),
        vectors(ledger),
    )
    print("ready", flush=True)
    for now in count(1):
        one, other = (f"q{chance.randrange(SEEDS)}" for _ in range(2))
        vector = direction(chance.randrange(SEEDS))
        bank.put(one.encode(), entry(one, chance.choice(_STATES)), BUDGET, vector.tobytes(), 0.5, EMBEDDER)
        near = found.near(vector, scope="{}", writer="w", day=None, least=0.9)
        assert all(each.answer.state == "answered" and each.similarity >= 0.9 for each in near)
        for each in near[:1]:
            bank.record_use(each.key, now, float(now))
            verifications.add(PendingVerification(one.encode(), each.key, each.similarity, "served", float(now)))
        hints.add([one.encode(), other.encode()], "c1", float(now))
        if chance.random() < 0.3:
            verifications.resolve(one.encode(), correct=chance.random() < 0.5, at=float(now))
            bank.drop(other.encode())


def start(folder: Path, seed: int) -> "subprocess.Popen[str]":
    """Start one process, and wait until it has begun."""
    command = [sys.executable, "-m", "tests.store.answers_kills", str(folder), str(seed)]
    process = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def end(process: "subprocess.Popen[str]") -> int:
    """Kill a process; return its exit code."""
    process.kill()
    process.communicate()
    return process.returncode


def wrong(folder: Path) -> Iterator[str]:
    """Yield each inconsistency of the answer cache and of the index that a new process reads."""
    with closing(open_ledger(folder / "ledger.db")) as ledger:
        bank, found = AnswerBank(ledger), vectors(ledger)
        for check in ("PRAGMA integrity_check", "PRAGMA foreign_key_check"):
            yield from (f"{check}: {row}" for row in ledger.rows.execute(check) if row != ("ok",))
        counted = ledger.rows.execute("SELECT count(*), coalesce(sum(bytes), 0) FROM answers").fetchone()
        if bank.size() != counted or counted[1] > BUDGET:
            yield f"counted {bank.size()}, there are {counted} of {BUDGET}"
        for seed in range(SEEDS):
            vector = direction(seed)
            near = found.near(vector, scope="{}", writer="w", day=None, least=0.85, most=SEEDS)
            if sorted(one.answer.question for one in near) != sorted(by_hand(ledger, vector)):
                yield f"what is near to {seed}"


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
