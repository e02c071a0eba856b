"""The language model in memory: one at a time, in only one of a home's processes.

A process that waits for it holds a second lock, which makes an idle holder unload. Knows no kind of model.
"""

import time
from collections.abc import Callable, Hashable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from store.errors import Locked
from store.locks import Lease

if TYPE_CHECKING:
    from engine.kv.restore import PromptReader
    from engine.models.mlx import Mlx


TIMEOUT_S = 600.0  # longer than a long answer of a large model on a slow machine
_POLL_S = 0.05


class ResidentModel:
    """The loaded model and its open KV stores; `yield_point` is called between two of its steps."""

    def __init__(self, locks: Path, yield_point: Callable[[], None] = lambda: None) -> None:
        self._locks, self.yield_point = locks, yield_point
        self._lease, self._wanted = Lease(locks / "model.lock"), Lease(locks / "wanted.lock")
        self._key: Hashable = None
        self._model: Mlx | None = None
        self._readings: dict[Hashable, PromptReader] = {}

    @property
    def claimed(self) -> bool:
        """Return whether this process holds the right to load a model."""
        return self._lease.held

    @property
    def loaded(self) -> str | None:
        """Return the name of the loaded model."""
        return self._model.name if self._model else None

    @property
    def wanted(self) -> bool:
        """Return whether another process waits for the right to load a model."""
        return self._lease.held and self._wanted.is_taken()

    def claim(self) -> bool:
        """Acquire the right to load a model, unless another process holds it; a missing home needs none."""
        return not self._locks.is_dir() or self._lease.acquire()

    def get(self, key: Hashable, load: "Callable[[], Mlx]") -> "Mlx":
        """Return the model of this key, loading it in place of another; Locked after a long wait."""
        until = time.monotonic() + TIMEOUT_S
        try:
            while key != self._key and not self.claim():
                self._wanted.acquire()
                self.yield_point()
                if time.monotonic() > until:
                    raise Locked("another pkb has the language model in memory", "try again when it is done")
                time.sleep(_POLL_S)
        finally:
            self._wanted.release()
        if self._model is None or key != self._key:  # a question at the yield point may have loaded one
            self.forget()
            # Looked up at each call: it may be replaced.
            self._model, self._key = replace(load(), yield_point=lambda: self.yield_point()), key
        return self._model

    def reading(self, key: Hashable, make: "Callable[[], PromptReader]") -> "PromptReader":
        """Return the reader opened for the model under a key, made on first use."""
        if key not in self._readings:
            self._readings[key] = make()
        return self._readings[key]

    def close(self) -> None:
        """Close the KV stores; the model stays loaded."""
        self._readings.clear()

    def yield_to_questions(self) -> None:
        """Raise Locked if a question waits for the model: idle jobs can run another time."""
        if self.wanted:
            raise Locked("a question needs the language model")

    def forget(self) -> None:
        """Unload the model and free its memory; the right to load one stays."""
        self.close()
        there, self._model, self._key = self._model is not None, None, None
        if there:
            from engine.models.runtime import release

            release()

    def free(self) -> None:
        """Release the right to load a model; the model must be unloaded, or end with the process."""
        self._lease.release()
