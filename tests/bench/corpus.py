"""The types of a corpus: users with folders of documents and a stream of questions.

Also what the readers of foreign formats share. Knows no corpus, and nothing of caches.
"""

import json
import re
import string
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

Raw = TypeVar("Raw")
Read = TypeVar("Read")
_ARTICLES = frozenset(("a", "an", "the"))


@dataclass(frozen=True, slots=True)
class Query:
    """One question, its gold answer ("" where nothing answers it), and the gold documents by their paths."""

    text: str
    answer: str
    documents: frozenset[str]


@dataclass(frozen=True, slots=True)
class User:
    """One user of a corpus: what is ingested, and what is asked, in order; the name is safe as a file's."""

    corpus: str
    name: str
    folders: tuple[Path, ...]
    queries: tuple[Query, ...]


def same(one: Query, other: Query) -> bool:
    """Return whether an answer to one answers the other: the same gold in words and, where both name some, a document.

    Two questions that nothing answers share no answer; they are the same only if they are in the same words.
    """
    if not one.answer or not other.answer:
        return one.answer == other.answer and words(one.text) == words(other.text)
    if one.documents and other.documents and not one.documents & other.documents:
        return False
    return words(one.answer) == words(other.answer)


def words(text: str) -> tuple[str, ...]:
    """Split into words, as answers are compared: no case, no punctuation, no articles."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    kept = "".join(letter for letter in folded if letter not in string.punctuation)
    return tuple(word for word in kept.split() if word not in _ARTICLES) or tuple(folded.split())


def once(queries: Iterable[Query]) -> tuple[Query, ...]:
    """Keep the first of the questions with the same text."""
    first = dict[str, Query]()
    for query in queries:
        first.setdefault(query.text, query)
    return tuple(first.values())


def safe(name: str) -> str:
    """Make a file's name of any text; raises ValueError where nothing is left."""
    if kept := re.sub(r"[^\w.-]+", "_", name, flags=re.ASCII).strip("._-")[:100]:
        return kept
    raise ValueError("a name without letters")


def settled(path: Path, text: str) -> None:
    """Write a file, unless it is as it should be: what is written once stays unchanged for who looks at its time."""
    data = text.encode("utf-8", "replace")
    if path.exists() and path.read_bytes() == data:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(data)
    part.replace(path)


def parsed(rows: Iterable[tuple[str, Raw]], parse: Callable[[Raw], Read]) -> Iterator[Read]:
    """Yield what rows say; one that says nothing is named on stderr by its place, without its text, and left out."""
    for place, row in rows:
        try:
            read = parse(row)
        except ValueError as error:
            print(f"{place}: skipped: {error}", file=sys.stderr)
        else:
            yield read


def lines(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the lines of a file that hold something, each with its place."""
    with file.open(encoding="utf-8", errors="replace", newline="\n") as opened:
        for number, line in enumerate(opened, 1):
            if line.strip():
                yield f"{file}, line {number}", line


def loaded(line: str) -> object:
    """Read a line of JSON; raises ValueError."""
    try:
        value: object = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError("not JSON") from error
    return value


def field(row: object, key: str) -> object:
    """Return a field of a row of foreign data, None where there is none."""
    return row.get(key) if isinstance(row, dict) else None


def text_of(row: object, key: str) -> str:
    """Return a text of a row of foreign data; raises ValueError."""
    value = field(row, key)
    if not isinstance(value, str):
        raise ValueError(f"no text in {key}")
    return value.encode("utf-8", "replace").decode()


def list_of(row: object, key: str) -> list[object]:
    """Return a list of a row of foreign data; raises ValueError."""
    value = field(row, key)
    if not isinstance(value, list):
        raise ValueError(f"no list in {key}")
    return value
