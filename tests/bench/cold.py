"""What a fresh process costs beside a bare `import typer, rich.console`: help, an error, an exact hit.

Run `python -m tests.bench.cold`. The commands take turns, so that other work on the machine meets all of them.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

from tests.bench.homes import environment, pkb

ROUNDS = 25


def main() -> None:
    """Print medians and ratios."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "talk.txt").write_text("Ana: The rehearsal is on Friday at seven.\nBen: I will bring the drums.\n")
        pkb(folder, "ingest", str(folder / "talk.txt"), "--vectors", "later")
        pkb(folder, "ask", "When is the rehearsal?")
        script = str(Path(sys.executable).with_name("pkb"))
        commands = {
            "bare": [sys.executable, "-c", "import typer, rich.console"],
            "pkb --help": [script, "--help"],
            "pkb ask --nope": [script, "ask", "--nope"],
            "exact hit": [script, "ask", "When is the rehearsal?"],
            "exact hit --json": [script, "ask", "When is the rehearsal?", "--json"],
        }
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(ROUNDS):
            for name, command in commands.items():
                times[name].append(seconds(command, folder))
    bare = median(times["bare"])
    for name, values in times.items():
        spread = f"{1000 * min(values):.0f} to {1000 * max(values):.0f}"
        print(f"{name:<18} {1000 * median(values):6.0f} ms ({spread})  {median(values) / bare:.2f}")


def seconds(command: list[str], folder: Path) -> float:
    """Time one process."""
    began = perf_counter()
    subprocess.run(command, env={**os.environ, **environment(folder)}, capture_output=True, check=False)
    return perf_counter() - began


if __name__ == "__main__":
    main()
