"""Embedding: newest first, committed as it goes, by one process at a time."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread, Timer

import pytest

from engine.ingest import chunking as module
from engine.ingest.chunking import embed
from store import documents
from store.locks import Locks
from store.types import Vectors
from tests.effort import PATIENCE_S
from tests.engine.ingest.box import Box, mail
from tests.store.kit import HashEmbedder, Killed


@pytest.fixture
def filled(box: Box, monkeypatch: pytest.MonkeyPatch) -> Box:
    """Return a home with 20 chunks, of which 4 are embedded at once."""
    monkeypatch.setattr(module, "_BATCH", 4)
    for number in range(20):
        mail(box.mail / f"m{number}", f"word{number} " * (1 + number % 3), day=1 + number)
    box.ingest()
    return box


class Recording(HashEmbedder):
    """Remembers what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[str] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.given += texts
        return super().embed(texts)


def run(box: Box, embedder: HashEmbedder) -> list[tuple[int, int]]:
    """Embed what is missing, and have questions find it."""
    steps = list(embed(box.opened.vectors, embedder, box.opened.locks))
    box.opened.vectors.show()
    return steps


def test_every_chunk_gets_its_vector(filled: Box) -> None:
    steps = run(filled, HashEmbedder())
    assert (steps[-1], filled.opened.reader.totals().embedded, filled.opened.wrong()) == ((20, 0), 20, [])


def test_progress_adds_up_at_every_step(filled: Box) -> None:
    assert {sum(step) for step in run(filled, HashEmbedder())} == {20}


def test_the_newest_are_embedded_first(filled: Box) -> None:
    embedder = Recording()
    run(filled, embedder)
    said = [text.split("\n")[1].split()[0] for text in embedder.given]
    assert (set(said[:8]), set(said[16:])) == ({f"word{n}" for n in range(12, 20)}, {f"word{n}" for n in range(4)})


def test_what_waits_for_its_commit_is_not_wanted_again(filled: Box) -> None:
    store = filled.opened.vectors
    store.use("hash-1")
    ahead: list[str] = []
    while rows := store.wanted(4, ahead):
        ahead += (row["id"] for row in rows)
    in_turn: list[str] = []
    while rows := store.wanted(4):
        in_turn += (row["id"] for row in rows)
        store.put(in_turn[-4:], HashEmbedder().embed([row["text"] for row in rows]))
    assert (ahead, len(in_turn)) == (in_turn, 20)


def test_more_than_are_queued_are_embedded_in_order(filled: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "_QUEUED", 7)
    embedder = Recording()
    steps = run(filled, embedder)
    days = [int(text.split("\n")[1].split()[0].removeprefix("word")) for text in embedder.given]
    assert (days, steps[-1]) == ([*range(19, -1, -1)], (20, 0))


def versions(box: Box) -> int:
    """Return how often vectors were committed, beside the commit that made their table."""
    return len(list(box.opened.home.tables.glob("vectors*/_versions/*.manifest"))) - 1


def test_batches_are_committed_together(filled: Box) -> None:
    run(filled, HashEmbedder())
    assert (versions(filled), filled.opened.reader.totals().embedded) == (1, 20)


class Failing(HashEmbedder):
    """Fails at the third batch."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.calls = getattr(self, "calls", 0) + 1
        if self.calls == 3:
            raise MemoryError
        return super().embed(texts)


def test_what_was_embedded_before_a_failure_is_kept(filled: Box) -> None:
    with pytest.raises(MemoryError):
        run(filled, Failing())
    assert (filled.opened.reader.totals().embedded, filled.opened.wrong()) == (8, [])


class Impatient(Locks):
    """Waits for another writer for an instant."""

    @contextmanager
    def writer(self, timeout_s: float = 0.01) -> Iterator[None]:
        with super().writer(timeout_s):
            yield


def test_an_ingest_of_another_process_is_waited_for(filled: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_COMMIT_S", 0.0)
    writing, done = Event(), Event()

    def write() -> None:
        with Locks(filled.opened.home.locks).writer():
            writing.set()
            done.wait(PATIENCE_S)

    steps = embed(filled.opened.vectors, HashEmbedder(), Impatient(filled.opened.home.locks))
    next(steps)
    thread = Thread(target=write)
    thread.start()
    writing.wait(PATIENCE_S)
    Timer(0.3, done.set).start()
    assert (len(list(steps)), filled.opened.reader.totals().embedded, filled.opened.wrong()) == (4, 20, [])
    thread.join()


def test_newer_mail_is_embedded_before_the_rest(filled: Box) -> None:
    embedder = Recording()
    steps = embed(filled.opened.vectors, embedder, filled.opened.locks)
    next(steps)
    mail(filled.mail / "new", "newest", day=30)
    filled.ingest()
    list(steps)
    assert ["newest" in text for text in embedder.given].index(True) in range(4, 12)
    assert (len(embedder.given), filled.opened.vectors.missing) == (21, 0)


def test_header_and_text_are_embedded(filled: Box) -> None:
    embedder = Recording()
    run(filled, embedder)
    assert all(text.startswith("From: ann") and "\nword" in text for text in embedder.given)


def test_a_second_run_embeds_nothing(filled: Box) -> None:
    run(filled, HashEmbedder())
    embedder = Recording()
    assert (run(filled, embedder), embedder.given) == ([], [])


def test_an_interrupted_run_keeps_its_commits(filled: Box) -> None:
    next(embed(filled.opened.vectors, HashEmbedder(), filled.opened.locks))
    embedder = Recording()
    run(filled, embedder)
    assert (20 - len(embedder.given) >= 4, filled.opened.wrong()) == (True, [])


def test_another_embedder_embeds_everything_again_and_drops_the_former_table(filled: Box) -> None:
    run(filled, HashEmbedder())
    run(filled, HashEmbedder("hash-2", 24))
    tables = [name for name in filled.opened.tables.names() if name.startswith("vectors")]
    assert (len(tables), filled.opened.vectors.missing, filled.opened.wrong()) == (1, 0, [])


def test_a_former_table_is_dropped_once_nobody_reads_it(filled: Box) -> None:
    run(filled, HashEmbedder())
    reading, done = Event(), Event()

    def read() -> None:
        with Locks(filled.opened.home.locks).reader():
            reading.set()
            done.wait(PATIENCE_S)

    thread = Thread(target=read)
    thread.start()
    reading.wait(PATIENCE_S)
    run(filled, HashEmbedder("hash-2"))
    kept = list(filled.opened.vectors.former)
    done.set()
    thread.join()
    run(filled, HashEmbedder("hash-2"))
    assert (len(kept), filled.opened.vectors.former) == (1, [])


def test_a_second_process_returns_at_once(filled: Box) -> None:
    busy, done = Event(), Event()

    def hold() -> None:
        with Locks(filled.opened.home.locks).sole("embedder"):
            busy.set()
            done.wait(PATIENCE_S)

    thread = Thread(target=hold)
    thread.start()
    busy.wait(PATIENCE_S)
    embedder = Recording()
    steps = run(filled, embedder)
    done.set()
    thread.join()
    assert (steps, embedder.given) == ([], [])


def test_mail_ingested_during_embedding_is_embedded_too(filled: Box) -> None:
    steps = embed(filled.opened.vectors, HashEmbedder(), filled.opened.locks)
    next(steps)
    (filled.mail / "m3").unlink()
    mail(filled.mail / "new", "newest", day=30)
    filled.ingest()
    list(steps)
    assert (filled.opened.vectors.missing, filled.opened.wrong()) == (0, [])


@pytest.mark.parametrize("step", range(1, 6))
def test_a_kill_at_any_step_of_a_commit_neither_loses_nor_duplicates_a_vector(filled: Box, step: int) -> None:
    filled.fuse.length = filled.fuse.burnt + step
    with pytest.raises(Killed):
        run(filled, HashEmbedder())
    again = filled.again()
    again.ingest()
    before = again.opened.wrong()
    run(again, HashEmbedder())
    assert (before, again.opened.reader.totals().embedded, again.opened.wrong()) == ([], 20, [])
    again.opened.ledger.close()
