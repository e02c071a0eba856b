"""Which documents of changed and moved files are new versions of former ones. Knows places, no text and no tables.

An item of a file is the same item as before if it has the same Message-ID; without one, if it stands at the same
position between two items that stayed; in a file that held a single document, always. A file that moved is the same
file if it kept its name and inode. A former item with no such successor is gone: removing it is up to the guard.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from store.types import Place


@dataclass(frozen=True, slots=True)
class Replacement:
    """A former place whose document is replaced by another one (None: by a new decoding that leaves it out)."""

    former: Place
    by: str | None


def replacements(former: Sequence[Place], now: Sequence[Place], *, complete: bool = True) -> list[Replacement]:
    """Return the former places of a file whose documents it no longer holds but holds new versions of.

    Both are in order of their items. An incomplete list of new places replaces by Message-ID alone.
    """
    here = {place.document for place in now}
    left = {place.document: place for place in former if place.document not in here}
    found = {place.document: by for place, by in _by_message(left.values(), now)}
    if complete and now:
        current = sorted((place for place in former if place.position is not None), key=_position)
        single = len(current) == 1
        found |= {current[0].document: now[0].document} if single else dict(_by_position(current, now))
    return [Replacement(left[document], by) for document, by in found.items() if document in left]


def _by_message(left: Iterable[Place], now: Sequence[Place]) -> Iterator[tuple[Place, str]]:
    named = {place.message_id: place.document for place in now if place.message_id}
    return ((place, named[place.message_id]) for place in left if place.message_id in named)


def _by_position(former: Sequence[Place], now: Sequence[Place]) -> Iterator[tuple[str, str]]:
    """Pair items without a Message-ID, in order, between each two neighbours of those that stayed."""
    borders = [(-1, -1), *_stayed([*map(_key, former)], [*map(_key, now)]), (len(former), len(now))]
    for (start, begin), (stop, end) in pairwise(borders):
        old = [place.document for place in former[start + 1 : stop] if not place.message_id]
        new = [place.document for place in now[begin + 1 : end] if not place.message_id]
        yield from zip(old, new, strict=False)
    for place in former:  # set aside by a read that was not finished, in favour of the item at its position
        if place.item < 0 and not place.message_id and _position(place) < len(now):
            yield place.document, now[_position(place)].document


def _position(place: Place) -> int:
    return -1 if place.position is None else place.position


def _key(place: Place) -> str:
    return place.message_id or place.document


def _stayed(former: Sequence[str], now: Sequence[str]) -> list[tuple[int, int]]:
    """Return the longest common run of items in the same order, as pairs of indices (patience sorting)."""
    first = {key: at for at, key in reversed([*enumerate(former)])}
    ends, tops, links = list[int](), list[int](), dict[int, int | None]()
    at = {index: first[key] for index, key in enumerate(now) if key in first}
    for index, place in at.items():
        pile = bisect_left(ends, place)
        links[index] = tops[pile - 1] if pile else None
        ends[pile : pile + 1], tops[pile : pile + 1] = [place], [index]
    chain, last = list[tuple[int, int]](), tops[-1] if tops else None
    while last is not None:
        chain.append((at[last], last))
        last = links[last]
    return chain[::-1]


class Versions:
    """The places that a run over one root may replace: those of the files it reads, and of files missing now.

    `moved` maps the new path of a moved file to its former one. Mutable: it learns the messages that were read.
    """

    def __init__(self, missing: Iterable[Place] = (), moved: Mapping[str, str] | None = None) -> None:
        self._moved = moved or {}
        self._messages, self._paths = dict[str, list[Place]](), dict[str, list[Place]]()
        self._read = dict[str, str]()
        for place in missing:
            self._paths.setdefault(place.path, []).append(place)
            self._leave(place)

    def replaced(
        self, path: str, former: Sequence[Place], now: Sequence[Place], *, complete: bool, decoded_anew: bool = False
    ) -> list[Replacement]:
        """Return what the content of a file, read so far, replaces in it and in other files.

        All that a file held and no longer holds is replaced if it was only decoded anew.
        """
        own = [*former, *self._paths.get(self._moved.get(path, ""), ())]
        found = {(one.former.path, one.former.item): one for one in replacements(own, now, complete=complete)}
        here = {place.document for place in now}
        left = [place for place in former if place.document not in here and (place.path, place.item) not in found]
        for place in left if complete else ():
            by = self._read.get(place.message_id or "")
            if by or (decoded_anew and place.position is not None):
                found[place.path, place.item] = Replacement(place, by)
            else:
                self._leave(place)
        return [*found.values(), *self._elsewhere(now)]

    def _elsewhere(self, now: Sequence[Place]) -> Iterator[Replacement]:
        """Yield the places in other files of former versions of these messages, each once."""
        for place in now:
            if place.message_id:
                self._read[place.message_id] = place.document
                for former in self._messages.pop(place.message_id, ()):
                    if former.document != place.document:
                        yield Replacement(former, place.document)

    def _leave(self, place: Place) -> None:
        if place.message_id:
            self._messages.setdefault(place.message_id, []).append(place)
