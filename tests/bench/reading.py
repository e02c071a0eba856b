"""Answers by a language model against those by quotes, over the same evidence: words, sources and refusals.

Run `python -m tests.bench.reading DATA OUT [--model FOLDER] [--plain] [SET...]`: rows are added to the file OUT, one a
question, so that a run may be interrupted; without --model quotes answer, with --plain no role adapter is used.
`--report OUT...` prints the figures. DATA and sets are those of tests.bench.quoting.
"""

import argparse
import json
import re
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import fmean
from time import perf_counter
from typing import Any

from engine.ask.extract import write
from engine.backends import drafts_of, support_of
from engine.llm.generate import GenerateOptions, generate
from engine.llm.prefill import PromptReader
from engine.models.load import load as load_model
from engine.models.role_adapter import find_adapter
from engine.models.runtime import load_blas
from engine.retrieval.retrieve import RetrievalLimits, retrieve
from engine.settings import Settings
from engine.text.question import Question, understand
from engine.types import Answer, Evidence, Trace
from store.types import Scope
from tests.bench.indexed import IndexedUser, best, load
from tests.bench.metrics import exact, f1, rouge_l
from tests.bench.quoting import NOW, SETS, K

Row = dict[str, Any]
_CHECKED = re.compile(r"yes ([\d.]+), support ([\d.]+)")
_DRAWS = 1000  # of the bootstrap


@dataclass(frozen=True, slots=True)
class Asked:
    """A question of a set asked of a user; `group` is answerable, unanswerable, or other (of another set)."""

    set: str
    number: int
    group: str
    row: Row
    user: IndexedUser

    @property
    def name(self) -> str:
        """Return what its row is known by."""
        return f"{self.set} {self.number} {self.group}"


Answering = Callable[[Question, Evidence, Trace], Answer]


def main() -> None:
    """Do what the command line asks."""
    asked = _arguments()
    if asked.report:
        for path in asked.report:
            report(path)
        return
    users = {name: list(load(asked.data, name)) for name in asked.sets or SETS}
    everybody = [user for name in SETS for user in (users.get(name) or load(asked.data, name))]
    answering = by_model(asked.model, plain=asked.plain) if asked.model else by_quotes
    done = {row["name"] for row in rows(asked.out)} if asked.out.exists() else set()
    with asked.out.open("a", encoding="utf-8") as file:
        for name, own in users.items():
            for one in questions(name, own, [user for user in everybody if user.corpus != name], asked.count):
                if one.name not in done:
                    file.write(json.dumps(answered(one, answering), ensure_ascii=False) + "\n")
                    file.flush()


def questions(name: str, users: Sequence[IndexedUser], others: Sequence[IndexedUser], count: int) -> Iterator[Asked]:
    """Draw `count` questions of a set, always the same, and ask every fourth of a user of another set, too."""
    every = [(user, row) for user in users for row in user.rows]
    drawn = sorted(Random(name).sample(range(len(every)), min(count, len(every))))
    for place, number in enumerate(drawn):
        user, row = every[number]
        yield Asked(name, number, "unanswerable" if row.get("unanswerable") else "answerable", row, user)
        if place % 4 == 0 and others:
            yield Asked(name, number, "other", row, others[number % len(others)])


def answered(one: Asked, answering: Answering) -> Row:
    """Ask, and return the row of the answer."""
    question = understand(" ".join(one.row["question"].split()), NOW)
    passages = tuple(retrieve(one.user.bank, None, question, Scope(), K, RetrievalLimits()).passages)
    evidence = Evidence(passages, tuple(chunk.id for passage in passages for chunk in passage.chunks), 0.0)
    trace, began = Trace(), perf_counter()
    reply = answering(question, evidence, trace)
    seconds = perf_counter() - began
    said = reply.text or ""
    lead = passages[reply.lead] if passages else None
    paths = {path for hit in (lead.all_hits if lead else ()) for path in one.user.paths.get(hit.chunk.document, ())}
    found = {path for passage in passages for hit in passage.all_hits
             for path in one.user.paths.get(hit.chunk.document, ())}  # fmt: skip
    notes = " ".join(step.note for step in trace.steps if step.name == "check")
    checked = _CHECKED.search(notes)
    return {
        "name": one.name, "set": one.set, "group": one.group, "question": one.row["question"],
        "gold": one.row["answer"], "answer": reply.text, "seconds": round(seconds, 3), "tokens": reply.tokens,
        "em": best(exact, said, one.row), "f1": best(f1, said, one.row), "rouge": best(rouge_l, said, one.row),
        "source": not paths.isdisjoint(one.row.get("doc_ids") or ()),
        "retrieved": not found.isdisjoint(one.row.get("doc_ids") or ()),
        "yes": float(checked[1]) if checked else None, "support": float(checked[2]) if checked else None,
        "declined_of": next((step.note for step in trace.steps if step.name == "cite"), ""),
    }  # fmt: skip


def by_quotes(question: Question, evidence: Evidence, trace: Trace) -> Answer:
    """Answer by quotes, as pkb does without a model."""
    return write(question, evidence, trace, Settings().ask.decline_below).reply


def by_model(folder: Path, *, plain: bool) -> Answering:
    """Return what answers by a model, with nothing stored."""
    load_blas()
    adapter = None if plain else find_adapter(folder)
    cache = Path(tempfile.mkdtemp(prefix="pkb-reading-"))
    model = load_model(folder, name=folder.name, cache=cache, memory_share=0.9, adapter=adapter)
    reader, settings = PromptReader(model), Settings()
    options = GenerateOptions(
        folder.name, NOW, settings.model.max_tokens, drafts=settings.experiment.drafts, draft=drafts_of,
        support=support_of,
    )  # fmt: skip

    def answer(question: Question, evidence: Evidence, trace: Trace) -> Answer:
        return generate(lambda: reader, question, evidence, trace, options).reply

    return answer


def rows(path: Path) -> list[Row]:
    """Read the rows of a file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def report(path: Path) -> None:
    """Print the figures of a file by set, with 95 % intervals of F1 over questions."""
    groups = defaultdict[str, dict[str, list[Row]]](lambda: defaultdict(list))
    for row in rows(path):
        groups[row["set"]][row["group"]].append(row)
    print(f"{path}\n{'':18}    n     EM     F1 [95 %]           ROUGE-L  answered  source right of answered")
    for name, of in sorted(groups.items()):
        own = of["answerable"]
        if own:
            low, high = interval([row["f1"] for row in own])
            given = [row for row in own if row["answer"] is not None]
            sources = f"{fmean(row['source'] for row in given):.3f}" if given else "none"
            print(
                f"{name:18}{len(own):5}  {fmean(row['em'] for row in own):.3f}  {fmean(row['f1'] for row in own):.3f}"
                f" [{low:.3f}, {high:.3f}]  {fmean(row['rouge'] for row in own):.3f}  {len(given) / len(own):.3f}"
                f"  {sources}, median {sorted(row['seconds'] for row in own)[len(own) // 2]:.1f} s"
            )
        for group in ("unanswerable", "other"):
            if not_answered := of[group]:
                share = fmean(row["answer"] is None for row in not_answered)
                print(f"{'':18}{len(not_answered):5}  {group}: declined {share:.3f}")


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the middle 95 % of the means of samples drawn with replacement."""
    rng = Random(1)
    means = sorted(fmean(rng.choices(values, k=len(values))) for _ in range(_DRAWS))
    return means[_DRAWS // 40], means[-_DRAWS // 40]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.reading", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--report", type=Path, nargs="+", metavar="OUT")
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("sets", nargs="*")
    parser.add_argument("--model", type=Path, metavar="FOLDER")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--count", type=int, default=200, help="questions of each set")
    return parser.parse_args()


if __name__ == "__main__":
    main()
