"""Mail accounts at a real server, Dovecot: folders that follow it, through any cut, and leave it as it is."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from engine.app import Pkb
from engine.ingest.imap import Fetched
from store.errors import PkbError
from tests.effort import PATIENCE_S
from tests.engine.ingest.mail_server import DOVECOT_PASSWORD, Dovecot, cutting, dovecot, message, write_keyring

NUMBERS = count(1)


@pytest.fixture(scope="module")
def server() -> Iterator[Dovecot]:
    with dovecot() as running:
        yield running


class Reader:
    """A home that reads the account of one user."""

    def __init__(self, folder: Path, server: Dovecot, user: str) -> None:
        self.home, self.server, self.user = folder / user, server, user
        self.home.mkdir()
        (self.home / "config.toml").write_text(f'[ingest]\nca = "{server.certificate}"\n')
        self.pkb = Pkb(self.home)

    def address(self, folder: str = "", port: int = 0) -> str:
        return f"imaps://{self.user}@localhost:{port or self.server.port}{folder}"

    def fetch(self, folder: str = "", port: int = 0) -> Fetched:
        done, failed = self.pkb.fetch([self.address(folder, port)], ask=lambda _: DOVECOT_PASSWORD)
        for error in failed:
            raise error
        return done[0]

    def read(self, folder: str = "") -> list[str]:
        """Read the account and index it; returns the titles of all that is indexed then."""
        self.fetch(folder)
        self.pkb.index([self.address(folder)])
        return sorted(row["title"] for row in self.pkb.session.tables.select("documents", "true", ["title"]))

    def files(self, port: int = 0) -> list[Path]:
        return sorted(self.home.glob(f"mail/{self.user}@localhost:{port or self.server.port}/*/*"))


@pytest.fixture
def reader(server: Dovecot, tmp_path: Path) -> Iterator[Reader]:
    made = Reader(tmp_path, server, f"user{next(NUMBERS)}")
    yield made
    made.pkb.close()


def test_new_and_deleted_mail_follows_and_nothing_is_marked_as_read(server: Dovecot, reader: Reader) -> None:
    server.put(reader.user, [message(number) for number in range(1, 6)])
    assert reader.read() == [f"note {number}" for number in range(1, 6)]
    assert {flag for flags in server.flags(reader.user) for flag in flags.split()} <= {"\\Recent"}
    server.put(reader.user, [message(6)], flags="\\Seen \\Flagged")
    server.do(reader.user, "1:2", "\\Deleted", expunge=True)
    server.do(reader.user, "3", "\\Deleted")
    server.do(reader.user, "4", "\\Answered \\Seen")
    found = reader.fetch()
    assert (found.new, found.gone) == (1, 3)
    assert [path.name.split(".")[1] for path in reader.files()] == ["4", "5", "6"]
    assert reader.read() == ["note 4", "note 5", "note 6"]
    assert reader.fetch() == Fetched(reader.address(), ["INBOX"], [], marked=1)


def test_folders_of_no_use_are_left_out_and_named_and_others_decoded(server: Dovecot, reader: Reader) -> None:
    names = ["INBOX", "Entw&APw-rfe", "Work/2024", "&ZeVnLIqe-", "R&-D", "Trash", "Junk", "Everything"]
    for number, name in enumerate(names):
        server.put(reader.user, [message(number)], name)
    found = reader.fetch()
    assert sorted(found.folders) == ["Entwürfe", "INBOX", "R&D", "Work/2024", "日本語"]
    assert sorted(found.left_out) == ["Everything", "Junk", "Trash"]
    assert reader.read() == [f"note {number}" for number in range(5)]
    assert sorted(path.parent.name for path in reader.files()) == [
        "Entwürfe",
        "INBOX",
        "R&D",
        "Work%2F2024",
        "日本語",
    ]
    assert reader.read("/Everything") == [f"note {number}" for number in (0, 1, 2, 3, 4, 7)]
    assert "Everything" in reader.fetch().folders  # since it was asked for once
    with server.client(reader.user) as client:
        client.delete("Entw&APw-rfe")
    assert "note 1" not in reader.read()


def test_one_folder_alone_is_read_by_its_name(server: Dovecot, reader: Reader) -> None:
    server.put(reader.user, [message(1)])
    server.put(reader.user, [message(2)], "Entw&APw-rfe")
    assert reader.read("/Entwürfe") == ["note 2"]
    assert [str(one) for one in reader.pkb.accounts()] == [reader.address("/Entwürfe")]
    with pytest.raises(PkbError, match="no such folder"):
        reader.fetch("/Nowhere")


def test_numbering_anew_doubles_nothing(server: Dovecot, reader: Reader) -> None:
    server.put(reader.user, [message(number) for number in range(1, 4)])
    assert len(reader.read()) == 3
    for name in ("dovecot-uidlist", "dovecot-uidvalidity", "dovecot.index.log", "dovecot.index.cache"):
        (server.folder / "mail" / reader.user / name).unlink(missing_ok=True)
    for path in (server.folder / "mail" / reader.user).glob("dovecot*"):
        path.unlink()
    before = {path.name.split(".")[0] for path in reader.files()}
    while {str(int(time.time()))} <= before:  # the second in which the server numbered them
        time.sleep(0.05)
    assert reader.read() == ["note 1", "note 2", "note 3"]
    after = {path.name.split(".")[0] for path in reader.files()}
    assert (len(before), len(after), before & after) == (1, 1, set())


def test_a_wrong_password_is_an_error(server: Dovecot, reader: Reader) -> None:
    given = ["wrong"]
    with pytest.raises(PkbError, match="refuses name or password"):
        reader.pkb.fetch([reader.address()], ask=lambda _: given.pop() if given else None)


@pytest.mark.slow
def test_a_cut_anywhere_loses_and_doubles_nothing(server: Dovecot, reader: Reader) -> None:
    raw = {number: message(number, "long line " * 4000) for number in range(1, 120)}
    server.put(reader.user, raw)
    size = sum(map(len, raw.values()))
    cuts = [*range(200, 6_000, 400), *range(6_000, size, size // 12), 1 << 40]
    seen, failed = 0, 0
    for cut in cuts:
        with cutting(server.port, cut) as port:
            place = reader.home / "mail" / f"{reader.user}@localhost:{port}"
            if (former := sorted(reader.home.glob("mail/*"))) and former[0] != place:
                former[0].rename(place)  # the account is the same, at another port
            try:
                reader.fetch(port=port)
            except PkbError:
                failed += 1
            files = reader.files(port)
            assert len({path.name for path in files}) == len(files) >= seen
            seen = len(files)
            for path in files:
                number = int(path.name.split(".")[1])
                assert path.read_bytes() == raw[number].replace(b"\r\n", b"\n")
    assert seen == 119
    assert failed > 20


@pytest.mark.slow
def test_watching_reads_new_mail_as_it_comes_and_connects_again(server: Dovecot, reader: Reader) -> None:
    write_keyring(reader.home / "python", DOVECOT_PASSWORD)
    path = os.pathsep.join((str(reader.home / "python"), str(Path.cwd())))
    own = {"PKB_HOME": str(reader.home), "PKB_CACHE": str(reader.home / "cache"), "PYTHONPATH": path}
    env = os.environ | own | {"PKB_CONFIG": str(reader.home / "config.toml")}
    server.put(reader.user, [message(1)])
    words = [sys.executable, "-m", "cli.app", "ingest", "--watch", reader.address(), "--quiet", "1s", "--json"]
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
        events = (json.loads(line) for line in watching.stdout or ())
        read = (one for one in events if one["event"] == "read" and one["documents"]["kept"])
        assert next(read)["path"] == reader.address()
        server.put(reader.user, [message(2)])
        assert next(read)["documents"]["kept"] == 1
        server.restart()
        server.put(reader.user, [message(3)])
        assert next(read)["documents"]["kept"] == 1
        watching.send_signal(signal.SIGINT)
        assert watching.wait(PATIENCE_S) == 130


@pytest.mark.slow
def test_ten_thousand_messages(server: Dovecot, reader: Reader) -> None:
    server.put(reader.user, [message(0)])
    cur = server.folder / "mail" / reader.user / "cur"
    owner = cur.stat()
    for number in range(1, 10_000):
        path = cur / f"1700000000.M{number:06}P1.host:2,S"
        path.write_bytes(message(number))
        os.chown(path, owner.st_uid, owner.st_gid)
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    assert reader.fetch().new == 10_000
    first, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    assert reader.fetch() == Fetched(reader.address(), ["INBOX"], [])
    again = time.perf_counter() - began
    print(f"\n10,000 messages: {first:.1f} s, {(after - before) / 1024:.0f} MB more; again {again:.1f} s")
    assert len(reader.files()) == 10_000
