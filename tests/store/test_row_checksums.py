"""Rows of the ledger with a bit changed on the disk: never read, found by a check, removed by a repair."""

import random
import re
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from store import catalog
from store.answers import (
    AnswerBank,
    CachedAnswer,
    Notice,
    Notices,
    PendingVerification,
    RejectedAnswers,
    Verifications,
)
from store.catalog import Catalog, NamedAddress, Provenance
from store.database import TABLES, Ledger, intact, open_ledger, path_key
from store.errors import DamagedLedger
from store.integrity import page_damage, repair
from tests.effort import slow_only
from tests.store.kit import Opened, entry

REPLY = "the concert is on Friday the seventh of June"
SEEN = datetime(2024, 6, 1, tzinfo=UTC)
KNOWN = Provenance(SEEN, ("later than seen",), (NamedAddress("ann lee", "ann@choir.example", sends=True),))
ENTRY = CachedAnswer("when is it?", "", "w/5", None, REPLY, ("a/0",), 4, "full", 1.0, 12.5, tau=0.93)


def fill(ledger: Ledger) -> None:
    """Put a row into every table that has checksums."""
    bank = AnswerBank(ledger)
    bank.put(b"key-a", ENTRY, 10_000)
    bank.put(b"key-b", ENTRY, 10_000)
    Verifications(ledger).add(PendingVerification(b"key-b", b"key-a", 0.95, "served on Friday", 6.0))
    Notices(ledger).add(Notice(b"key-a", "changed", "was Thursday", "is Friday", "{}", 5.0))
    RejectedAnswers(ledger).add(b"key-a", "rejected Thursday", 4.0)
    ledger.rows.execute("INSERT INTO predictions (question, chunk) VALUES ('who sings then?', 'a/0')")
    with ledger.transaction():
        catalog.put_provenance(ledger, {"a": KNOWN})


def everything(ledger: Ledger) -> list[object]:
    """Return all that readers can see of those rows."""
    return [
        *(AnswerBank(ledger).find(key) for key in (b"key-a", b"key-b")),
        Verifications(ledger).all(),
        RejectedAnswers(ledger).find(b"key-a"),
        ledger.rows.execute("SELECT question, chunk FROM intact_predictions").fetchall(),
        catalog.provenance_of(ledger, ["a"]),
        catalog.addresses_of(ledger, None, "ann lee"),
        Notices(ledger).pop(b"key-a"),
    ]


def damaged(ledger: Ledger) -> dict[str, int]:
    sql = "SELECT count(*) FROM {} WHERE {} IS NOT TRUE"
    counts = {table: ledger.rows.execute(sql.format(table, intact(table))).fetchone()[0] for table in TABLES}
    return {table: count for table, count in counts.items() if count}


def flip(path: Path, text: bytes, chance: random.Random) -> None:
    """Flip a bit of every place of the file that holds a text."""
    raw = bytearray(path.read_bytes())
    at, bit = chance.randrange(len(text)), 1 << chance.randrange(8)
    places = [found.start() for found in re.finditer(re.escape(text), bytes(raw))]
    assert places
    for place in places:
        raw[place + at] ^= bit
    path.write_bytes(raw)


TEXTS = {
    REPLY: "answers", "served on Friday": "verifications", "was Thursday": "notices", "rejected Thursday":
    "rejected_answers", "who sings then?": "predictions", "later than seen": "provenance",
}  # fmt: skip


@pytest.mark.parametrize("seed", [0, *slow_only(1, 2, 3)])
@pytest.mark.parametrize(("text", "table"), TEXTS.items())
def test_a_flipped_bit_of_a_text_is_never_read_and_removed(opened: Opened, text: str, table: str, seed: int) -> None:
    opened.keep(entry("a", "red"))
    opened.ledger.rows.execute("DELETE FROM provenance")
    fill(opened.ledger)
    opened.ledger.rows.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    opened.ledger.close()
    flip(opened.home.ledger, text.encode(), random.Random(seed))
    with closing(open_ledger(opened.home.ledger)) as ledger:
        assert page_damage(ledger) == ""
        assert list(damaged(ledger)) == [table]
        assert not any(text[1:9] in str(one) for one in everything(ledger))
        again = Opened(opened.home)
        assert "rows" in [one.name for one in again.wrong()]
        done = repair(again.home, again.ledger, again.tables, again.knowledge)
        assert done.documents == (table == "provenance")
        assert damaged(ledger) == {}
        assert [one.name for one in again.wrong()] == []


def test_a_change_of_any_covered_value_past_the_triggers_is_noticed(tmp_path: Path) -> None:
    """Numbers too: a generation that seems newer would have an old answer served."""
    with closing(open_ledger(tmp_path / "l.db", create=True)) as ledger:
        fill(ledger)
        for (name,) in ledger.rows.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
            ledger.rows.execute(f"DROP TRIGGER {name}")
        for table in TABLES:
            columns = [row[1] for row in ledger.rows.execute(f"PRAGMA table_info({table})")]
            for column in set(columns) - {"uses", "last_used", "matched", "key"}:
                for more in ("7", "x"):  # which makes a text of a number
                    ledger.rows.execute("SAVEPOINT one")
                    ledger.rows.execute(f"UPDATE {table} SET {column} = coalesce({column}, 0) || ?", (more,))
                    assert table in damaged(ledger), (table, column)
                    ledger.rows.execute("ROLLBACK TO one")


def test_using_a_damaged_row_does_not_make_it_seem_intact(tmp_path: Path) -> None:
    with closing(open_ledger(tmp_path / "l.db", create=True)) as ledger:
        fill(ledger)
        ledger.rows.execute("UPDATE answers SET crc = crc + 1 WHERE key = ?", (b"key-a",))
        bank = AnswerBank(ledger)
        bank.record_use(b"key-a", 9, 2.0)
        bank.raise_tau(b"key-a", 0.97)
        assert bank.find(b"key-a") is None
        bank.put(b"key-a", ENTRY, 10_000)
        assert bank.find(b"key-a") == ENTRY
        assert damaged(ledger) == {}


def test_a_damaged_place_is_never_cited_and_has_the_ledger_rebuilt(opened: Opened) -> None:
    opened.keep(entry("a", "red"))
    (place,) = Catalog(opened.ledger).places("a")
    opened.ledger.rows.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    opened.ledger.close()
    flip(opened.home.ledger, place.path.encode(), random.Random(3))
    with closing(open_ledger(opened.home.ledger)) as ledger:
        assert page_damage(ledger, whole=False) == "rows of places are damaged"
        with pytest.raises(DamagedLedger):
            Catalog(ledger).places("a")


def _flip_in_pages(ledger: Ledger, path: Path, name: str, text: bytes) -> None:
    """Flip a bit of a text in the pages of one index or table alone; closes the ledger."""
    ledger.rows.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    (size,) = ledger.rows.execute("PRAGMA page_size").fetchone()
    root = ledger.rows.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (name,)).fetchone()[0]
    ledger.close()
    raw = bytearray(path.read_bytes())
    raw[raw.index(text, (root - 1) * size, root * size)] ^= 2
    path.write_bytes(raw)


@pytest.mark.parametrize("part", ["path", "document"])
def test_a_place_that_the_index_cannot_find_any_more_is_no_missing_document(opened: Opened, part: str) -> None:
    opened.keep(entry("some-document", "red"))
    (place,) = Catalog(opened.ledger).places("some-document")
    text = place.path if part == "path" else place.document
    _flip_in_pages(opened.ledger, opened.home.ledger, "places_document", text.encode())
    with closing(open_ledger(opened.home.ledger)) as ledger, pytest.raises(DamagedLedger):
        Catalog(ledger).places("some-document")


def test_a_document_that_is_about_to_be_removed_has_no_places(opened: Opened) -> None:
    opened.keep(entry("a", "red"))
    (place,) = Catalog(opened.ledger).places("a")
    with opened.ledger.transaction():
        Catalog(opened.ledger).drop(place.path, [path_key(place.path)])
    assert Catalog(opened.ledger).places("a") == []
    assert Catalog(opened.ledger).places("never stored") == []


def test_a_schema_that_is_no_text_any_more_is_said_to_be_damaged(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    with closing(open_ledger(path, create=True)) as ledger:
        ledger.rows.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"CREATE TRIGGER") + 6] |= 0x80
    path.write_bytes(raw)
    with pytest.raises(DamagedLedger):
        open_ledger(path)
