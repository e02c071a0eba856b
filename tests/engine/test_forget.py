"""Forgetting: nothing of what was forgotten can be recovered from any file, whatever happened meanwhile."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.app import Pkb
from engine.forget import ForgetPlan
from engine.models.load import load
from store.erasure import is_unfinished
from store.errors import PkbError, UsageError
from store.types import Scope
from tests.demo import NANO
from tests.engine.recovery import Secret, files, kept, traces
from tests.store.kit import HashEmbedder

SECRET = "Zebulonite"
MAIL = """From: {who} <{who}@example.org>
To: Team <team@example.org>
Message-ID: <{number}@example.org>
Date: {day:02} Mar 2024 10:00:00 +0000
Subject: {title}

{text}
"""
NOTE = f"The {SECRET} shipment waits in locker Brambleweir for Ottoline."
HIDDEN = f"""From: Quillon <quillon@example.org>
To: Team <team@example.org>
Message-ID: <hidden@example.org>
Date: 09 Mar 2024 10:00:00 +0000
Subject: {SECRET} papers
Content-Type: multipart/mixed; boundary=x

--x
Content-Type: text/plain

{NOTE}
--x
Content-Type: text/plain
Content-Disposition: attachment; filename=list.txt

Inventory of the {SECRET} vault: nine crates.
--x--
"""
REPLY = MAIL.format(who="ruth", number="reply", day=10, title="Re: papers", text=f"Thanks, done.\n\n> {NOTE}")
ASKED = f"Where is the {SECRET} shipment?"


def ordinary(number: int) -> str:
    """Return one of many other messages."""
    text = f"Note {number}: the choir meets at {number % 12 + 1} in room {number}, and Ann brings cake."
    return MAIL.format(who="ann", number=number, day=number % 27 + 1, title=f"Choir {number}", text=text)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a home that has read 240 messages of an mbox, the hidden one among them, and one in a file of its own.

    It has embedded them and answered a question about the hidden one with a model. It is kept beside the place at which
    it was made, and which is returned: that place stands in the home.
    """
    place = tmp_path_factory.mktemp("forget") / "place"
    (folder := place / "mail").mkdir(parents=True)
    messages = [ordinary(number) for number in range(240)]
    messages.insert(100, HIDDEN)
    (folder / "all.mbox").write_text("".join(f"From x@y Sat Mar  9 10:00:00 2024\n{one}\n" for one in messages))
    (folder / "alone.eml").write_text(ordinary(999))
    with opened(place) as made:
        made.ingest([folder])
        made.ask(ASKED)
        made.ask("When does the choir meet?")
    place.rename(place.with_name("kept"))
    return place


@contextmanager
def opened(place: Path) -> Iterator[Pkb]:
    """Open the home of a place, with its model and embedder."""
    with Pkb(place / "home") as home:
        home.session.override("model.name", str(NANO))
        home.session.embedder = HashEmbedder()
        yield home


@pytest.fixture
def place(asked: Path) -> Iterator[Path]:
    """Return that place, with the home and the mail as they were."""
    yield Path(shutil.copytree(asked.with_name("kept"), asked))
    shutil.rmtree(asked)


@pytest.fixture
def mail(place: Path) -> Path:
    """Return the folder of the messages."""
    return place / "mail"


@pytest.fixture
def pkb(place: Path) -> Iterator[Pkb]:
    """Return the home."""
    with opened(place) as home:
        yield home


def secret(pkb: Pkb) -> Secret:
    """Return what must not come back."""
    catalogue = pkb.session.catalogue
    documents = catalogue.documents_with_message_id("hidden@example.org")
    chunks = pkb.session.tables.select("chunks", f"document IN ('{documents[0]}')", ["id", "header", "text"])
    vectors = pkb.session.tables.vectors("vectors_hash-1", "true") if pkb.session.tables.has("vectors_hash-1") else {}
    name = pkb.session.ledger.get("vectors") or ""
    vectors = vectors or pkb.session.tables.vectors(name, "true")
    model = load(NANO, name="nano", cache=pkb.session.home.cache, memory_share=0.9, threads=1)
    tokens = tuple(model.tokens(f" {SECRET}"))
    own = tuple(vectors[row["id"]] for row in chunks if row["id"] in vectors)
    return Secret((SECRET, "Brambleweir", "Ottoline", "Quillon", "hidden@example.org"), tuple(documents), own, tokens)


def is_found(pkb: Pkb) -> bool:
    """Return whether a search finds the hidden message, or a quote of it."""
    return any(SECRET in source.quote for source in pkb.search(SECRET))


def test_nothing_of_a_forgotten_message_can_be_recovered(pkb: Pkb, place: Path, mail: Path) -> None:
    home, wanted = place / "home", secret(pkb)
    found, before = traces(home, wanted), files(home)
    assert {"version of documents", "version of chunks", "bytes of index"} <= found
    assert {"ledger table answers", "ledger table history", "tokens of the KV cache"} <= found
    erased = pkb.forget(pkb.plan_forgetting(["hidden@example.org"], Scope()))
    assert (erased.documents, erased.left) == (1, ())
    assert min(erased.chunks, erased.answers, erased.questions, erased.nodes) > 0
    assert traces(home, wanted) == set()
    assert kept(before, home, ["tables", "index"]) == set()
    pkb.ask("When does the choir meet?")
    with (mail / "all.mbox").open("a") as file:  # read again
        file.write("\n")
    summary = pkb.ingest([mail])
    assert (summary.forgotten, summary.kept) == (1, 0)
    assert traces(home, wanted) == set()
    assert not is_found(pkb)


@pytest.mark.slow
def test_what_stays_is_found_as_before(pkb: Pkb) -> None:
    before = [source.path for source in pkb.search("choir room 77")]
    pkb.forget(pkb.plan_forgetting(["hidden@example.org"], Scope()))
    assert [source.path for source in pkb.search("choir room 77")] == before
    assert [one for one in pkb.check(read_data=True) if one.wrong] == []


@pytest.mark.slow
def test_a_message_that_quotes_it_keeps_its_quote_unless_it_is_forgotten_too(pkb: Pkb, mail: Path) -> None:
    (mail / "reply.eml").write_text(REPLY)
    pkb.ingest([mail])
    planned = pkb.plan_forgetting(["hidden@example.org"], Scope())
    assert (len(planned.documents), planned.quoted_by) == (1, 1)
    both = pkb.plan_forgetting(["hidden@example.org"], Scope(), quoting=True)
    assert (len(both.documents), both.quoted_by) == (2, 0)
    assert pkb.forget(both).documents == 2
    assert not is_found(pkb)


def test_it_is_indexed_again_only_where_that_is_asked_for(pkb: Pkb, mail: Path) -> None:
    pkb.forget(pkb.plan_forgetting([str(mail)], Scope(sender="quillon@example.org")))
    assert pkb.ingest([mail]).forgotten == 0  # nothing has changed, so nothing is read
    assert pkb.ingest([mail], restore=True).kept == 1
    assert is_found(pkb)


@pytest.mark.slow
def test_a_copy_with_another_header_is_kept_out(pkb: Pkb, mail: Path) -> None:
    pkb.forget(pkb.plan_forgetting(["hidden@example.org"], Scope()))
    (mail / "again.eml").write_text(f"X-Mailer: other\n{HIDDEN}".replace("nine crates.", "nine crates!"))
    assert pkb.ingest([mail]).forgotten == 1
    assert not is_found(pkb)


def test_a_question_is_forgotten_with_its_answer_and_nothing_else(pkb: Pkb, place: Path) -> None:
    odd = "Does Wilhelmina sing alto?"
    pkb.ask(odd)
    planned = pkb.plan_forgetting([], Scope(), question="does wilhelmina sing alto")
    assert planned.questions == (odd,)
    erased = pkb.forget(planned)
    assert (erased.documents, erased.questions, erased.left) == (0, 1, ())
    assert traces(place / "home", Secret(("Wilhelmina",))) == set()
    assert pkb.ask(ASKED).tier == "exact"


@pytest.mark.slow
def test_a_question_asked_again_is_forgotten_each_time(pkb: Pkb, place: Path) -> None:
    wanted = secret(pkb)
    for question in (ASKED, f"where is the {SECRET} shipment", f"Please tell me: where is the {SECRET} shipment?"):
        pkb.ask(question)
    pkb.idle(budget_s=5)
    erased = pkb.forget(pkb.plan_forgetting(["hidden@example.org"], Scope()))
    assert (erased.questions, erased.left) == (4, ())
    assert traces(place / "home", wanted) == set()


@pytest.mark.slow
def test_copies_of_a_message_with_another_content_go_with_it(pkb: Pkb, mail: Path) -> None:
    (mail / "again.eml").write_text(HIDDEN.replace("nine crates.", "nine crates!"))
    pkb.ingest([mail])
    planned = pkb.plan_forgetting([str(mail / "again.eml")], Scope())
    assert (len(planned.documents), planned.copies) == (2, 2)
    pkb.forget(planned)
    assert not is_found(pkb)


@pytest.mark.slow
def test_messages_that_changed_after_they_were_shown_are_not_forgotten(pkb: Pkb, mail: Path) -> None:
    planned = pkb.plan_forgetting([str(mail / "alone.eml")], Scope())
    (mail / "alone.eml").write_text(ordinary(999).replace("cake", "tart"))
    pkb.ingest([mail])
    with pytest.raises(PkbError, match="nothing was forgotten"):
        pkb.forget(planned)
    assert not is_unfinished(pkb.session.ledger)


@pytest.mark.slow
def test_what_killed_repairs_and_other_embedders_left_goes_too(pkb: Pkb, place: Path) -> None:
    home, wanted, tables = place / "home", secret(pkb), place / "home" / "tables"
    pkb.session.ledger.rows.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(home / "ledger.db", home / "ledger.db.damaged")
    shutil.copytree(tables / "chunks.lance", tables / "rebuilt" / "chunks.lance")
    shutil.copytree(tables / "chunks.lance", tables / "begun.lance")
    shutil.rmtree(tables / "begun.lance" / "_versions")
    vectors = pkb.session.ledger.get("vectors")
    shutil.copytree(tables / f"{vectors}.lance", tables / "vectors_former.lance")
    assert pkb.forget(pkb.plan_forgetting(["hidden@example.org"], Scope())).left == ()
    assert traces(home, wanted) == set()
    assert not {"rebuilt", "begun.lance", "vectors_former.lance"} & {path.name for path in tables.iterdir()}


def test_what_cannot_be_removed_is_named_each_time_until_it_is_gone(pkb: Pkb, place: Path) -> None:
    kept = place / "home" / "kept"
    kept.write_text(secret(pkb).ids[0])
    for planned in (pkb.plan_forgetting(["hidden@example.org"], Scope()), ForgetPlan()):
        with pytest.raises(PkbError, match="home/kept"):
            pkb.forget(planned)
    pkb.session.on_notice = (notices := list[str]()).append
    pkb.ingest()
    assert "home/kept" in notices[0]
    kept.unlink()
    assert pkb.forget(ForgetPlan()).left == ()
    assert not is_unfinished(pkb.session.ledger)


@pytest.mark.slow
def test_an_open_session_of_another_process_brings_nothing_back(pkb: Pkb, place: Path) -> None:
    home, wanted = place / "home", secret(pkb)
    other = subprocess.Popen(
        [sys.executable, "-c", _ASKING, str(home), ASKED], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdin
    assert other.stdout
    assert other.stdout.readline() == b"asked\n"
    assert pkb.forget(pkb.plan_forgetting(["hidden@example.org"], Scope())).left == ()
    found, _ = other.communicate(b"again\n")
    assert other.returncode == 0
    assert SECRET.encode() not in found
    assert traces(home, Secret(wanted.words[1:], wanted.ids, wanted.vectors)) == set()


_ASKING = """
import sys
from engine.app import Pkb
from tests.store.kit import HashEmbedder

with Pkb(sys.argv[1]) as pkb:
    pkb.session.embedder = HashEmbedder()
    pkb.ask(sys.argv[2], cache="refresh")
    print("asked", flush=True)
    sys.stdin.readline()
    print(*(source.quote for source in pkb.ask(sys.argv[2], cache="refresh").sources))
"""


def test_what_is_not_there_is_an_error_that_says_so(pkb: Pkb) -> None:
    with pytest.raises(UsageError, match="no file, folder or Message-ID"):
        pkb.plan_forgetting(["nobody@example.org"], Scope())
    with pytest.raises(UsageError, match="say what to forget"):
        pkb.plan_forgetting([], Scope())


@pytest.mark.slow
def test_a_reader_of_the_ledger_is_waited_for_and_then_named(pkb: Pkb, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.erasure._PATIENCE_S", 0.2)
    reading = subprocess.Popen(
        [sys.executable, "-c", _READING, str(pkb.session.home.ledger)], stdout=subprocess.PIPE, stdin=subprocess.PIPE
    )
    assert reading.stdout
    assert reading.stdout.readline() == b"reading\n"
    try:
        with pytest.raises(PkbError, match="another process reads"):
            pkb.forget(pkb.plan_forgetting(["hidden@example.org"], Scope()))
        assert is_unfinished(pkb.session.ledger)
    finally:
        reading.kill()
        reading.communicate()
    pkb.ingest()
    assert not is_unfinished(pkb.session.ledger)


_READING = """
import sqlite3, sys
rows = sqlite3.connect(sys.argv[1], isolation_level=None)
rows.execute("BEGIN")
rows.execute("SELECT count(*) FROM documents").fetchone()
print("reading", flush=True)
sys.stdin.read()
"""

_KILLED = """
import os, signal, sys
from engine.app import Pkb
from store.types import Scope

left = int(sys.argv[2])

def step(name, done, total):
    global left
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1

with Pkb(sys.argv[1]) as pkb:
    pkb.forget(pkb.plan_forgetting(["hidden@example.org"], Scope()), step)
"""


@pytest.mark.slow
@pytest.mark.parametrize("steps", range(7))
def test_a_kill_in_the_middle_is_made_good_by_the_next_command(pkb: Pkb, place: Path, steps: int) -> None:
    home, wanted, before = place / "home", secret(pkb), files(place / "home")
    pkb.close()
    killed = subprocess.run([sys.executable, "-c", _KILLED, str(home), str(steps)], check=False)
    with Pkb(home) as again:
        again.session.embedder = HashEmbedder()
        assert is_unfinished(again.session.ledger) == (killed.returncode == -signal.SIGKILL)
        again.ingest() if steps % 2 else again.idle(budget_s=1)
        assert not is_unfinished(again.session.ledger)
        assert [one for one in again.check(read_data=True) if one.wrong] == []
    assert traces(home, wanted) == set()
    assert kept(before, home, ["tables", "index"]) == set()
