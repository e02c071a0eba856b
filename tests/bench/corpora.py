"""The corpora of the evaluation: users with folders of documents, and their questions in order.

Sets in the form of questions.jsonl beside docs/ or mail/ are read as they lie there; others are made into files first.
Asked is what makes sense without a document in view and whose gold nobody found to be wrong, each text once.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.bench import enronqa, mised, synthetic
from tests.bench.corpus import Query, User, field, lines, list_of, loaded, once, parsed, safe, same, text_of

__all__ = ["CORPORA", "Query", "User", "same", "users"]

CORPORA = (
    *("synthetic", "locomo", "qmsum", "enron-annotated", "clinton-foia", "paraphrase"),
    *("mised", "enronqa"),
)
_FOREIGN: Mapping[str, Callable[[Path, Path], list[User]]] = {"mised": mised.users, "enronqa": enronqa.users}


def users(corpus: str, data: Path, scratch: Path) -> list[User]:
    """Return the users of a corpus, none where its data is not there; what must be turned into files goes to `scratch`.

    Raises ValueError for a name that is none, and for a file that is not in the format of its set at all.
    """
    if corpus not in CORPORA:
        raise ValueError(f"no corpus {corpus!r}; there are {', '.join(CORPORA)}")
    if corpus == "synthetic":
        return synthetic.users(scratch / corpus)
    if corpus in _FOREIGN:
        return _FOREIGN[corpus](data / corpus, scratch / corpus)
    found = (_user(corpus, file) for file in sorted((data / corpus).rglob("questions.jsonl")))
    return [user for user in found if user.folders and user.queries]


def question(line: str) -> Query | None:
    """Read a line of questions.jsonl; None where it is not to be asked. Raises ValueError."""
    row = loaded(line)
    text, answer = text_of(row, "question"), text_of(row, "answer")
    documents = list_of(row, "doc_ids") if field(row, "doc_ids") is not None else []
    if not text.strip() or not all(isinstance(path, str) for path in documents):
        raise ValueError("no question with its documents")
    if field(row, "standalone") is False or field(row, "gold_error"):
        return None
    return Query(text, "" if field(row, "unanswerable") else answer, frozenset(map(str, documents)))


def _user(corpus: str, file: Path) -> User:
    folders = tuple(folder for folder in (file.parent / "docs", file.parent / "mail") if folder.is_dir())
    asked = (query for query in parsed(lines(file), question) if query is not None)
    return User(corpus, safe(file.parent.name), folders, once(asked))
