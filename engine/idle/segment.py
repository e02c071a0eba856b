"""A segment to be read and kept behind its prefix: its name, and its cost by what is kept so far. Pure."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.idle.units import Kind
from store.kv_index import Tally, Unused, path_keys
from store.kv_tree import Key, Root

if TYPE_CHECKING:
    from engine.llm.prefill import Kept

Ids = tuple[int, ...]
Path = tuple[Ids, ...]  # a segment behind those that it stands behind

_GUESSED_S = 1e-3  # a token, until one was read


@dataclass(frozen=True, slots=True)
class Costs:
    """What a token takes to read, in seconds, and to keep, in bytes; as measured on all that is kept."""

    seconds: float
    bytes: float


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment that questions are expected to want; fields as a unit's. Nodes `instead` are evicted for it."""

    kind: Kind
    what: str
    why: str
    path: Path
    expected: float
    seconds: float
    bytes: int
    instead: tuple[Unused, ...] = ()


def costs(kept: Tally) -> Costs:
    """Give what a token costs, from all that is kept."""
    return Costs(kept.seconds / kept.tokens, kept.bytes / kept.tokens) if kept.tokens else Costs(_GUESSED_S, 0.0)


def key_of(root: Root, path: Path) -> Key:
    """Give the key of the last segment of a path."""
    return path_keys(root, path)[-1]


def subject_of(root: Root, path: Path) -> str:
    """Name a segment behind its prefix."""
    return key_of(root, path).hex()


def is_kept(kept: "Kept", path: Path) -> bool:
    """Tell whether the last segment of a path is kept."""
    return kept.store.peek.uses(key_of(kept.root, path)) is not None
