"""Ingests up to a given step, then dies as under `kill -9`: python -m tests.engine.ingest.killed FOLDER STEP."""

import sys
from pathlib import Path

from tests.engine.ingest.box import Box
from tests.store.kit import Fuse, kill_process

if __name__ == "__main__":
    Box(Path(sys.argv[1]), Fuse(int(sys.argv[2]), kill_process)).ingest()
