"""Greedy decoding: the next token is computed while the last one is shown, or several are checked that were guessed.

Knows neither model nor cache. MLX is imported inside functions, since BLAS must be there before it.
"""

from collections.abc import Callable, Generator
from typing import Any

from engine.models.drafts import Drafts

Step = Callable[[Any], Any]  # ids (rows,) -> the likeliest id behind each (rows,), which is computed meanwhile


def goes_on(
    first: Any, step: Step, undo: Callable[[int], None], room: int, drafts: Drafts | None
) -> Generator[int, None, None]:
    """Yield at most `room` ids, of which `first`, (1,), is the first; `undo` takes back that many rows of a step.

    While nothing can be guessed, a token is not waited for before the next one is begun. What is guessed depends on
    the texts of `drafts` and on the answer; so the steps, and their rounding, do as well, and on nothing that is kept.
    """
    import mlx.core as mx

    waited, is_known, left = first, False, room
    try:
        while left > 0:
            left -= 1
            if left and drafts and (is_known or drafts.next()):
                id = int(waited.item())
                drafts.add(id)
                yield id
                guess = drafts.next()[: left - 1]
                best = step(mx.array([id, *guess]))
                right = drafts.judge(guess, best.tolist()) if guess else 0
                undo(len(guess) - right)
                for one in guess[:right]:
                    drafts.add(one)
                    drafts.right += 1
                    yield one
                waited, is_known, left = best[right : right + 1], bool(guess), left - right
            else:
                shown = waited
                if left:
                    waited, is_known = step(shown), False
                id = int(shown.item())
                if drafts:
                    drafts.add(id)
                yield id
    finally:
        mx.eval(waited)
