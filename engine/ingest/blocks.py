"""Parsed documents, a block at a time: enough to be put in order of date, never more than memory should hold."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from store.catalog import Problem
from store.types import Document, FileState, Place, Reading

_DOCUMENTS, _CHARS = 20_000, 64_000_000
_TICK = 200  # files


@dataclass(slots=True)
class FileRead:
    """A file and what it held; grows until it is `whole`. The first `kept` places are in the catalogue already."""

    path: str
    state: FileState
    places: list[Place] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    whole: bool = False
    kept: int = 0


@dataclass(slots=True)
class Block:
    """Documents in no order, each once, and the files they came from; `read` counts documents, copies included."""

    documents: dict[str, Document] = field(default_factory=dict)
    files: list[FileRead] = field(default_factory=list)
    read: int = 0
    chars: int = 0

    @property
    def full(self) -> bool:
        """Tell whether to keep what is here before reading on."""
        return len(self.documents) >= _DOCUMENTS or self.chars >= _CHARS


def blocks(
    files: Mapping[bytes, FileState],
    collection: str,
    reader: Callable[[Path], Iterator[Reading]],
    known: Callable[[str], bool],
) -> Iterator[Block | int]:
    """Read files into blocks, giving the number of files read now and then; a `known` document counts as a place only.

    A large file may span several blocks: it is whole in the last of them.
    """
    block = Block()
    for number, key in enumerate(sorted(files), 1):
        file = FileRead(os.fsdecode(key), files[key])
        block.files.append(file)
        for reading in reader(Path(file.path)):
            _take(block, file, reading, collection, known)
            if block.full:
                yield block
                block = Block(files=[file])
        file.whole = True
        if number % _TICK == 0:
            yield number
    yield block


def _take(block: Block, file: FileRead, reading: Reading, collection: str, known: Callable[[str], bool]) -> None:
    if reading.problem:
        file.problems.append(Problem(file.path, reading.item, reading.problem))
    if (document := reading.document) is None:
        return
    block.read += 1
    place = (file.path, reading.item, document.id, document.message_id, reading.offset, collection)
    file.places.append(Place(*place))
    if document.id not in block.documents and not known(document.id):
        block.documents[document.id] = document
        block.chars += len(document.text)
