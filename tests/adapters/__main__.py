"""`python -m tests.adapters`: train an adapter of SmolLM2 for pkb's roles, go on with one, or evaluate one.

Two runs at once take the mean of their factors every minute. A run that was interrupted goes on with what it saved.
"""

import argparse
import os
import sys
from pathlib import Path
from subprocess import Popen

import torch

from engine.models.adapters import base_of
from engine.models.lookup import find
from tests.adapters import evaluate, train
from tests.adapters.base import Base
from tests.adapters.reading import ReadingSet
from tests.adapters.rows import Framed
from tests.adapters.train import Run


def main() -> None:
    """Do what the command line asks."""
    asked = _asked()
    torch.set_num_threads(asked.threads)
    if asked.legs > 1:
        legs(asked)
        return
    base, framed = Base(asked.model), Framed(asked.model)
    if asked.evaluate:
        passages = ReadingSet(asked.data, kept=True)
        evaluate.report(base, train.load(asked.evaluate), framed, passages, _say, asked.seed, asked.count)
        return
    saved = asked.out if (asked.out / train.FILE).exists() else None
    run = Run(
        asked.minutes, asked.seed, asked.out, asked.rank, asked.rate, asked.least, saved or asked.go_on, asked.peer
    )  # fmt: skip
    train.train(base, framed, ReadingSet(asked.data, kept=False), run, _say)


def legs(asked: argparse.Namespace) -> None:
    """Train in several processes, each with examples of its own, and save the mean of their adapters."""
    outs = [asked.out / f"leg{number}" for number in range(asked.legs)]
    running = [
        Popen([
            sys.executable, "-m", "tests.adapters", str(asked.model), "--data", str(asked.data),
            "--minutes", str(asked.minutes), "--seed", str(asked.seed + number), "--rank", str(asked.rank),
            "--rate", str(asked.rate), "--least", str(asked.least), "--threads", str(asked.threads),
            "--out", str(out), "--peer", str(outs[number - 1]),
            *(["--continue", str(asked.go_on)] if asked.go_on else []),
        ])
        for number, out in enumerate(outs)
    ]  # fmt: skip
    if sum([one.wait() for one in running]):
        raise SystemExit(1)
    train.save(asked.out, train.mean([train.load(out) for out in outs]), base_of(asked.model))


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.adapters", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=_folder, help="the base model: a folder, or a name that `pkb model list` shows")
    parser.add_argument("--data", type=Path, required=True, help="questions about passages, one JSON object a line")
    parser.add_argument("--minutes", type=float, default=60.0, help="how long to train")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--rate", type=float, default=6e-4)
    parser.add_argument("--least", type=float, default=0.05, help="share of the rate at the end")
    parser.add_argument("--out", type=Path, default=Path("build/adapters"), help="the folder to write the adapter to")
    parser.add_argument("--continue", dest="go_on", type=Path, metavar="FOLDER", help="go on with this adapter")
    parser.add_argument("--peer", type=Path, metavar="FOLDER", help="where another run saves that began as this one")
    parser.add_argument("--legs", type=int, default=1, help="processes that train at once")
    parser.add_argument("--evaluate", type=Path, metavar="FOLDER", help="measure an adapter instead")
    parser.add_argument("--count", type=int, default=60, help="examples of each kind to measure")
    return parser.parse_args()


def _folder(name: str) -> Path:
    return Path(name) if Path(name).is_dir() else find(name, None, os.environ).folder


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


main()
