"""A cluster of Ray on this machine, as an administrator would start it, and the processes that work on a task."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import mkdtemp

import psutil

_ENV = {
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": "0" * 32,
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_raylet_start_wait_time_s": "120",  # on a busy machine
    "RAY_worker_niceness": "0",  # as this process, which they are compared with
}
# On a busy machine its parts take longer to tell which port they chose than Ray waits.
_PORTS = (
    "port",
    "dashboard-agent-grpc-port",
    "dashboard-agent-listen-port",
    "metrics-export-port",
    "runtime-env-agent-port",
)


@contextmanager
def started(count: int) -> Iterator[str]:
    """Start a cluster of so many workers and return its address for --engine; at the end, no process of it is left."""
    folder = Path(mkdtemp(prefix="ray-", dir="/tmp"))
    with ExitStack() as taken:  # all at once, so that each is another one
        ports = [taken.enter_context(socket.create_server(("127.0.0.2", 0))).getsockname()[1] for _ in _PORTS]
    os.environ |= _ENV
    words = [sys.executable, "-c", "from ray.scripts.scripts import main; main()", "start", "--head", "--block"]
    words += [f"--num-cpus={count}", "--node-ip-address=127.0.0.2", f"--temp-dir={folder}"]
    words += [f"--{name}={port}" for name, port in zip(_PORTS, ports, strict=True)]
    words += ["--include-dashboard=false", "--object-store-memory=268435456"]
    words += ["--no-monitor", "--include-log-monitor=false"]
    for _ in range(3):  # on a busy machine, its parts may give up
        with (folder / "log").open("wb") as log:
            head = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)
        while "runtime started" not in (said := (folder / "log").read_text()) and head.poll() is None:
            time.sleep(0.2)
        if head.poll() is None:
            break
    try:
        assert head.poll() is None, said
        yield f"ray://127.0.0.2:{ports[0]}"
    finally:
        if head.poll() is None:
            for process in [*psutil.Process(head.pid).children(recursive=True), psutil.Process(head.pid)]:
                process.kill()
        head.wait()
        shutil.rmtree(folder, ignore_errors=True)


def workers(task: str) -> list[psutil.Process]:
    """Return the processes that work on a task now."""
    shown = ((process, " ".join(process.info["cmdline"] or [])) for process in psutil.process_iter(["cmdline"]))
    return [process for process, name in shown if name.startswith("ray::") and task in name]
