"""A small made-up folder of result lines: some policies, two users, two writers; all figures follow from numbers."""

import json
from pathlib import Path
from typing import Any

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
NIGHT = {"seconds": 1.5, "flops": 2e9, "read": 10, "written": 5, "units": 1, "foreseen": 5}
Line = dict[str, Any]


def line(policy: str, user: str, writer: str, number: int) -> Line:
    """Return one line: the last question is lent by what keeps answers, and wrongly at a low threshold."""
    shared = number == QUESTIONS and policy not in ("naive", "ragcache", "pkb-no-bank")
    wrong = shared and policy.endswith("tau60")
    total = (SPEEDS | VARIANTS)[policy] * number * (2 if user == "bo" else 1) / (10 if shared else 1)
    return {
        "corpus": "invented" if user == "ann" else "made-up",
        "user": user,
        "policy": policy,
        "writer": writer,
        "number": number,
        "question": f"What is number {number}?",
        "gold": f"it is number {number} of them",
        "answer": "something else" if wrong else f"it is number {number} of them",
        "tier": "semantic" if shared else "full" if policy == "naive" or number == 1 else "prefix",
        "right": (not wrong) if shared else None,
        "matched": "What?" if shared else None,
        "similarity": 0.9 if shared else None,
        "foreseen": False,
        "tokens": None
        if shared
        else {"prompt": 100, "reused": 25 * (number - 1), "computed": 75, "generated": 3, "guessed": 1},
        "slots": None if shared else {"chunks": 4, "found": 0 if policy == "naive" else number - 1},
        "ms": {"embed": 10.0, "prefill": total / 2, "decode": None, "total": total},
        "flops": 3e9,
        "kept": {"bank_bytes": 100 * number, "kv_bytes": 1000 * number},
        "written": 50,
        "night": NIGHT if policy.startswith(("pkb", "percache")) and number > 1 else None,
        "printed": {"ms": 2 * total, "flops": 4e9, "kv_bytes": 3000} if policy.startswith("percache") else None,
    }


def unit(policy: str, user: str, writer: str) -> list[Line]:
    """Return the lines of a unit."""
    return [line(policy, user, writer, number) for number in range(1, QUESTIONS + 1)]


def write(folder: Path, lines: list[Line]) -> Path:
    """Write one unit; returns its file."""
    folder.mkdir(parents=True, exist_ok=True)
    names = (lines[0][key] for key in ("corpus", "user", "policy", "writer"))
    file = folder / f"{'.'.join(names)}.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in lines), "utf-8")
    return file


def write_all(folder: Path, policies: dict[str, float] = SPEEDS | VARIANTS) -> None:
    """Write the units of all users and writers."""
    for policy in policies:
        for user in USERS:
            for writer in WRITERS:
                write(folder, unit(policy, user, writer))


def write_rest(folder: Path) -> None:
    """Write what other measurements leave beside the lines."""
    rows = [
        {"operation": "embed", "median_ms": 1.5, "low_ms": 1.0, "high_ms": 2.0, "bytes": None, "note": "a|b"},
        {"operation": "an entry", "median_ms": None, "low_ms": None, "high_ms": None, "bytes": 2048, "note": ""},
    ]
    peer = {"peer": "other", "what": "a warm prompt", "pkb": 20.0, "peer_value": 40.0, "unit": "ms", "note": ""}
    titles = {"frequency": {"title": "How often a chunk is read", "x": "chunk, by rank", "y": "times"}}
    corpora = {"invented": {"frequency": [9, 4, 1], "overlap": list(range(120))}}
    machines = [{"facts": {"processor": "one of ours"}, "commands": ["python -m this --that"]}]
    found: dict[str, Any] = {
        "operations": {"rows": rows},
        "peers": {"rows": [peer], "missing": ["A peer is not here."]},
        "motivation": {"titles": titles, "corpora": corpora, "questions": {"invented": 7}},
        "machine": {"machines": machines},
    }
    for name, content in found.items():
        (folder / f"{name}.json").write_text(json.dumps(content), "utf-8")
    (folder / "showcase.txt").write_text("user, writer\n  1 ``` full\n", "utf-8")
    (folder / "cases.txt").write_text("case a: less\n", "utf-8")
