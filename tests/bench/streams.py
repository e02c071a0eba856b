"""How much of each prompt is found kept, over streams of public questions: by budget, by score, by order of the chunks.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.streams [DATA TOKENIZER] [--homes FOLDER] [--sets NAME...]`. Real mail
is ingested and retrieved from (5 sources), real prompts are made of it in the tokens of the TOKENIZER's folder; the
tensors are not written but counted: the tree is replayed from sizes, those of a 135M model in fp32. Questions come
every 72 minutes. What computing takes grows with the place in the prompt, as was measured for that model.
"""

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from engine.ask.evidence import Evidence, gather
from engine.ask.prompt import Order, in_document_order
from engine.ask.question import understand
from engine.ask.segments import fit, system_ids
from engine.ask.trace import Trace
from engine.models.mlx import Mlx
from engine.settings import FREQUENCY_WEIGHT, HALF_LIFE_S, RECENCY_WEIGHT
from store.eviction import Weights, scores
from store.kv_tree import root_of
from store.records import Scope
from tests.bench.homes import opened, pkb
from tests.bench.orders import along_what_is_kept, by_relevance
from tests.bench.replay import Ids, Replay, Terms
from tests.bench.spelling import speller

SHARED = Path(__file__).resolve().parents[3] / "shared"
SETS = ("locomo", "enron-annotated")
BUDGETS = {"64 MB": 64_000_000, "256 MB": 256_000_000, "1 GB": 10**9, "4 GB": 4 * 10**9, "no limit": 10**15}
ORDERS = ("document", "relevance", "reuse")
SCORES = scores(Weights(RECENCY_WEIGHT, FREQUENCY_WEIGHT, HALF_LIFE_S))
K, ANSWER, BETWEEN_S = 5, 256, 72 * 60
NOW = datetime(2024, 5, 15, tzinfo=UTC)
TOKEN_BYTES, FILE_BYTES = 30 * 2 * 3 * 64 * 4, 7_000  # layers, K and V, heads, width, fp32; a header
FIRST_S, GROWTH_S = 2.0e-3, 3.2e-6  # of a token at the start of a prompt, and more for each token before it
ROOT = root_of({"model": "135M", "adapter": ""})


@dataclass(frozen=True, slots=True)
class Asked:
    """One question, what is retrieved for it, and when it is asked, in seconds."""

    text: str
    evidence: Evidence
    at: float


@dataclass(slots=True)
class Sum:
    """What a replay comes to, as it grows: tokens of all prompts, those of them found, bytes kept in the end."""

    tokens: int = 0
    reused: int = 0
    bytes: int = 0


def main() -> None:
    """Print a table for each set."""
    options = arguments()
    model = speller(options.tokenizer)
    with TemporaryDirectory() as scratch:
        for name in options.sets:
            files = sorted((options.data / name).rglob("questions.jsonl"))
            homes = options.homes or Path(scratch)
            show(name, model, [list(asked(file, homes / name / file.parent.name)) for file in files])


def arguments() -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, nargs="?", default=SHARED / "data")
    parser.add_argument("tokenizer", type=Path, nargs="?", default=SHARED / "models" / "tokenizer-smollm2")
    parser.add_argument("--homes", type=Path, help="where ingested mail is kept between runs")
    parser.add_argument("--sets", nargs="+", default=SETS)
    return parser.parse_args()


def asked(file: Path, home: Path) -> Iterator[Asked]:
    """Ingest one user's documents, unless that was done, and retrieve for each question that stands alone, once."""
    if not (home / "done").exists():
        folders = [str(folder) for folder in (file.parent / "docs", file.parent / "mail") if folder.is_dir()]
        done = pkb(home, "ingest", *folders)
        assert done.returncode in (0, 3), done.stderr
        (home / "done").touch()
    session, rows = opened(home), [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    texts = dict.fromkeys(row["question"] for row in rows if row.get("standalone", True))
    for number, text in enumerate(texts):
        question, parts = understand(text, NOW), (session.reader, session.catalogue, session.question_embedder)
        evidence = gather(*parts, question, Scope(), K, Trace())
        if evidence.reads:
            yield Asked(text, evidence, number * BETWEEN_S)
    session.ledger.close()


def show(name: str, model: Mlx, users: Sequence[Sequence[Asked]]) -> None:
    """Print the share of all prompt tokens that need not be computed; every user has a home, and a budget, alone."""
    asked, system = sum(map(len, users)), len(system_ids(model))
    print(f"\n{name}: {asked} questions of {len(users)} users")
    print(f"  {'order':12}{'score':10}" + "".join(f"{budget:>10}" for budget in BUDGETS))
    for order in ORDERS:
        for score in SCORES:
            found = [replayed(model, users, order, score, budget) for budget in BUDGETS.values()]
            print(f"  {order:12}{score:10}" + "".join(f"{one.reused / one.tokens:10.3f}" for one in found), flush=True)
        per, all_of_it = found[-1].tokens / asked, found[-1].bytes / 1e9
        print(f"  {'':12}{per:.0f} tokens a prompt, {system} of them in every one; all of it {all_of_it:.1f} GB")


def replayed(model: Mlx, users: Sequence[Sequence[Asked]], order: str, score: str, budget: int) -> Sum:
    """Replay every user's questions."""
    total = Sum()
    for user in users:
        replay = Replay(ROOT, Terms(budget, SCORES[score], model.sub_step, size, seconds))
        for one in user:
            segments = fit(model, one.text, NOW, one.evidence, ANSWER, order_of(order, model, replay))
            total.reused += replay.ask(segments.ids, one.at)
            total.tokens += segments.count
        total.bytes += sum(node.bytes for node in replay.nodes.values())
    return total


def order_of(name: str, model: Mlx, replay: Replay) -> Order:
    """Give the order of a name."""
    if name == "reuse":
        return partial(along_what_is_kept, model, ROOT, replay.uses)
    return by_relevance if name == "relevance" else in_document_order


def size(ids: Ids) -> int:
    """Give the bytes of a segment's file."""
    return len(ids) * TOKEN_BYTES + FILE_BYTES


def seconds(tokens: int, behind: int) -> float:
    """Give what computing so many tokens takes behind so many."""
    return tokens * (FIRST_S + GROWTH_S * (behind + tokens / 2))


if __name__ == "__main__":
    main()
