"""One file per KV node, in the safetensors format that `mx.load` reads, with metadata of our own in the header.

Knows no tensor library: tensors come in as named buffers, each with its own CRC32 in the file.
"""

import json
import os
import stat
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from itertools import takewhile
from math import prod
from pathlib import Path
from typing import BinaryIO, Self
from zlib import crc32

from msgspec import Struct

from store.home import Identity, replacing

VERSION = 1
WIDTHS = {"F32": 4, "F16": 2, "BF16": 2, "U32": 4, "I32": 4, "U16": 2, "I16": 2, "U8": 1, "I8": 1}
Key = bytes  # 16 bytes of BLAKE2b
_ABOUT = "__metadata__"


class BadNode(Exception):
    """A file that is missing, damaged, or not its node's."""


class Payload(Struct, frozen=True):
    """A tensor as a header describes it: `begin` and `end` count bytes from the first payload."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int
    crc: int


class Header(Struct, frozen=True):
    """The node that a file holds; `payloads` are known only for a header read from a file."""

    root: Key
    key: Key
    parent: Key
    path: Key
    ids: tuple[int, ...]
    payloads: tuple[Payload, ...] = ()

    @property
    def payload_bytes(self) -> int:
        """Return the bytes of all payloads."""
        return self.payloads[-1].end if self.payloads else 0


def encode(header: Header, payloads: Sequence[Payload]) -> bytes:
    """Return the JSON of a header, its length a multiple of eight that depends on no checksum."""
    about = {
        "format": "pkb-kv", "version": str(VERSION), "root": header.root.hex(), "key": header.key.hex(),
        "parent": header.parent.hex(), "path": header.path.hex(), "ids": " ".join(map(str, header.ids)),
        "crc": " ".join(f"{one.crc:08x}" for one in payloads),
    }  # fmt: skip
    entries = {p.name: {"dtype": p.dtype, "shape": p.shape, "data_offsets": (p.begin, p.end)} for p in payloads}
    about["sum"] = f"{crc32(json.dumps([about, entries]).encode()):08x}"
    text = json.dumps({_ABOUT: about} | entries, separators=(",", ":")).encode()
    return text + b" " * (-len(text) % 8)


def decode(text: bytes) -> Header:
    """Read a header; BadNode where it is another program's, another version's, or damaged."""
    try:
        entries = json.loads(text)
        about = entries.pop(_ABOUT)
        root, key, parent, path = (bytes.fromhex(about[name]) for name in ("root", "key", "parent", "path"))
        payloads, at = [], 0
        for (name, one), crc in zip(entries.items(), about["crc"].split(), strict=True):
            begin, end = one["data_offsets"]
            payload = Payload(name, one["dtype"], tuple(one["shape"]), begin, end, int(crc, 16))
            numbers = (*payload.shape, end)  # a width may be 0: some layers store keys alone
            if begin != at or any(type(number) is not int or number < 0 for number in numbers):
                raise ValueError("not a shape, or not behind the payload before it")
            if end != at + WIDTHS[payload.dtype] * prod(payload.shape):
                raise ValueError("not as long as its shape says")
            payloads.append(payload)
            at = end
        ids = tuple(int(one) for one in about["ids"].split())
        header = Header(root, key, parent, path, ids, tuple(payloads))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        raise BadNode from None
    if encode(header, header.payloads) != text:
        raise BadNode
    return header


SUFFIX, PARTIAL = ".safetensors", ".part"
_HEADER_LIMIT = 4 << 20  # bytes; a header of 100,000 ids and 200 tensors takes 0.7 MB
_LENGTH = 8  # bytes of the header's length, little-endian, in front of it
_BLOCK = 1 << 20  # bytes read at a time: still in the processor's cache for the CRC


class Tensor(Struct, frozen=True):
    """A named payload: C-contiguous memory, its dtype in safetensors' words ("F32", "BF16") and its shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    buffer: bytes | memoryview


def size_of(header: Header, tensors: Sequence[Tensor]) -> int:
    """Return the size in bytes of the file that `write` makes."""
    payloads = _payloads(tensors, summed=False)
    return _LENGTH + len(encode(header, payloads)) + (payloads[-1].end if payloads else 0)


def write(path: Path, header: Header, tensors: Sequence[Tensor]) -> None:
    """Write a node's file atomically, through a temporary one beside it; OSError."""
    with replacing(path, path.with_suffix(PARTIAL), lasting=True) as file:
        write_to(file, header, tensors)


def write_to(file: BinaryIO, header: Header, tensors: Sequence[Tensor]) -> None:
    """Write a node's file into an open one."""
    text = encode(header, _payloads(tensors, summed=True))
    file.write(len(text).to_bytes(_LENGTH, "little") + text)
    for tensor in tensors:
        file.write(memoryview(tensor.buffer).cast("B"))


def verify(node: Path | BinaryIO) -> Header:
    """Return the header of a file, at a path or open, after checking all payloads against their CRC32; BadNode."""
    if isinstance(node, Path):
        with opened(node) as file:
            return verify(file)
    size = node.seek(0, os.SEEK_END)
    node.seek(0)
    length = int.from_bytes(node.read(_LENGTH), "little")
    if length > _HEADER_LIMIT or size < _LENGTH + length:
        raise BadNode
    header = decode(node.read(length))
    if size != _LENGTH + length + header.payload_bytes:
        raise BadNode
    for one in header.payloads:
        found, left = 0, one.end - one.begin
        while left and (block := node.read(min(left, _BLOCK))):
            found, left = crc32(block, found), left - len(block)
        if left or found != one.crc:
            raise BadNode
    return header


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file; BadNode for anything else at the path, such as a link or a pipe that would block."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        raise BadNode from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise BadNode
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        yield file


def _payloads(tensors: Sequence[Tensor], *, summed: bool) -> list[Payload]:
    found, at = [], 0
    for one in tensors:
        size = memoryview(one.buffer).nbytes
        assert size == prod(one.shape) * WIDTHS[one.dtype], f"{one.name}: {size} bytes for {one.shape}"
        found.append(Payload(one.name, one.dtype, one.shape, at, at + size, crc32(one.buffer) if summed else 0))
        at += size
    return found


KEY_BYTES = 16
_ADAPTER = "adapter"  # the one part of a root that path keys exclude


class DocumentSegment(tuple[int, ...]):
    """The token ids of a segment that holds text of documents; equal to any other tuple of the same ids."""

    document: str  # its id, or those of several with a space between them

    @classmethod
    def of(cls, ids: Sequence[int], document: str) -> Self:
        """Return the segment of a document."""
        made = cls(ids)
        made.document = document
        return made


def document_of(ids: Sequence[int]) -> str:
    """Return the documents of a segment, empty where it holds text of none."""
    return ids.document if isinstance(ids, DocumentSegment) else ""


def grouped(segments: Iterable[tuple[int, ...]], sub_step: int) -> list[tuple[int, ...]]:
    """Join neighbouring segments, the first ones first, until they have half a sub-step; the last may stay shorter.

    A model's call takes as long for a few tokens as for that many. What is joined depends on nothing behind it: prompts
    that begin alike are computed alike.
    """
    found = list[tuple[int, ...]]()
    for ids in segments:
        if found and 2 * len(found[-1]) < sub_step:
            last = found.pop()
            names = dict.fromkeys(f"{document_of(last)} {document_of(ids)}".split())
            ids = DocumentSegment.of((*last, *ids), " ".join(names))
        found.append(ids)
    return found


class TreeRoot(Struct, frozen=True):
    """The root of prefixes: `key` covers everything that changes the tensors, `path` everything but the adapter."""

    key: Key
    path: Key


class Node(Struct, frozen=True):
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
    document: str = ""  # that the segment is of, as of a DocumentSegment; empty where it is of none
    verified: Identity | None = None  # of its file, when that was read last


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
    """Return where the sub-steps of a segment end: counted from its start, a short remainder joins the last one."""
    if length <= 0:
        return []
    ends = list(range(sub_step, length, sub_step))
    if ends and (length - ends[-1]) * 2 < sub_step:
        ends.pop()  # every call of a model reads all of its weights, which so few tokens are not worth
    return [*ends, length]


def beginnings(segments: Sequence[tuple[int, ...]], sub_step: int) -> Iterator[list[tuple[int, ...]]]:
    """Yield the beginnings of a prompt that end at a sub-step, each of which the later ones can share."""
    for number, ids in enumerate(segments):
        for end in borders(len(ids), sub_step):
            yield [*segments[:number], DocumentSegment.of(ids[:end], document_of(ids))]


def shared(ids_a: Sequence[int], ids_b: Sequence[int], sub_step: int) -> int:
    """Count the first tokens that two segments can share: up to a border of both, or all where both are equal."""
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(ids_a, ids_b, strict=False)))
    if common == len(ids_a) == len(ids_b):
        return common
    # Anything else would be computed in another grouping than without the cache, and differ in the last digits.
    of_both = set(borders(len(ids_a), sub_step)) & set(borders(len(ids_b), sub_step))
    return max((end for end in of_both if end <= common and end % sub_step == 0), default=0)


def pack(ids: Sequence[int]) -> bytes:
    """Return token ids as bytes, four each."""
    return struct.pack(f"<{len(ids)}I", *ids)


def unpack(packed: bytes) -> tuple[int, ...]:
    """Return the token ids of bytes that `pack` made."""
    return struct.unpack(f"<{len(packed) // 4}I", packed)
