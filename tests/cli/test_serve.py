"""`pkb serve` and the questions it answers: the same answers, by one process of the home's own, for its owner alone."""

import json
import os
import re
import shutil
import signal
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import date
from pathlib import Path
from threading import Thread
from typing import Any

import psutil
import pytest
from msgspec.inspect import CustomType, type_info

from engine import operations
from engine.serve import client, server
from engine.serve import process as resident
from engine.serve.process import (
    encode,
    is_private,
    listen,
    lock_of,
    socket_paths,
)
from engine.session import Session
from engine.types import AskOptions, ListOptions
from store.locks import Lease
from store.types import Scope
from tests.cli.conftest import Pkb
from tests.cli.serving import Served, served, wait
from tests.demo import DATA, NANO, environment
from tests.effort import slow_only

KEY = "Who has the spare key to the workshop?"
TICKET = "How much is a ticket for the summer concert?"
REPAIRED = "How many bicycles were repaired on the repair day?"
MBOX = DATA / "mail" / "archive.mbox"
PICNIC = "From: Ann Bell <ann@example.org>\nDate: Mon, 3 Jun 2024 09:30:00 +0000\nSubject: picnic\n\n"


@pytest.fixture
def up(home: Served) -> Served:
    """Return one whose resident process is there."""
    assert home.run("serve").returncode == 0
    return home


@pytest.fixture(scope="module")
def lasting(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Yield one that many tests ask, and none of them changes."""
    folder = Path(shutil.copytree(made, tmp_path_factory.mktemp("lasting") / "demo"))
    with served(folder, environment(folder)) as own:
        assert own.run("serve").returncode == 0
        yield own


def row(home: Served, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(home.run(*words, "--json").stdout)
    return found


def timeless(printed: bytes) -> str:
    return re.sub(r"\d+ ms|age_s\": [\d.]+|\"\w+\": \d+\.\d+|\d+\.\d+", "-", printed.decode())


def test_the_first_question_starts_it_and_is_answered_by_it(home: Served) -> None:
    assert b"Gus Tindall" in home.run("ask", KEY).stdout
    assert home.status()["answered"] == 1


@pytest.mark.slow
def test_new_mail_is_found_there_as_soon_as_another_process_has_read_it(up: Served, tmp_path: Path) -> None:
    asked, mail = "Who brings the quibblewort to the picnic?", tmp_path / "mail"
    assert row(up, "ask", asked)["answered"] is False
    mail.mkdir()
    for number, who in enumerate(("Zoe", "Kim")):
        text = f"{who} brings the quibblewort to the picnic."
        (mail / f"{number}.eml").write_text(f"{PICNIC}{text}\n", "utf-8")
        assert up.run("ingest", str(mail), "--vectors", "later").returncode in (0, 3)
        assert text in [source["quote"] for source in row(up, "ask", asked, "--cache=off")["sources"]]
    (mail / "0.eml").unlink()
    assert up.run("ingest", "--vectors", "later").returncode in (0, 3)
    found = row(up, "ask", asked, "--cache=off")
    assert ("Kim" in found["answer"], any("Zoe" in source["quote"] for source in found["sources"])) == (True, False)
    assert up.status()["answered"] == 4


@pytest.mark.parametrize("damage", [None, *slow_only(b"", b"no shard")])
def test_a_damaged_file_of_the_mapped_index_changes_no_answer(up: Served, damage: bytes | None) -> None:
    before = row(up, "ask", KEY, "--cache=off")["answer"]
    for path in up.home.index.glob("*.shard"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data if damage is None else damage)
    assert row(up, "ask", KEY, "--cache=off")["answer"] == before
    assert up.status()["answered"] == 2
    assert up.run("doctor", "--data", "--read-data").returncode == 0


LOOKUPS: dict[str, Callable[[Session], object]] = {
    "search": lambda opened: client.call(opened, operations.search_results, "gazebo", Scope(), 2),
    "show": lambda opened: client.call(opened, operations.documents, str(MBOX), None),
    "list": lambda opened: client.call(
        opened, operations.list_documents, ListOptions(Scope(sender="ann"), ("the",), 7, oldest=True)
    ),
    "todo": lambda opened: client.call(opened, operations.open_loops, Scope(sender="ann"), "task", 3),
    "meeting": lambda opened: client.call(opened, operations.meeting, "workshop", Scope(), False),
    "digest": lambda opened: client.call(opened, operations.digest, Scope(since=date(2024, 6, 1)), False),
    "unknown person": lambda opened: client.unknown_person(opened, Scope(sender="nobody at all")),
}
WITH_TABLES = ("show", "list", "meeting", "unknown person")  # the others need the mapped index alone


@pytest.mark.parametrize("name", LOOKUPS)
def test_a_lookup_is_done_there_and_finds_the_same(lasting: Served, name: str) -> None:
    there, here = lasting.session(), Session({**lasting.environ, "PKB_DAEMON": "off"})
    assert LOOKUPS[name](there) == LOOKUPS[name](here)
    assert ("tables" in vars(there), "tables" in vars(here)) == (False, name in WITH_TABLES)


@pytest.mark.parametrize(
    "words",
    [
        ["search", "gazebo", "-k", "2"],
        ["search", "gazebo", "white", "--since", "2024-03", "--json"],
        ["search", "zebra crossings"],
        ["search", "budget", "--from", "nobody at all"],
        ["search", "budget", "--in", "nowhere", "--json"],
        ["search", " "],
        ["list", "-n", "5"],
        ["list", "rehearsal", "--since", "2024-03", "--json"],
        ["list", "--count"],
        ["list", "--from", "nobody at all"],
        ["todo", "-n", "3"],
        ["todo", "--since", "2024-03", "--kind", "question", "--json"],
        ["todo", "--from", "nobody at all"],
        ["show", str(MBOX)],
        ["show", str(MBOX), "--json"],
        ["show", str(MBOX), "--message-id", "nothing", "--json"],
        ["show", "/nowhere/\udcff"],
    ],
)
def test_the_output_of_a_lookup_does_not_depend_on_the_process(
    lasting: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    pkb = Pkb(lasting.home.data.parent, monkeypatch, capsys)
    there, here = (pkb(*words, env={"PKB_DAEMON": daemon}) for daemon in ("auto", "off"))
    assert there == here


@pytest.mark.slow
def test_the_output_of_a_conversation_does_not_depend_on_the_process(
    lasting: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pkb = Pkb(lasting.home.data.parent, monkeypatch, capsys)
    typed = f"{KEY}\n/answer\n/show 1\n/show 9\nand for the summer concert?\n".encode()
    there, here = (pkb("chat", "--cache=off", stdin=typed, env={"PKB_DAEMON": daemon}) for daemon in ("auto", "off"))
    assert timeless(there.out.encode()) == timeless(here.out.encode())
    assert timeless(there.err.encode()) == timeless(here.err.encode())


@pytest.mark.slow
@pytest.mark.parametrize("words", [["search", "gazebo"], ["show", str(MBOX)], ["search", "gazebo", "--from", "nobody"]])
def test_a_lookup_starts_it_only_where_one_is_wanted(home: Served, words: list[str]) -> None:
    home.environ["PKB_DAEMON"] = "off"
    here = home.run(*words)
    assert not home.is_there
    home.environ["PKB_DAEMON"] = "auto"
    there = home.run(*words)
    assert home.is_there
    assert (there.returncode, there.stdout, there.stderr) == (here.returncode, here.stdout, here.stderr)


def test_what_is_kept_is_shown_without_asking_or_starting_it(home: Served, up: Served) -> None:
    home.run("ask", KEY)
    before = up.status()["answered"]
    assert row(home, "ask", KEY)["tier"] == "exact"
    assert up.status()["answered"] == before == 1
    home.run("serve", "--stop")
    assert row(home, "ask", KEY)["tier"] == "exact"
    assert not home.is_there


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["--json"],
        ["-k", "2", "--since", "2024-03", "--until", "2024-05", "--json"],
        ["--model", str(NANO)],
        ["--model", os.path.relpath(NANO), "--max-tokens", "2", "--json"],
        ["--from", "nobody at all"],
        ["--model", "org/nothing-of-that-name"],
        ["--in", "nowhere", "--json"],
    ],
)
def test_what_is_printed_does_not_depend_on_who_answers(lasting: Served, flags: list[str]) -> None:
    here, there = (lasting.run("ask", TICKET, "--cache=off", *flags, *more) for more in (["--no-daemon"], []))
    assert (there.returncode, timeless(there.stdout)) == (here.returncode, timeless(here.stdout))
    assert timeless(there.stderr) == timeless(here.stderr)


@pytest.mark.slow
@pytest.mark.parametrize("flags", [["--model", os.path.relpath(NANO)], ["-k", "2"], ["--from", "nobody at all"]])
def test_all_that_can_be_asked_is_asked_of_it(lasting: Served, flags: list[str]) -> None:
    before = lasting.status()["answered"]
    lasting.run("ask", TICKET, "--cache=off", *flags)
    assert lasting.status()["answered"] == before + 1


@pytest.mark.slow
def test_the_day_of_a_question_is_the_day_of_who_asks(up: Served) -> None:
    question = "What is on tomorrow?"
    first = up.run("ask", question, "--json")
    up.environ["PKB_NOW"] = "2024-06-20T08:00"
    later = up.run("ask", question, "--json")
    assert up.status()["answered"] == 2
    assert [json.loads(ran.stdout)["tier"] for ran in (first, later)] == ["full", "full"]


def socket_of(home: Served) -> Path | None:
    """Return the path of the socket of a home, if there is one."""
    return next((path for path in socket_paths(home.home.data) if path.exists()), None)


def test_nobody_else_can_come_near_its_socket(lasting: Served) -> None:
    path = socket_of(lasting)
    assert path
    kinds = [(stat.S_IFMT(found.st_mode), stat.S_IMODE(found.st_mode)) for found in (path.stat(), path.parent.stat())]
    assert kinds == [(stat.S_IFSOCK, 0o600), (stat.S_IFDIR, 0o700)]
    assert psutil.Process(lasting.pid).net_connections("inet") == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows what a process has open")
def test_it_hangs_on_nothing_of_the_command_that_started_it(lasting: Served) -> None:
    pid = lasting.pid
    process = Path("/proc", str(pid))
    assert (process / "cwd").readlink() == Path("/")
    assert {(process / "fd" / str(number)).readlink() for number in range(3)} == {Path(os.devnull)}
    assert os.getsid(pid) == pid


def test_a_long_home_has_its_socket_in_a_short_private_folder(home: Served, made: Path, tmp_path: Path) -> None:
    long = Path(shutil.copytree(made, tmp_path / ("n" * 60) / ("m" * 60)))
    with served(long, environment(long)) as other:
        assert row(other, "serve")["running"]
        path = socket_of(other)
        assert path
        assert path.parent.parent == Path("/tmp")
        assert is_private(path.parent)
        assert other.run("ask", KEY).returncode == 0
        assert other.status()["answered"] == 1


@pytest.mark.slow
def test_two_homes_have_a_process_each(up: Served, made: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(made, tmp_path / "other"))
    with served(folder, environment(folder)) as other:
        assert other.run("serve").returncode == 0
        assert other.pid != up.pid
        other.run("ask", KEY)
        assert (up.status()["answered"], other.status()["answered"]) == (0, 1)


@pytest.mark.parametrize("trap", ["link", "open", "file"])
def test_a_folder_that_may_be_another_users_is_not_used(tmp_path: Path, trap: str) -> None:
    data = tmp_path / ("n" * 120)
    data.mkdir()
    (tmp_path / "mine").mkdir(mode=0o700)
    (path,) = socket_paths(data)
    if trap == "link":
        path.parent.symlink_to(tmp_path / "mine")
    elif trap == "open":
        path.parent.mkdir()
        path.parent.chmod(0o755)
    else:
        path.parent.write_text("")
    try:
        assert listen(data) is None
    finally:
        path.parent.rmdir() if trap == "open" else path.parent.unlink()


def test_a_second_one_is_not_started(lasting: Served) -> None:
    pid = lasting.pid
    assert row(lasting, "serve")["pid"] == pid
    ran = lasting.run("serve", "--foreground")
    assert (ran.returncode, ran.stderr.count(b"\n")) == (11, 1)
    assert lasting.pid == pid


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows what processes were started with")
def test_many_who_ask_at_once_start_one(home: Served) -> None:
    running = [home.start("ask", "--cache=off", KEY) for _ in range(4)]
    for process in running:
        process.communicate()
    assert [process.returncode for process in running] == [0] * 4
    assert home.pid
    command = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/environ") if _readable(path)]
    assert sum(f"PKB_HOME={home.home.data}".encode() in one for one in command) == 1


def _readable(path: Path) -> bool:
    try:
        return b"serve" in (path.parent / "cmdline").read_bytes()
    except OSError:
        return False


@pytest.mark.slow
def test_where_the_settings_have_changed_another_one_answers(up: Served) -> None:
    before = up.pid
    up.run("config", "set", "ask.k", "2")
    assert not row(up, "serve", "--status")["current"]
    assert len({one["path"] for one in row(up, "ask", KEY)["sources"]}) <= 2
    assert up.pid != before
    assert row(up, "serve", "--status")["current"]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["flag", "variable", "setting"])
def test_where_none_is_wanted_none_is_started(home: Served, way: str) -> None:
    if way == "setting":
        home.run("config", "set", "serve.daemon", "off")
    if way == "variable":
        home.environ["PKB_DAEMON"] = "off"
    assert home.run("ask", KEY, *(["--no-daemon"] if way == "flag" else [])).returncode == 0
    assert not home.is_there


def test_after_a_kill_the_next_question_is_answered_by_a_new_one(up: Served) -> None:
    before = up.pid
    path = socket_of(up)
    os.kill(before, signal.SIGKILL)
    wait(lambda: not up.is_there)
    assert path
    assert path.exists()
    assert b"Gus Tindall" in up.run("ask", KEY).stdout
    assert up.pid != before
    assert up.status()["answered"] == 1


@pytest.mark.slow
def test_one_that_hangs_is_ended_and_the_question_answered(up: Served) -> None:
    before = up.pid
    os.kill(before, signal.SIGSTOP)
    assert b"Gus Tindall" in up.run("ask", KEY).stdout
    assert up.pid != before


class Liar(Thread):
    """A process at the socket that says something and hangs up."""

    def __init__(self, home: Served, says: list[bytes]) -> None:
        super().__init__(daemon=True)
        found = listen(home.home.data)
        assert found
        self._lease = Lease(lock_of(home.home))
        assert self._lease.acquire()
        self._listener, self._says = found[0], says

    def run(self) -> None:
        """Serve one who asks."""
        end, _ = self._listener.accept()
        with closing(end), closing(self._listener):
            for part in self._says:
                end.sendall(part)
                if part == self._says[0]:
                    end.recv(1 << 20)
        self._lease.release()


@pytest.mark.slow
@pytest.mark.parametrize(
    "said",
    [
        [],
        [("piece", {"text": "The committee "})],
        [("piece", {"text": "no such "}), ("piece", {"text": "words"})],
        [("answered", {"answer": {"reply": 1}})],
        [("declined", {})],
        [("nonsense", {})],
    ],
)
def test_what_breaks_off_is_answered_here_and_shown_once(home: Served, said: list[tuple[str, dict[str, Any]]]) -> None:
    if any(kind == "piece" for kind, _ in said):  # a quote is not streamed
        home.run("config", "set", "model.name", str(NANO))
    expected = home.run("ask", TICKET, "--cache=off", "--no-daemon").stdout
    hello = encode("hello", {"identity": home.identity, "version": "0"})
    liar = Liar(home, [hello, *(encode(*one) for one in said)])
    liar.start()
    shown = home.run("ask", TICKET, "--cache=off").stdout
    liar.join()
    wrong = "no such words\n" if said[:1] == [("piece", {"text": "no such "})] else ""
    assert shown.decode() == wrong + expected.decode()


def test_bytes_that_are_no_frames_end_their_own_connection_alone(lasting: Served) -> None:
    path, pid = socket_of(lasting), lasting.pid
    for noise in (b"", b"\x00" * 9, b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 70_000, b"\x00\x00\x00\x02{}"):
        with socket.socket(socket.AF_UNIX) as end:
            end.connect(str(path))
            end.sendall(noise)
    with socket.socket(socket.AF_UNIX) as end:
        end.connect(str(path))
        end.sendall(encode("nonsense", {}) + encode("status", {}))
        while end.recv(1 << 16):
            pass
    with closing(lasting.link()) as link:
        link.send("ask", {"request": {"text": 1}})
        assert next(link.answers())["kind"] == "declined"
        lasting.ask(link, KEY)
        assert next(link.answers())["kind"] == "answered"
    assert lasting.pid == pid


@pytest.mark.slow
def test_a_question_that_is_given_up_leaves_no_answer(up: Served) -> None:
    up.run("config", "set", "model.name", str(NANO))
    up.run("serve", "--stop")
    up.run("serve")
    with closing(up.link()) as link:
        up.ask(link, TICKET, streams=True)
    wait(lambda: up.status()["jobs"] == 0)
    wait(lambda: _is_served(up))
    bank = json.loads(up.run("stats", "--json").stdout)["answers"]["answered"]
    assert (up.status()["answered"], bank) == (1, 1)


def _is_served(home: Served) -> bool:
    """Ask something else, so that what was asked before is over, one way or another."""
    return home.run("ask", REPAIRED).returncode == 0 and home.status()["answered"] == 1


@pytest.mark.slow
def test_an_interrupt_breaks_off_what_is_done_for_it(up: Served) -> None:
    process = up.start("ask", TICKET, "--model", str(NANO))
    wait(lambda: up.status()["jobs"] == 1 or process.poll() is not None)
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode in (130, 0)  # 0: it was answered before
    wait(lambda: up.status()["jobs"] == 0)


@pytest.mark.slow
def test_all_who_ask_at_once_get_their_own_answers(lasting: Served) -> None:
    questions = [f"{word} key to the workshop?" for word in ("Who has the", "Where is the", "Was there a", "Is a")]
    links = [lasting.link() for _ in questions]
    for link, question in zip(links, questions, strict=True):
        lasting.ask(link, question, AskOptions(k=2))
    found = [next(link.answers()) for link in links]
    for link in links:
        link.close()
    assert [frame["answer"][0]["question"] for frame in found] == questions


@pytest.mark.slow
def test_what_other_processes_ingest_and_remove_is_seen_at_once(up: Served, tmp_path: Path) -> None:
    mail = tmp_path / "new"
    mail.mkdir()
    (mail / "picnic.eml").write_text(f"{PICNIC}The picnic is at the quarry on Friday.\n", "utf-8")
    question = "Where is the picnic at the quarry?"
    up.run("ingest", str(mail), "--vectors", "later")
    assert any("picnic.eml" in one["path"] for one in row(up, "ask", question)["sources"])
    (mail / "picnic.eml").unlink()
    up.run("ingest", str(mail), "--prune", "--vectors", "later")
    assert not any("picnic.eml" in one["path"] for one in row(up, "ask", question)["sources"])
    assert up.status()["answered"] == 2


@pytest.mark.slow
def test_it_leaves_when_nobody_asks(home: Served) -> None:
    home.run("config", "set", "serve.idle_minutes", "0.01")
    home.run("ask", KEY)
    wait(lambda: not home.is_there)
    assert socket_of(home) is None


@pytest.mark.slow
def test_it_leaves_when_it_takes_too_much_memory(home: Served) -> None:
    home.run("config", "set", "model.memory_share", "0.0")
    home.run("serve")
    assert home.run("ask", KEY).returncode == 0
    wait(lambda: not home.is_there)


@pytest.mark.slow
def test_it_leaves_when_its_home_is_removed(up: Served) -> None:
    pid = up.pid
    shutil.rmtree(up.home.data.rename(up.home.data.with_name("removed")))  # it may be writing into it
    wait(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


@pytest.mark.parametrize("number", [signal.SIGTERM, *slow_only(signal.SIGINT)])
def test_a_signal_ends_it_cleanly(up: Served, number: signal.Signals) -> None:
    path = socket_of(up)
    os.kill(up.pid, number)
    wait(lambda: not up.is_there)
    assert path
    assert not path.exists()


@pytest.mark.slow
def test_in_the_foreground_it_serves_until_interrupted(home: Served) -> None:
    process = home.start("serve", "--foreground")
    with closing(home.link()) as link:
        home.ask(link, KEY)
        assert next(link.answers())["kind"] == "answered"
    process.send_signal(signal.SIGINT)
    assert process.communicate() == (b"", b"")
    assert process.returncode == 0


def test_stopped_or_never_started_it_is_none_and_that_is_no_error(pkb: Pkb) -> None:
    for words in (["serve", "--status"], ["serve", "--stop"]):
        ran = pkb(*words)
        assert (ran.code, ran.out, ran.err) == (0, "the background server is not running\n", "")


def test_who_stops_it_is_told_which_process_ended(up: Served) -> None:
    pid = up.pid
    done = up.run("serve", "--stop")
    assert (done.returncode, done.stdout.decode(), done.stderr) == (0, f"stopped process {pid}\n", b"")
    assert not up.is_there


def test_before_anything_was_ingested_there_is_nothing_to_serve(fresh: Pkb) -> None:
    assert [fresh("serve").code, fresh("serve", "--foreground").code] == [10, 10]
    assert fresh("serve", "--status").code == 0
    assert not (fresh.folder / "home").exists()


@pytest.mark.parametrize("name", operations.READS)
def test_an_operation_takes_and_returns_what_may_travel(name: str) -> None:
    taken, returned = operations.types_of(operations.READS[name])
    assert not any(isinstance(found, CustomType) for kind in (taken, returned) for found in parts(type_info(kind)))


def parts(found: Any) -> Iterator[Any]:
    """Yield a type and all that it is made of."""
    yield found
    inner = [getattr(found, name, ()) for name in ("fields", "types", "item_types", "item_type", "type", "value_type")]
    for one in (one for each in inner for one in (each if isinstance(each, tuple) else [each])):
        yield from parts(one)


def test_the_background_server_names_no_operation() -> None:
    texts = [Path(str(module.__file__)).read_text("utf-8") for module in (resident, server)]
    assert [name for name in operations.READS for text in texts if re.search(rf"\b{name}\(|\"{name}\"", text)] == []
