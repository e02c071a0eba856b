"""Lets a language model write a text behind a prompt of segments, and no longer than there is time for.

Knows the model by its protocol; keeps nothing of what was read.
"""

from collections.abc import Callable, Sequence

from engine.idle.abstracts import Write
from engine.idle.units import NoTime
from engine.models.types import LanguageModel


def writer(model: LanguageModel, most: int, late: Callable[[], bool]) -> Write:
    """Give what writes at most so many tokens; NoTime once it is late, as is asked before each segment and token.

    Middle segments that the context has no room for are left out, the last ones first.
    """

    def write(segments: Sequence[str]) -> str:
        system, *middle, cue = segments
        first = (*model.frame.opening, *model.tokens(system), *model.frame.turning)
        last = (*model.tokens(cue), *model.frame.closing)
        left = model.context - most - len(first) - len(last)
        cache = model.begin()
        for ids in (first, *_fitting([model.tokens(one) for one in middle], left)):
            _check(late)
            model.prefill(cache, ids)
        _check(late)
        written = list[str]()
        for piece in model.decode(cache, last, most):
            written.append(piece)
            _check(late)
        return "".join(written)

    return write


def _fitting(segments: Sequence[Sequence[int]], left: int) -> list[Sequence[int]]:
    fitting = list[Sequence[int]]()
    for ids in segments:
        left -= len(ids)
        if left < 0:
            break
        fitting.append(ids)
    return fitting


def _check(late: Callable[[], bool]) -> None:
    if late():
        raise NoTime
