"""Readers' homes: after any change of the source, a reader's ledger and index have all of its collections, no more."""

import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st

from store.answers import AnswerBank, CachedAnswer, Origin
from store.catalog import NamedAddress, Provenance, SourceRoot
from store.database import EPOCH
from store.errors import NoStore, PkbError
from store.history import link_documents
from store.home import Home
from store.readers import _attached, take_over
from store.shards import Query
from store.types import Scope
from tests.effort import examples
from tests.store.kit import HashEmbedder, Opened, entry, home_in

QUICK = (Phase.explicit, Phase.reuse, Phase.generate)  # homes for each example: shrinking one takes long
COLLECTIONS = ("Mail", "Work", "Choir")
WORDS = ("red", "green", "tea")
EMBEDDER = HashEmbedder()
NOW = datetime(2024, 5, 3, tzinfo=UTC)

Step = str | tuple[str, tuple[str, ...], tuple[str, ...]]
changes = st.one_of(
    st.tuples(st.sampled_from("abcdef"), st.lists(st.sampled_from(WORDS), min_size=1, max_size=2).map(tuple),
              st.sets(st.sampled_from(COLLECTIONS), min_size=1, max_size=2).map(sorted).map(tuple)),
    st.sampled_from("abcdef"),
    st.sampled_from(("embed", "compact", "update", "move", "take")),
)  # fmt: skip


def reader_of(source: Home, folder: Path) -> Opened:
    """Open a reader's home beside its source."""
    return Opened(replace(home_in(folder), source=source.data))


def keep(opened: Opened, number: int, name: str, said: tuple[str, ...], collections: tuple[str, ...]) -> None:
    """Keep a document whose text, title and people have a word of their own."""
    own = f"canary{number}x"
    about = Provenance(NOW, (), (NamedAddress(f"{own} {name}", f"{name}@{own}", True),))
    one = entry(name, *(f"{word} {own}" for word in said), collections=collections, title=f"about {own}")
    opened.keep(msgspec.structs.replace(one, names={own: f"{own} {name}"}, provenance=about))


def change(opened: Opened, number: int, step: Step) -> None:
    """Change the source."""
    if isinstance(step, tuple):
        keep(opened, number, *step)
    elif step == "embed":
        opened.vectors.use(EMBEDDER.fingerprint)
        if rows := opened.vectors.wanted(3):
            opened.vectors.put([row["id"] for row in rows], EMBEDDER.embed([row["text"] for row in rows]))
    elif step == "compact":
        opened.knowledge.compact()
    elif step == "update":
        opened.mapped.update()
    elif step == "move":
        with opened.ledger.transaction():
            opened.ledger.rows.execute("UPDATE places SET collection = 'Work' WHERE collection = 'Choir'")
            opened.ledger.raise_generation()
    elif step != "take":
        opened.keep(removes=[step] if step in opened.documents() else [])


def known(opened: Opened, collections: tuple[str, ...]) -> dict[str, list[tuple[object, ...]]]:
    """Return what a ledger says of some collections, by table."""
    inside, rows = f"collection IN ({', '.join('?' * len(collections))})", opened.ledger.rows
    documents = f"SELECT document FROM places WHERE {inside}"
    said = {
        "places": f"SELECT * FROM places WHERE {inside} ORDER BY 1, 2",
        "files": f"SELECT * FROM files WHERE path IN (SELECT path FROM places WHERE {inside}) ORDER BY 1",
        "documents": f"SELECT * FROM documents WHERE id IN ({documents}) ORDER BY 1",
        "titles": f"SELECT * FROM titles WHERE document IN ({documents}) ORDER BY 1",
        "provenance": f"SELECT * FROM provenance WHERE document IN ({documents}) ORDER BY 1",
    }
    return {name: rows.execute(sql, collections).fetchall() for name, sql in said.items()}


def people(opened: Opened, collections: tuple[str, ...]) -> set[tuple[object, ...]]:
    """Return who is known in the documents of some collections, and in how many, counted anew."""
    sql = f"""SELECT value ->> 0, value ->> 1, value ->> 2, min(seen), count(*) FROM provenance, json_each(people)
        WHERE document IN (SELECT document FROM places WHERE collection IN ({", ".join("?" * len(collections))}))
        GROUP BY 1, 2, 3"""
    return {*opened.ledger.rows.execute(sql, collections)}


def counted(opened: Opened) -> set[tuple[object, ...]]:
    """Return who is known by an index as it was counted."""
    return {*opened.ledger.rows.execute("SELECT name, address, sends, seen, documents FROM intact_people")}


def found(opened: Opened, scope: Scope) -> set[tuple[str, str, bool]]:
    """Return the chunks that an index has within a scope: id, text, whether it is embedded."""
    view = opened.mapped.view()
    embedded = {hit.chunk.id for hit in view.by_vector(EMBEDDER.embed(["tea"])[0], scope, 1000)}
    hits = view.chunks_of("abcdef", scope)
    assert {hit.chunk.id for hit in view.by_words(Query(dict.fromkeys(WORDS, 1.0), 1.0), scope, 99)} <= {
        h.chunk.id for h in hits
    }
    return {(hit.chunk.id, hit.chunk.text, hit.chunk.id in embedded) for hit in hits}


def within(opened: Opened, collections: Sequence[str]) -> set[tuple[str, str, bool]]:
    """Return the chunks within any of some collections."""
    return set[tuple[str, str, bool]]().union(*(found(opened, Scope(collection=one)) for one in collections))


@given(st.lists(changes, max_size=14), st.sets(st.sampled_from(COLLECTIONS), max_size=2))
@examples(60, phases=QUICK, deadline=None)
def test_a_reader_has_its_collections_and_nothing_else(steps: list[Step], some: set[str]) -> None:
    mine, ever = tuple(sorted(some)), set[int]()
    with TemporaryDirectory() as folder:
        main = Opened(home_in(Path(folder, "main")))
        reader, every = (reader_of(main.home, Path(folder, name)) for name in ("reader", "every"))
        with closing(main.ledger), closing(reader.ledger), closing(every.ledger):
            with main.ledger.transaction():
                for one in COLLECTIONS:
                    main.catalogue.put_root(SourceRoot(f"/mail/{one.lower()}", one, None))
            for number, step in enumerate([*steps, "take"]):
                change(main, number, step)
                if isinstance(step, tuple) and (some.intersection(step[2]) or ("Choir" in step[2] and "Work" in some)):
                    ever.add(number)
                if step not in ("take", "update", "compact"):
                    continue
                before = reader.ledger.generation, every.ledger.generation
                take_over(reader.ledger, main.home.ledger, mine)
                take_over(every.ledger, main.home.ledger)
                assert (reader.ledger.generation, every.ledger.generation) >= before
                assert known(reader, mine) == known(main, mine)
                assert known(every, COLLECTIONS) == known(main, COLLECTIONS)
                assert counted(reader) == people(main, mine)
                assert counted(every) == counted(main)
                assert found(reader, Scope()) == within(reader, mine) == within(main, mine)
                assert found(every, Scope()) == found(main, Scope())
                assert every.reader.totals() == main.reader.totals()
            held = b"".join(path.read_bytes() for path in reader.home.data.glob("ledger.db*"))
            assert {int(one) for one in re.findall(rb"canary(\d+)x", held)} <= ever
            assert not [one for one in COLLECTIONS if one not in some and one.encode() in held]


def answer(question: str, *evidence: str, origin: Origin = "user") -> CachedAnswer:
    """Make a cached answer."""
    return CachedAnswer(question, "", "w", None, "{}", evidence, 1, "full", 1.0, 1.0, origin=origin)


@pytest.mark.parametrize("collections", [None, ["Mail"]])
def test_answers_go_with_the_documents_that_they_rest_on(tmp_path: Path, collections: list[str] | None) -> None:
    main = Opened(home_in(tmp_path / "main"))
    reader = reader_of(main.home, tmp_path / "reader")
    for number, name in enumerate("ab"):
        keep(main, number, name, ("red",), ("Mail",))
    assert take_over(reader.ledger, main.home.ledger, collections) == []
    bank = AnswerBank(reader.ledger)
    for key, name in ((b"1", "a"), (b"2", "b")):
        bank.put(key, answer(f"what is {name}?", f"{name}/0"), 10**6)
        with reader.ledger.transaction():
            link_documents(reader.ledger, key, [name])
    bank.put(b"3", answer("and a?", "a/0", origin="predicted"), 10**6)
    main.keep(removes=["a"])
    assert take_over(reader.ledger, main.home.ledger, collections) == ["a"]
    assert (bank.find(b"1"), bank.find(b"3")) == (None, None)
    # In a part of an archive any answer may have counted what is gone.
    assert bank.find(b"2") == (None if collections else answer("what is b?", "b/0"))
    assert take_over(reader.ledger, main.home.ledger, collections) == []


def test_what_was_read_before_a_document_went_is_not_stored(tmp_path: Path) -> None:
    main = Opened(home_in(tmp_path / "main"))
    reader, other = reader_of(main.home, tmp_path / "reader"), reader_of(main.home, tmp_path / "reader")
    keep(main, 1, "a", ("red",), ("Mail",))
    take_over(reader.ledger, main.home.ledger, ["Mail"])
    other.ledger.renew()  # another process begins to answer
    main.keep(removes=["a"])
    take_over(reader.ledger, main.home.ledger, ["Mail"])
    reader.ledger.renew()
    AnswerBank(other.ledger).put(b"1", answer("what is a?", "a/0"), 10**6)
    AnswerBank(reader.ledger).put(b"2", answer("what is there?"), 10**6)
    assert [key for key, _ in AnswerBank(reader.ledger).answered()] == [b"2"]


def test_a_change_of_collections_is_taken_over_and_back(tmp_path: Path) -> None:
    main = Opened(home_in(tmp_path / "main"))
    reader = reader_of(main.home, tmp_path / "reader")
    keep(main, 1, "a", ("red",), ("Mail",))
    keep(main, 2, "b", ("red",), ("Work",))
    for names, ids in ((["Mail"], {"a"}), (["Mail", "Work"], {"a", "b"}), ([], set()), (["Work"], {"b"})):
        take_over(reader.ledger, main.home.ledger, names)
        assert {hit.chunk.document for hit in reader.mapped.view().chunks_of("ab", Scope())} == ids
        assert reader.ledger.count("chunks") == len(ids)


def test_nothing_is_taken_over_while_the_source_forgets(tmp_path: Path) -> None:
    main = Opened(home_in(tmp_path / "main"))
    reader = reader_of(main.home, tmp_path / "reader")
    keep(main, 1, "a", ("red",), ("Mail",))
    with main.ledger.transaction():
        main.ledger.set(EPOCH, "1")
    take_over(reader.ledger, main.home.ledger)
    assert reader.catalogue.counts()["documents"] == 0
    with main.ledger.transaction():
        main.ledger.set(EPOCH, "2")
    take_over(reader.ledger, main.home.ledger)
    assert reader.catalogue.counts()["documents"] == 1


def test_a_source_that_is_not_there_or_newer_is_named(tmp_path: Path) -> None:
    main = Opened(home_in(tmp_path / "main"))
    reader = reader_of(main.home, tmp_path / "reader")
    with pytest.raises(NoStore):
        take_over(reader.ledger, tmp_path / "nothing.db")
    main.ledger.rows.execute("PRAGMA user_version = 999")
    with pytest.raises(PkbError, match="newer pkb"):
        take_over(reader.ledger, main.home.ledger)
    assert "source" not in [name for _, name, _ in reader.ledger.rows.execute("PRAGMA database_list")]


def test_the_source_is_only_read(tmp_path: Path) -> None:
    main = Opened(home_in(tmp_path / "main"))
    reader = reader_of(main.home, tmp_path / "reader")
    keep(main, 1, "a", ("red",), ("Mail",))
    with main.ledger.transaction():  # a writer at work
        main.ledger.set("x", "1")
        take_over(reader.ledger, main.home.ledger)
    assert reader.catalogue.counts()["documents"] == 1
    with _attached(reader.ledger, main.home.ledger), pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader.ledger.rows.execute("DELETE FROM source.documents")
