"""`python -m tests.reader`: train the reader, go on with a run that ended, or measure a file.

python -m tests.reader --data reading.jsonl.gz --steps 20000
python -m tests.reader --data reading.jsonl.gz --measure build/reader/reader.safetensors
"""

import argparse
from pathlib import Path
from random import Random

import torch

from engine.models.lookup import MINILM_WEIGHTS, READER, TOKENS, find_weights
from engine.models.types import open_tokenizer
from tests.reader.examples import Public, headers, readings
from tests.reader.measure import measured
from tests.reader.model import loaded
from tests.reader.train import Run, train

HELD_OUT = 20  # of so many readings one is for measuring
RANK = 32


def main() -> None:
    """Do what the command line asks."""
    asked = _asked()
    torch.set_num_threads(asked.threads)
    folder = find_weights()
    tokenizer = open_tokenizer(folder / TOKENS)
    tokenizer.no_truncation()
    found = readings(asked.data, ("tweetqa",)) if asked.data else []
    heads = headers(Random(0), 200)
    if asked.measure:
        for name, figures in measured(asked.measure, Public(found[::HELD_OUT], heads) if found else None).items():
            print(f"{name:10}{figures}")
        return
    learned = [one for number, one in enumerate(found) if number % HELD_OUT]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    reader = loaded(folder / MINILM_WEIGHTS, RANK, READER if asked.go_on else None).to(device)
    run = Run(asked.out, asked.steps, asked.seed, asked.examples, asked.rate)
    train(reader, tokenizer, Public(learned, heads) if learned else None, run)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.reader", description=__doc__)
    parser.add_argument("--data", type=Path, help="a reading set as JSON lines, gzipped; see docs/reader.md")
    parser.add_argument("--out", type=Path, default=Path("build/reader"))
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--examples", type=int, default=16, help="questions a step, of eight windows each")
    parser.add_argument("--rate", type=float, default=3e-4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--continue", dest="go_on", action="store_true", help="begin with the reader that pkb ships")
    parser.add_argument("--measure", type=Path, metavar="FILE", help="measure a file instead")
    return parser.parse_args()


if __name__ == "__main__":
    main()
