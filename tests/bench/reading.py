"""Answers by a language model against those by quotes, over the same evidence: words, sources and refusals.

Run `python -m tests.bench.reading DATA OUT [--model FOLDER] [--plain] [SET...]`: rows are added to the file OUT, one a
question, so that a run may be interrupted; without --model quotes answer, with --plain no role adapter is used. --mode
reads in blocks, with 8 bits, without drafts, with the best chunk last, or whole messages and meetings; --sources says
how many sources there are; --own leaves out the questions asked of a user of another set; --cache names a folder for
KV, which makes it faster. `--report OUT...` prints the figures, `--compare USUAL OTHER` those of questions in both
files, side by side. The answers are the model's own, which no reader judges. DATA and sets are those of
tests.bench.quoting.
"""

import argparse
import dataclasses
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import fmean
from time import perf_counter
from typing import Any

from engine.ask.extract import write
from engine.kv.restore import PromptReader
from engine.llm.generate import GenerateOptions, generate
from engine.llm.prompt import PromptChunk, in_document_order
from engine.models.adapters import find_adapter
from engine.models.load import load as load_model
from engine.models.load import movable
from engine.models.runtime import load_blas
from engine.retrieval.retrieve import RankWeights, join, retrieve
from engine.settings import Settings
from engine.text.question import Question, understand
from engine.types import Answer, Evidence, Passage, Trace
from store.errors import NoModel
from store.kv_files import root_of
from store.types import Scope, replace
from tests.bench.home import ordered
from tests.bench.indexed import IndexedUser, best, golds, load
from tests.bench.kv_reuse import loading, opened_store
from tests.bench.metrics import exact, f1, rouge_l, terms
from tests.bench.quoting import NOW, SETS, K

Row = dict[str, Any]
MODES = ("usual", "blocks", "8bits", "no-drafts", "best-last", "threads")
_RIGHT = 0.5  # least F1 of an answer whose source should be right
_HEAD = f"{'':18}    n     EM     F1 [95 %]           ROUGE-L  answered  source right of answered, of right answers"
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


Answering = Callable[[Question, Evidence], Answer]


def main() -> None:
    """Do what the command line asks."""
    asked = _arguments()
    if asked.report:
        for path in asked.report:
            report(path)
        return
    if asked.compare:
        compare(*asked.compare)
        return
    users = {name: list(load(asked.data, name)) for name in asked.sets or SETS}
    everybody = [] if asked.own else [user for name in SETS for user in (users.get(name) or load(asked.data, name))]
    held = ExitStack()
    answering = (
        by_model(asked.model, asked.mode, held, plain=asked.plain, cache=asked.cache) if asked.model else by_quotes
    )
    done = {row["name"] for row in rows(asked.out)} if asked.out.exists() else set()
    with held, asked.out.open("a", encoding="utf-8") as file:
        for name, own in users.items():
            for one in questions(name, own, [user for user in everybody if user.corpus != name], asked.count):
                if one.name not in done:
                    row = answered(one, answering, asked.sources, whole=asked.mode == "threads")
                    file.write(json.dumps(row, ensure_ascii=False) + "\n")
                    file.flush()


def questions(name: str, users: Sequence[IndexedUser], others: Sequence[IndexedUser], count: int) -> Iterator[Asked]:
    """Draw `count` questions of a set and ask every fourth of a user of another set, too.

    They are always the same, in the same random order: a smaller count draws the first of them.
    """
    every = [(user, row) for user in users for row in user.rows]
    drawn = Random(name).sample(range(len(every)), len(every))[:count]
    for place, number in enumerate(drawn):
        user, row = every[number]
        yield Asked(name, number, "unanswerable" if row.get("unanswerable") else "answerable", row, user)
        if place % 4 == 0 and others:
            yield Asked(name, number, "other", row, others[number % len(others)])


def answered(one: Asked, answering: Answering, sources: int = K, *, whole: bool = False) -> Row:
    """Ask, and return the row of the answer."""
    question = understand(" ".join(one.row["question"].split()), NOW)
    passages = tuple(join(retrieve(one.user.bank, None, question, Scope(), RankWeights()), sources))
    passages = tuple(whole_documents(passages, one.user)) if whole else passages
    evidence = Evidence(passages, tuple(chunk.id for passage in passages for chunk in passage.chunks), 0.0)
    began = perf_counter()
    reply = answering(question, evidence)
    return {"name": one.name, "set": one.set, "group": one.group, "question": one.row["question"],
            "gold": one.row["answer"], "seconds": round(perf_counter() - began, 3), "tokens": reply.tokens,
            "own": graded(one, evidence, reply)}  # fmt: skip


def whole_documents(passages: Sequence[Passage], user: IndexedUser) -> Iterator[Passage]:
    """Yield each document of the passages once, whole, in place of its best one."""
    for passage in {one.document: one for one in reversed(passages)}.values():
        yield replace(passage, hits=tuple(hit for hit in user.bank.hits if hit.chunk.document == passage.document))


def graded(one: Asked, evidence: Evidence, reply: Answer) -> Row:
    """Return an answer with its scores, and whether the source that it names first is right."""
    said = reply.text or ""
    return {
        "answer": reply.text, "em": best(exact, said, one.row), "f1": best(f1, said, one.row),
        "rouge": best(rouge_l, said, one.row),
        "source": bool(evidence.passages) and is_right(evidence.passages[reply.lead], one),
    }  # fmt: skip


def is_right(source: Passage, one: Asked) -> bool:
    """Return whether a source is of a document that a question is marked with, or holds all words of its answer."""
    paths = {path for hit in source.all_hits for path in one.user.paths.get(hit.chunk.document, ())}
    held = set(terms("\n".join((source.header, source.sender, *source.recipients, source.text))))
    return not paths.isdisjoint(one.row.get("doc_ids") or ()) or any(held.issuperset(gold) for gold in golds(one.row))


def by_quotes(question: Question, evidence: Evidence) -> Answer:
    """Answer by quotes, as pkb does without a model."""
    return write(question, evidence, Trace(), Settings().ask.decline_below)


def best_last(shown: Sequence[PromptChunk]) -> list[PromptChunk]:
    """Put the best chunk next to the question."""
    return list(reversed(shown))


def open_reader(
    folder: Path, mode: str = "usual", *, plain: bool = False, cache: Path | None = None, held: ExitStack | None = None
) -> PromptReader:
    """Load a model, with its role adapter unless `plain`; without a cache, open while `held` is, nothing is stored."""
    load_blas()
    adapter = None if plain else find_adapter(folder)
    scratch = Path(tempfile.mkdtemp(prefix="pkb-reading-"))
    model = load_model(folder, name=folder.name, cache=scratch, memory_share=0.9, adapter=adapter)
    model = dataclasses.replace(model, bits=8 if mode == "8bits" else 0)
    kept = None
    if cache and held:
        store = held.enter_context(opened_store(model, cache))
        kept = loading(store, root_of({"model": folder.name, "mode": mode, "adapter": str(adapter)}), model)
    return PromptReader(model, kept, movable(model) if mode == "blocks" else None)


def open_with_roles(folder: Path) -> PromptReader:
    """Load a model that has a role adapter; NoModel if none fits."""
    reader = open_reader(folder)
    if not reader.model.has_roles:
        raise NoModel(f"no role adapter fits the model in {folder}", "pkb model list")
    return reader


def by_model(folder: Path, mode: str, held: ExitStack, *, plain: bool, cache: Path | None = None) -> Answering:
    """Return what answers by a model alone while `held` is open."""
    reader, settings = open_reader(folder, mode, plain=plain, cache=cache, held=held), Settings()
    drafts = 0 if mode == "no-drafts" else settings.experiment.drafts
    options = GenerateOptions(lambda: reader, folder.name, NOW, settings.model.max_tokens, drafts)

    def answer(question: Question, evidence: Evidence) -> Answer:
        trace = Trace()
        with ordered(best_last if mode == "best-last" else in_document_order):
            made = generate(question, evidence, trace, options)
        trace.keep()
        return made

    return answer


def rows(path: Path) -> list[Row]:
    """Read the rows of a file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def report(path: Path) -> None:
    """Print the figures of a file by set."""
    found = rows(path)
    print(f"{path}\n{_HEAD}")
    for name in sorted({row["set"] for row in found}):
        show(name, [(row, row["own"]) for row in found if row["set"] == name])


def show(name: str, answers: Sequence[tuple[Row, Row]]) -> None:
    """Print the figures of a set, F1 with a 95 % interval over questions."""
    own = [(row, said) for row, said in answers if row["group"] == "answerable"]
    if own:
        low, high = interval([said["f1"] for _, said in own])
        told = [said for _, said in own if said["answer"] is not None]
        scores = [fmean(said[key] for _, said in own) for key in ("em", "f1", "rouge")]
        right = [said for said in told if said["f1"] >= _RIGHT]
        sources = ", ".join(f"{fmean(said['source'] for said in some):.3f}" if some else "-" for some in (told, right))
        seconds = sorted(row["seconds"] for row, _ in own)[len(own) // 2]
        print(
            f"{name:18}{len(own):5}  {scores[0]:.3f}  {scores[1]:.3f} [{low:.3f}, {high:.3f}]  {scores[2]:.3f}"
            f"  {len(told) / len(own):.3f}  {sources}, median {seconds:.1f} s"
        )
    for group in ("unanswerable", "other"):
        if not_answered := [said["answer"] is None for row, said in answers if row["group"] == group]:
            print(f"{'':18}{len(not_answered):5}  {group}: declined {fmean(not_answered):.3f}")


def compare(usual: Path, other: Path) -> None:
    """Print the figures of two files over the questions in both, by set, and how they differ."""
    one, two = ({row["name"]: row for row in rows(path)} for path in (usual, other))
    both = sorted(one.keys() & two.keys())
    print(_HEAD)
    sets = sorted({one[key]["set"] for key in both})
    for name in [*sets, "all"] if len(sets) > 1 else sets:
        keys = [key for key in both if name in (one[key]["set"], "all")]
        for label, found in ((usual.stem, one), (other.stem, two)):
            show(f"{name[:7]} {label}"[:18], [(found[key], found[key]["own"]) for key in keys])
        print(f"{'':18}{difference([one[key] for key in keys], [two[key] for key in keys])}")


def difference(usual: Sequence[Row], other: Sequence[Row]) -> str:
    """Return how the answers by the model in two runs over the same questions differ, and the seconds they took."""
    pairs = [(one["own"], two["own"]) for one, two in zip(usual, other, strict=True) if one["group"] == "answerable"]
    changes = ", ".join(f"{name} {_change(pairs, value)}" for name, value in _VALUES.items())
    equal = fmean(one["answer"] == two["answer"] for one, two in pairs)
    seconds = sorted(two["seconds"] / max(0.001, one["seconds"]) for one, two in zip(usual, other, strict=True))
    drafts = ", ".join(f"{_guessed(found):.2f}" for found in (usual, other))
    return (
        f"model alone, {len(pairs)} answerable: equal {equal:.2f}, {changes}, "
        f"seconds x {seconds[len(seconds) // 2]:.2f}, guessed right {drafts}"
    )


_VALUES: dict[str, Callable[[Row], float]] = {
    "F1": lambda said: said["f1"],
    "answered": lambda said: said["answer"] is not None,
    "right source": lambda said: said["answer"] is not None and said["source"],
    "wrong source": lambda said: said["answer"] is not None and not said["source"],
}


def _change(pairs: Sequence[tuple[Row, Row]], value: Callable[[Row], float]) -> str:
    gains = [value(two) - value(one) for one, two in pairs]
    low, high = interval(gains)
    return f"{fmean(gains):+.3f} [{low:+.3f}, {high:+.3f}]"


def _guessed(found: Sequence[Row]) -> float:
    counts = [row["tokens"] for row in found if row["tokens"]]
    generated = sum(count["generated"] for count in counts)
    return sum(count["guessed"] for count in counts) / generated if generated else 0.0


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
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("USUAL", "OTHER"))
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("sets", nargs="*")
    parser.add_argument("--model", type=Path, metavar="FOLDER")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--mode", choices=MODES, default="usual")
    parser.add_argument("--sources", type=int, default=K)
    parser.add_argument("--own", action="store_true", help="ask of users of the same set alone")
    parser.add_argument("--cache", type=Path, metavar="FOLDER")
    parser.add_argument("--count", type=int, default=200, help="questions of each set")
    return parser.parse_args()


if __name__ == "__main__":
    main()
