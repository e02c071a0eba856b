"""Notes of each run of the evaluation: how long it took in how many lanes, what each job took, what is left and why."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FILE = "runs.json"


@dataclass(frozen=True, slots=True)
class Run:
    """One command: its lanes, its seconds from beginning to end, how many jobs it did, and joules if known."""

    command: str
    lanes: int
    seconds: float
    jobs: int
    joules: float | None = None


def note(folder: Path, scope: str, run: Run, seconds: Mapping[str, float], left: Mapping[str, str]) -> None:
    """Add a run to those of a folder of lines: the seconds of its jobs by name, and why others are not done."""
    file = folder / FILE
    found: dict[str, Any] = json.loads(file.read_text("utf-8")) if file.is_file() else {"runs": [], "seconds": {}}
    found |= {"scope": scope, "left": {**left}}
    found["runs"].append(asdict(run))
    found["seconds"] |= {name: round(one, 1) for name, one in seconds.items()}
    fresh = file.with_suffix(".fresh")
    fresh.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    fresh.replace(file)
