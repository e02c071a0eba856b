"""The language model of a process: one at a time, and of all processes of a home only one has one in memory.

Whoever waits for it says so by another lock, and who has it without using it lets go. Knows no model's kind.
"""

import time
from collections.abc import Callable, Hashable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from store.errors import Locked
from store.locks import Lease

if TYPE_CHECKING:
    from engine.llm.prefill import PromptReader
    from engine.models.mlx import Mlx


TIMEOUT_S = 600.0  # a long answer of a large model on a slow machine takes less
_POLL_S = 0.05


def _nothing() -> None:
    """Let nobody in between."""


class ResidentModel:
    """The model in memory, and what was opened for it; `yield_point` is called between two steps of its work."""

    def __init__(self, locks: Path, yield_point: Callable[[], None] = _nothing) -> None:
        self._locks, self.yield_point = locks, yield_point
        self._lease, self._wanted = Lease(locks / "model.lock"), Lease(locks / "wanted.lock")
        self._key: Hashable = None
        self._model: Mlx | None = None
        self._readings: dict[Hashable, PromptReader] = {}

    @property
    def claimed(self) -> bool:
        """Return whether this process may have a model in memory."""
        return self._lease.held

    @property
    def loaded(self) -> str | None:
        """Name the model that is in memory."""
        return self._model.name if self._model else None

    @property
    def wanted(self) -> bool:
        """Return whether another process waits for what this one has."""
        return self._lease.held and self._wanted.is_taken()

    def claim(self) -> bool:
        """Take the right to load a model, where no other process has it; a home that is not there needs none."""
        return not self._locks.is_dir() or self._lease.acquire()

    def get(self, key: Hashable, load: "Callable[[], Mlx]") -> "Mlx":
        """Return model of this key, loaded in place of another one; Locked where a process keeps it for too long."""
        if key != self._key:
            self._wait()
        if self._model is None or key != self._key:  # still: another question may have been answered meanwhile
            self.forget()
            self._model, self._key = replace(load(), yield_point=self._yield_point), key
        return self._model

    def reading(self, key: Hashable, make: "Callable[[], PromptReader]") -> "PromptReader":
        """Return what was opened for the model under a key, opened when first asked for."""
        if key not in self._readings:
            self._readings[key] = make()
        return self._readings[key]

    def close(self) -> None:
        """Let go of what was opened for the model, and keep the model."""
        for reading in self._readings.values():
            if reading.kept:
                reading.kept.store.close()
        self._readings.clear()

    def yield_to_questions(self) -> None:
        """Raise Locked where a question waits for the model: what nobody waits for can be done another time."""
        if self.wanted:
            raise Locked("a question needs the language model")

    def forget(self) -> None:
        """Have no model in memory any more; the right to have one stays."""
        if self.drop():
            from engine.models.memory import release

            release()

    def drop(self) -> bool:
        """Hold on to no model any more, and tell whether there was one; its memory goes when nobody else does."""
        self.close()
        there, self._model, self._key = self._model is not None, None, None
        return there

    def free(self) -> None:
        """Let go of the right to have a model, which must be forgotten, or end with the process."""
        self._lease.release()

    def _wait(self) -> None:
        until = time.monotonic() + TIMEOUT_S
        try:
            while not self.claim():
                self._wanted.acquire()
                self.yield_point()
                if time.monotonic() > until:
                    raise Locked("another pkb has the language model in memory", "try again when it is done")
                time.sleep(_POLL_S)
        finally:
            self._wanted.release()

    def _yield_point(self) -> None:
        self.yield_point()  # which may be another one by then
