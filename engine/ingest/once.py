"""Each passage is searched once: a quote, a forward or a signature that stands elsewhere already is left out here.

Knows passages and their digests; which document has which is kept by store/passages.py.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from store.records import Document, Passage

_MARKS = re.compile(r"^[> ]+", re.MULTILINE)
_REPEATED = ("quote", "forward", "signature")


@dataclass(frozen=True, slots=True)
class Split:
    """The passages of a document to search, the digests that it has from now on, and those it shares with others."""

    passages: tuple[Passage, ...]
    owned: tuple[bytes, ...]
    quoted: tuple[bytes, ...]


def digests(document: Document) -> list[bytes]:
    """Give a digest for each passage; quote marks, white space and case do not count."""
    return [_digest(passage.text) for passage in document.passages]


def bodies(document: Document, digests: Sequence[bytes]) -> list[bytes]:
    """Give the digests of what a mail says itself."""
    pairs = zip(document.passages, digests, strict=True)
    return [digest for passage, digest in pairs if passage.role not in _REPEATED]


def split(document: Document, digests: Sequence[bytes], owners: Mapping[bytes, str]) -> Split:
    """Keep what the document says itself, and of the rest what no other document has."""
    kept, owned, quoted = [], [], []
    for passage, digest in zip(document.passages, digests, strict=True):
        if passage.role in _REPEATED and owners.get(digest, document.id) != document.id:
            quoted.append(digest)
        else:
            kept.append(passage)
            owned.append(digest)
    return Split(tuple(kept), tuple(owned), tuple(quoted))


def _digest(text: str) -> bytes:
    bare = " ".join(_MARKS.sub("", text).casefold().split())
    return blake2b(bare.encode("utf-8", "replace"), digest_size=8).digest()
