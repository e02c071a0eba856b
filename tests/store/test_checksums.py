"""Files of the search tables, damaged one by one: noticed before they are read, mended from what is left."""

import os
import random
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from store import checksums
from store.checksums import TableFiles
from store.database import DOUBTFUL, has_schema
from store.errors import DamagedTable, DiskFull
from store.home import identity
from store.integrity import repair
from store.tables import Tables
from store.types import Scope, document_row
from tests.damage import DAMAGES
from tests.store.conftest import Open
from tests.store.kit import HashEmbedder, Killed, Opened, entry


@pytest.fixture
def filled(opened: Opened) -> Opened:
    """Return a home with rows, indexes and removed rows in every table."""
    opened.keep(entry("a", "red fish", "blue"), entry("b", "green"), entry("gone", "red"))
    opened.vectors.use("hash-1")
    _embed(opened)
    opened.knowledge.compact()
    opened.keep(entry("c", "red boat"), removes=["gone"])
    _embed(opened)
    return opened


def _embed(opened: Opened) -> None:
    rows = opened.vectors.wanted(10)
    opened.vectors.put([row["id"] for row in rows], HashEmbedder().embed([row["text"] for row in rows]))


def _files(folder: Path) -> list[Path]:
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def _kinds(folder: Path) -> list[Path]:
    """Return the first and the last file of each kind in each table."""
    kinds: dict[tuple[str, ...], list[Path]] = {}
    for path in _files(folder):
        kinds.setdefault((*path.parts[:2], path.suffix), []).append(path)
    return [path for several in kinds.values() for path in dict.fromkeys((several[0], several[-1]))]


def _read(opened: Opened) -> object:
    """Return what is found by words, by vector and by id, as another process would find it."""
    reader = Opened(opened.home).reader
    vector = HashEmbedder().embed_question("red fish")
    words = [(hit.chunk.id, hit.chunk.text) for hit in reader.by_words(["red", "green"], Scope(), 9)]
    near = [hit.chunk.id for hit in reader.by_vector(vector, Scope(), 9)]
    return sorted(words), near, {name: row["text"] for name, row in reader.documents(["a", "b", "c"]).items()}


def _reading(opened: Opened, sound: object) -> str:
    try:
        return "right" if _read(opened) == sound else "wrong"
    except DamagedTable:
        return "damaged"


def _mend(opened: Opened) -> list[str]:
    """Repair, then do what is left to ingest and idle; returns what is still wrong."""
    repaired = repair(opened.home, opened.ledger, opened.tables, opened.knowledge)
    if repaired.documents:
        opened.keep(entry("a", "red fish", "blue"), entry("b", "green"), entry("c", "red boat"))
    _embed(opened)
    return [finding.name for finding in Opened(opened.home).wrong() if finding.name != "kv"]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(DAMAGES)))
def test_every_kind_of_damage_is_noticed_and_mended(filled: Opened, tmp_path: Path, number: int) -> None:
    """Each damage to other files, so that together they try every file that the long form tries."""
    files = _kinds(filled.home.tables)[number :: len(DAMAGES)]
    assert _wrong(filled, tmp_path / "kept", [(path, sorted(DAMAGES)[number]) for path in files]) == {}


@pytest.mark.soak
@pytest.mark.parametrize("damage", sorted(DAMAGES))
def test_no_damaged_file_gives_a_wrong_result_and_every_one_is_mended(
    filled: Opened, tmp_path: Path, damage: str
) -> None:
    assert len(_kinds(filled.home.tables)) > 20
    assert _wrong(filled, tmp_path / "kept", [(path, damage) for path in _kinds(filled.home.tables)]) == {}


@pytest.mark.slow
def test_damage_is_noticed_and_mended_wherever_it_is(filled: Opened, tmp_path: Path) -> None:
    every = [(path, damage) for path in _kinds(filled.home.tables) for damage in sorted(DAMAGES)]
    assert _wrong(filled, tmp_path / "kept", random.Random(7).sample(every, 8)) == {}


def _wrong(filled: Opened, kept: Path, cases: Sequence[tuple[Path, str]]) -> dict[tuple[Path, str], object]:
    """Damage one file at a time; returns what was read before, found wrong after a repair, and read then."""
    sound = _read(filled)
    found: dict[tuple[Path, str], object] = {}
    filled.ledger.rows.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    filled.ledger.close()
    shutil.copytree(filled.home.data, kept)
    for number, (path, damage) in enumerate(cases):
        shutil.rmtree(filled.home.data)
        shutil.copytree(kept, filled.home.data)
        DAMAGES[damage](filled.home.tables / path, random.Random(number))
        opened = Opened(filled.home)
        said = (_reading(opened, sound), _mend(opened), _reading(opened, sound))
        opened.ledger.close()
        if said[0] == "wrong" or said[1:] != ([], "right"):
            found[path, damage] = said
    return found


def test_a_copied_home_is_read_once_and_is_sound(filled: Opened, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(filled.home.tables, tmp_path / "copy"))
    assert Tables(copy, filled.ledger).damaged() == {}


def test_a_bit_that_rots_without_a_write_is_found_by_reading_all_data(filled: Opened) -> None:
    path = min(filled.home.tables.glob("documents.lance/data/*"))
    files = TableFiles(filled.ledger, filled.home.tables)
    with _unwritten(path):
        raw = bytearray(path.read_bytes())
        raw[len(raw) // 3] ^= 4
        path.write_bytes(raw)
        assert files.damaged("documents", reads=True) == [f"documents.lance/data/{path.name}"]


@contextmanager
def _unwritten(path: Path) -> Iterator[None]:
    """Have the file system say for a while that nobody wrote to a file."""
    known = identity(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checksums, "identity", lambda other: known if other == path else identity(other))
        yield


def test_writing_to_a_damaged_table_is_refused(filled: Opened, open_home: Open) -> None:
    os.truncate(min(filled.home.tables.glob("chunks.lance/data/*")), 10)
    with pytest.raises(DamagedTable, match=r"the search index is damaged \(chunks\)"):
        open_home().keep(entry("d", "new"))


class Torn(Tables):
    """Tables whose next write loses the end of a file, as it may on a full disk without LanceDB noticing."""

    pattern = ""

    @contextmanager
    def _writing(self, name: str) -> Iterator[None]:
        folder = self._folder / f"{name}.lance"
        before = set(folder.glob(self.pattern)) if self.pattern else set()
        with super()._writing(name):
            yield
            for path in set(folder.glob(self.pattern)) - before if self.pattern else ():
                os.truncate(path, path.stat().st_size - 4)


@pytest.mark.parametrize("pattern", ["data/*.lance", "_versions/*.manifest", "_deletions/*"])
def test_a_write_that_lost_the_end_of_a_file_fails_and_the_table_is_as_before(filled: Opened, pattern: str) -> None:
    sound, torn = _read(filled), Torn(filled.home.tables, filled.ledger)
    torn.pattern = pattern
    rows = filled.tables.select("documents", "true", ["id"])
    with pytest.raises(DiskFull, match="the disk is full or failing"):
        torn.add("documents", [document_row(entry("d"))]) if "data" in pattern else torn.delete("documents", "id = 'a'")
    assert Tables(filled.home.tables, filled.ledger).select("documents", "true", ["id"]) == rows
    assert (_read(filled), filled.wrong()) == (sound, [])


def test_a_torn_file_that_a_killed_writer_left_is_removed_by_the_next(filled: Opened, open_home: Open) -> None:
    before = set(_files(filled.home.tables))
    with suppress(Killed), filled.tables.change():
        filled.tables.add("documents", [document_row(entry("d"))])
        raise Killed
    fresh = [path for path in _files(filled.home.tables) if path not in before]
    newest = next(filled.home.tables / path for path in fresh if "data" in path.parts)
    os.truncate(newest, newest.stat().st_size - 4)
    opened = open_home()
    assert ("d" in opened.documents(), opened.wrong()) == (False, [])
    opened.keep(entry("e", "new"))
    assert "d" not in opened.documents()
    assert ("e" in opened.documents(), opened.wrong(), newest.exists()) == (True, [], False)


def test_what_a_killed_writer_had_not_named_yet_is_removed_by_the_next(filled: Opened) -> None:
    part = filled.home.tables / "documents.lance" / "data" / ".tmpA1b2C3"
    part.write_bytes(b"red fish")
    filled.keep(entry("d", "new"))
    assert not part.exists()
    part.write_bytes(b"red fish")
    filled.tables.rewrite("documents")
    assert not part.exists()


def test_the_files_of_a_home_whose_ledger_did_not_list_them_are_listed(filled: Opened, open_home: Open) -> None:
    sound, tables = _read(filled), filled.home.tables
    (tables / "checksums").mkdir()
    filled.ledger.rows.executescript(_BEFORE)
    filled.ledger.close()
    opened = open_home()
    assert (_read(opened), opened.wrong(), has_schema(opened.ledger)) == (sound, [], True)
    opened.knowledge.recover()
    opened.keep(entry("d", "new"))
    assert (opened.ledger.get(DOUBTFUL), opened.wrong()) == (None, [])
    assert not (tables / "checksums").exists()
    assert opened.chunks().keys() == {"a/0", "a/1", "b/0", "c/0", "d/0"}
    os.truncate(min(tables.glob("chunks.lance/data/*")), 10)
    assert _reading(opened, sound) == "damaged"


_BEFORE = """
DROP TABLE table_files; DROP INDEX places_message; DROP TRIGGER places_changed_insert;
DROP TRIGGER places_changed_delete; DROP TRIGGER places_changed_update;
CREATE TABLE kv_ghosts (key BLOB PRIMARY KEY) WITHOUT ROWID;
ALTER TABLE jobs ADD COLUMN state TEXT; ALTER TABLE kv_nodes ADD COLUMN state TEXT;
ALTER TABLE kv_nodes ADD COLUMN owner TEXT;
CREATE INDEX kv_nodes_unfinished ON kv_nodes (state); CREATE TABLE kv_pins (id INTEGER PRIMARY KEY);
CREATE TABLE predictor_stats (source TEXT PRIMARY KEY);
ALTER TABLE job_outputs ADD COLUMN source TEXT; ALTER TABLE job_outputs ADD COLUMN credit REAL;
CREATE TABLE relocations (document TEXT PRIMARY KEY, collections TEXT NOT NULL) WITHOUT ROWID;
CREATE TRIGGER relocations_changed_delete AFTER DELETE ON relocations BEGIN SELECT 1; END;
CREATE TABLE journal (id INTEGER PRIMARY KEY, begun REAL NOT NULL, payload TEXT NOT NULL);
CREATE TABLE frequencies (word TEXT PRIMARY KEY, chunks INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE missing_embeddings (chunk TEXT PRIMARY KEY, document TEXT NOT NULL, date TEXT) WITHOUT ROWID;
INSERT INTO journal VALUES (1, 0, '[[], ["gone"], 0, 0, {}, [], true]');
PRAGMA user_version = 23;
"""
