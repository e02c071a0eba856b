"""The end of a night's time, and of a part of it: the language model stops between two of its steps, planning ends.

Knows no kind of work.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from engine.idle.units import NoTime

if TYPE_CHECKING:
    from engine.llm.resident import Models


class Planning:
    """How long planning may take, each time that it begins; `cut` tells whether it ever took longer."""

    def __init__(self, seconds: float, over: Callable[[], bool], clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._over, self._clock, self.cut = seconds, over, clock, False

    def begin(self) -> Callable[[], bool]:
        """Give what tells, from now on, whether it has taken long enough, or the night is over."""
        until = self._clock() + self._seconds

        def late() -> bool:
            ended = self._clock() > until or self._over()
            self.cut = self.cut or ended
            return ended

        return late


@contextmanager
def ending(models: "Models", over: Callable[[], bool]) -> Iterator[None]:
    """Have NoTime raised, while this is open, at the model's next step once the night is `over`.

    A question that is answered between two steps is none of the night's work, and goes on.
    """
    usual, asked = models.breathe, False

    def breathe() -> None:
        nonlocal asked
        if asked:
            usual()
            return
        asked = True
        try:
            usual()
        finally:
            asked = False
        if over():
            raise NoTime

    models.breathe = breathe
    try:
        yield
    finally:
        models.breathe = usual
