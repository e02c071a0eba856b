"""Everyday rewordings of questions, and traps that look like them: which get the answer of the first question.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.rewordings DATA [--round N...] [--tau T] [--vectors FOLDER] [--show]`.
For each question of tests/bench/judged/rewordings.jsonl there is one rewording and one trap, written without knowing
the rules. Rounds 1 to 3 were looked at before the rules were final, rounds 4 and 5 were not. The first questions of a
user are asked and quoted, then all others, each against these alone. --show prints what was refused, and why.
"""

import json
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from engine.ask.keys import normalise
from engine.ask.semantic import SemanticRules
from engine.models.minilm import MiniLM
from engine.types import Trace
from store.answers import upper as upper_bound
from store.types import replace
from tests.bench.indexed import IndexedUser, load
from tests.bench.paraphrases import LEAST, READER, TAU, Entry, OwnBank, entry, own_bank, worded

JUDGED = Path(__file__).with_name("judged") / "rewordings.jsonl"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one text: hit, miss, declined (its first question has no answer), served or refused (a trap)."""

    outcome: str
    text: str
    first: str
    note: str


def main() -> None:
    """Print the figures of each set, and of all."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--round", type=int, nargs="+", default=(1, 2, 3, 4))
    parser.add_argument("--tau", type=float, default=TAU)
    parser.add_argument("--vectors", type=Path)
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    texts = [row for row in rows() if row["round"] in options.round]
    embedder, total = MiniLM(workers=1), Counter[str]()
    for name in dict.fromkeys(row["set"] for row in texts):
        counts = Counter[str]()
        for user in load(options.data, name, embedder, options.vectors):
            for one in judged(user, texts, embedder, SemanticRules(options.tau, LEAST, reader=lambda: READER)):
                counts[one.outcome] += 1
                if one.outcome == "served" or (options.show and one.outcome == "miss"):
                    print(f"{one.outcome} [{one.note}] {one.first} => {one.text}")
        print(f"{name:18}{said(counts)}", flush=True)
        total += counts
    print(f"{'all':18}{said(total)}")


def rows() -> list[dict[str, Any]]:
    """Read the rewordings and traps."""
    return [json.loads(line) for line in JUDGED.read_text("utf-8").splitlines()]


def said(counts: Counter[str]) -> str:
    """Return the figures of a set: the share of hits of those that could be, and the traps served."""
    possible, traps = counts["hit"] + counts["miss"], counts["served"] + counts["refused"]
    share = counts["hit"] / possible if possible else 0.0
    most = upper_bound(counts["served"], traps)
    return (
        f"hit {counts['hit']:4} of {possible:4} ({share:.3f}), {counts['declined']:3} declined; "
        f"traps served {counts['served']:2} of {traps:4} (at most {most:.3f})"
    )


def judged(
    user: IndexedUser, texts: Sequence[dict[str, Any]], embedder: MiniLM, rules: SemanticRules
) -> Iterator[Verdict]:
    """Ask one user's first questions, then their rewordings and traps."""
    by_id = {row["id"]: row for row in user.rows}
    own = [row for row in texts if row["of"] in by_id]
    if not own:
        return
    firsts = _entries(user, [by_id[id] for id in dict.fromkeys(row["of"] for row in own)], embedder)
    with TemporaryDirectory(prefix="pkb-rewordings-") as folder:
        bank = own_bank(Path(folder), rules, user.bank, embedder)
        for first in firsts.values():
            if bank.find(bank.lookup(), first) is None:
                bank.put(first)
        asked = _entries(
            user, [by_id[row["of"]] | {"id": n, "question": row["text"]} for n, row in enumerate(own)], embedder
        )
        for number, row in enumerate(own):
            yield _verdict(bank, asked[number], firsts[row["of"]], same=row["same"])
        bank.ledger.close()


def _entries(user: IndexedUser, about: Sequence[dict[str, Any]], embedder: MiniLM) -> dict[Any, Entry]:
    texts = [worded(row["question"]) for row in about]
    found = zip(about, texts, embedder.embed(texts), strict=True)
    return {row["id"]: entry(user, row, text, vector, embedder.fingerprint) for row, text, vector in found}


def _verdict(bank: OwnBank, asked: Entry, first: Entry, *, same: bool) -> Verdict:
    pending = replace(asked.pending, generation=bank.ledger.generation, trace=Trace())
    found = bank.lookup().find(pending, asked.context)
    served = found.answer.question if found else None
    equal = served is not None and normalise(served) == normalise(asked.pending.text)
    if not same:
        outcome = "served" if served and not equal else "refused"
    elif first.reply.text is None:
        outcome = "declined"
    else:
        outcome = "hit" if served else "miss"
    return Verdict(outcome, asked.pending.text, first.pending.text, pending.trace.steps[-1].note)


if __name__ == "__main__":
    main()
