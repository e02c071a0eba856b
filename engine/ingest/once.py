"""Each passage is searched once: a quote, a forward or a signature that stands elsewhere already is left out here.

Knows passages and their digests; which document has which is kept by store/passages.py.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from engine.ingest.marks import attribution_lines
from store.types import Document, Passage

_MARKS = re.compile(r"^[> ]+", re.MULTILINE)
_ATTRIBUTION = 5  # lines
_REPEATED = ("quote", "forward", "signature")


@dataclass(frozen=True, slots=True)
class Split:
    """The passages of a document to search, the digests that it has from now on, and those it shares with others."""

    passages: tuple[Passage, ...]
    owned: tuple[bytes, ...]
    quoted: tuple[bytes, ...]


def digests(document: Document) -> list[bytes]:
    """Give a digest for each passage; quote marks, who is quoted, white space and case do not count."""
    return [_digest(passage) for passage in document.passages]


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


def _digest(passage: Passage) -> bytes:
    text = passage.text if passage.role == "body" else _unattributed(passage.text)
    bare = " ".join(_MARKS.sub("", text).casefold().split())
    return blake2b(bare.encode("utf-8", "replace"), digest_size=8).digest()


def _unattributed(text: str) -> str:
    """Give what is quoted without the "On Friday Ann wrote:" right above it."""
    lines = text.split("\n", _ATTRIBUTION + 1)
    marked = next((at for at, line in enumerate(lines) if line.lstrip(" ").startswith(">")), 0)
    if marked and attribution_lines(lines, marked - 1) == marked:
        return "\n".join(lines[marked:])
    return text
