"""The schema of the ledger: how it is written down, compared, and refused where it is from before the first release."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from store.catalog import Catalog, Problem
from store.database import OLDEST, has_schema, migrate_to, open_ledger
from store.errors import PkbError
from store.kv_index import LACKING, KvIndex


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a new ledger."""
    found = tmp_path / "ledger.db"
    open_ledger(found, create=True).close()
    return found


def change(path: Path, *changes: str) -> bool:
    """Change a schema as another program might; return whether it passes for the right one."""
    with closing(sqlite3.connect(path, isolation_level=None)) as rows:
        for one in changes:
            rows.execute(one)
    with closing(open_ledger(path)) as ledger:
        return has_schema(ledger)


def test_a_schema_that_sqlite_has_written_otherwise_is_the_same(path: Path) -> None:
    renamed = "ALTER TABLE {} RENAME TO other", "ALTER TABLE other RENAME TO {}"
    assert change(path)
    assert change(path, *(one.format(table) for table in ("kv_written", "jobs", "files") for one in renamed))


@pytest.mark.parametrize(
    "lost",
    [
        "DROP TRIGGER answers_size_insert",
        "DROP INDEX places_document",
        "ALTER TABLE kv_nodes DROP COLUMN inode",
        "ALTER TABLE jobs RENAME COLUMN kind TO kinf",
    ],
)
def test_a_schema_that_lacks_something_is_another(path: Path, lost: str) -> None:
    assert not change(path, lost)


def test_a_home_of_the_first_schema_opens_with_its_problems(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path, isolation_level=None)) as rows:
        migrate_to(rows, OLDEST)
        rows.execute("INSERT INTO problems VALUES (x'2f61', 0, 'empty')")
        rows.execute("PRAGMA application_id = 1886085681")
    with closing(open_ledger(path)) as ledger:
        assert has_schema(ledger)
        assert Catalog(ledger).problems("/a") == [Problem("/a", 0, "empty")]


def test_a_home_with_tables_that_are_used_no_more_opens_without_them(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path, isolation_level=None)) as rows:
        for number in range(OLDEST, 28):
            migrate_to(rows, number)
        rows.executescript("""CREATE TABLE embedded_documents (document TEXT PRIMARY KEY) WITHOUT ROWID;
            CREATE TRIGGER embedded_documents_delete AFTER DELETE ON documents BEGIN
                DELETE FROM embedded_documents WHERE document = old.id; END;
            INSERT INTO kv_ghosts VALUES (x'00', 1, 1, 1, 1);
            PRAGMA application_id = 1886085681""")
    with closing(open_ledger(path)) as ledger:
        assert (has_schema(ledger), ledger.get(LACKING)) == (True, "1")  # something had no room


def test_what_was_being_written_when_it_was_upgraded_is_no_node(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path, isolation_level=None)) as rows:
        for number in range(OLDEST, 30):
            migrate_to(rows, number)
        rows.create_function("is_current", 1, lambda _: True)
        for state in (b"complete", b"reserved", b"deleting"):
            sql = """INSERT INTO kv_nodes (key, parent, path, depth, ids, bytes, seconds, created, last_used, state)
                     VALUES (?, x'', x'', 1, x'', 1, 1, 1, 1, ?)"""
            rows.execute(sql, (state, state.decode()))
        rows.execute("PRAGMA application_id = 1886085681")
    with closing(open_ledger(path)) as ledger:
        assert (has_schema(ledger), KvIndex(ledger).all_keys()) == (True, [b"complete"])


def test_a_ledger_from_before_the_first_release_is_refused_and_left_as_it_is(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as rows:
        rows.execute(f"PRAGMA user_version = {OLDEST - 1}")
    with pytest.raises(PkbError, match="before the first release") as refused:
        open_ledger(path)
    assert refused.value.next_step
    with closing(sqlite3.connect(path)) as rows:
        assert rows.execute("PRAGMA user_version").fetchone() == (OLDEST - 1,)
