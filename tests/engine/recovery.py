"""Recovers deleted text from the files of a home: the adversary of the tests of forgetting. Trusts no code of pkb's."""

import json
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Secret:
    """What must not come back: words, digests, vectors, and token ids as the model of the home splits its text."""

    words: tuple[str, ...]
    ids: tuple[str, ...] = ()
    vectors: tuple[np.ndarray, ...] = ()
    tokens: tuple[int, ...] = ()


def traces(folder: Path, secret: Secret) -> set[str]:
    """Return what kind of file or row still holds something of a secret, for each that does."""
    found = set(_in_bytes(folder, secret))
    found.update(_in_tables(folder / "tables", secret))
    found.update(_in_ledger(folder / "ledger.db", secret))
    found.update(token_files(folder, secret.tokens))
    return found


def files(folder: Path) -> set[Path]:
    """Return all files, but those that are replaced under the same name."""
    names = ("latest_version_hint.json", "ledger.db", "ledger.db-wal", "ledger.db-shm", "config.toml")
    found = (path for path in folder.rglob("*") if path.is_file() and path.name not in names)
    return {path for path in found if not {"locks", "checksums"} & set(path.parts) and path.suffix != ".lock"}


def _needles(secret: Secret) -> list[bytes]:
    texts = [one for word in (*secret.words, *secret.ids) for one in (word, word.lower(), word.upper())]
    return [*(t.encode(code) for t in texts for code in ("utf-8", "utf-16-le")), *(v.tobytes() for v in secret.vectors)]


def _in_bytes(folder: Path, secret: Secret) -> Iterator[str]:
    """Search every file as it is, and whatever in it zlib can inflate."""
    for path in (path for path in folder.rglob("*") if path.is_file()):
        data = path.read_bytes()
        for block in (data, *_inflated(data)):
            if any(needle in block for needle in _needles(secret)):
                yield f"bytes of {path.relative_to(folder).parts[0]}"


def _inflated(data: bytes) -> Iterator[bytes]:
    at = -1
    while (at := data.find(b"\x78", at + 1)) >= 0:
        try:
            yield zlib.decompressobj().decompress(data[at:])
        except zlib.error:
            continue


def _in_tables(folder: Path, secret: Secret) -> Iterator[str]:
    """Read every version that can be checked out, and every data file under the schema of its table."""
    import lancedb  # two seconds, which collecting this module would take

    db = lancedb.connect(folder)
    for name in db.list_tables().tables:
        table = db.open_table(name)
        for version in table.list_versions():
            table.checkout(version["version"])
            yield from (f"version of {name}" for _ in _hits(table.to_arrow(), secret))
        table.checkout_latest()
        for index in table.list_indices():
            if index.index_type == "FTS":
                for word in (word for word in secret.words if " " not in word):
                    query = table.search(word.lower(), query_type="fts")
                    yield from (f"index of {name}" for _ in query.limit(1).to_list())


def _hits(rows: "pa.Table", secret: Secret) -> Iterator[bool]:
    for row in rows.to_pylist():
        vector = row.pop("vector", None)
        if vector is not None and any(np.allclose(vector, one, atol=1e-3) for one in secret.vectors):
            yield True
        if _mentions(row, secret):
            yield True


def _mentions(row: Any, secret: Secret) -> bool:
    text = json.dumps(row, default=str, ensure_ascii=False).lower()
    return any(word.lower() in text for word in (*secret.words, *secret.ids))


def _in_ledger(path: Path, secret: Secret) -> Iterator[str]:
    """Read every table; pages that are free or in the log are among the bytes."""
    rows = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
    rows.text_factory = lambda raw: raw.decode("utf-8", "replace")
    for (name,) in rows.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
        if any(_mentions(row, secret) for row in rows.execute(f'SELECT * FROM "{name}"')):
            yield f"ledger table {name}"
    rows.close()


def token_files(folder: Path, tokens: Sequence[int]) -> Iterator[str]:
    """Look for tokens, in order, in the token ids of every file of tensors."""
    wanted = " ".join(map(str, tokens))
    for path in folder.rglob("*.safetensors") if wanted else ():
        size = int.from_bytes(path.read_bytes()[:8], "little")
        about = json.loads(path.read_bytes()[8 : 8 + size])["__metadata__"]
        if f" {wanted} " in f" {about['ids']} ":
            yield "tokens of the KV cache"


def kept(before: set[Path], folder: Path, under: Sequence[str]) -> set[str]:
    """Return the files in some folders that were there before and still are."""
    return {str(path) for path in before & files(folder) if set(under) & set(path.parts)}
