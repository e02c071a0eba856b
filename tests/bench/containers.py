"""Whether one person's mail gives equal chunks from files, an mbox and a Maildir.

Run `python -m tests.bench.containers FILES MBOX MAILDIR`.
"""

import sys
import tempfile
from pathlib import Path

from tests.bench.homes import opened, pkb


def main() -> None:
    """Print the number of chunks of each container, and whether they are the same."""
    found = [chunks(Path(path)) for path in sys.argv[1:]]
    for path, ids in zip(sys.argv[1:], found, strict=True):
        print(f"{len(ids):>6} chunks  {Path(path).name}")
    print("equal:", all(ids == found[0] for ids in found))


def chunks(path: Path) -> dict[str, str]:
    """Ingest into a home of its own and give the chunks, text by id."""
    with tempfile.TemporaryDirectory() as folder:
        done = pkb(Path(folder), "ingest", str(path), "--vectors", "later")
        assert done.returncode in (0, 3), done.stderr
        rows = opened(Path(folder)).tables.select("chunks", "true", ["id", "header", "text"])
    return {row["id"]: f"{row['header']}\n{row['text']}" for row in rows}


if __name__ == "__main__":
    main()
