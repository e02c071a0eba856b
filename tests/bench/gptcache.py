"""The semantic tier against GPTCache on the same pairs in one process: true and false hits, lookup time.

Run `python -m tests.bench.gptcache DATA [--sets NAME...] [--vectors FOLDER]` with OPENBLAS_NUM_THREADS=1 and
OMP_NUM_THREADS=1, in a virtual environment of its own that sees this one's packages and has gptcache==0.1.44,
faiss-cpu and sqlalchemy. GPTCache is set up as its README does for similar questions, with our embedder, and both are
given the quote writer's answers.
"""

import atexit
import shutil
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from tempfile import mkdtemp
from time import perf_counter
from typing import Any

from engine.ask.extract import Quote, write
from engine.ask.keys import key
from engine.ask.prepare import BankBudget, PendingQuestion, QueryContext, store_answer
from engine.ask.semantic import SemanticLookup, SemanticRules
from engine.models.minilm import MiniLM
from engine.retrieval.retrieve import RetrievalLimits, retrieve
from engine.text.question import Question, understand
from engine.text.time_sensitive import is_time_sensitive
from engine.types import Answer, AskOptions, Evidence, Trace
from store.answers import AnswerBank
from store.database import open_ledger
from store.hits import Vectors
from store.question_index import QuestionVectors
from store.types import Scope
from tests.bench.hits import LEAST, NOW, SETS, Case, K, paired, rows
from tests.bench.metrics import terms
from tests.bench.retrieval import User, load
from tests.engine.ask.backend import Unable

NEEDED = ("gptcache", "faiss", "sqlalchemy")
TAU, ROOM = 0.85, BankBudget(1 << 30, 5)
TIMED, ROUNDS = 100, 5  # pairs of each user that are timed, evenly spaced, and how often
AS_README = 0.8  # its default threshold: the squared distance of unit vectors, taken from 4, is at least 0.8 of 4
RULES = {
    "pkb": SemanticRules(TAU, LEAST),
    "pkb, not verified": SemanticRules(TAU, LEAST, evidence=False, verify=False),
    "pkb, cosine alone": SemanticRules(TAU, LEAST, guard=False, evidence=False, verify=False),
}
THRESHOLDS = {"GPTCache": AS_README, "GPTCache, cosine 0.85": 1 - (2 - 2 * TAU) / 4}


@dataclass(frozen=True, slots=True)
class Entry:
    """One question, what was read for it, and its own answer."""

    case: Case
    ask: PendingQuestion
    asked: QueryContext
    reply: Answer


@dataclass(frozen=True, slots=True)
class Cache:
    """What answers questions from others: `find` gives the text of the question that an answer was kept under."""

    find: Callable[[Entry], str | None]
    keep: Callable[[Entry], None]


@dataclass(slots=True)
class Tally:
    """What became of the second questions of all pairs, and the seconds that looking for each took."""

    ends: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)


def main() -> None:
    """Print a line for each set and cache; one sentence where GPTCache is not here."""
    options = arguments()
    absent = [name for name in NEEDED if find_spec(name) is None]  # it would install them by itself
    if absent:
        print(f"not measured: {', '.join(absent)} not installed here")
        return
    embedder, folder = MiniLM(workers=1), Path(mkdtemp(prefix="pkb-gptcache-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # GPTCache writes its files once more at exit, before
    print(f"{'':38}{'pairs':>7}{'right':>7}{'wrong':>7}{'share':>8}{'median ms':>11}{'p95 ms':>9}")
    for name in options.sets:
        tallies = {label: Tally() for label in (*RULES, *THRESHOLDS)}
        for file in sorted((options.data / name).rglob("questions.jsonl")):
            known = entries(load(file, embedder, options.vectors), rows(file), embedder)
            pairs = [(known[a.row["id"]], known[b.row["id"]]) for a, b in paired(one.case for one in known.values())]
            measure(pairs, caches(folder / name / file.parent.name, embedder), tallies)
        for label, tally in tallies.items():
            show(f"{name}: {label}", tally)


def arguments() -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--vectors", type=Path)
    return parser.parse_args()


def entries(user: User, asked: Sequence[dict[str, Any]], embedder: MiniLM) -> dict[str, Entry]:
    """Ask every question of a user as if nothing were kept; returns them by id."""
    texts = [" ".join(row["question"].split()) for row in asked]
    vectors = embedder.embed(texts)
    about = zip(asked, texts, vectors, strict=True)
    return {row["id"]: entry(user, row, text, vector, embedder.fingerprint) for row, text, vector in about}


def entry(user: User, row: dict[str, Any], text: str, vector: Vectors, embedder: str) -> Entry:
    """Retrieve for one question, and answer it."""
    question = understand(text, NOW)
    found = retrieve(user.bank, vector, question, Scope(), K, RetrievalLimits())
    chunks = tuple(chunk.id for passage in found.passages for chunk in passage.chunks)
    evidence = Evidence(found.passages, chunks, found.covered)
    reply = write(question, evidence, Trace(), LEAST).reply
    golds = frozenset(map(terms, (row["answer"], *row.get("answers", ()), *row.get("aliases", ())))) - {()}
    said = Quote(reply.text, None, None, (), 0.0)
    case = Case(row, golds, question, vector, evidence.passages, evidence.chunks, said)
    own = key(text, Scope(), "quote", NOW, calendar=is_time_sensitive(text))
    return Entry(
        case,
        PendingQuestion(text, AskOptions(), own, 0, NOW, Trace()),
        QueryContext(question, vector, embedder, evidence),
        reply,
    )


def caches(folder: Path, embedder: MiniLM) -> dict[str, Cache]:
    """Make all that are compared, each with files of its own."""
    for label in (*RULES, *THRESHOLDS):
        (folder / label).mkdir(parents=True)
    ours = {label: our_own(folder / label, rules, embedder) for label, rules in RULES.items()}
    return ours | {label: gptcache(folder / label, least, embedder.width) for label, least in THRESHOLDS.items()}


class _Embedded(Unable):
    """Has the vectors of cached questions, and takes every answer for entailed."""

    def __init__(self, questions: QuestionVectors) -> None:
        self._questions = questions

    def question_vectors(self) -> QuestionVectors:
        return self._questions

    def entails(self, question: Question, evidence: Evidence, answer: str, trace: Trace) -> bool:
        return True


def our_own(folder: Path, rules: SemanticRules, embedder: MiniLM) -> Cache:
    """Make an empty bank."""
    ledger = open_ledger(folder / "ledger.db", create=True)
    bank, questions = AnswerBank(ledger), QuestionVectors(ledger, embedder.fingerprint, embedder.width)
    similar = SemanticLookup(_Embedded(questions), ledger, rules)

    def find(one: Entry) -> str | None:
        found = similar.find(replace(one.ask, generation=ledger.generation, trace=Trace()), one.asked)
        return found.answer.question if found else None

    def keep(one: Entry) -> None:
        store_answer(bank, ROOM, replace(one.ask, generation=ledger.generation), one.asked, one.reply)

    return Cache(find, keep)


def gptcache(folder: Path, least: float, width: int) -> Cache:
    """Set GPTCache up; what it is given as the answer begins with its question, to tell whose it gives."""
    api, manager = import_module("gptcache.adapter.api"), import_module("gptcache.manager")
    vectors: dict[str, Vectors] = {}  # embedding a question takes both the same time: it is left out of both
    texts = manager.CacheBase("sqlite", sql_url=f"sqlite:///{folder}/sqlite.db")
    index = manager.VectorBase("faiss", dimension=width, index_path=f"{folder}/faiss.index")
    held = api.Cache()
    held.init(
        pre_embedding_func=api.get_prompt,
        embedding_func=lambda text, **_: vectors[text],
        data_manager=manager.get_data_manager(texts, index, max_size=1 << 20),
        similarity_evaluation=api.SearchDistanceEvaluation(),
        config=api.Config(similarity_threshold=least),
    )

    def find(one: Entry) -> str | None:
        vectors[one.ask.text] = one.case.vector
        found = api.get(one.ask.text, cache_obj=held)
        return found.partition("\n")[0] if found else None

    def keep(one: Entry) -> None:
        if one.reply.text is not None:
            api.put(one.ask.text, f"{one.ask.text}\n{one.reply.text}", cache_obj=held)

    return Cache(find, keep)


def measure(pairs: Sequence[tuple[Entry, Entry]], compared: dict[str, Cache], tallies: dict[str, Tally]) -> None:
    """Ask the first of each pair, then time looking for each of the second by turns, then ask them."""
    by_text = {one.ask.text: one for pair in pairs for one in pair}
    for cache in compared.values():
        for first, _ in pairs:
            if cache.find(first) is None:
                cache.keep(first)
    timed = pairs[:: max(1, len(pairs) // TIMED)]
    times: dict[str, list[list[float]]] = {label: [[] for _ in timed] for label in compared}
    for _ in range(ROUNDS):
        for place, (_, second) in enumerate(timed):
            for label, cache in compared.items():
                times[label][place].append(seconds(partial(cache.find, second)))
    for label, cache in compared.items():
        tallies[label].seconds += map(median, times[label])
        tallies[label].ends.update(ends(pairs, cache, by_text))


def ends(pairs: Sequence[tuple[Entry, Entry]], cache: Cache, by_text: dict[str, Entry]) -> Iterator[str]:
    """Ask the second of each pair, and judge: a hit is wrong where the two questions share no gold answer."""
    for _, second in pairs:
        found = cache.find(second)
        if found is None:
            cache.keep(second)
        yield "miss" if found is None else "right" if by_text[found].case.golds & second.case.golds else "wrong"


def seconds(fact: Callable[[], object]) -> float:
    """Time one deed."""
    began = perf_counter()
    fact()
    return perf_counter() - began


def show(label: str, tally: Tally) -> None:
    """Print a line."""
    count, times = tally.ends.total(), sorted(1000 * each for each in tally.seconds)
    if not count:
        return
    right, wrong, late = tally.ends["right"], tally.ends["wrong"], times[95 * len(times) // 100]
    print(f"{label:38}{count:7}{right:7}{wrong:7}{right / count:8.3f}{median(times):11.3f}{late:9.3f}", flush=True)


if __name__ == "__main__":
    main()
