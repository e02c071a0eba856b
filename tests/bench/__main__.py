"""`python -m tests.bench`: every measurement in turn, for hours, over the public sets where they are there."""

import os
import subprocess
import sys
from pathlib import Path

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
ENRON, FORMATS = DATA / "enron", DATA / "enron-formats" / "slinger-r"
ALWAYS = (
    ["cold"],
    ["embedding"],
    ["scale"],
    ["model", "135M", "0.5B"],
    ["reuse", "135M", "0.5B"],
    ["forms"],
    ["bits"],
    ["bank"],
    ["watch"],
)
WITH_DATA = (
    ["ingest", str(ENRON)],
    ["containers", f"{ENRON}/slinger-r/mail", f"{FORMATS}/slinger-r.mbox", f"{FORMATS}/Maildir"],
    ["retrieval", str(DATA)],
    ["quoting", str(DATA)],
    ["order", str(DATA)],
    ["threads", str(DATA)],
    ["streams"],
    ["blocks"],
    ["predict"],
    ["semantic", str(DATA / "paraphrase")],
    ["gptcache", str(DATA)],
    ["hits", str(DATA)],
    ["sessions", str(DATA / "locomo")],
    ["showcase"],
    ["cases", "a", "b", "c"],
)


def main() -> int:
    """Run them; gives the number that failed."""
    if not DATA.is_dir():
        print(f"no public sets in {DATA}: only what needs none is measured")
    failed = 0
    for name, *words in (*ALWAYS, *(WITH_DATA if DATA.is_dir() else ())):
        print(f"\n== python -m tests.bench.{' '.join((name, *words))}", flush=True)
        command = [sys.executable, "-m", f"tests.bench.{name}", *words]
        failed += subprocess.run(command, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}, check=False).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
