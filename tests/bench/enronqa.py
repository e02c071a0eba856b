"""Reads EnronQA (Ryan et al. 2025, arXiv 2505.00263; MichaelR207/enron_qa_0922 on the hub): questions about mailboxes.

Found published: {train,dev,test}-*.parquet, a mail a row in every split with the questions of that split: `email`,
`user` (the mailbox), `path` ("phanis-s/sent_items/4."), and lists of equal length: `questions`, `rephrased_questions`,
`gold_answers`; more columns are not read. Any of the files will do. A mail is written as it stands. Half of a stream
are rephrasings, for the set has one of every question.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path

import pyarrow.parquet as parquet

from tests.bench.corpus import Query, User, list_of, once, parsed, safe, settled, text_of

COLUMNS = ("email", "user", "path", "questions", "rephrased_questions", "gold_answers")
LATER = 7  # other questions between one and its rephrasing: nobody asks again at once
_ROWS = 128  # read at a time: a mail may be long


@dataclass(frozen=True, slots=True)
class Mail:
    """One mail, the name of its file, its questions, and each of these again in other words."""

    user: str
    file: str
    text: str
    asked: tuple[Query, ...]
    again: tuple[Query, ...]


@dataclass(slots=True)
class Box:
    """A mailbox as it fills."""

    asked: list[Query] = field(default_factory=list)
    again: list[Query] = field(default_factory=list)


def users(folder: Path, scratch: Path) -> list[User]:
    """Return a user a mailbox; raises ValueError for a file that is not one of the set."""
    boxes = dict[str, Box]()
    for file in sorted(folder.rglob("*.parquet")):
        for one in parsed(rows(file), mail):
            settled(scratch / one.user / one.file, one.text)
            box = boxes.setdefault(one.user, Box())
            box.asked += one.asked
            box.again += one.again
    return [_user(name, box, scratch) for name, box in sorted(boxes.items()) if box.asked]


def rows(file: Path) -> Iterator[tuple[str, object]]:
    """Yield the rows of a file, each with its place; raises ValueError for a file of another kind."""
    try:
        with parquet.ParquetFile(file) as opened:
            if missing := [column for column in COLUMNS if column not in opened.schema_arrow.names]:
                raise ValueError(f"no column {', '.join(missing)}")
            batches = opened.iter_batches(_ROWS, columns=list(COLUMNS))
            every = (row for batch in batches for row in batch.to_pylist())
            for number, row in enumerate(every, 1):
                yield f"{file}, row {number}", row
    except (ValueError, OSError) as error:
        raise ValueError(f"{file}: not a file of EnronQA: {error}") from error


def mail(row: object) -> Mail:
    """Read a row; raises ValueError."""
    user, path, text = safe(text_of(row, "user")), text_of(row, "path"), text_of(row, "email")
    if not text.strip():
        raise ValueError("no text in email")
    asked, again, golds = (list_of(row, key) for key in COLUMNS[3:])
    if not len(asked) == len(again) == len(golds) or not all(isinstance(one, str) and one for one in asked + golds):
        raise ValueError("questions without answers")
    file = _file(path)
    document = frozenset((file,))
    queries = tuple(Query(str(one), str(gold), document) for one, gold in zip(asked, golds, strict=True))
    others = tuple(
        replace(one, text=other) if isinstance(other, str) and other else one
        for one, other in zip(queries, again, strict=True)
    )
    return Mail(user, file, text, queries, others)


def _file(path: str) -> str:
    """Name a mail's file: where it lay, and a digest, for two paths may come to the same name."""
    digest = blake2b(path.encode("utf-8", "replace"), digest_size=4).hexdigest()
    return f"mail/{safe(path)}-{digest}.eml"


def _user(name: str, box: Box, scratch: Path) -> User:
    return User("enronqa", name, (scratch / name / "mail",), once(interleaved(box.asked, box.again)))


def interleaved(asked: Sequence[Query], again: Sequence[Query]) -> Iterator[Query]:
    """Yield questions, and each in other words after `LATER` others, or at the end."""
    for number, query in enumerate(asked):
        yield query
        if number >= LATER:
            yield again[number - LATER]
    yield from again[max(0, len(asked) - LATER) :]
