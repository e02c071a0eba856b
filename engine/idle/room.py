"""Room for new chunks: what was read ahead before and nothing used goes for them, the oldest first. Pure."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from engine.idle.segment import Segment
from store.kv_peek import Unused


@dataclass(frozen=True, slots=True)
class Aged:
    """What may go, and its age: the higher, the older, on the scale of the segments' ages."""

    age: float
    node: Unused


def make_way(
    segments: Iterable[Segment], kept: int, unused: Callable[[], Sequence[Aged]], age: Callable[[Segment], float]
) -> Iterator[Segment]:
    """Give segments, those with what goes for them that would not be `within` their bytes, `kept` being there.

    For a segment goes no more than it needs, and nothing newer than itself. `unused` gives the oldest first; it is
    not called where all have room.
    """
    left: list[Aged] | None = None
    for one in segments:
        need = 0 if one.within is None else min(one.bytes, kept + one.bytes - one.within)
        if need > 0 and left is None:
            left = list(reversed(unused()))
        going = _oldest(left, need, age(one)) if need > 0 and left else []
        freed = sum(node.bytes for node in going)
        if need <= 0 or going:
            kept += one.bytes - freed
        why = f"{one.why}; replaces older, never used entries" if going else one.why
        yield replace(one, why=why, instead=tuple(going))


def _oldest(left: list[Aged], need: int, age: float) -> list[Unused]:
    """Take what is older than `age` from the end of what is left, as much as is needed, or nothing."""
    taken: list[Aged] = []
    while need > 0 and left and left[-1].age > age:
        taken.append(left.pop())
        need -= taken[-1].node.bytes
    if need > 0:
        left.extend(reversed(taken))
        return []
    return [one.node for one in taken]
