"""`pkb ingest --watch`: real folders, events, processes; what is delivered can be found, and nothing else is said."""

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from msgspec.structs import replace

from cli.ingest import WatchPrinter
from engine.idle.scheduler import Machine, Sources
from engine.ingest.follow import Follow, Intervals
from engine.operations import choose_roots
from engine.session import session
from engine.watcher import IdleRuns, Watcher
from store.locks import Locks
from tests.cli.conftest import Pkb
from tests.cli.test_json import compare
from tests.demo import environment
from tests.effort import PATIENCE_S

QUICK = Intervals(quiet=0.3, max_wait=5, rescan=600, poll=0.3, check=0.1, rest=0.3, busy=0.3)

EARLIER = 1_714_728_000  # 3 May 2024


def write(path: Path, words: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"From: ann@example.org\nDate: 3 May 2024 10:00:00 +0000\nSubject: {words}\n\nAbout {words}.\n")
    return path


def finds(pkb: Pkb, words: str) -> bool:
    return words in pkb("search", words, "--json").out.partition('"sources"')[2]


class Process:
    """One `pkb` at work, and the events that it has told of so far."""

    def __init__(self, folder: Path, *words: str, start: Sequence[str] = ("-m", "cli.app")) -> None:
        command = [sys.executable, *start, *words]
        env = environment(folder)
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.events: list[dict[str, Any]] = []
        self._lines: queue.Queue[str] = queue.Queue()
        self._ear = threading.Thread(target=self._listen)
        self._ear.start()

    def until(self, event: str, **numbers: int) -> dict[str, Any]:
        """Return the next event of a name whose files and documents count as said."""
        while True:
            line = self._lines.get(timeout=PATIENCE_S)
            row: dict[str, Any] = json.loads(line)
            self.events.append(row)
            counts = {**(row["files"] or {}), **(row["documents"] or {})}
            if row["event"] == event and numbers.items() <= counts.items():
                return row

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """Send a signal; returns the exit code and what was said on stderr."""
        self.process.send_signal(number)
        code = self.process.wait(timeout=PATIENCE_S)
        assert self.process.stderr
        return code, self.process.stderr.read()

    def close(self) -> None:
        """Leave nothing of it."""
        self.process.kill()
        self.process.wait()
        self._ear.join()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream
            stream.close()

    def _listen(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._lines.put(line)


@contextmanager
def process(pkb: Pkb, *words: str) -> Iterator[Process]:
    """Run pkb with events as JSON."""
    one = Process(pkb.folder, *words, "--json")
    try:
        yield one
    finally:
        one.close()


@pytest.fixture
def box(tmp_path: Path) -> Path:
    """Return a Maildir with one message in it, written long ago."""
    for name in ("cur", "new", "tmp"):
        (tmp_path / "mail" / name).mkdir(parents=True)
    first = write(tmp_path / "mail" / "cur" / "1.a.host:2,S", "tandem")
    os.utime(first, (EARLIER, EARLIER))  # a file just written might still be being written
    return tmp_path / "mail"


@pytest.mark.slow
def test_what_is_delivered_is_found_what_is_renamed_is_kept_and_what_is_deleted_goes(fresh: Pkb, box: Path) -> None:
    with process(fresh, "ingest", "--watch", str(box), "--quiet", "1s") as watch:
        assert watch.until("followed")["how"] == "events"
        watch.until("read", new=1, kept=1)
        watch.until("embedded")
        write(box / "tmp" / "2.b.host", "gazebo").rename(box / "new" / "2.b.host")
        assert watch.until("read", new=1, kept=1)["path"] == str(box)
        assert watch.until("embedded")["without_vector"] == 0
        assert (finds(fresh, "tandem"), finds(fresh, "gazebo")) == (True, True)
        (box / "new" / "2.b.host").rename(box / "cur" / "2.b.host:2,S")
        watch.until("read", new=1, gone=1, kept=0, duplicates=1, removed=0)
        (box / "cur" / "1.a.host:2,S").unlink()
        watch.until("read", gone=1, removed=1)
        assert (finds(fresh, "tandem"), finds(fresh, "gazebo")) == (False, True)
        assert watch.end(signal.SIGTERM) == (143, "")
    compare("pkb ingest --watch", watch.events, every=False)
    assert "gazebo" not in json.dumps(watch.events)
    assert fresh("doctor", "--data", "--read-data", "--json").row["sound"]


@pytest.mark.slow
def test_without_a_path_it_follows_what_was_read_before_and_catches_up_after_a_kill(fresh: Pkb, box: Path) -> None:
    fresh("ingest", str(box), "--in", "post", "--vectors", "later")
    with process(fresh, "ingest", "--watch", "--quiet", "1s") as watch:
        watch.until("read", new=0)
        watch.end(signal.SIGKILL)
    write(box / "new" / "3.c.host", "marmalade")
    os.utime(box / "new" / "3.c.host", (1e9, 1e9))
    with process(fresh, "ingest", "--watch", "--quiet", "1s") as watch:
        watch.until("read", new=1, kept=1)
        assert watch.end(signal.SIGINT) == (130, "")
    assert fresh("stats", "--json").row["collections"] == {"post": 2}


@pytest.mark.slow
def test_ingest_goes_on_as_a_watch_and_gives_what_comes_the_same_kind_and_collection(fresh: Pkb, box: Path) -> None:
    words = ("ingest", str(box), "--in", "post", "--watch", "--vectors", "later")
    with process(fresh, *words) as watch:
        watch.until("read", new=1)
        write(box / "new" / "2.b.host", "gazebo")
        watch.until("read", new=1)
        assert watch.end(signal.SIGINT) == (130, "")
    assert fresh("stats", "--json").row["collections"] == {"post": 2}
    assert "embedded" not in {event["event"] for event in watch.events}


@pytest.mark.slow
def test_other_commands_go_on_while_it_watches(fresh: Pkb, box: Path, tmp_path: Path) -> None:
    write(tmp_path / "other" / "a", "zeppelin")
    with process(fresh, "ingest", "--watch", str(box), "--quiet", "1s") as watch:
        watch.until("embedded")
        assert fresh("ingest", str(tmp_path / "other")).code == 0
        assert fresh("ask", "what about the zeppelin?").code in (0, 4)
        write(box / "new" / "2.b.host", "gazebo")
        watch.until("read", new=1)
        assert watch.end(signal.SIGTERM) == (143, "")
    assert finds(fresh, "zeppelin")


@pytest.mark.slow
def test_at_a_terminal_it_says_a_line_an_event_with_paths_and_numbers_alone(fresh: Pkb, box: Path) -> None:
    command = [sys.executable, "-m", "cli.app", "ingest", "--watch", str(box), "--quiet", "1s", "--poll", "1s"]
    env = environment(fresh.folder)
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as ran:
        assert ran.stdout
        assert ran.stderr
        lines = [ran.stdout.readline().partition(" ")[2] for _ in range(3)]
        ran.send_signal(signal.SIGINT)
        assert (ran.wait(timeout=PATIENCE_S), ran.stderr.read()) == (130, "")
    assert lines == [
        f"polling {box} (requested)\n",
        f"{box}: 1 new, 1 added\n",
        "1 chunk embedded\n",
    ]


@pytest.mark.slow
def test_a_folder_that_holds_its_own_home_comes_to_rest(fresh: Pkb, box: Path, tmp_path: Path) -> None:
    with process(fresh, "ingest", "--watch", str(tmp_path), "--quiet", "1s") as watch:
        watch.until("embedded")
        write(box / "new" / "2.b.host", "gazebo")
        watch.until("read", new=1)
        time.sleep(5)
        watch.end(signal.SIGTERM)
    assert [event["event"] for event in watch.events].count("read") == 2


def test_it_needs_a_folder_that_is_there(fresh: Pkb, tmp_path: Path) -> None:
    assert fresh("ingest", "--watch").err == "pkb: no folder given; try: pkb ingest ~/Mail\n"
    assert fresh("ingest", "--watch", str(tmp_path / "none")).code == 2
    assert fresh("ingest", "--watch", str(tmp_path), "--quiet", "soon").err.endswith(
        "; try: pkb ingest --watch --quiet 5s\n"
    )
    assert fresh("ingest", str(tmp_path), "--watch", "--prune").code == 2


@contextmanager
def watcher(*paths: Path, runs: IdleRuns | None = None, intervals: Intervals = QUICK) -> Iterator[Watcher]:
    """Return one that is turned by hand."""
    with session() as opened:
        roots, missing = choose_roots(opened, list(paths), None, None)
        opened.make()
    runs = runs or IdleRuns([], intervals, WatchPrinter(as_json=True), os.environ)
    with Follow(intervals) as follow, closing(runs):
        made = Watcher(follow, runs, embeds=False)
        for root in (*roots, *missing):
            made.add(root)
        yield made


def turn(one: Watcher, there: Callable[[], bool]) -> None:
    """Turn until it is so."""
    ends = time.monotonic() + PATIENCE_S
    while not there():
        assert time.monotonic() < ends
        one.step()


def kept(pkb: Pkb) -> int:
    return int(pkb("stats", "--json").row["index"]["documents"])


@pytest.fixture
def letters(fresh: Pkb, tmp_path: Path) -> Path:
    """Return two folders of 8 and 42 messages that were read; more than 5 at once may be an unmounted disk."""
    fresh.experiment(gone_count=5)
    for number in range(50):
        path = write(tmp_path / "letters" / ("a" if number < 8 else "b") / f"{number}", f"word{number}")
        os.utime(path, (1e9, 1e9))
    fresh("ingest", str(tmp_path / "letters"), "--vectors", "later")
    assert kept(fresh) == 50
    return tmp_path / "letters"


def test_many_that_go_from_one_folder_go_if_they_are_few_of_all(fresh: Pkb, letters: Path) -> None:
    with watcher(letters) as one:
        for path in (letters / "a").iterdir():
            path.unlink()
        turn(one, lambda: kept(fresh) == 42)


@pytest.mark.slow
def test_too_many_at_once_are_kept_and_it_is_said_once(
    fresh: Pkb, letters: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with watcher(letters) as one:
        for path in sorted((letters / "b").iterdir())[:20]:
            path.unlink()
        capsys.readouterr()
        said: list[str] = []

        def refused() -> bool:
            said.extend(capsys.readouterr().out.splitlines())
            return any(json.loads(line)["documents"]["refused"] == 20 for line in said if '"read"' in line)

        turn(one, refused)
        (letters / "b" / "sent.tmp").write_text("x")
        (letters / "b" / "odd").mkdir()
        for _ in range(20):
            one.step()
        assert capsys.readouterr().out == ""
    assert kept(fresh) == 50


def test_a_root_that_is_gone_loses_nothing(fresh: Pkb, letters: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with watcher(letters) as one:
        letters.rename(letters.parent / "unplugged")
        turn(one, lambda: '"missing"' in capsys.readouterr().out)
        for _ in range(10):
            one.step()
        assert kept(fresh) == 50
        write(letters.parent / "unplugged" / "a" / "new", "added")
        (letters.parent / "unplugged").rename(letters)
        turn(one, lambda: kept(fresh) == 51)


def test_a_file_that_is_followed_goes_when_it_is_deleted_and_is_read_when_it_is_back(fresh: Pkb, box: Path) -> None:
    path = box / "cur" / "1.a.host:2,S"
    with watcher(path) as one:
        turn(one, lambda: fresh("stats").code == 0 and kept(fresh) == 1)
        path.rename(box.parent / "aside")
        turn(one, lambda: kept(fresh) == 0)
        shutil.move(box.parent / "aside", path)
        turn(one, lambda: kept(fresh) == 1)


@pytest.mark.slow
def test_while_another_writes_reading_waits_and_is_done_later(
    fresh: Pkb, letters: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with watcher(letters) as one:
        turn(one, lambda: '"read"' in capsys.readouterr().out)
        with Locks(fresh.folder / "home" / "locks").writer():
            write(letters / "a" / "new", "added")
            turn(one, lambda: '"another pkb is writing"' in capsys.readouterr().out)
        turn(one, lambda: kept(fresh) == 51)


@pytest.mark.slow
def test_a_message_that_is_still_being_written_is_read_when_it_is_whole(fresh: Pkb, letters: Path) -> None:
    patient = replace(QUICK, quiet=5, max_wait=PATIENCE_S)  # longer than a busy machine takes for a step
    with watcher(letters, intervals=patient) as one, (letters / "a" / "slow").open("w") as file:
        file.write("From: ann@example.org\nDate: 3 May 2024 10:00:00 +0000\nSubject: slow\n\n")
        for number in range(30):
            file.write(f"part{number}\n")
            file.flush()
            one.step()
        assert kept(fresh) == 50
        file.write("The end is xylophone.\n")
        file.flush()
        turn(one, lambda: kept(fresh) == 51)
    assert finds(fresh, "xylophone")


BEGUN = ("-c", "import sys; open(sys.argv[1], 'a').write('begun ')")


def begun(tmp_path: Path) -> str:
    path = tmp_path / "begun"
    return path.read_text() if path.exists() else ""


def runs_of(tmp_path: Path, *code: str, supplies: Path = Path("/none")) -> IdleRuns:
    """Return idle runs of a program, on a machine with these power supplies that nobody uses."""
    machine = Machine(Sources(supplies, str(tmp_path / "no tools"), "linux"))
    command = [sys.executable, *code, str(tmp_path / "begun")]
    return IdleRuns(command, QUICK, WatchPrinter(as_json=True), os.environ, machine)


def test_idle_jobs_run_when_changes_have_rested_and_again_when_there_are_more(
    fresh: Pkb, letters: Path, tmp_path: Path
) -> None:
    fresh("config", "set", "idle.when", "always")
    with watcher(letters, runs=runs_of(tmp_path, *BEGUN)) as one:
        turn(one, lambda: begun(tmp_path) == "begun ")
        for _ in range(10):
            one.step()
        assert begun(tmp_path) == "begun "
        for number in range(3):
            write(letters / "a" / f"new{number}", f"added{number}")
        turn(one, lambda: begun(tmp_path) == "begun begun ")
    assert kept(fresh) == 53


def test_a_run_that_a_signal_ends_is_taken_up_again(fresh: Pkb, letters: Path, tmp_path: Path) -> None:
    fresh("config", "set", "idle.when", "always")
    killed = BEGUN[1] + "; import os; os.kill(os.getpid(), 9)"
    with watcher(letters, runs=runs_of(tmp_path, "-c", killed)) as one:
        turn(one, lambda: begun(tmp_path) == "begun begun ")


def test_on_battery_nothing_runs_until_it_is_plugged_in(fresh: Pkb, letters: Path, tmp_path: Path) -> None:
    battery, cable = tmp_path / "supplies" / "BAT0" / "uevent", tmp_path / "supplies" / "AC" / "uevent"
    for path, says in ((battery, "POWER_SUPPLY_TYPE=Battery\n"), (cable, "POWER_SUPPLY_TYPE=Mains\n")):
        path.parent.mkdir(parents=True)
        path.write_text(f"{says}POWER_SUPPLY_ONLINE=0\n")
    with watcher(letters, runs=runs_of(tmp_path, *BEGUN, supplies=tmp_path / "supplies")) as one:
        turn(one, lambda: kept(fresh) == 50)
        for _ in range(20):
            one.step()
        assert begun(tmp_path) == ""
        fresh("config", "set", "idle.when", "always")  # the load of other tests is not what is tested
        turn(one, lambda: begun(tmp_path) == "begun ")


def test_just_after_a_question_nothing_runs(fresh: Pkb, letters: Path, tmp_path: Path) -> None:
    fresh("ask", "What about word1?")
    with watcher(letters, runs=runs_of(tmp_path, *BEGUN)) as one:
        for _ in range(30):
            one.step()
    assert begun(tmp_path) == ""


# The command line with short waits, which no option sets.
HASTY = """
import sys
from functools import partial
from engine.ingest import follow
follow.Intervals = partial(follow.Intervals, check=0.1, rest=1.0, busy=0.5)
from cli.app import main
main()
"""


@contextmanager
def hasty(pkb: Pkb, *words: str) -> Iterator[Process]:
    one = Process(pkb.folder, *words, "--quiet", "1s", "--json", start=("-c", HASTY))
    try:
        yield one
    finally:
        one.close()


def children(process: int) -> list[int]:
    """Return the processes that one has started."""
    found = subprocess.run(["pgrep", "-P", str(process)], capture_output=True, text=True, check=False)
    return [int(line) for line in found.stdout.split()]


def command(process: int) -> list[str]:
    """Return the words of a process's command; none where it has ended."""
    with suppress(psutil.Error):
        return psutil.Process(process).cmdline()
    return []


def child(process: int) -> int:
    """Wait until a process has started one, which runs its own command by then, and return it."""
    ends = time.monotonic() + PATIENCE_S
    while not (found := [one for one in children(process) if command(one) not in ([], command(process))]):
        assert time.monotonic() < ends
        time.sleep(0.02)
    return found[0]


MEETS = "Where does the sewing circle meet?"


@pytest.fixture
def circle(fresh: Pkb, tmp_path: Path) -> Path:
    """Return a watched folder, about which a question was asked, and whose newest message changes the answer."""
    fresh("config", "set", "idle.when", "always")
    letter(tmp_path / "circle", 1, "The sewing circle meets in the old library on Mondays.")
    fresh("ingest", str(tmp_path / "circle"))
    assert "old library" in fresh("ask", MEETS).out
    return tmp_path / "circle"


def letter(folder: Path, number: int, text: str) -> None:
    folder.mkdir(exist_ok=True)
    head = f"From: Ann <ann@example.org>\nMessage-ID: <{number}@sewing>\nSubject: Sewing circle {number}\n"
    (folder / f"{number}.eml").write_text(f"{head}Date: Mon, {number} Jun 2024 10:00:00 +0000\n\n{text}\n")


def refreshed(pkb: Pkb) -> bool:
    """Return whether the answer of today is in the cache."""
    found = pkb("ask", MEETS, "--json").row
    return found["tier"] == "exact" and "boat house" in found["answer"]


@pytest.mark.slow
def test_new_mail_that_changes_an_answer_has_it_refreshed_with_no_other_command(fresh: Pkb, circle: Path) -> None:
    with hasty(fresh, "ingest", "--watch", str(circle)) as watch:
        watch.until("read", new=0)
        letter(circle, 2, "The sewing circle meets in the boat house from now on.")
        watch.until("read", new=1)
        while "1 answer refreshed" not in watch.until("idle")["message"]:
            pass
        assert refreshed(fresh)
        assert watch.end(signal.SIGTERM) == (143, "")
    compare("pkb ingest --watch", watch.events, every=False)


@pytest.mark.slow
def test_a_run_that_is_killed_and_a_watch_that_is_killed_lose_no_work(fresh: Pkb, circle: Path) -> None:
    letter(circle, 2, "The sewing circle meets in the boat house from now on.")
    with hasty(fresh, "ingest", "--watch", str(circle)) as watch:
        watch.until("read", new=1)
        os.kill(child(watch.process.pid), signal.SIGKILL)
        os.kill(orphan := child(watch.process.pid), signal.SIGSTOP)
        watch.end(signal.SIGKILL)
        os.kill(orphan, signal.SIGKILL)
    with hasty(fresh, "ingest", "--watch", str(circle)) as watch:
        assert "1 answer refreshed" in watch.until("idle")["message"]
        assert refreshed(fresh)
        watch.end(signal.SIGTERM)


@pytest.mark.slow
def test_a_term_signal_ends_the_idle_run_too_even_one_that_hangs(fresh: Pkb, circle: Path) -> None:
    with hasty(fresh, "ingest", "--watch", str(circle)) as watch:
        os.kill(worker := child(watch.process.pid), signal.SIGSTOP)
        assert watch.end(signal.SIGTERM) == (143, "")
        with suppress(psutil.NoSuchProcess):  # or it has ended, and nobody has asked for its exit code yet
            assert psutil.Process(worker).status() == psutil.STATUS_ZOMBIE
