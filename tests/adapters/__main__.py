"""`python -m tests.adapters`: train an adapter of SmolLM2 for pkb's roles, go on with one, or evaluate one.

Legs of two runs at once, each the other's peer, then their mean:

    python -m tests.adapters MODEL --data READING.jsonl.gz --minutes 60 --seed 1 --out build/a --peer build/b
    python -m tests.adapters MODEL --data READING.jsonl.gz --average build/a build/b --out build/adapters
"""

import argparse
import sys
from pathlib import Path

import torch

from engine.models.role_adapter import base_of
from tests.adapters import evaluate, train
from tests.adapters.base import Base
from tests.adapters.reading import Library
from tests.adapters.rows import Framed
from tests.adapters.train import Run


def main() -> None:
    """Do what the command line asks."""
    asked = _asked()
    torch.set_num_threads(asked.threads)
    if asked.average:
        train.save(asked.out, train.mean([train.load(one) for one in asked.average]), base_of(asked.model))
        return
    base, framed = Base(asked.model), Framed(asked.model)
    if asked.evaluate:
        library = Library(asked.data, kept=True)
        evaluate.report(base, train.load(asked.evaluate), framed, library, _say, asked.seed, asked.count)
        return
    run = Run(
        asked.minutes, asked.seed, asked.out, asked.rank, asked.rate, asked.least, asked.go_on, asked.peer
    )  # fmt: skip
    train.train(base, framed, Library(asked.data, kept=False), run, _say)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.adapters", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, help="the folder of the base model, as mlx-lm loads it")
    parser.add_argument("--data", type=Path, required=True, help="questions about passages, one JSON object a line")
    parser.add_argument("--minutes", type=float, default=60.0, help="how long to train")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--rate", type=float, default=6e-4)
    parser.add_argument("--least", type=float, default=0.05, help="share of the rate at the end")
    parser.add_argument("--out", type=Path, default=Path("build/adapters"), help="the folder to write the adapter to")
    parser.add_argument("--continue", dest="go_on", type=Path, metavar="FOLDER", help="go on with this adapter")
    parser.add_argument("--peer", type=Path, metavar="FOLDER", help="where a run saves that goes on with the same one")
    parser.add_argument("--average", type=Path, nargs="+", metavar="FOLDER", help="average adapters that began as one")
    parser.add_argument("--evaluate", type=Path, metavar="FOLDER", help="measure an adapter instead")
    parser.add_argument("--count", type=int, default=60, help="examples of each kind to measure")
    return parser.parse_args()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


main()
