"""Reading in blocks beside reading in the usual way: agreement of the answers, seconds, bytes, and what comes again.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.blocks [--tuned FOLDER] [--vectors FOLDER] [--parts NAME...]`. The
models that answer are nano, nano trained in blocks (TUNED: `python -m tests.nano --continue tests/data/nano --blocks`)
and stories260K where it is beside the checkout; "unmoved" leaves keys as they were computed behind the system segment.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from os import getloadavg
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory

from engine.ask.prefill import Kept, Reading
from engine.kv.rotate import Ropes, movable
from engine.kv.trial import Trial, trial
from engine.models.loading import load
from engine.models.mlx import Mlx
from engine.models.runtime import load_blas
from store.eviction import scores
from store.kv_room import Limits
from store.kv_store import KvStore
from store.kv_tree import root_of
from store.ledger import open_ledger
from tests.bench import prompts
from tests.bench.prompts import Case
from tests.demo import NANO
from tests.engine.models.shapes import REAL, make
from tests.store.kv_kit import WEIGHTS

SHARED = Path(__file__).resolve().parents[3] / "shared"
PARTS = ("agreement", "speed", "reuse")
ROOM, ROUNDS = 1 << 40, 5


def main() -> None:
    """Measure what is asked for."""
    options = arguments()
    with TemporaryDirectory() as scratch:
        home = Path(scratch)
        load_blas(home)
        if "agreement" in options.parts:
            folders = {"nano": NANO, "tuned nano": options.tuned, "stories260K": SHARED / "models" / "stories260K"}
            for name, folder in folders.items():
                if folder and folder.is_dir():
                    agreement(load(folder, name=name, cache=home, memory_share=0.9), home)
                else:
                    print(f"{name}: not here")
        if "speed" in options.parts:
            speed(home)
        if "reuse" in options.parts:
            reuse(SHARED / "data" / "locomo", options.vectors)


def arguments() -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--tuned", type=Path, help="nano trained in blocks")
    parser.add_argument("--vectors", type=Path, help="where vectors of chunks are kept between runs")
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    return parser.parse_args()


def agreement(model: Mlx, home: Path) -> None:
    """Print how far answers agree with the usual ones, and how many are right, in blocks and with keys left unmoved."""
    tells = model.name == "stories260K"
    cases, most = list((prompts.tales if tells else prompts.letters)(model)), prompts.TOLD if tells else prompts.ANSWER
    if tells:
        model = replace(model, stops=frozenset())
    ropes = movable(model)
    unmoved = Ropes(tuple(lambda keys, offset: keys for _ in ropes.layers), ropes.equal)
    for way, used in (("blocks", ropes), ("unmoved", unmoved)):
        found = [tried(model, used, case, home / f"{model.name} {way} {n}", most) for n, case in enumerate(cases)]
        kl, first = [step for one in found for step in one.kl], fmean(one.kl[0] for one in found)
        print(
            f"{model.name}, {way}: {len(cases)} prompts, {len(kl)} tokens; KL {fmean(kl):.4f} (first {first:.4f})",
            end="",
        )
        top, equal = sum(one.same for one in found) / len(kl), fmean(one.equal for one in found)
        print(f", top-1 {top:.3f}, equal answers {equal:.3f}" + rights(cases, found), flush=True)


def rights(cases: Sequence[Case], found: Sequence[Trial]) -> str:
    """Say how many answers are right in each way, where that is known."""
    if cases[0].right is None:
        return ""

    def share(test: Callable[[Case, str], bool], way: int) -> str:
        return f"{fmean(test(case, one.answers[way]) for case, one in zip(cases, found, strict=True)):.3f}"

    words, names = ([share(test, way) for way in (0, 1)] for test in (Case.is_right, Case.names_rightly))
    return f"; right words {words[0]} as usual, {words[1]} so; with the numbers {names[0]}, {names[1]}"


def tried(model: Mlx, ropes: Ropes, case: Case, folder: Path, most: int) -> Trial:
    """Read a prompt in both ways through a store of its own, both times computed and loaded."""
    folder.mkdir(parents=True)
    ledger = open_ledger(folder / "ledger.db", create=True)
    store = KvStore(
        ledger, folder / "kv", limits=Limits(ROOM, ROOM), score=scores(WEIGHTS)["value"],
        sub_step=model.sub_step, now=lambda: 1e9,
    )  # fmt: skip
    usual, blocks = (Kept(store, root_of({"way": way}), model) for way in ("usual", "blocks"))
    found = trial(model, Reading(model, usual), Reading(model, blocks, ropes), (case.usual, case.blocks), most)
    store.close()
    ledger.close()
    return found


def speed(home: Path) -> None:
    """Print seconds to the first token in each way, of a model of a real shape, and the bytes of a chunk."""
    folder = make(home / "135M", REAL["135M"], dtype="float16")
    model = replace(load(folder, name="135M", cache=home, memory_share=0.9), stops=frozenset(), one_line=False)
    ropes = movable(model)
    found = [tried(model, ropes, prompts.nonsense(n), home / f"speed {n}", 1) for n in range(ROUNDS + 1)][1:]
    ways = {
        "usual, computed": [one.usual.computed for one in found],
        "usual, loaded": [one.usual.loaded for one in found],
        "blocks, computed": [one.blocks.computed for one in found],
        "blocks, loaded": [one.blocks.loaded for one in found],
    }
    count = sum(map(len, prompts.nonsense(0).usual))
    print(f"135M, {count} tokens, {prompts.CHUNKS} chunks of {prompts.CHUNK}; load {getloadavg()[0]:.1f}")
    for way, seconds in ways.items():
        print(
            f"  {way:18}{1e3 * median(seconds):7.0f} ms, {ratio(seconds, ways['usual, computed'])} of usual, computed"
        )
    print(f"  blocks, loaded: {ratio(ways['blocks, loaded'], ways['usual, loaded'])} of usual, loaded")
    sizes = sorted(path.stat().st_size for path in (home / "speed 1" / "kv").glob("*.safetensors"))
    print(f"  a chunk takes {sizes[-1] / 1e6:.2f} MB, the line of its number {sizes[0] / 1e3:.0f} kB")


def ratio(above: Sequence[float], below: Sequence[float]) -> str:
    """Give the median of ratios, with the least and the greatest."""
    found = sorted(one / other for one, other in zip(above, below, strict=True))
    return f"{median(found):.3f} ({found[0]:.2f} to {found[-1]:.2f})"


def reuse(folder: Path, vectors: Path | None) -> None:
    """Print the share of the chunks in prompts that were read before: behind the same ones, and at any place."""
    from engine.models.minilm import MiniLM
    from tests.bench.order import KS, everything, shares

    embedder = MiniLM(workers=1)
    users = [everything(file, embedder, vectors) for file in sorted(folder.rglob("questions.jsonl"))]
    print(
        f"locomo: {len(users)} users, {sum(len(user.questions) for user in users)} questions; all that is read is kept"
    )
    for how in ("bm25", "pkb") if users else ():
        for k in KS:
            found = shares(users, k, how, cache(embedder.embed_question))
            print(f"  {how}, k = {k}: usual {found['document']:.3f}, blocks {found['any place']:.3f}", flush=True)


if __name__ == "__main__":
    main()
