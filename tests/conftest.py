"""Fixtures every test may use."""

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main
from filelock import FileLock
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from cli.app import run
from engine.models import lookup
from engine.models.runtime import load_blas
from tests.demo import DATA, environment

# A shell gives its background jobs an ignored interrupt, which every command that a test starts would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Bytecode is always written, whatever the shell says: without it each process of a test would take a second more.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Before any module of tests imports MLX, which binds for good to what is there; its own products are 25 times slower.
load_blas()
# No test leaves a process behind: those about the resident one turn it on, and see to its end.
os.environ["PKB_DAEMON"] = "off"
# Deadlines and that health check say nothing about pkb on a machine that others use too. `make test-slow` is thorough.
# Both draw the same examples in every run; `make soak` explores, and prints how a failure is reproduced.
for name, examples in {"quick": 10, "thorough": 100, "soak": 1000}.items():
    same = name != "soak"
    settings.register_profile(
        name,
        max_examples=examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        derandomize=same,
        print_blob=not same,
    )
settings.load_profile("quick")
# Else examples would hold constants of whatever modules of ours were imported by then.
_is_ours = vars(providers)["is_local_module_file"]
vars(providers)["is_local_module_file"] = lambda path: not settings().derandomize and _is_ours(path)
TMPDIR = os.environ.get("TMPDIR")
# Attacks that stand beside what they attack; those of tests/attack count without being listed.
ATTACKS = (
    "tests/attack/",
    "tests/cli/test_deletion.py",
    "tests/cli/test_terminal.py",
    "tests/engine/ask/test_cache_equivalence",
    "tests/engine/ask/test_same_answer.py",
    "tests/engine/ingest/test_html_visibility.py",
    "tests/engine/ingest/test_versions.py",
    "tests/engine/retrieval/test_spoofing.py",
    "tests/engine/test_days.py",
    "tests/engine/text/test_time_sensitive.py",
    "tests/store/test_checksums.py",
    "tests/soak/test_damage.py",
)
SHARED = Path(__file__).resolve().parents[2] / "shared"


_ADDRESSES = list[str]()  # outside this machine, that this process has connected to


def _watch_connections(event: str, details: tuple[object, ...]) -> None:
    """Note and refuse connections to other machines."""
    address = details[1] if event == "socket.connect" else None
    if isinstance(address, tuple) and address[0] not in ("127.0.0.1", "127.0.0.2", "::1", "localhost"):
        _ADDRESSES.append(str(address[0]))
        raise ConnectionRefusedError("no test leaves this machine")


sys.addaudithook(_watch_connections)


@pytest.fixture(autouse=True)
def _no_other_machine() -> Iterator[None]:
    """Fail a test that connects to another machine."""
    _ADDRESSES.clear()
    yield
    assert _ADDRESSES == []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the attacks, and those that need a home each as slow."""
    for item in items:
        if item.nodeid.startswith(ATTACKS):
            item.add_marker(pytest.mark.attack)
        if item.nodeid.startswith("tests/attack/"):
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Keep what was imported and collected out of the collector's rounds, each of which would walk 300,000 objects."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _built_once() -> Iterator[None]:
    """Build the command line once a process, and read the installed embedder's tokenizer and its digest once.

    Commands in this process would do so each time; whoever changes one of these files does so in a folder of a test.
    """
    from engine.models import minilm, types  # numpy, which collecting needs not

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", cache(typer.main.get_command))
        opened = _once(types.open_tokenizer)
        patch.setattr(minilm, "open_tokenizer", opened)
        patch.setattr(lookup, "_digest", _once(vars(lookup)["_digest"]))
        yield


@pytest.fixture(autouse=True, scope="session")
def _loaded_alone() -> Iterator[None]:
    """Have homes load what they keep of a prompt and compute none of it meanwhile, which would depend on the disk.

    Tests of the planners name theirs, and processes of their own do both.
    """
    from engine.kv import costs

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(costs, "auto", lambda _: "load")
        yield


def _once(read: Callable[..., Any]) -> Callable[..., Any]:
    """Have a function read each file of the installed embedder once."""
    installed = {
        path
        for folder in lookup.package_folders(lookup.PACKAGED[lookup.MINILM].module)
        for path in (folder / "model").iterdir()
    }
    ways = cache(read), read
    return lambda path, *more: ways[path not in installed](path, *more)


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of real data beside the checkout, or skip."""
    if not SHARED.is_dir():
        pytest.skip("no folder of real data beside this checkout")
    return SHARED


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home with the bundled mail and meetings, to be copied; all workers of a run share one."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "demo"
    with FileLock(f"{folder}.lock"), pytest.MonkeyPatch.context() as patch:
        if not folder.exists():
            for name, value in environment(folder).items():
                patch.setenv(name, value)
            before = os.umask(0o077)  # as the program does when it starts
            try:
                assert run(["ingest", str(DATA / "mail"), str(DATA / "transcripts")]) == 3  # names what it skips
            finally:
                os.umask(before)
    return folder


@pytest.fixture(autouse=True)
def _usual_temporary_folder() -> Iterator[None]:
    """Undo that a model, once loaded, points temporary files into the cache of its home, which may be gone by then."""
    _point_temporary_files_to(TMPDIR)
    yield
    _point_temporary_files_to(TMPDIR)


def _point_temporary_files_to(folder: str | None) -> None:
    os.environ.pop("TMPDIR", None)
    if folder is not None:
        os.environ["TMPDIR"] = folder
