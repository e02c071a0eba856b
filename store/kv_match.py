"""What there is of a prompt: whole nodes from its beginning, then the first part of one. Looks at rows alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Self

from store.kv_index import KvIndex
from store.kv_tree import Key, Node, Root, child_key, shared


@dataclass(frozen=True, slots=True)
class Partial:
    """A node whose first tokens are those of the next segment: that many, whole sub-steps."""

    node: Node
    tokens: int


@dataclass(frozen=True, slots=True)
class Match:
    """What is kept of a prompt, held on to until it is released."""

    nodes: tuple[Node, ...]
    partial: Partial | None
    release: Callable[[], None]

    @property
    def tokens(self) -> int:
        """Give the number of tokens that need not be computed."""
        return sum(len(node.ids) for node in self.nodes) + (self.partial.tokens if self.partial else 0)

    @property
    def found(self) -> list[Node]:
        """Give all nodes that take part."""
        return [*self.nodes, self.partial.node] if self.partial else list(self.nodes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def path_keys(root: Root, segments: Sequence[Sequence[int]]) -> list[Key]:
    """Give the key of every prefix of a prompt, the root's first."""
    keys = [root.key]
    for ids in segments:
        keys.append(child_key(keys[-1], ids))
    return keys


def whole(index: KvIndex, keys: Sequence[Key]) -> tuple[Node, ...]:
    """Give the nodes at the head of a path, up to the first that is not there."""
    found = takewhile(lambda entry: entry is not None and entry.state == "whole", map(index.find, keys))
    return tuple(entry.node for entry in found if entry)


def best_partial(index: KvIndex, parent: Key, ids: Sequence[int], sub_step: int) -> Partial | None:
    """Give the child that shares most with a segment, if any shares a sub-step."""
    lent = [Partial(node, shared(node.ids, ids, sub_step)) for node in index.beginning_alike(parent, ids, sub_step)]
    return max(lent, key=lambda one: (one.tokens, one.node.last_used, one.node.key), default=None)
