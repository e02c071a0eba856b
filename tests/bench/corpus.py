"""Corpora of the evaluation: users with folders of documents, and their questions in order.

The public sets are read in place: questions.jsonl beside docs/ or mail/. Only questions that make sense without a
document in view, and whose gold answer no audit found to be wrong, are asked, each text once.
"""

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from os import environ
from pathlib import Path
from typing import Any

from tests.bench.metrics import terms

DATA = Path(environ.get("PKB_BENCH_DATA", Path(__file__).resolve().parents[2] / "build" / "data"))  # public sets
PUBLIC = ("locomo", "qmsum", "enron-annotated", "clinton-foia", "paraphrase")
CORPORA = ("synthetic", *PUBLIC)


@dataclass(frozen=True, slots=True)
class Query:
    """One question, its gold answer ("" where nothing answers it), and the paths of the gold documents."""

    text: str
    answer: str
    documents: frozenset[str]


@dataclass(frozen=True, slots=True)
class User:
    """One user of a corpus: the folders to ingest, and the questions in order; the name is safe in a file name."""

    corpus: str
    name: str
    folders: tuple[Path, ...]
    queries: tuple[Query, ...]


def users(corpus: str, data: Path, scratch: Path) -> list[User]:
    """Return the users of a corpus, none where its data is not there; `scratch` takes generated documents.

    Raises ValueError for an unknown corpus.
    """
    from tests.bench import synthetic

    if corpus not in CORPORA:
        raise ValueError(f"no corpus {corpus!r}; there are {', '.join(CORPORA)}")
    if corpus == "synthetic":
        return synthetic.users(scratch / corpus)
    found = (_user(corpus, file) for file in sorted((data / corpus).rglob("questions.jsonl")))
    return [user for user in found if user.folders and user.queries]


def _user(corpus: str, file: Path) -> User:
    name = re.sub(r"[^\w.-]+", "_", file.parent.name, flags=re.ASCII)
    first = dict[str, Query]()
    for row in rows(file):
        first.setdefault(row["question"], query(row))
    return User(corpus, name, folders(file.parent), tuple(first.values()))


def folders(folder: Path) -> tuple[Path, ...]:
    """Return the folders of a user's documents."""
    return tuple(found for found in (folder / "docs", folder / "mail") if found.is_dir())


def query(row: dict[str, Any]) -> Query:
    """Return the question of a row."""
    return Query(row["question"], "" if row.get("unanswerable") else row["answer"], frozenset(row.get("doc_ids") or ()))


def rows(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of questions.jsonl that can be asked; a bad row is named on stderr by its line and skipped."""
    for number, line in enumerate(file.read_bytes().split(b"\n"), 1):
        if line.strip():
            if (row := question(line)) is None:
                print(f"{file}, line {number}: skipped: not a question with its answer and documents", file=sys.stderr)
            elif row.get("standalone", True) and not row.get("gold_error"):
                yield row


def question(line: bytes) -> dict[str, Any] | None:
    """Return a row of questions.jsonl; None where it has no question, answer or list of documents."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict) or not all(isinstance(row.get(key), str) for key in ("question", "answer")):
        return None
    documents = row.get("doc_ids") or []
    known = isinstance(documents, list) and all(isinstance(path, str) for path in documents)
    return row if known and row["question"].strip() else None


def same(one: Query, other: Query) -> bool:
    """Whether an answer to one answers the other: the same gold words and, where both name some, a common document.

    Two questions that nothing answers are the same only in the same words.
    """
    if not one.answer or not other.answer:
        return one.answer == other.answer and _words(one.text) == _words(other.text)
    if one.documents and other.documents and not one.documents & other.documents:
        return False
    return _words(one.answer) == _words(other.answer)


def _words(text: str) -> tuple[str, ...]:
    return terms(text) or tuple(text.casefold().split())
