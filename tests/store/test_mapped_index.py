"""The mapped index: it finds what a plain search of LanceDB's rows finds, after any change, damage or kill."""

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, date, datetime, timedelta, timezone
from errno import ENOSPC
from functools import partial
from math import log
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zlib import decompress

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st

from store.documents import Knowledge
from store.erasure import Eraser
from store.home import identity
from store.locks import Lease
from store.mapped_index import IndexLimits, MappedIndex, ShardList, StoredShard
from store.search import Reader
from store.shards import K1, ROW, Arrays, B, Shard, _texts, digest, load
from store.types import Chunk, Hit, IndexedDocument, Row, Scope, Vectors, among, in_own_zone, is_within, replace
from tests.effort import examples
from tests.store.conftest import Open
from tests.store.kit import Fuse, HashEmbedder, Killed, Opened, entry, home_in

WORDS = ("red", "green", "blue", "tea", "Ä1")
NAMES = "abcdefg"
PEOPLE = ("Ann Lee <ann@example.org>", "bo@example.org", "Bob ANN", "")
MORE_PEOPLE = (
    "Hannah Leeds <hannah.l@mail.example.org>", "announce@ann.org", "Lee, Änn", "ann.lee@lists.org", "李 安 <ann_2@x>",
    "Ann Müller (Choir) <A.Mueller@EXAMPLE.org>", "Straße <ß@example.org.evil>", "'Ann'", "Zoë O’Brien",
)  # fmt: skip
COLLECTIONS = (("Mail",), ("Work",), ("Mail", "Work"))
DAYS = (date(2024, 5, 3), date(2024, 5, 4), date(2024, 6, 1))
SMALL = IndexLimits(shard=4, small=2, large=8)
EMBEDDER = HashEmbedder()
QUICK = (Phase.explicit, Phase.reuse, Phase.generate)  # a home for each example: shrinking one takes long

texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)
documents = st.builds(
    lambda name, said, sender, recipients, day, where: entry(
        name,
        *said,
        collections=where,
        sender=sender,
        recipients=tuple(recipients),
        date=day and datetime(day.year, day.month, day.day, 23, tzinfo=UTC) + timedelta(minutes=30),
    ),
    st.sampled_from(NAMES),
    st.lists(texts, min_size=1, max_size=3),
    st.sampled_from(PEOPLE + MORE_PEOPLE),
    st.lists(st.sampled_from(PEOPLE[:3] + MORE_PEOPLE), max_size=2),
    st.sampled_from((*DAYS, None)),
    st.sampled_from(COLLECTIONS),
)
scopes = st.builds(
    Scope,
    sender=st.sampled_from(
        (None, None, "ann", "ANN@example.org", "o@example.org", "bo", "Lee Ann", "@example.org", "安")
    ),
    recipient=st.sampled_from(
        (None, None, "Lee", "bo@example.org", "example.org", "MULLER", "strasse", "o'brien", "@", "%")
    ),
    since=st.sampled_from((None, *DAYS)),
    until=st.sampled_from((None, *DAYS)),
    collection=st.sampled_from((None, "Mail", "Work", "None")),
    document=st.sampled_from((None, None, *NAMES[:3])),
)
steps = st.one_of(
    documents,
    st.sampled_from(NAMES),
    st.integers(1, 4),
    st.sampled_from(("compact", "update", "embedder", "reopen", "move")),
)


def change(opened: Opened, step: IndexedDocument | str | int) -> None:
    """Keep a document, remove one, embed some chunks, or do what a word says."""
    if isinstance(step, IndexedDocument):
        opened.keep(step)
    elif isinstance(step, int):
        embed(opened, step, shows=step % 2 == 0)
        opened.vectors.show()
    elif step == "compact":
        opened.knowledge.compact()
    elif step == "update":
        opened.mapped.update()
    elif step == "embedder":
        opened.vectors.use(f"hash-{opened.ledger.generation}")
    elif step == "reopen":
        reopen(opened)
    elif step == "move":
        move(opened)
    elif opened.knowledge.stored([step]):
        opened.keep(removes=[step])


def reopen(opened: Opened) -> None:
    """Look at the index as a new process does, with room for few chunks in a shard."""
    opened.mapped = MappedIndex(opened.home, opened.ledger, lambda: opened.tables, SMALL)
    opened.reader = Reader(opened.ledger, lambda: opened.tables, opened.mapped)


def move(opened: Opened) -> None:
    """Move all files that are in Mail into Work."""
    with opened.ledger.transaction():
        for place in [one for name in NAMES for one in opened.catalogue.places_in(f"/mail/{name}")]:
            opened.catalogue.replace([place])
            moved = place.__class__(place.path, place.item, place.document, None, None, "Work")
            opened.catalogue.put_places(place.path, [moved])


def embed(opened: Opened, limit: int, *, shows: bool = True) -> None:
    """Embed the newest chunks."""
    if not opened.ledger.get("vectors"):
        opened.vectors.use("hash-1")
    rows = opened.vectors.wanted(limit)
    if rows:
        opened.vectors.put([row["id"] for row in rows], EMBEDDER.embed([row["text"] for row in rows]), shows=shows)


def within(opened: Opened, scope: Scope) -> set[str]:
    """Return the chunks within a scope, looked at one by one."""
    columns = ["id", "document", "sender", "recipients", "date", "local", "collections"]
    rows = opened.tables.select("chunks", "true", columns)
    return {row["id"] for row in rows if is_within(row | {"id": row["document"], "kind": "file"}, scope)}


def by_words(opened: Opened, words: Sequence[str], scope: Scope) -> list[tuple[str, float]]:
    """Search all rows of LanceDB for words, one by one."""
    every = opened.tables.select("chunks", "true", ["id", "document", "position", "words"])
    inside = within(opened, scope)
    split = {row["id"]: row["words"].split(" ") for row in every}
    mean = sum(map(len, split.values())) / max(1, len(split))
    found = list[tuple[float, int, int, str]]()
    for row in every:
        counts, score = Counter(split[row["id"]]), 0.0
        for word in dict.fromkeys(words):
            held = sum(word in tokens for tokens in split.values())
            norm = K1 * (1 - B + B * len(split[row["id"]]) / max(1.0, mean))
            idf = log(1 + (len(split) - held + 0.5) / (held + 0.5))
            score += idf * ((K1 + 1) * counts[word] / (counts[word] + norm))
        if score > 0 and row["id"] in inside:
            found.append((-score, digest(row["document"]), row["position"], row["id"]))
    return [(name, -score) for score, *_, name in sorted(found)]


def by_vector(opened: Opened, vector: Vectors, scope: Scope) -> dict[str, float]:
    """Return the cosine of every embedded row of LanceDB within the scope."""
    name = opened.ledger.get("vectors") or "vectors"
    inside = within(opened, scope)
    held = opened.tables.vectors(name, "true")
    return {each: float(row @ vector) for each, row in held.items() if each in inside}


def names(opened: Opened, *words: str, limit: int = 100) -> list[str]:
    return [hit.chunk.id for hit in opened.reader.by_words(words, Scope(), limit)]


@contextmanager
def home(*, publishes: bool) -> Iterator[Opened]:
    with TemporaryDirectory() as folder:
        opened = Opened(home_in(Path(folder)))
        with closing(opened.ledger):
            reopen(opened)
            if publishes:
                opened.knowledge = publishing(opened)
            yield opened


def publishing(opened: Opened) -> Knowledge:
    """Return what commits to the tables and to the index at once, as commands do."""
    return Knowledge(opened.ledger, lambda: opened.tables, publishing=lambda rows: opened.mapped.publishing(rows))


@examples(30, deadline=None, phases=QUICK, suppress_health_check=[HealthCheck.too_slow])
@pytest.mark.slow
@given(
    st.lists(documents, min_size=1, max_size=6),
    st.lists(steps, max_size=8),
    st.lists(st.tuples(st.lists(st.sampled_from((*WORDS, "none")), min_size=1, max_size=4), scopes), max_size=6),
    st.booleans(),
)
def test_it_finds_what_a_plain_search_of_the_rows_finds(
    first: list[IndexedDocument], changes: list[Any], questions: list[tuple[list[str], Scope]], publishes: bool
) -> None:
    with home(publishes=publishes) as opened:
        for step in (*first, *changes):
            change(opened, step)
            compare(opened, WORDS[:2], Scope())
        for words, scope in questions:
            compare(opened, words, scope)
        assert [found for found in opened.wrong() if found.name == "mapped"] == []


def hit_of(row: Row) -> Hit:
    """Return a row of LanceDB as a hit."""
    place = (row["id"], row["document"], row["position"], row["header"], row["text"], row["first"], row["last"])
    written, claimed = (one and datetime.fromisoformat(one) for one in (row["written"], row["claimed"]))
    chunk = Chunk(*place, row["role"] or "body", written, row["author"] or "", row["origin"] or "")
    recipients = tuple(name for name in row["recipients"].split("\n") if name)
    moment = in_own_zone(row["date"], row["local"])
    return Hit(chunk, row["words"], None, moment, row["sender"], recipients, row["title"], claimed=claimed)


def rows_of(opened: Opened, condition: str) -> list[Hit]:
    """Return the chunks under a condition, as LanceDB has them."""
    return sorted((hit_of(row) for row in opened.tables.select("chunks", condition, ROW)), key=repr)


def compare(opened: Opened, words: Sequence[str], scope: Scope) -> None:
    """Compare what the index finds with what is in the rows."""
    expected = by_words(opened, words, scope)
    assert [hit.chunk.id for hit in opened.reader.by_words(words, scope, 100)] == [name for name, _ in expected]
    assert [hit.chunk.id for hit in opened.reader.by_words(words, scope, 2)] == [name for name, _ in expected[:2]]
    query = opened.reader._query(opened.mapped.view(), words)
    assert {hit.chunk.id: hit.chunk.text for hit in opened.mapped.view().by_words(query, scope, 100)} == {
        name: text for name, text in opened.chunks().items() if name in dict(expected)
    }
    some = [*opened.chunks(), "none"][::2]
    assert sorted(opened.reader.chunks(some), key=repr) == rows_of(opened, among("id", some))
    condition = f"{among('document', NAMES[::2])} AND {among('id', within(opened, scope))}"
    assert sorted(opened.reader.chunks_of(NAMES[::2], scope), key=repr) == rows_of(opened, condition)
    asked = EMBEDDER.embed_question(" ".join(words))
    cosines = by_vector(opened, asked, scope)
    found = opened.reader.by_vector(asked, scope, 3)
    assert [cosines[hit.chunk.id] for hit in found] == pytest.approx(
        sorted(cosines.values(), reverse=True)[:3], abs=1e-6
    )
    assert [float(hit.vector @ asked) for hit in found if hit.vector is not None] == pytest.approx(
        [cosines[hit.chunk.id] for hit in found], abs=1e-6
    )


def test_the_score_is_that_of_the_rows(opened: Opened) -> None:
    opened.keep(entry("a", "red red tea", "red"), entry("b", "red blue green", "tea"))
    query, only = opened.reader._query(opened.mapped.view(), ["red", "tea"]), opened.mapped.view().shards
    assert len(only) == 1
    found, scores = only[0].score_words(query, only[0].live, 0.0)
    rows = [only[0].hit(place).chunk.id for place in found]
    assert dict(zip(rows, scores.tolist(), strict=True)) == pytest.approx(
        dict(by_words(opened, ["red", "tea"], Scope())), abs=1e-6
    )


def test_every_field_of_a_hit_is_that_of_lancedb(opened: Opened) -> None:
    opened.keep(entry("a", 'red "quoted"\nÄ \x00 line', sender=PEOPLE[0], recipients=PEOPLE[:2], title="Tea\ttime"))
    embed(opened, 1)
    (mapped,) = opened.reader.by_words(["red"], Scope(), 1)
    assert [mapped] == rows_of(opened, "true")
    assert mapped.vector is not None
    assert np.array_equal(mapped.vector, EMBEDDER.embed([mapped.chunk.text])[0])


@pytest.fixture
def three(opened: Opened) -> Opened:
    """Return a home of three documents in shards of their own, and an index that is on disk."""
    reopen(opened)
    opened.keep(*(entry(name, f"{name} red tea", f"{name} green") for name in "abc"))
    opened.mapped.update()
    assert names(opened, "red") == [f"{name}/0" for name in sorted("abc", key=digest)]
    return opened


def test_what_another_process_commits_is_found_at_once(three: Opened, open_home: Open) -> None:
    other = open_home()
    other.keep(entry("d", "d red tea"), removes=["a"])
    assert set(names(three, "red")) == {"b/0", "c/0", "d/0"}
    embed(other, 9)
    assert all(hit.vector is not None for hit in three.reader.by_words(["red"], Scope(), 9))


def test_the_best_of_several_shards_are_the_first_of_all(three: Opened) -> None:
    """Shards are scored one after the other, and what cannot be among the best is left out; equal scores stay."""
    three.keep(entry("d", "red red tea", "d green"))
    (better, *_) = every = names(three, "red", "tea")
    assert (better, len(every)) == ("d/0", 4)
    assert [names(three, "red", "tea", limit=limit) for limit in range(1, 5)] == [every[:n] for n in range(1, 5)]


def test_a_chunk_kept_for_other_questions_is_read_again_once_its_document_changed(three: Opened) -> None:
    three.keep(entry("b", "red blue"))
    assert [hit.chunk.text for hit in three.reader.by_words(["blue"], Scope(), 9)] == ["red blue"]


def test_few_chunks_are_kept_for_other_questions(three: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.mapped_index._KEPT", 2)
    for word in ("red", "green", "red"):
        assert {hit.chunk.id[0] for hit in three.reader.by_words([word], Scope(), 9)} == set("abc")
    assert len(three.mapped.view()._hits) <= 2


def test_a_process_that_starts_reads_nothing_from_lancedb(three: Opened) -> None:
    def refuse() -> Any:
        raise AssertionError("LanceDB was opened")

    index = MappedIndex(three.home, three.ledger, refuse)
    assert len(Reader(three.ledger, refuse, index).by_words(["red"], Scope(), 9)) == 3


def test_only_documents_that_changed_are_read(three: Opened) -> None:
    before = {path.name for path in three.home.index.glob("*.shard")}
    three.keep(entry("b", "b red"))
    assert len(names(three, "red")) == 3
    added = [path for path in three.home.index.glob("*.shard") if path.name not in before]
    assert [
        len(Shard(load(three.home.index / one.name) or {}).live) for one in stored(three) if one.name == added[0].name
    ] == [1]


def stored(opened: Opened) -> tuple[StoredShard, ...]:
    found = opened.mapped._read_list()
    assert found is not None
    return found.files


@pytest.mark.parametrize("publishes", [False, True])
@pytest.mark.parametrize("step", range(1, 7))
def test_of_a_change_that_is_half_made_nothing_is_found(open_home: Open, step: int, publishes: bool) -> None:
    fuse = Fuse(0)
    opened = open_home(fuse)
    opened.knowledge = publishing(opened) if publishes else opened.knowledge
    opened.keep(entry("a", "red"), entry("goes", "red"))
    opened.mapped.update()
    fuse.length = fuse.burnt + step
    with pytest.raises(Killed):
        opened.keep(entry("new", "red"), removes=["goes"])
    for found in (open_home(), opened):
        assert set(names(found, "red")) == {"a/0", "goes/0"}
    found.mapped.clear()
    assert set(names(open_home(), "red")) == {"a/0", "goes/0"}


def without_tables(opened: Opened) -> Reader:
    """Return a new process's reader, which cannot open the tables."""
    index = MappedIndex(opened.home, opened.ledger, lambda: pytest.fail("the tables were opened"))
    return Reader(opened.ledger, lambda: opened.tables, index)


def found_by(reader: Reader, *words: str) -> list[str]:
    return sorted(hit.chunk.id for hit in reader.by_words(words, Scope(), 100))


def test_new_documents_are_in_the_index_once_they_are_committed(opened: Opened) -> None:
    opened.knowledge = publishing(opened)
    zone = timezone(timedelta(hours=5, minutes=30))
    moment = datetime(2024, 5, 3, 23, 30, 1, 250_000, zone)
    ann = {"sender": "Ann <ann@example.org>", "recipients": ("Bo <bo@x.org>", "Ças"), "collections": ("Mail", "Work")}
    opened.keep(entry("b", "red", "blue tea", date=moment, **ann), entry("a", "red Ä1", date=None))
    opened.keep(entry("c", "red"))
    assert found_by(without_tables(opened), "red") == ["a/0", "b/0", "c/0"]
    assert opened.wrong() == []
    arrays = load(opened.home.index / stored(opened)[0].name)
    built = next(opened.mapped._built({"a": 1, "b": 2}, opened.mapped._read_state(), every=False))
    assert arrays is not None
    assert {name: each.tolist() for name, each in arrays.items()} == {
        name: each.tolist() for name, each in built.items()
    }


def test_what_a_commit_changes_of_older_documents_is_read_from_the_tables(three: Opened, open_home: Open) -> None:
    three.knowledge = publishing(three)
    embed(three, 9)
    three.keep(entry("d", "d red"), entry("a", "a red again", "a/1"), removes=["b"])
    three.keep(entry("e", "e red"))
    three.keep(entry("b", "b red and back"))
    for opened in (three, open_home()):
        compare(opened, ["red", "and"], Scope())
        assert len(names(opened, "red")) == 5
    assert three.wrong() == []


def test_a_document_committed_while_another_process_writes_the_files_is_found(three: Opened) -> None:
    three.knowledge, before = publishing(three), stored(three)
    other = Lease(three.home.locks / "index")
    assert other.acquire()
    three.keep(entry("d", "d red"))
    assert (stored(three), len(names(three, "red"))) == (before, 4)
    other.release()
    three.keep(entry("e", "e red"))
    assert len(names(three, "red")) == 5


def test_nothing_is_left_of_a_commit_that_fails(three: Opened) -> None:
    three.knowledge, before = publishing(three), {path.name for path in three.home.index.iterdir()}

    def record() -> None:
        assert {path.name for path in three.home.index.iterdir()} > before
        raise OSError(ENOSPC, "full")

    with pytest.raises(OSError, match="full"):
        three.knowledge.commit([entry("d", "d red")], record)
    assert {path.name for path in three.home.index.iterdir()} == before
    assert (len(names(three, "red")), three.wrong()) == (3, [])


def test_shards_that_commits_wrote_are_joined(opened: Opened) -> None:
    opened.mapped = MappedIndex(opened.home, opened.ledger, lambda: opened.tables, SMALL)
    opened.knowledge, counts = publishing(opened), list[int]()
    for name in "abcdefgh":
        opened.keep(entry(name, "red"))
        if is_behind := opened.mapped.is_behind():
            opened.mapped.update()
        counts.append(len(stored(opened)))
        assert is_behind == (name == "h")
    assert (counts, found_by(without_tables(opened), "red")) == (
        [*range(1, 8), 2],
        [f"{name}/0" for name in "abcdefgh"],
    )


def test_questions_find_vectors_once_they_are_listed_or_shown(three: Opened) -> None:
    three.knowledge, asked = publishing(three), EMBEDDER.embed_question("red")
    three.vectors.use("hash-1")
    three.mapped.update()
    generations = [three.ledger.generation]
    three.keep(entry("d", "d red"))
    reader = without_tables(three)
    generations.append(three.ledger.generation)

    def found(by: Reader) -> int:
        return len(by.by_vector(asked, Scope(), 9))

    embed(three, 2, shows=False)
    three.keep(entry("e", "e red"))
    assert (found(reader), found_by(reader, "red")) == (0, [f"{name}/0" for name in "abcde"])
    generations.append(now := three.ledger.generation)
    assert generations[2] - generations[1] == generations[1] - generations[0]
    three.mapped.update()
    assert (found(reader), three.ledger.generation) == (2, now + 1)
    embed(three, 2, shows=False)
    assert (found(reader), found(without_tables(three)), three.ledger.generation) == (2, 2, now + 1)
    for _ in range(2):
        three.vectors.show()
        assert (found(three.reader), three.ledger.generation) == (4, now + 2)
        three.mapped.update()
    compare(three, ["red"], Scope())


def test_what_a_commit_changes_of_documents_with_hidden_vectors_is_found_at_once(
    three: Opened, open_home: Open
) -> None:
    three.knowledge = publishing(three)
    three.vectors.use("hash-1")
    three.mapped.update()
    embed(three, 9, shows=False)
    three.keep(entry("d", "d red"), entry("a", "a red again"), removes=["b"])
    embed(three, 9, shows=False)
    other = open_home()
    other.keep(entry("c", "c red once more"))  # not published
    three.keep(entry("e", "e red"))
    for opened in (three, open_home()):
        assert (names(opened, "once"), names(opened, "again")) == (["c/0"], ["a/0"])
        assert len(names(opened, "red")) == 4
    three.vectors.show()
    compare(three, ["red", "again"], Scope())
    assert three.wrong() == []


def test_an_index_is_behind_until_what_changed_is_in_its_files(opened: Opened) -> None:
    index = MappedIndex(opened.home, opened.ledger, lambda: opened.tables, IndexLimits(shard=3))
    opened.keep(entry("a", "red", "red tea"))
    assert not index.is_behind()
    opened.keep(entry("b", "tea"))
    assert index.is_behind()
    index.update()
    assert not index.is_behind()


def test_few_removed_documents_stay_in_the_files_until_they_are_erased(opened: Opened) -> None:
    opened.keep(*(entry(name, f"{name}wort red") for name in "abcdefgh"))
    opened.mapped.update()
    opened.keep(removes=["b"])
    opened.mapped.update()
    assert (len(names(opened, "red")), holding(opened, b"bwort")) == (7, [stored(opened)[0].name])
    opened.mapped.update(erase=True)
    assert (len(names(opened, "red")), holding(opened, b"bwort"), stored(opened)[0].dead) == (7, [], ())


def test_where_many_are_removed_nothing_of_them_is_left_after_an_update(three: Opened, open_home: Open) -> None:
    three.keep(entry("b", "b quibblewort", sender="Zoe Quist"))
    three.mapped.update()
    assert holding(three, b"quibblewort", b"zoe quist")
    three.keep(removes=["b"])
    assert set(names(open_home(), "red")) == {"a/0", "c/0"}  # a question marks it as dead
    three.mapped.update()
    assert not holding(three, b"quibblewort", b"zoe quist", np.uint64(digest("quibblewort")).tobytes())
    assert [one.dead for one in stored(three)] == [()] * len(stored(three))


def holding(opened: Opened, *patterns: bytes) -> list[str]:
    def texts(path: Path) -> bytes:
        arrays = load(path) or {}
        names = ("hits", "about_values") if arrays else ()
        packed = [one for name in names for one in _texts(arrays, name, np.arange(len(arrays[f"{name}_ends"])))]
        return b"".join([path.read_bytes(), *map(decompress, packed)])

    return [path.name for path in opened.home.index.iterdir() if any(one in texts(path) for one in patterns)]


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-70])


def _flip(at: int, path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def _replace(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "inside").touch()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "cut": _cut,
    "flipped at its beginning": partial(_flip, 3),
    "flipped in its header": partial(_flip, 60),
    "flipped at its end": partial(_flip, -70),
    "a folder": _replace,
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\0" * 64),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_made_anew(three: Opened, damage: Callable[[Path], object]) -> None:
    path = sorted(three.home.index.iterdir())[0]
    damage(path)
    assert three.mapped.damaged() == [path.name]
    assert [found.name for found in three.wrong()] == ["mapped"]
    expected = by_words(three, ["red", "green"], Scope())
    assert names(three, "red", "green") == [name for name, _ in expected]  # of the process that had it mapped
    reopen(three)
    assert names(three, "red", "green") == [name for name, _ in expected]
    three.mapped.update()
    assert (three.mapped.damaged(reads=True), three.wrong()) == ([], [])


def test_damage_that_leaves_the_time_is_found_by_a_thorough_check(three: Opened) -> None:
    path = sorted(three.home.index.glob("*.shard"))[0]
    _flip(-70, path)
    index, listed = three.mapped, three.mapped._read_list()
    assert listed is not None
    found = identity(path)
    assert found is not None
    files = [replace(one, file=replace(one.file, file=found)) if one.name == path.name else one for one in listed.files]
    index._write_list(replace(listed, files=tuple(files)))
    assert (index.damaged(), index.damaged(reads=True)) == ([], [path.name])


def test_files_of_an_earlier_format_are_not_damage_and_are_removed(three: Opened) -> None:
    three.ledger.set("index", "0123 4567")
    (three.home.index / "shards-6.json").touch()
    reopen(three)
    assert (three.mapped.damaged(reads=True), three.wrong()) == ([], [])
    assert len(names(three, "red")) == 3
    assert {path.name for path in three.home.index.iterdir()} == {one.name for one in stored(three)}


def test_older_files_are_made_anew(three: Opened) -> None:
    listed = {path.name: path.read_bytes() for path in three.home.index.iterdir()}
    three.keep(entry("d", "d red"), removes=["a"])
    three.mapped.update()
    for path in three.home.index.iterdir():
        path.unlink()
    for name, data in listed.items():
        (three.home.index / name).write_bytes(data)
    reopen(three)
    assert set(names(three, "red")) == {"b/0", "c/0", "d/0"}


def embed_all(opened: Opened) -> None:
    while rows := opened.vectors.wanted(1):
        opened.vectors.put([row["id"] for row in rows], EMBEDDER.embed([row["text"] for row in rows]))
    opened.mapped.update()


def forget(opened: Opened) -> None:
    eraser = Eraser(opened.home, opened.ledger, opened.tables, opened.mapped)
    for name in ("b", "c"):  # each raises the generation
        eraser.erase([name], (), (), 0.0, lambda *_: None)


def keep_more(opened: Opened) -> None:
    for name in "efg":
        opened.keep(entry(name, f"{name} red"))


def ask(opened: Opened) -> None:
    names(opened, "red")


@pytest.mark.parametrize("first", [embed_all, forget, keep_more, ask])
def test_an_index_that_is_ahead_of_an_older_copy_of_the_ledger_counts_for_nothing(
    three: Opened, open_home: Open, tmp_path: Path, first: Callable[[Opened], None]
) -> None:
    three.vectors.use("hash-1")
    three.mapped.update()
    three.ledger.rows.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copyfile(three.home.ledger, tmp_path / "copy")
    three.keep(entry("d", "d red"), removes=["a"])
    three.mapped.update()
    three.ledger.rows.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    three.ledger.close()
    shutil.copyfile(tmp_path / "copy", three.home.ledger)
    after = open_home()
    reopen(after)
    first(after)
    for found in (after, open_home()):
        assert set(names(found, "red")) == {one for one, _ in by_words(found, ["red"], Scope())}
        assert {one.name for one in found.wrong()} <= {"forget"}  # ids of a letter are found in every file
    assert "a/0" in names(after, "red")
    assert {row["id"] for row in after.tables.select(after.ledger.vectors, "true", ["id"])} == {
        hit.chunk.id for hit in after.reader.by_vector(EMBEDDER.embed_question("red"), Scope(), 99)
    }


def test_new_vectors_are_found_at_once_and_in_a_new_process(three: Opened) -> None:
    three.vectors.use("hash-1")
    for limit in (1, 2, 9):
        embed(three, limit)
        compare(three, ["red"], Scope())
        reopen(three)
        compare(three, ["red"], Scope())
        three.mapped.update()
        compare(three, ["red"], Scope())
    assert (three.reader.totals().embedded, three.wrong()) == (6, [])


def test_vectors_of_another_embedder_replace_those_in_the_shards(three: Opened) -> None:
    embed(three, 9)
    three.mapped.update()
    three.vectors.use("hash-2")
    assert three.reader.totals().embedded == 0
    rows = three.vectors.wanted(2)
    three.vectors.put([row["id"] for row in rows], HashEmbedder("hash-2", 24).embed([row["text"] for row in rows]))
    three.keep(entry("d", "d red"))
    for _ in range(2):
        assert (three.reader.totals().embedded, len(names(three, "red"))) == (2, 4)
        three.mapped.update()
        reopen(three)
    assert three.wrong() == []


class CountedIndex(MappedIndex):
    """Counts how many chunks of the shards that it makes are in memory alone."""

    held, most = 0, 0

    def _kept(self, shard: Shard, *, stores: bool) -> tuple[Shard, StoredShard | None]:
        self.most = max(self.most, self.held + shard.size)
        made, file = super()._kept(shard, stores=stores)
        self.held += 0 if file else shard.size
        return made, file


def test_an_update_has_one_shard_in_memory_at_a_time(opened: Opened) -> None:
    opened.keep(*(entry(f"d{number:02}", "red") for number in range(40)))
    index = CountedIndex(opened.home, opened.ledger, lambda: opened.tables, IndexLimits(shard=8, small=4, large=8))
    index.update()
    assert (index.most, len(index.view().shards)) == (8, 5)
    embed(opened, 40)
    index.update()
    assert (index.most, [one.embedded for one in index.view().shards]) == (8, [8] * 5)


def test_with_the_first_embedder_only_documents_with_vectors_are_read(opened: Opened) -> None:
    opened.keep(*(entry(f"d{number:02}", "red") for number in range(40)))
    opened.mapped.update()
    before = stored(opened)
    opened.vectors.use("hash-1")
    index = CountedIndex(opened.home, opened.ledger, lambda: opened.tables)
    assert (len(index.view().shards), index.most) == (len(before), 0)
    embed(opened, 5)
    assert (len(index.view().shards), index.most) == (len(before) + 1, 5)


def test_vectors_of_a_former_embedder_are_not_compared(opened: Opened) -> None:
    opened.keep(*(entry(f"d{number:02}", "red") for number in range(4)))
    embed(opened, 4)
    opened.mapped.update()
    opened.vectors.use("hash-2")
    assert [one.embedded for one in opened.mapped.view().shards] == [0]
    opened.vectors.use("hash-1")
    assert [one.embedded for one in opened.mapped.view().shards] == [0]


@pytest.mark.parametrize(("largest", "sizes"), [(100, [10] * 4), (6, [6] * 6 + [4]), (1, [4] * 10)])
def test_a_large_index_has_larger_shards(opened: Opened, largest: int, sizes: list[int]) -> None:
    opened.keep(*(entry(f"d{number:02}", "red") for number in range(40)))
    limits = IndexLimits(shard=2, small=2, large=4, share=0.25, largest=largest)
    index = MappedIndex(opened.home, opened.ledger, lambda: opened.tables, limits)
    index.update()
    assert [one.count for one in index.view().shards] == sizes


class FusedIndex(MappedIndex):
    """Burns before and after each file that it writes."""

    fuse = Fuse(0)

    def _put(self, shard: Shard) -> tuple[Shard, StoredShard]:
        self.fuse.tick()
        found = super()._put(shard)
        self.fuse.tick()
        return found

    def _write_list(self, listed: ShardList, *, raises: bool = False) -> ShardList:
        self.fuse.tick()
        written = super()._write_list(listed, raises=raises)
        self.fuse.tick()
        return written


@pytest.mark.parametrize("step", range(1, 5))
def test_an_update_killed_at_any_step_leaves_a_valid_index(three: Opened, open_home: Open, step: int) -> None:
    three.keep(entry("b", "b red quibblewort"), entry("d", "d red", "d blue"), removes=["a"])
    index = FusedIndex(three.home, three.ledger, lambda: three.tables, SMALL)
    index.fuse = Fuse(step)
    with suppress(Killed):
        index.update()
    index._lock.release()  # as the system does
    assert index.fuse.burnt == step
    after = open_home()
    expected = [name for name, _ in by_words(after, ["red", "blue"], Scope())]
    assert (names(after, "red", "blue"), after.wrong()) == (expected, [])
    after.mapped.update()
    assert {path.name for path in after.home.index.iterdir()} == {one.name for one in stored(after)}


class FullIndex(MappedIndex):
    """Finds the disk full."""

    def _put(self, shard: Shard) -> tuple[Shard, StoredShard]:
        raise OSError(ENOSPC, "")


@pytest.mark.parametrize("erase", [False, True])
def test_on_a_full_disk_the_files_stay_unless_something_is_to_be_erased(three: Opened, erase: bool) -> None:
    before = stored(three)
    three.keep(entry("d", "d red"), removes=["a"])
    index = FullIndex(three.home, three.ledger, lambda: three.tables)
    index.update(erase=erase)
    assert (erase or stored(three) == before, list(three.home.index.iterdir()) == []) == (True, erase)
    assert len(Reader(three.ledger, lambda: three.tables, index).by_words(["red"], Scope(), 9)) == 3
    assert three.wrong() == []


def test_while_another_process_writes_the_files_a_question_is_answered_from_memory(three: Opened) -> None:
    three.keep(entry("d", "d red"))
    other, before = Lease(three.home.locks / "index"), stored(three)
    assert other.acquire()
    assert len(names(three, "red")) == 4
    other.release()
    assert stored(three) == before


def test_a_list_that_another_process_wrote_meanwhile_is_left_alone(three: Opened, open_home: Open) -> None:
    three.keep(entry("d", "d red"))
    assert three.mapped._renew(three.mapped._read_state())
    other = open_home()
    other.keep(entry("e", "e red"))
    other.mapped.update()
    expected = stored(other)
    three.mapped._save()
    assert stored(three) == expected
    assert len(names(three, "red")) == 5


class LateIndex(MappedIndex):
    """Has another process write before it reads the list for the first time, or before it opens files of that."""

    meanwhile: Callable[[], None] | None = None
    at = ""

    def _read_list(self) -> ShardList | None:
        self._wait("list")
        return super()._read_list()

    def _open(self, known: ShardList | None) -> Any:
        self._wait("files")
        return super()._open(known)

    def _wait(self, at: str) -> None:
        if self.at == at and self.meanwhile:
            go, self.meanwhile = self.meanwhile, None
            go()


class BusyIndex(MappedIndex):
    """Has another process write each time that it has read something."""

    meanwhile: Callable[[], None] = print

    def _built(self, *args: Any, **options: Any) -> Iterator[Arrays]:
        yield from super()._built(*args, **options)
        self.meanwhile()


def test_a_question_waits_for_no_more_than_was_committed_before_it(three: Opened) -> None:
    """Whatever is committed while it reads has time until the next one, which reads nothing else."""
    more = iter("defghijkl")
    index, lock = BusyIndex(three.home, three.ledger, lambda: three.tables, SMALL), Lease(three.home.locks / "index")
    assert lock.acquire()  # so that nothing can be saved
    assert index.view().count == 6
    index.meanwhile = lambda: three.keep(entry(next(more), "red"))
    three.keep(entry("z", "red"))
    assert index.view().count == 7
    assert index.view().count == 8
    assert [one.size for one in index.view().shards][-3:] == [1, 1, 1]
    assert next(more) == "g"
    lock.release()


@pytest.mark.parametrize("at", ["list", "files"])
def test_files_that_another_process_has_just_replaced_are_not_made_anew(three: Opened, at: str) -> None:
    def replace() -> None:
        three.keep(removes=["b"])
        three.mapped.update()

    index, before = LateIndex(three.home, three.ledger, lambda: three.tables, SMALL), stored(three)
    index.meanwhile, index.at = replace, at
    assert index._renew(index._read_state())
    assert stored(three) != before
    assert index._files == stored(three)


def test_a_copied_home_reads_its_files_once_more_and_then_maps_them(three: Opened, tmp_path: Path) -> None:
    copy = home_in(tmp_path / "copy")
    shutil.copytree(three.home.data, copy.data)
    opened = Opened(copy)
    with closing(opened.ledger):
        reopen(opened)
        before = opened.mapped._read_list()
        assert len(names(opened, "red")) == 3
        after = opened.mapped._read_list()
        assert before is not None
        assert after is not None
        assert [one.file.crc for one in after.files] == [one.file.crc for one in before.files]
        assert [one.file.file == identity(copy.index / one.name) for one in after.files] == [True] * len(after.files)
        assert opened.mapped._is_there()


def test_files_are_for_their_owner_alone(three: Opened) -> None:
    modes = {path.stat().st_mode & 0o777 for path in three.home.index.iterdir()}
    assert (three.home.index.stat().st_mode & 0o777, modes) == (0o700, {0o600})


def test_files_have_the_vectors_of_one_embedder_however_often_it_changes(three: Opened) -> None:
    """Vectors of 4 numbers, then of 6 for a new document, then of 4 again."""

    def put(width: int, limit: int) -> None:
        wanted = [row["id"] for row in three.vectors.wanted(limit)]
        three.vectors.put(wanted, np.eye(width, dtype=np.float32)[[0] * len(wanted)])

    three.vectors.use("short")
    put(4, 100)
    three.mapped.update()
    three.vectors.use("long")
    three.keep(entry("z", "a new red one", date=datetime(2030, 1, 1, tzinfo=UTC)))
    put(6, 1)
    reopen(three)
    assert [
        hit.chunk.document for hit in three.mapped.view().by_vector(np.eye(6, dtype=np.float32)[0], Scope(), 9)
    ] == ["z"]
    three.vectors.use("short")
    put(4, 100)
    for _ in range(2):
        assert three.mapped.view().totals.embedded == three.mapped.view().count
        three.mapped.update()
