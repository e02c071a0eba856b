"""The job `refill`: what went for lack of room is read again where there is room, as far as kept questions want it.

PerCache 4.3.3: storage grows. Knows the prompts of those questions as they would be asked now, and of the tree what
went; reads nothing itself.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from engine.idle.segment import Costs, Ids, Path, Segment
from store.kv_index import Peek, path_keys
from store.kv_tree import Root


def plan(
    asked: Iterable[tuple[str, float, Sequence[Path]]], root: Root, peek: Peek, new: Costs | None = None
) -> list[Segment]:
    """Give each segment that went, given questions, how often they were asked, and the paths they want.

    What never was kept is not read, nor what stands behind it, unless `new` says what a token of that costs: some of it
    was read, and there was no room to keep it.
    """
    found = dict[Path, Segment]()
    for question, times, paths in asked:
        for one in _gone(question, times, paths, root, peek, new):
            known = found.get(one.path)
            found[one.path] = replace(known, expected=known.expected + times) if known else one
    return list(found.values())


def prefixes(segments: Sequence[Ids]) -> list[Path]:
    """Give all beginnings of a prompt."""
    return [tuple(segments[:end]) for end in range(1, len(segments) + 1)]


def _gone(
    question: str, times: float, paths: Sequence[Path], root: Root, peek: Peek, new: Costs | None
) -> Iterator[Segment]:
    out = set[Path]()  # paths with nothing to stand behind
    for path in paths:
        key = path_keys(root, path)[-1]
        if peek.uses(key) is not None:
            continue
        ghost, tokens = peek.ghost(key), len(path[-1])
        if ghost is not None and path[:-1] not in out:
            yield Segment("refill", question, "evicted for lack of space", path, times, ghost.seconds, ghost.bytes)
        elif new is not None:
            why, size = "not stored for lack of space", int(tokens * new.bytes)
            yield Segment("refill", question, why, path, times, tokens * new.seconds, size)
        else:
            out.add(path)
