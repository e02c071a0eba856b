"""A deleted file: all that pkb made from it goes with it, in every tier and from every file of the home."""

import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from store.answers import RejectedAnswers
from store.database import open_ledger
from store.jobs import JobRow, Jobs, link_predictions
from tests.cli.conftest import Pkb
from tests.demo import NANO

WORD = "quibblewort"
ASKED = "Which plant grows behind the boathouse?"
OTHERS = ("What plant is growing behind the boathouse?", "What does Ann grow?", "Who wrote about the boathouse?")


def _mail(folder: Path, name: str, body: str, day: int) -> None:
    folder.mkdir(exist_ok=True)
    head = f"From: Ann Lee <ann@example.org>\nTo: bob@example.org\nMessage-ID: <{name}@x>\nSubject: {name}\n"
    (folder / f"{name}.eml").write_text(f"{head}Date: Mon, {day:02} Jun 2024 10:00:00 +0000\n\n{body}\n")


@pytest.fixture
def mail(fresh: Pkb, tmp_path: Path) -> Path:
    """Return a folder of messages, one of which alone holds the word, ingested by a home with a model."""
    folder = tmp_path / "mail"
    for number in range(6):
        _mail(folder, f"shed{number}", f"The shed number {number} is painted in colour {number + 20}.", number + 1)
    _mail(folder, "boathouse", f"The plant that grows behind the boathouse is {WORD}. It is {WORD} indeed.", 9)
    assert fresh("ingest", str(folder)).code == 0
    return folder


def _ask_everything(pkb: Pkb) -> None:
    """Fill every tier: by quotes and by the model, twice, reworded, rejected, and by an idle run."""
    for _ in range(2):
        pkb("ask", ASKED)
    pkb("ask", OTHERS[0])
    pkb("ask", OTHERS[2])
    pkb("wrong")
    pkb("idle", "--force", "--budget", "30s")
    assert pkb("model", "use", str(NANO)).code == 0
    for question in (ASKED, *OTHERS, ASKED):
        pkb("ask", question)
    pkb("idle", "--force", "--budget", "60s")


def _predict(pkb: Pkb) -> None:
    """Queue a question as an idle run predicts it from the message: nano predicts too rarely to wait for it."""
    with closing(open_ledger(pkb.folder / "home" / "ledger.db")) as ledger:
        chunk = next(iter(_chunks(pkb)))
        link_predictions(ledger, {f"Where is the {WORD}?": [chunk]})
        Jobs(ledger).offer([JobRow("populate", f"Where is the {WORD}?", 1.0, 1.0, 0.0, "chunks/model")])


def _connected(folder: Path) -> Any:
    import lancedb  # two seconds, which collecting this module would take

    return lancedb.connect(folder)


def _chunks(pkb: Pkb) -> list[str]:
    table = _connected(pkb.folder / "home" / "tables").open_table("chunks")
    return [row["id"] for row in table.to_arrow().to_pylist() if WORD in row["text"]]


def _holding(pkb: Pkb, *, tables: bool) -> set[str]:
    """Return the files of the home that hold the word, as bytes or as token ids; `tables`: LanceDB's alone, or not."""
    with closing(sqlite3.connect(pkb.folder / "home" / "ledger.db")) as rows:
        rows.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    patterns = [WORD.encode(), *_token_patterns()]
    found = set()
    for path in (path for path in pkb.folder.rglob("*") if path.is_file()):
        held = path.read_bytes()
        if ("tables" in path.parts) == tables and any(pattern in held for pattern in patterns):
            found.add(path.name if path.suffix == ".db" else path.suffix)
    return found


def _token_patterns() -> Iterator[bytes]:
    """Yield the token ids of the word as pkb packs them, and as headers of files and JSON write them."""
    tokenizer = Tokenizer.from_file(str(NANO / "tokenizer.json"))
    for text in (f" {WORD}", WORD):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        assert len(ids) > 2
        for part in (ids, ids[1:]):  # the first one depends on what stands before the word
            yield struct.pack(f"<{len(part)}I", *part)
            for between in (" ", ",", ", "):
                yield between.join(map(str, part)).encode()


def _clean_tables(pkb: Pkb) -> None:
    """Remove at once what compaction removes half an hour after the last reader may have needed it."""
    base = _connected(pkb.folder / "home" / "tables")
    for name in base.list_tables().tables:
        base.open_table(name).optimize(cleanup_older_than=timedelta(milliseconds=1), delete_unverified=True)


@pytest.mark.slow
def test_what_was_made_from_a_deleted_file_goes_with_it(fresh: Pkb, mail: Path) -> None:
    _ask_everything(fresh)
    _predict(fresh)
    with closing(open_ledger(fresh.folder / "home" / "ledger.db")) as ledger:
        assert RejectedAnswers(ledger).count() == 1
        assert ledger.rows.execute("SELECT count(*) FROM answers WHERE reply LIKE ?", (f"%{WORD}%",)).fetchone()[0] > 1
    assert {"ledger.db", ".safetensors"} <= _holding(fresh, tables=False)
    (mail / "boathouse.eml").unlink()
    assert fresh("ingest").code == 0
    assert _holding(fresh, tables=False) == set()
    for question in (ASKED, *OTHERS):
        assert WORD not in fresh("ask", question, "--cache=stale", "--json").out
    assert fresh("idle", "--force", "--budget", "60s").code == 0
    assert (_chunks(fresh), _holding(fresh, tables=False)) == ([], set())
    assert fresh("doctor", "--data", "--read-data").code == 0
    with closing(open_ledger(fresh.folder / "home" / "ledger.db")) as ledger:
        assert ledger.rows.execute("SELECT count(*) FROM history WHERE question = ?", (ASKED,)).fetchone()[0] > 2


@pytest.mark.slow
def test_what_was_made_from_a_former_version_goes_with_it(fresh: Pkb, mail: Path) -> None:
    _ask_everything(fresh)
    _mail(mail, "boathouse", "The plant that grows behind the boathouse is ivy.", 9)
    assert fresh("ingest").code == 0
    assert _holding(fresh, tables=False) == set()
    assert WORD not in fresh("ask", ASKED, "--cache=stale", "--json").out


def test_once_ten_are_deleted_the_tables_hold_their_texts_no_longer_than_former_versions(
    fresh: Pkb, mail: Path
) -> None:
    others = [f"gate{number}" for number in range(9)]
    for name in others:
        _mail(mail, name, f"{name} is open.", 10)
    assert fresh("ingest").code == 0
    for name in ("boathouse", *others):
        (mail / f"{name}.eml").unlink()
    assert fresh("ingest").code == 0
    _clean_tables(fresh)
    assert (_chunks(fresh), _holding(fresh, tables=True)) == ([], set())
