"""One file a node: the tensors in the safetensors format, which `mx.load` reads, under a header of our own.

Knows no tensor library: tensors come in as named buffers, each with a CRC32 of its own in the file.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

from store.kv_header import WIDTHS, BadNode, Header, Payload, decode, encode

SUFFIX, PARTIAL = ".safetensors", ".part"
_HEADER_LIMIT = 4 << 20  # bytes; a header of 100,000 ids and 200 tensors takes 0.7 MB
_LENGTH = 8  # bytes of the header's length, little-endian, which stand before it
_BLOCK = 1 << 20  # bytes read at a time: still in the processor's cache when they are summed


@dataclass(frozen=True, slots=True)
class Tensor:
    """A named payload: C-contiguous memory, its dtype in safetensors' words ("F32", "BF16") and its shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    buffer: bytes | memoryview


@dataclass(frozen=True, slots=True)
class Identity:
    """What a file system says of a file: as long as it says the same, nobody has written to it."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


def identity(path: Path) -> Identity | None:
    """Give a file's identity; None where there is no regular file."""
    try:
        found = path.lstat()
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return Identity(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


def size_of(header: Header, tensors: Sequence[Tensor]) -> int:
    """Give the exact bytes of the file that `write` would make."""
    payloads = _payloads(tensors, summed=False)
    return _LENGTH + len(encode(header, payloads)) + (payloads[-1].end if payloads else 0)


def write(path: Path, header: Header, tensors: Sequence[Tensor]) -> None:
    """Write a node's file so that it is there whole or not at all, through a temporary one beside it; OSError.

    After a power cut a name may be gone, which is a node that is missing; never is there a name without its bytes.
    """
    temporary = path.with_suffix(PARTIAL)
    text = encode(header, _payloads(tensors, summed=True))
    with suppress(FileNotFoundError):
        temporary.unlink()
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(len(text).to_bytes(_LENGTH, "little") + text)
            for tensor in tensors:
                file.write(memoryview(tensor.buffer).cast("B"))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def verify(path: Path) -> Header:
    """Return whose tensors a file holds and where, after holding all payloads against their CRC32; BadNode."""
    with _opened(path) as file:
        header = _header(file)
        if any(_crc(file, one.end - one.begin) != one.crc for one in header.payloads):
            raise BadNode("flipped")
        return header


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file; whatever else lies there (a link, a pipe that would wait for a writer) is foreign."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise BadNode("missing") from None
    except OSError:
        raise BadNode("foreign") from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise BadNode("foreign")
        with os.fdopen(descriptor, "rb", buffering=0, closefd=False) as file:
            yield file
    finally:
        os.close(descriptor)


def _header(file: BinaryIO) -> Header:
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(_LENGTH), "little")
    if length > _HEADER_LIMIT:
        raise BadNode("foreign")
    if size < _LENGTH + length:
        raise BadNode("torn")
    header = decode(file.read(length))
    if size != _LENGTH + length + header.payload_bytes:
        raise BadNode("torn")
    return header


def _payloads(tensors: Sequence[Tensor], *, summed: bool) -> list[Payload]:
    found, at = [], 0
    for one in tensors:
        size = memoryview(one.buffer).nbytes
        assert size == prod(one.shape) * WIDTHS[one.dtype], f"{one.name}: {size} bytes for {one.shape}"
        found.append(Payload(one.name, one.dtype, one.shape, at, at + size, crc32(one.buffer) if summed else 0))
        at += size
    return found


def _crc(file: BinaryIO, size: int) -> int | None:
    """Sum up the next bytes of a file; None where it ends before."""
    found = 0
    while size:
        block = file.read(min(size, _BLOCK))
        if not block:
            return None
        found, size = crc32(block, found), size - len(block)
    return found
