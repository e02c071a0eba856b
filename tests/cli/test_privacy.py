"""Nothing leaves the machine, and nobody else on it can read what is kept."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.test_model import FILES
from tests.demo import DATA, environment
from tests.engine.ingest.mail_server import PASSWORD, SmallServer, message, write_keyring
from tests.engine.models.hubserver import serve
from tests.engine.models.test_lookup import OLD, cached

# Read by every Python that starts with it: Python's own ways out raise and are noted down, and on Linux the kernel ends
# the process that asks for a socket of the internet, whatever language the library is written in.
GUARD = """
import ctypes, os, platform, socket, sys
def refuse(*_, **__):
    with open(os.environ["SEEN"], "a") as seen: seen.write("out\\n")
    raise RuntimeError("no network here")
socket.getaddrinfo = socket.gethostbyname = socket.create_connection = socket.socket.connect = refuse
socket.has_ipv6 = False  # a library binds to ::1 when imported, to see whether it can
NUMBER = {"x86_64": 41, "aarch64": 198}.get(platform.machine())
class Filter(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("yes", ctypes.c_ubyte), ("no", ctypes.c_ubyte), ("k", ctypes.c_uint)]
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filters", ctypes.POINTER(Filter))]
if sys.platform == "linux" and NUMBER:
    load, equal, end = 0x20, 0x15, 0x06
    steps = [(load, 0, 0, 0), (equal, 0, 3, NUMBER), (load, 0, 0, 16), (equal, 2, 0, socket.AF_INET),
             (equal, 1, 0, socket.AF_INET6), (end, 0, 0, 0x7FFF0000), (end, 0, 0, 0x80000000)]
    filters = (Filter * len(steps))(*(Filter(*step) for step in steps))
    libc = ctypes.CDLL(None)
    libc.prctl(38, 1, 0, 0, 0)
    libc.prctl(22, 2, ctypes.byref(Program(len(steps), filters)), 0, 0)
"""
PROGRAM = """
import os, sys
from cli.app import main
for words in {commands!r}:
    sys.argv = ["pkb", *words]
    try:
        main()
    except SystemExit as done:
        print(done.code)
quiet = ("HF_HUB_OFFLINE", "HF_HUB_DISABLE_TELEMETRY", "DO_NOT_TRACK")
print(sorted(name for name in quiet if os.environ[name] == "1"))
"""
COMMANDS = [
    ["ingest", str(DATA / "mail" / "mh"), str(DATA / "transcripts" / "2024-02-27 workshop meeting.vtt"), "--json"],
    ["config", "set", "ask.k", "4"],
    ["ask", "Who has the spare key to the workshop?", "--json"],
    ["ask", "Who has the spare key to the workshop?"],
    ["search", "workshop", "-k", "1", "--json"],
    ["show", str(DATA / "mail" / "mh" / "1"), "--json"],
    ["show", "1", "--json"],
    ["export"],
    ["list", "--json"],
    ["todo", "--since", "2024", "--json"],
    ["people", "ann", "--json"],
    ["stats", "--json"],
    ["doctor", "--data", "--read-data", "--json"],
    ["doctor", "--json"],
    ["model", "list", "--json"],
    ["model", "use", "org/name"],
    ["model", "rm", "org/name", "--yes", "--json"],
    ["peer", "id"],
    ["peer", "list", "--json"],
]
# Read the same way: every place that Python asks for, or asks the name of, is noted down.
WATCH = """
import os, socket
def watch(owner, name):
    real = getattr(owner, name)
    def noted(*given, **named):
        with open(os.environ["SEEN"], "a") as seen: seen.write(f"{given[-1] if name == 'connect' else given[0]}\\n")
        return real(*given, **named)
    setattr(owner, name, noted)
watch(socket, "getaddrinfo")
watch(socket, "gethostbyname")
watch(socket.socket, "connect")
"""


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """Use every command in one guarded process that starts with the usual umask."""
    folder = tmp_path_factory.mktemp("private")
    (folder / "python").mkdir()
    (folder / "python" / "sitecustomize.py").write_text(GUARD)
    path = {"PYTHONPATH": f"{folder}/python{os.pathsep}{Path.cwd()}", "SEEN": f"{folder}/seen"}
    cached({"HF_HOME": f"{folder}/hf"}, "org/name", OLD)
    own = {"PKB_HOME": f"{folder}/own/home", "PKB_CACHE": f"{folder}/own/cache", "PKB_CONFIG": f"{folder}/own/c.toml"}
    plain = {name: value for name, value in environment(folder).items() if not name.startswith(("HF_", "DO_NOT"))}
    code = PROGRAM.format(commands=COMMANDS)
    env = {**plain, **path, **own, "HF_HOME": f"{folder}/hf"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True, umask=0o022
    )
    return folder, done


def test_no_command_touches_the_network(used: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    folder, done = used
    codes = [line for line in done.stdout.splitlines() if line.isdigit()]
    assert codes == ["0"] * len(COMMANDS)
    assert not (folder / "seen").exists()


def test_pulling_a_model_touches_the_hub_alone(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(WATCH)
    plain = {name: value for name, value in environment(tmp_path).items() if not name.startswith(("HF_", "DO_NOT"))}
    with serve() as hub:
        hub.add("org/name", FILES)
        path = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{Path.cwd()}", "SEEN": f"{tmp_path}/seen"}
        env = {**plain, **path, "HF_HOME": f"{tmp_path}/hf", "HF_ENDPOINT": hub.endpoint, "NO_PROXY": "*"}
        command = [sys.executable, "-m", "cli.app", "model", "pull", "org/name", "--yes"]
        subprocess.run(command, env=env, capture_output=True, check=True)
        ours = {"127.0.0.1", "localhost", f"('127.0.0.1', {hub.port})", f"('::1', {hub.port}, 0, 0)"}
    seen = set((tmp_path / "seen").read_text().splitlines())
    assert f"('127.0.0.1', {hub.port})" in seen
    assert seen - ours == set()


def test_reading_a_mail_account_touches_its_server_alone(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    write_keyring(tmp_path / "python", PASSWORD)
    (tmp_path / "python" / "sitecustomize.py").write_text(WATCH)
    path = {"PYTHONPATH": f"{tmp_path}/python{os.pathsep}{Path.cwd()}", "SEEN": f"{tmp_path}/seen"}
    with closing(SmallServer(tmp_path / "server")) as server:
        server.messages = {1: (message(1), "")}
        env = {**environment(tmp_path), **path}
        Path(env["PKB_CONFIG"]).write_text(f'[ingest]\nca = "{server.certificate}"\n')
        words = [sys.executable, "-m", "cli.app", "ingest", f"imaps://ann@localhost:{server.port}"]
        said = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
        ours = {"localhost", f"('127.0.0.1', {server.port})", f"('::1', {server.port}, 0, 0)"}
    seen = set((tmp_path / "seen").read_text().splitlines())
    assert f"('127.0.0.1', {server.port})" in seen
    assert seen - ours == set()
    assert "1 message fetched; read INBOX" in said.stdout


def guarded(folder: Path, code: str) -> int:
    """Run code under the guard; returns its exit code, negative for a signal."""
    (folder / "sitecustomize.py").write_text(GUARD)
    env = {**os.environ, "PYTHONPATH": str(folder), "SEEN": f"{folder}/seen"}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=False).returncode


def test_the_guard_notices_python(tmp_path: Path) -> None:
    assert guarded(tmp_path, "import socket; socket.create_connection(('localhost', 9))") == 1
    assert (tmp_path / "seen").read_text() == "out\n"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can end a process for a system call")
def test_the_guard_notices_what_is_not_python(tmp_path: Path) -> None:
    opened = "import ctypes; ctypes.CDLL(None).socket({}, 1, 0)"
    codes = [guarded(tmp_path, opened.format(int(family))) for family in (socket.AF_UNIX, socket.AF_INET)]
    assert codes == [0, -signal.SIGSYS]


def test_libraries_are_told_to_stay_offline(used: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    assert used[1].stdout.splitlines()[-1] == "['DO_NOT_TRACK', 'HF_HUB_DISABLE_TELEMETRY', 'HF_HUB_OFFLINE']"


def test_everything_kept_is_for_its_owner_alone(used: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    own = used[0] / "own"
    modes = {path.relative_to(own): path.stat().st_mode & 0o777 for path in own.rglob("*")}
    assert len(modes) > 20
    assert {path: oct(mode) for path, mode in modes.items() if mode & 0o077} == {}


def test_nothing_is_said_on_the_side(used: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    said = [line for line in used[1].stderr.splitlines() if line.strip()]
    assert [line for line in said if not line.startswith(("exact", "full"))] == []
