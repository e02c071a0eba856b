"""The share of a prompt that occurred in an earlier prompt of the same person: PerCache's motivation (figure 5).

Pure: chunks are named by whatever can be compared and hashed, and a list is what one question retrieved, in the order
of its prompt.
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import Any


def prefix_overlap(lists: Sequence[Sequence[Hashable]]) -> Iterator[float]:
    """Yield the share of each list that is its longest common prefix with an earlier one (PerCache figure 5).

    It is what a tree of prefixes could reuse that never lost anything. By a trie: linear.
    """
    root: dict[Hashable, Any] = {}
    for chunks in lists:
        node, common = root, 0
        for chunk in chunks:
            common += chunk in node
            node = node.setdefault(chunk, {})
        yield common / max(1, len(chunks))


def seen_before(lists: Sequence[Sequence[Hashable]]) -> Iterator[float]:
    """Yield the share of each set that any earlier sets have: what reuse at any position could do at most."""
    seen: set[Hashable] = set()
    for chunks in lists:
        own = set(chunks)
        yield len(own & seen) / max(1, len(own))
        seen |= own
