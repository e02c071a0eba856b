"""Keys and nodes of the KV cache tree: a path from a root is a prompt prefix, a node one segment of it.

Pure: it knows token ids and digests, nothing of tensors, files or rows.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import takewhile
from typing import Self

Key = bytes  # 16 bytes of BLAKE2b
KEY_BYTES = 16
_ADAPTER = "adapter"  # the one part of a root that path keys exclude


class DocumentSegment(tuple[int, ...]):
    """The token ids of a segment that holds text of a document; equal to any other tuple of the same ids."""

    document: str

    @classmethod
    def of(cls, ids: Sequence[int], document: str) -> Self:
        """Return the segment of a document."""
        made = cls(ids)
        made.document = document
        return made


@dataclass(frozen=True, slots=True)
class TreeRoot:
    """The root of prefixes: `key` covers everything that changes the tensors, `path` everything but the adapter."""

    key: Key
    path: Key


@dataclass(frozen=True, slots=True)
class Node:
    """The cached keys and values of one segment after one exact prefix."""

    key: Key
    parent: Key  # a root's where depth is 1
    path: Key  # the same chain from the root's path: equal for the same prefix under another adapter
    depth: int
    ids: tuple[int, ...]
    bytes: int  # of its file
    seconds: float  # that computing it took
    created: float  # seconds since the epoch, like `last_used`
    last_used: float
    uses: int
    document: str = ""  # that the segment is of, empty where it is of none


def root_key(parts: Mapping[str, str]) -> Key:
    """Return the digest of the parts of a root, in any order."""
    text = json.dumps(dict(parts), sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=KEY_BYTES, person=b"pkb kv root").digest()


def root_of(parts: Mapping[str, str]) -> TreeRoot:
    """Return the root for everything that changes the tensors: weights, "adapter", dtype, arithmetic, sub-step."""
    plain = {name: value for name, value in parts.items() if name != _ADAPTER}
    return TreeRoot(root_key(parts), root_key(plain))


def child_key(parent: Key, ids: Sequence[int]) -> Key:
    """Return the key of a segment after the prefix that ends at `parent`; ids are 0 to 2**32 - 1."""
    return blake2b(parent + pack(ids), digest_size=KEY_BYTES, person=b"pkb kv node").digest()


def first_key(ids: Sequence[int], sub_step: int) -> Key | None:
    """Return the digest of the first sub-step, which two segments must have in common to share any; None if shorter."""
    if len(ids) < sub_step:
        return None
    return blake2b(pack(ids[:sub_step]), digest_size=KEY_BYTES, person=b"pkb kv first").digest()


def borders(length: int, sub_step: int) -> list[int]:
    """Return where the sub-steps of a segment end: counted from its start, a short remainder joins the last one.

    Every call of a model reads all of its weights, which a few remaining tokens are not worth.
    """
    if length <= 0:
        return []
    ends = list(range(sub_step, length, sub_step))
    if ends and (length - ends[-1]) * 2 < sub_step:
        ends.pop()
    return [*ends, length]


def shared(ids_a: Sequence[int], ids_b: Sequence[int], sub_step: int) -> int:
    """Count the first tokens that two segments can share: up to a border of both, or all where both are equal.

    Anything else would be computed in another grouping than without the cache, and differ in the last digits.
    """
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(ids_a, ids_b, strict=False)))
    if common == len(ids_a) == len(ids_b):
        return common
    of_both = set(borders(len(ids_a), sub_step)) & set(borders(len(ids_b), sub_step))
    return max((end for end in of_both if end <= common and end % sub_step == 0), default=0)


def pack(ids: Sequence[int]) -> bytes:
    """Return token ids as bytes, four each."""
    return struct.pack(f"<{len(ids)}I", *ids)


def unpack(packed: bytes) -> tuple[int, ...]:
    """Return the token ids of bytes that `pack` made."""
    return struct.unpack(f"<{len(packed) // 4}I", packed)
