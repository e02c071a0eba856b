"""Result lines of a few policies, two users and two writers, whose figures follow from their numbers."""

import json
from dataclasses import asdict
from pathlib import Path

from tests.bench.records import Cached, Comparison, IdleWork, Line, Operation, Run, Runs, Tokens, write_file

SPEEDS = {"naive": 1000.0, "ragcache": 800.0, "meancache": 900.0, "percache": 700.0, "pkb": 400.0}
VARIANTS = {
    "pkb-no-prediction": 600.0,
    "pkb-no-bank": 650.0,
    "pkb-tau60": 300.0,
    "percache-tau60": 350.0,
    "pkb-stride3": 450.0,
    "pkb-kv64MB": 500.0,
}
USERS, WRITERS, QUESTIONS = ("ann", "bo"), ("135M", "0.5B"), 4
ROWS = (Operation("embed", 1.5, 1.0, 2.0, note="a|b"), Operation("an entry", bytes=2048))
COMPARED = (
    Comparison("other", "a warm prompt", 20.0, 40.0, "ms"),
    Comparison("pkb, nothing cached", "first token, 180 tokens cached", 20.0, 100.0, "ms"),
)
RAN = Runs(
    "whole",
    tuple(Run(command, {"processor": "one of ours"}, 2, 120.0, 3) for command in ("make one", "make two")),
    {"time synthetic": 100.0, "operations": 50.0},
)


def line(policy: str, user: str, writer: str, number: int) -> Line:
    """Return one line: the last question is a hit for answer caches, and wrong at a low threshold."""
    hit = number == QUESTIONS and policy not in ("naive", "ragcache", "pkb-no-bank")
    wrong = hit and policy.endswith("tau60")
    total = (SPEEDS | VARIANTS)[policy] * number * (2 if user == "bo" else 1) / (10 if hit else 1)
    idle = policy.startswith(("pkb", "percache")) and number > 1
    return Line(
        corpus="invented" if user == "ann" else "made-up",
        user=user,
        policy=policy,
        writer=writer,
        number=number,
        question=f"What is number {number}?",
        gold=f"it is number {number} of them",
        answer="something else" if wrong else f"it is number {number} of them",
        tier="semantic" if hit else "full" if policy == "naive" or number == 1 else "prefix",
        right=not wrong if hit else None,
        matched="What?" if hit else None,
        similarity=0.9 if hit else None,
        predicted=False,
        tokens=None if hit else Tokens(100, 25 * (number - 1), 75, 3, 1),
        cached=None if hit else Cached(4, 0 if policy == "naive" else number - 1),
        ms={"embed": 10.0, "prefill": total / 2, "total": total},
        flops=3e9,
        bank_bytes=100 * number,
        kv_bytes=1000 * number,
        written=50,
        idle=IdleWork(1.5, 2e9, 10, 5, 1, 5) if idle else None,
    )


def unit(policy: str, user: str, writer: str) -> list[Line]:
    """Return the lines of a unit."""
    return [line(policy, user, writer, number) for number in range(1, QUESTIONS + 1)]


def write(folder: Path, lines: list[Line]) -> Path:
    """Write one unit below a folder of measurements; returns its file."""
    one = lines[0]
    file = folder / "lines" / f"{one.corpus}.{one.user}.{one.policy}.{one.writer}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(asdict(each)) + "\n" for each in lines), "utf-8")
    return file


def write_all(folder: Path, policies: dict[str, float] = SPEEDS | VARIANTS) -> None:
    """Write the units of all users and writers, and the other measurements."""
    for policy in policies:
        for user in USERS:
            for writer in WRITERS:
                write(folder, unit(policy, user, writer))
    write_file(folder / "operations.json", ROWS)
    write_file(folder / "kv_reuse.json", COMPARED)
    write_file(folder / "runs.json", RAN)
