"""`python -m tests.nano`: train a model, go on with one, or evaluate one.

What is in tests/data/nano came from a first run and legs of two runs at once, each of which went on like this:

    python -m tests.nano --continue build/nano --seed 2 --minutes 25 --out build/a --peer build/b  # 3, build/b, build/a
    python -m tests.nano --average build/a build/b --out build/nano

One leg began with a model of five layers of 256 units that had been made deeper: `--grow FOLDER --out build/nano`.
"""

import argparse
import sys
from pathlib import Path

import torch

from tests.nano import folder, tokens
from tests.nano.model import Shape, fresh
from tests.nano.train import Run, train


def main() -> None:
    """Do what the command line asks."""
    asked = _asked()
    torch.set_num_threads(asked.threads)
    if asked.evaluate:
        from tests.nano.evaluate import report

        report(asked.evaluate, asked.seed, _say, blocks=asked.blocks)
        return
    if asked.average:
        loaded = [folder.load(one) for one in asked.average]
        folder.save(asked.out, folder.mean([weights for weights, _ in loaded]), Shape(), loaded[0][1])
        return
    if asked.grow:
        from tests.nano.grow import grown

        weights, tokenizer = folder.load(asked.grow)
        folder.save(asked.out, grown(weights, tokenizer, Shape(), asked.seed), Shape(), tokenizer)
        return
    if asked.go_on:
        weights, tokenizer = folder.load(asked.go_on)
    else:
        tokenizer = tokens.train(asked.seed)
        weights = fresh(Shape(), asked.seed)
    _say(
        f"nano: {sum(one.numel() for one in weights.values()):,} parameters, seed {asked.seed}, {asked.minutes} minutes"
    )
    run = Run(
        asked.minutes,
        asked.seed,
        asked.out,
        asked.muon,
        asked.adam,
        asked.begin,
        asked.end,
        asked.least,
        peer=asked.peer,
        blocks=asked.blocks,
    )
    train(weights, tokenizer, run, _say)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.nano", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60.0, help="how long to train")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("build/nano"), help="the folder to write the model to")
    parser.add_argument("--continue", dest="go_on", type=Path, metavar="FOLDER", help="go on with this model")
    parser.add_argument("--begin", type=float, default=0.0, help="share of the curriculum to begin at (0.6 to go on)")
    parser.add_argument("--end", type=float, default=1.0, help="share of the curriculum to end at")
    parser.add_argument("--muon", type=float, default=4e-3, help="rate for the hidden matrices (2.5e-3 to go on)")
    parser.add_argument("--adam", type=float, default=3e-3, help="rate for embedding and norms (1.8e-3 to go on)")
    parser.add_argument("--least", type=float, default=0.0, help="share of the rates at the end")
    parser.add_argument(
        "--peer", type=Path, metavar="FOLDER", help="where a run saves that goes on with the same model"
    )
    parser.add_argument("--blocks", action="store_true", help="read contexts in blocks, as pkb does (kv.reuse)")
    parser.add_argument("--average", type=Path, nargs="+", metavar="FOLDER", help="average models that began as one")
    parser.add_argument("--grow", type=Path, metavar="FOLDER", help="make a trained model of five layers one deeper")
    parser.add_argument("--evaluate", type=Path, metavar="FOLDER", help="measure a model instead")
    asked = parser.parse_args()
    if asked.go_on:  # a trained model takes lower rates, and need not see short contexts first
        parser.set_defaults(begin=0.6, muon=2.5e-3, adam=1.8e-3)
    return parser.parse_args()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


main()
