"""Cost of a second role over evidence that the answer has read: time to the first token, and bytes of the KV store.

Usage: python -m tests.bench.roles FOLDER [--tokens 1000] [--rounds 10]

FOLDER holds a model that has a role adapter. Each round has chunks of random tokens of its own. A role reads them with
an empty store, then with one that `answer` has filled, opened anew; the first round is dropped. The files of the store
may be in the system's file cache. Processor seconds are those of all threads.
"""

import os
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from random import Random
from statistics import median

from engine.kv.restore import PromptReader
from engine.llm.generate import read
from engine.llm.prompt import question_segment, system_ids
from engine.models.adapters import find_adapter
from engine.models.load import load
from engine.models.mlx import Mlx
from engine.models.types import Ids
from engine.types import Trace
from prompts import prompt
from store.errors import NoModel
from store.kv_files import root_of
from store.kv_store import KvStore
from tests.bench.kv_reuse import Spent, free_memory, loading, opened_store, spent

CHUNK = 130  # tokens of a chunk, at most
ANSWER, CONTROLS = "answer", 260  # the role that reads first; ids below may be control tokens
NOW = datetime(2026, 6, 3, 12)
QUESTION = "When is the rehearsal?"


@dataclass(frozen=True, slots=True)
class Round:
    """One prompt read by all roles: times of each, cold and behind the answer, and bytes of the stores."""

    cold: Mapping[str, Spent]
    behind: Mapping[str, Spent]
    shared_bytes: int
    separate_bytes: int


def main() -> None:
    """Measure and print a table; the load of the machine goes with it."""
    asked = _arguments()
    adapter = find_adapter(asked.folder)
    if adapter is None:
        raise NoModel(f"no role adapter fits the model in {asked.folder}", "pkb model list")
    print(f"load {os.getloadavg()[0]:.1f} at the start", flush=True)
    with tempfile.TemporaryDirectory(prefix="pkb-roles-") as scratch:
        path = Path(scratch)
        model = load(asked.folder, name=asked.folder.name, cache=path, memory_share=0.9, adapter=adapter)
        rounds = [measured(model, path / str(number), asked.tokens, number) for number in range(asked.rounds + 1)]
    show(rounds[1:], asked.tokens)
    print(f"median of {asked.rounds}; load {os.getloadavg()[0]:.1f} at the end")


def measured(model: Mlx, folder: Path, tokens: int, seed: int) -> Round:
    """Let all roles read one prompt, each from a store of its own, then from one that they share."""
    before, requests = (system_ids(model), *chunks(tokens, model.model.args.vocab_size, seed)), last_segments(model)
    cold, behind, separate = dict[str, Spent](), dict[str, Spent](), 0
    for role, last in requests.items():
        cold[role], size = first_token(model, folder / role, before, last)
        separate += size
    for role, last in requests.items():  # the answer first
        behind[role], shared = first_token(model, folder / "shared", before, last)
    return Round(cold, behind, shared, separate)


def chunks(tokens: int, vocabulary: int, seed: int) -> Iterator[Ids]:
    """Yield segments of random tokens, so many together."""
    rng = Random(seed)
    for start in range(0, tokens, CHUNK):
        yield tuple(rng.randrange(CONTROLS, vocabulary) for _ in range(min(CHUNK, tokens - start)))


def last_segments(model: Mlx) -> dict[str, Ids]:
    """Return the last segment of each role."""
    requests = {
        ANSWER: question_segment(QUESTION, NOW),
        "predict": prompt("predict_chunks").format(count=3),
    }
    return {role: (*model.tokens(text), *model.frame.closing) for role, text in requests.items()}


def first_token(model: Mlx, folder: Path, before: Sequence[Ids], last: Ids) -> tuple[Spent, int]:
    """Return the time to the first token of a role, and the bytes of its store, which is opened anew, afterwards."""
    with opened(model, folder) as (reader, store):
        free_memory()
        with spent() as taken:
            cache = read(reader, before, Trace())
            next(model.decode(cache.cache, last, 1))
        cache.keep()
        return taken[0], store.index.totals().bytes


@contextmanager
def opened(model: Mlx, folder: Path) -> Iterator[tuple[PromptReader, KvStore]]:
    """Open the store in a folder as a new process would, and close it."""
    with opened_store(model, folder) as store:
        store.collect()
        yield PromptReader(model, loading(store, root_of({"model": "bench", "adapter": "bench"}), model)), store


def show(rounds: Sequence[Round], tokens: int) -> None:
    """Print the medians of each role and their ratio, then the bytes of the stores."""
    print(f"| role, over {tokens} tokens | cold | behind the answer | ratio | cold, processor | behind | ratio |")
    print("|---" + "|---:" * 6 + "|")
    for role in rounds[0].cold:
        if role != ANSWER:
            cells = [cell for kind in ("wall", "processor") for cell in _cells(rounds, role, kind)]
            print(f"| {role} | {' | '.join(cells)} |")
    shared, separate = median(one.shared_bytes for one in rounds), median(one.separate_bytes for one in rounds)
    print(
        f"KV store: {shared / 1e6:.1f} MB shared by {len(rounds[0].cold)} roles, "
        f"{separate / 1e6:.1f} MB in trees of their own, {separate / shared:.2f} times as much"
    )


def _cells(rounds: Sequence[Round], role: str, kind: str) -> tuple[str, str, str]:
    cold = 1000 * median(getattr(one.cold[role], kind) for one in rounds)
    behind = 1000 * median(getattr(one.behind[role], kind) for one in rounds)
    return f"{cold:.0f} ms", f"{behind:.0f} ms", f"{cold / behind:.1f}"


def _arguments() -> Namespace:
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="a model with a role adapter")
    parser.add_argument("--tokens", type=int, default=1000, help="of all chunks")
    parser.add_argument("--rounds", type=int, default=10, help="of which the median is shown")
    return parser.parse_args()


if __name__ == "__main__":
    main()
