"""Examination finds each kind of damage by its name, and repair mends what can be mended."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from store.checksums import TableFiles
from store.database import Ledger
from store.integrity import examine, repair
from tests.store.conftest import Open
from tests.store.kit import HashEmbedder, Killed, Opened, entry


@pytest.fixture
def sound(opened: Opened) -> Opened:
    """Return a home with two documents and their vectors."""
    opened.keep(entry("a", "red fish", "blue"), entry("b", "green"))
    opened.vectors.use("hash-1")
    rows = opened.vectors.wanted(10)
    opened.vectors.put([row["id"] for row in rows], HashEmbedder().embed([row["text"] for row in rows]))
    return opened


def found(opened: Opened) -> list[str]:
    return [finding.name for finding in opened.wrong()]


def mend(opened: Opened) -> int:
    return repair(opened.home, opened.ledger, opened.tables, opened.knowledge).documents


def test_a_sound_home_has_no_findings(sound: Opened) -> None:
    assert found(sound) == []


def test_without_reading_all_data_the_cheap_things_are_looked_at(sound: Opened) -> None:
    names = [one.name for one in examine(sound.home, sound.ledger, sound.tables, read_data=False)]
    rows = ["documents", "chunks", "places", "vectors"]
    before = ["ledger", "rows", "journal", "forget", "privacy", "leftovers", "index"]
    assert names == [*before, *rows, "mapped", "kv"]


def test_a_lost_chunk_is_found_and_its_document_named(sound: Opened) -> None:
    sound.tables.delete("chunks", "id = 'a/1'")
    wrong = {finding.name: finding.documents for finding in sound.wrong()}
    assert (set(wrong), wrong["chunks"]) == ({"chunks", "vectors"}, ("a",))


def test_a_doubled_chunk_is_found(sound: Opened) -> None:
    row = sound.tables.select("chunks", "id = 'b/0'", _CHUNK)[0]
    sound.tables.add("chunks", [row])
    assert "chunks" in found(sound)


def test_abstracts_of_an_earlier_version_go_with_their_files(sound: Opened) -> None:
    shutil.copytree(sound.home.tables / "documents.lance", old := sound.home.tables / "abstracts.lance")
    columns = "path, crc, size, mtime_ns, ctime_ns, inode"
    for sql in (
        f"""INSERT INTO table_files ({columns}) SELECT replace(path, 'documents.lance', 'abstracts.lance'), crc, size,
            mtime_ns, ctime_ns, inode FROM table_files WHERE path LIKE 'documents.lance/%'""",
        "INSERT INTO jobs VALUES (1, 'summarize', 'a/0', 1, 1, 0, 1, '')",
        "ALTER TABLE jobs ADD COLUMN state TEXT",
        "DROP INDEX places_message",
        *(f"DROP TRIGGER places_changed_{change}" for change in ("insert", "delete", "update")),
        "CREATE TABLE moved (document TEXT PRIMARY KEY) WITHOUT ROWID",
        "CREATE TABLE kv_ghosts (key BLOB PRIMARY KEY) WITHOUT ROWID",
        "ALTER TABLE kv_nodes ADD COLUMN state TEXT",
        "ALTER TABLE kv_nodes ADD COLUMN owner TEXT",
        "CREATE INDEX kv_nodes_unfinished ON kv_nodes (state)",
        "CREATE TABLE kv_pins (id INTEGER PRIMARY KEY)",
        "CREATE TABLE predictor_stats (source TEXT)",
        *(f"ALTER TABLE job_outputs ADD COLUMN {name} TEXT" for name in ("source", "credit")),
        "PRAGMA user_version = 25",
    ):
        sound.ledger.rows.execute(sql)
    after = Opened(sound.home)
    assert ("abstracts" in after.tables.names(), after.ledger.rows.execute("SELECT * FROM jobs").fetchall()) == (
        False,
        [],
    )
    after.keep(entry("new", "blue"))
    assert (old.exists(), found(after)) == (False, [])


_CHUNK = [
    "id", "document", "position", "header", "text", "words", "first", "last",
    "title", "date", "sender", "recipients", "collections",
]  # fmt: skip


def test_a_lost_document_is_found(sound: Opened) -> None:
    sound.tables.delete("documents", "id = 'a'")
    assert found(sound) == ["documents"]


def test_a_lost_vector_is_found(sound: Opened) -> None:
    sound.tables.delete(str(sound.ledger.get("vectors")), "id = 'b/0'")
    assert found(sound) == ["vectors"]


def test_a_document_that_stands_nowhere_is_found(sound: Opened) -> None:
    sound.ledger.rows.execute("DELETE FROM places WHERE document = 'b'")
    assert found(sound)[0] == "places"


@pytest.mark.parametrize("steps", range(1, 7))  # of which the seventh would be the last
def test_a_change_that_was_interrupted_is_a_note_and_nothing_of_it_is_wrong(sound: Opened, steps: int) -> None:
    sound.fuse.length = sound.fuse.burnt + steps
    with pytest.raises(Killed):
        sound.keep(entry("c", "red", "new"), entry("b", "yellow"))
    looked = examine(sound.home, Ledger(sound.ledger.rows), sound.tables, read_data=True)
    assert [one.name for one in looked if one.note] == ["journal"]
    assert found(sound) == []


def test_an_interrupted_change_hides_no_other_damage(sound: Opened) -> None:
    sound.tables.delete("chunks", "true")
    sound.fuse.length = sound.fuse.burnt + 3
    with pytest.raises(Killed):
        sound.keep(entry("c", "red"))
    wrong = {one.name: one.documents for one in sound.wrong()}
    assert wrong == {"chunks": ("a", "b"), "vectors": ()}


def test_a_file_that_others_can_read_is_found_and_closed(sound: Opened) -> None:
    mend(sound)
    (sound.home.data / "note").touch()
    (sound.home.data / "note").chmod(0o644)  # whatever the umask
    privacy = [f.wrong for f in examine(sound.home, sound.ledger, sound.tables, read_data=False) if f.name == "privacy"]
    mend(sound)
    assert (privacy, _mode(sound.home.data / "note")) == (["1 files or folders can be read by other users"], 0o600)


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize(
    "damage",
    [
        ("chunks", "id = 'a/1'"),
        ("chunks", "document = 'a'"),
        ("documents", "id = 'a'"),
        ("chunks", "true"),
    ],
    ids=str,
)
def test_what_was_torn_is_removed_and_read_again(sound: Opened, damage: tuple[str, str]) -> None:
    sound.tables.delete(*damage)
    again = mend(sound)
    marked = sound.catalogue.changed()
    assert (again, len(marked), [name for name in found(sound) if name != "places"]) == (len(marked), again, [])


def test_a_mended_vector_is_wanted_again(sound: Opened) -> None:
    sound.tables.delete(str(sound.ledger.get("vectors")), "id = 'b/0'")
    mend(sound)
    assert (found(sound), sound.vectors.missing) == ([], 1)


def test_mended_frequencies_are_those_of_the_chunks(sound: Opened) -> None:
    mend(sound)
    assert sound.frequencies() == {"red": 1, "fish": 1, "blue": 1, "green": 1}


def test_a_damaged_page_of_the_ledger_is_found(open_home: Open) -> None:
    opened = open_home()
    opened.keep(*(entry(f"d{n}", f"w{n}") for n in range(300)))
    opened.ledger.rows.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    opened.ledger.close()
    raw = bytearray(opened.home.ledger.read_bytes())
    raw[4096 * 5 : 4096 * 8] = b"\xff" * (4096 * 3)
    opened.home.ledger.write_bytes(raw)
    opened = open_home()
    assert [(one.name, bool(one.wrong)) for one in opened.wrong()] == [("ledger", True)]


def wrong(opened: Opened, name: str, **options: Any) -> str:
    """Return what is wrong by the name of a finding, or else its note."""
    findings = examine(opened.home, opened.ledger, opened.tables, read_data=False, **options)
    return next(one.wrong or one.note for one in findings if one.name == name)


def test_links_are_found(sound: Opened, tmp_path: Path) -> None:
    mend(sound)
    os.link(sound.home.ledger, tmp_path / "another name")
    (sound.home.cache / "link").symlink_to(tmp_path)
    assert wrong(sound, "privacy") == "2 files or folders are links"


def test_a_file_of_the_cache_that_others_can_read_is_found_and_closed(sound: Opened) -> None:
    mend(sound)
    path = sound.home.cache / "note"
    path.write_bytes(b"")
    path.chmod(0o644)
    assert wrong(sound, "privacy") == "1 files or folders can be read by other users"
    mend(sound)
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_a_killed_process_left_is_found_and_removed(sound: Opened) -> None:
    (sound.home.tables / "chunks.lance" / "data" / "1.lance").write_bytes(b"")
    (sound.home.data / "ledger.new").write_bytes(b"")
    assert wrong(sound, "leftovers") == "1 files of a killed process"
    assert "interrupted" in wrong(sound, "journal")
    mend(sound)
    assert (wrong(sound, "leftovers"), wrong(sound, "journal")) == ("", "")


def test_a_ledger_set_aside_is_a_note(sound: Opened) -> None:
    (sound.home.data / "ledger.db.damaged").write_bytes(b"")
    assert "kept aside" in wrong(sound, "leftovers")


def test_a_forgetting_that_was_killed_is_found(sound: Opened) -> None:
    sound.ledger.set("forget.pending", '{"documents": [], "tables": true}')
    assert "pkb forget was interrupted" in wrong(sound, "forget")


def test_damage_is_found_in_a_file_of_the_same_size_and_date(sound: Opened) -> None:
    path = max((sound.home.tables / "chunks.lance" / "data").iterdir())
    before, raw = path.stat(), bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    files = TableFiles(sound.ledger, sound.home.tables)
    assert files.damaged("chunks", reads=True) == [path.relative_to(sound.home.tables).as_posix()]
