"""What each step of a question took and found: for `ms` in the reply and for `--explain`. Knows no step by name."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(slots=True)
class Step:
    """One step: its name, its milliseconds, and what it found, in words."""

    name: str
    ms: float = 0.0
    note: str = ""


@dataclass(slots=True)
class Trace:
    """The steps of one question so far, what the asker should be told, and the seconds that what was kept saved.

    `total` runs from its making. Where nobody `asked` but it is readied in case, nothing it uses counts as used, and
    nothing that is kept goes for it.
    """

    steps: list[Step] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    saved_s: float = 0.0
    asked: bool = True
    started: float = field(default_factory=time.perf_counter)

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Time a step; what it found is written into it."""
        step, began = Step(name), time.perf_counter()
        try:
            yield step
        finally:
            step.ms = (time.perf_counter() - began) * 1000
            self.steps.append(step)

    def ms(self) -> dict[str, float]:
        """Give the milliseconds of each step and of the whole."""
        found: dict[str, float] = {}
        for step in self.steps:
            found[step.name] = round(found.get(step.name, 0.0) + step.ms, 3)
        return found | {"total": round((time.perf_counter() - self.started) * 1000, 3)}

    def to_json(self) -> list[dict[str, Any]]:
        """Give the steps as plain values."""
        return [{**asdict(step), "ms": round(step.ms, 3)} for step in self.steps]
