"""Files parsed and chunks embedded on a cluster of Ray: the same as in one process, whatever is killed meanwhile.

Skipped without Ray: `make test-ray` installs it.
"""

import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from threading import Event, Thread

import lancedb
import psutil
import pytest

from engine.ingest.chunking import Cluster, _remove_former
from engine.ingest.files import read_all
from engine.ingest.scan import state_of
from engine.ingest.types import ParseLimits
from store.errors import PkbError, UsageError
from store.types import FileState, ParsedItem, Vectors, replace
from tests.demo import DATA, environment
from tests.engine.ingest.box import mail
from tests.engine.ingest.ray_cluster import started, workers
from tests.store.kit import HashEmbedder

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not find_spec("ray"), reason="Ray is not installed: make test-ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),  # of Ray itself
]
_PROJECT = Path(__file__).parents[3]
_LIMITS = ParseLimits(attachments=True)
Files = list[tuple[bytes, FileState]]


class SlowEmbedder(HashEmbedder):
    """Takes a while, as a model does."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        time.sleep(0.5)
        return super().embed(texts)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Start a cluster of two workers."""
    with started(2) as found:
        yield found


@pytest.fixture(scope="module")
def cluster(address: str) -> Iterator[Cluster]:
    """Return a connection to it."""
    found = Cluster(address)
    yield found
    found.close()


def archive(folder: Path, count: int) -> Path:
    """Write messages of many lengths, some with attached files, replies, an mbox, a zip and what cannot be read."""
    for number in range(count):
        words = " ".join(f"word{number * at % 997}" for at in range(5 + number * 7 % 400))
        quote = f"On 1 May 2024 ann@x.org wrote:\n> word{number - 1}\n" if number % 5 == 0 else ""
        mail(
            folder / f"{number // 100}" / f"m{number}.eml",
            f"{words}\n\n{quote}",
            name=f"m{number}",
            day=number % 28 + 1,
        )
    texts = [path.read_bytes() for path in sorted(folder.rglob("*.eml"))[:50]]
    (folder / "all.mbox").write_bytes(b"".join(b"From a@x Thu May  2 10:00:00 2024\n" + one + b"\n" for one in texts))
    with zipfile.ZipFile(folder / "more.zip", "w") as packed:
        packed.writestr("inner.eml", texts[0].replace(b"m0@", b"zip@"))
    (folder / "broken.zip").write_bytes(b"PK\x03\x04 not a zip")
    (folder / "empty.eml").write_bytes(b"")
    return folder


def files_of(folder: Path) -> Files:
    """Return the files of a folder as a scan does, in order."""
    found = sorted(os.fsencode(path) for path in folder.rglob("*") if path.is_file())
    return [(path, state) for path in found if (state := state_of(path))]


def read_by(cluster: Cluster, files: Files, root: Path) -> list[FileState | ParsedItem]:
    """Return what workers read, without what they prepared."""
    found = cluster.read_all(files, replace(_LIMITS, root=str(root)))
    return [replace(one, prepared=None) if isinstance(one, ParsedItem) else one for one in found]


def digests(folder: Path) -> dict[str, tuple[int, str]]:
    """Return how many rows each table of a home has, and a digest of all they hold."""
    opened, found = lancedb.connect(folder / "home" / "tables"), {}
    for name in opened.table_names():
        rows = sorted(repr(sorted(row.items())) for row in opened.open_table(name).to_arrow().to_pylist())
        found[name] = len(rows), blake2b("".join(rows).encode()).hexdigest()
    return found


def start(home: Path, *words: str) -> "subprocess.Popen[str]":
    """Start `pkb ingest` in a home of its own, and in a session of its own."""
    command = [sys.executable, "-P", "-m", "cli.app", "ingest", *words]
    env = environment(home) | {"PKB_DAEMON": "off"}
    return subprocess.Popen(
        command,
        env=env,
        cwd=_PROJECT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@contextmanager
def watching(kill: Callable[[], bool], often: int) -> Iterator[list[float]]:
    """Call a function that may kill, until it did so that often; return when it did."""
    ended, killed = Event(), list[float]()

    def watch() -> None:
        while not ended.is_set() and len(killed) < often:
            killed.extend([time.monotonic()] if kill() else [])
            time.sleep(0.02)

    thread = Thread(target=watch)
    thread.start()
    try:
        yield killed
    finally:
        ended.set()
        thread.join()


def test_it_reads_what_one_process_reads_in_order(cluster: Cluster, tmp_path: Path) -> None:
    for folder in (archive(tmp_path, 500), DATA):
        there = files_of(folder)
        here = list(read_all(there, replace(_LIMITS, root=str(folder))))
        assert read_by(cluster, there, folder) == here


def test_a_killed_worker_changes_nothing(cluster: Cluster, tmp_path: Path) -> None:
    folder = archive(tmp_path, 1500)
    there = files_of(folder)

    def kill() -> bool:
        busy = workers("_read_task")
        for process in busy[:1]:
            process.kill()
        return bool(busy)

    with watching(kill, 1) as killed:
        found = read_by(cluster, there, folder)
    assert (len(killed), found == list(read_all(there, replace(_LIMITS, root=str(folder))))) == (1, True)


def test_a_killed_worker_changes_no_vector(cluster: Cluster) -> None:
    texts = [[f"text {group} {at}" for at in range(8)] for group in range(12)]
    found = cluster.embed_all(SlowEmbedder(), texts)
    first = next(found)
    busy = workers("_EmbedTask")
    for process in busy[:1]:
        process.kill()
    embedder = HashEmbedder()
    assert [one.tolist() for one in (first, *found)] == [embedder.embed(group).tolist() for group in texts]
    assert busy


def test_a_file_that_workers_crash_on_costs_itself_alone(cluster: Cluster, tmp_path: Path) -> None:
    for number, name in enumerate("ac"):
        mail(tmp_path / f"{name}.eml", f"word{number}", name=f"m{number}")
    hostile = tmp_path / "b.mbox"
    text = b"From a@x Thu May  2 10:00:00 2024\nFrom: a@x.org\nSubject: n\n\n" + b"word " * 200 + b"\n\n"
    hostile.write_bytes(text * 20_000)
    there = files_of(tmp_path)

    def kill() -> bool:  # whoever has it open
        for process in workers("_read_task"):
            try:
                held = {link.readlink() for link in Path(f"/proc/{process.pid}/fd").iterdir()}
            except OSError:
                continue
            if hostile in held:
                process.kill()
                return True
        return False

    with watching(kill, 100) as killed:
        found = read_by(cluster, there, tmp_path)
    others = [one for one in there if one[0] != os.fsencode(hostile)]
    wanted = list(read_all(others, replace(_LIMITS, root=str(tmp_path))))
    problems = [one for one in found if not isinstance(one, FileState) and one.problem]
    ids = [one.document.id for one in wanted if not isinstance(one, FileState) and one.document]
    read = [one.document.id for one in found if not isinstance(one, FileState) and one.document]
    assert ([one.problem for one in problems], [one for one in read if one in ids]) == (
        ["bug in pkb: a process crashed; please report it"],
        ids,
    )
    assert len(killed) >= 2


def test_what_was_read_waits_in_bounds(cluster: Cluster, tmp_path: Path) -> None:
    """While nobody takes what was read, few files are opened: the others can be removed, and are then missing."""
    for number in range(300):
        mail(tmp_path / f"m{number:03}.eml", f"word{number} " * 150_000)
    there = files_of(tmp_path)
    found = cluster.read_all(there, ParseLimits(root=str(tmp_path), text_chars=10_000_000))
    some = list(islice(found, 2))
    before, spent = -1.0, 0.0
    while spent > before + 0.1:  # processor seconds: until they stop
        time.sleep(5)
        before, spent = spent, sum(sum(one.cpu_times()[:2]) for one in workers("_read_task"))
    for path, _ in there:
        Path(os.fsdecode(path)).unlink()
    some += found
    missing = [one for one in some if not isinstance(one, FileState) and one.problem == "no such file or directory"]
    read = [one for one in some if not isinstance(one, FileState) and one.document]
    assert len(missing) + len(read) == 300
    assert len(missing) > 100


def test_a_folder_that_workers_do_not_see_is_named(cluster: Cluster, tmp_path: Path) -> None:
    there = files_of(archive(tmp_path / "mail", 3))
    (tmp_path / "mail").rename(tmp_path / "elsewhere")
    with pytest.raises(PkbError, match="a worker does not see") as error:
        list(cluster.read_all(there, replace(_LIMITS, root=str(tmp_path / "mail"))))
    assert error.value.next_step == "mount it at the same path on every machine of the cluster"


def test_another_token_is_refused(address: str) -> None:
    code = f"import ray; ray.init(address={address.removeprefix('ray://')!r})"
    env = os.environ | {"RAY_AUTH_TOKEN": "1" * 32}
    ran = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert (ran.returncode, "InvalidAuthToken" in ran.stderr) == (1, True)


def test_nobody_at_an_address_is_said_at_once() -> None:
    with pytest.raises(PkbError, match=r"no cluster answers at ray://127\.0\.0\.1:9"):
        Cluster("ray://127.0.0.1:9")


def test_another_engine_is_refused() -> None:
    with pytest.raises(UsageError, match="takes ray or ray://HOST:PORT, not spark"):
        Cluster("spark")


def test_the_tables_of_a_cluster_are_those_of_one_process(address: str, tmp_path: Path) -> None:
    words = [str(archive(tmp_path / "mail", 40)), str(DATA / "mail"), str(DATA / "transcripts"), "--vectors", "now"]
    done = {}
    for engine in ([], ["--engine", address]):
        home = tmp_path / f"home{len(engine)}"
        ran = start(home, *words, *engine)
        out, err = ran.communicate()
        done[len(engine)] = ran.returncode, out, digests(home)
        assert "Traceback" not in err
    assert done[0] == done[2]
    assert done[0][0] == 3  # the two files that cannot be read
    assert len(done[0][2]) == 3


def test_a_killed_ingest_is_resumed(address: str, tmp_path: Path) -> None:
    folder, here, there = archive(tmp_path / "mail", 800), tmp_path / "here", tmp_path / "there"
    words = [str(folder), "--vectors", "later"]
    ran = start(there, *words, "--engine", address)

    def kill() -> bool:
        if works := bool(workers("_read_task")):
            ran.kill()
        return works

    with watching(kill, 1) as killed:
        ran.communicate()
    assert (len(killed), ran.returncode) == (1, -signal.SIGKILL)
    start(there, *words, "--engine", address).communicate()
    start(here, *words).communicate()
    assert digests(there) == digests(here)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_cluster_on_this_machine_ends_with_its_command(number: int, tmp_path: Path) -> None:
    """Its processes end, also if pkb is killed; its folder is private, and goes at once, or with the next run."""
    ran = start(tmp_path / "pkb", str(archive(tmp_path / "mail", 1500)), "--engine", "ray", "--vectors", "later")

    modes = set[int]()

    def kill() -> bool:
        if works := _reads_below(ran.pid):
            modes.update(path.stat().st_mode & 0o777 for path in Path("/tmp").glob(f"pkb-ray-{ran.pid}-*"))
            os.kill(ran.pid, number)
        return works

    with watching(kill, 1) as killed:
        _, err = ran.communicate()
    assert (len(killed), modes, "Traceback" in err) == (1, {0o700}, False), err
    for _ in range(100):
        if not (alive := [one for one in psutil.process_iter() if _of_folder(one, ran.pid)]):
            break
        time.sleep(0.5)
    assert alive == []
    (alien := Path("/tmp") / f"pkb-ray-{10**20}-a").mkdir(exist_ok=True)  # no process has that number
    _remove_former()
    alien.rmdir()
    assert list(Path("/tmp").glob(f"pkb-ray-{ran.pid}-*")) == []


def _reads_below(pid: int) -> bool:
    """Return whether a worker below a process reads files."""
    try:
        below = [one for one in psutil.Process(pid).children(recursive=True) if one.name().startswith("ray::")]
        return any("_read_task" in " ".join(one.cmdline()) for one in below)
    except psutil.Error:
        return False


def _of_folder(process: psutil.Process, pid: int) -> bool:
    try:
        return any(f"/tmp/pkb-ray-{pid}-" in word for word in process.cmdline())
    except psutil.Error:
        return False
