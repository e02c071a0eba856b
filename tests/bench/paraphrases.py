"""Paraphrase hits, right and wrong, and lookup times: pkb's semantic tier against cosine alone and GPTCache.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.paraphrases DATA [--sets NAME...] [--vectors FOLDER] [--to FOLDER]`;
with --to it writes FOLDER/paraphrases.json. The first question of each pair is asked, then the second: a hit is wrong
if the two share no gold answer. A set without paraphrases gives near twins with different answers. GPTCache is compared
where this environment has gptcache==0.1.44, faiss-cpu and sqlalchemy, set up as its README does for similar questions,
with pkb's embedder; both store the quote writer's answers. Embedding is left out of the times.
"""

import atexit
import shutil
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from tempfile import mkdtemp
from time import perf_counter
from typing import Any

from engine.ask.extract import write
from engine.ask.keys import (
    PendingQuestion,
    QueryContext,
    Wording,
    fingerprint,
    key,
    normalise,
    reword,
    store_answer,
)
from engine.ask.semantic import SemanticLookup, SemanticRules
from engine.ask.updates import settled
from engine.models.minilm import MiniLM, SpanReader
from engine.retrieval.retrieve import RankWeights, join, retrieve
from engine.settings import BankSettings, Settings
from engine.text.question import Question, understand
from engine.text.time_sensitive import moment
from engine.types import Answer, AskOptions, Evidence, Trace
from store.answers import AnswerBank
from store.database import Ledger, open_ledger
from store.search import Near, QuestionVectors, Reader
from store.types import Scope, Vectors, replace
from tests.bench.home import NOW
from tests.bench.indexed import IndexedUser, golds, load
from tests.bench.metrics import terms
from tests.bench.records import Comparison, write_file
from tests.engine.ask.backend import Unable

SETS = ("paraphrase", "locomo", "qmsum", "clinton-foia")
NEEDED = ("gptcache", "faiss", "sqlalchemy")
K, LEAST, TAU, SETTINGS = 5, 0.5, 0.83, Settings(bank=BankSettings(bytes=1 << 30))
READER = SpanReader()
OVERLAP = 0.6  # least share of common words of near twins
TIMED, ROUNDS = 100, 3  # pairs of each user that are timed, evenly spaced, and how often
RULES = {
    "pkb": SemanticRules(TAU, LEAST, reader=lambda: READER),
    "pkb, tau 0.70": SemanticRules(0.7, LEAST, reader=lambda: READER),
    "pkb, guard alone": SemanticRules(TAU, LEAST, verify=False),
    "cosine 0.85": SemanticRules(0.85, LEAST, guard=False, verify=False),
    "cosine 0.95": SemanticRules(0.95, LEAST, guard=False, verify=False),
}
# GPTCache's threshold is of 4 less the squared distance of unit vectors, as a share of 4; 0.8 is its default.
THRESHOLDS = {"GPTCache": 0.8, "GPTCache, cosine 0.85": 1 - (2 - 2 * TAU) / 4}


@dataclass(frozen=True, slots=True)
class Entry:
    """One question with its row, its vector and evidence, and its own answer."""

    row: dict[str, Any]
    pending: PendingQuestion
    context: QueryContext
    reply: Answer


Pair = tuple[Entry, Entry]


@dataclass(frozen=True, slots=True)
class Cache:
    """An answer cache: `find` returns the text of the question whose answer it would serve."""

    find: Callable[[Entry], str | None]
    put: Callable[[Entry], None]


@dataclass(slots=True)
class Tally:
    """The results of the second questions of all pairs, and the seconds of each lookup."""

    results: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)


def main() -> None:
    """Print a line for each set and cache."""
    options = arguments()
    absent = [name for name in NEEDED if find_spec(name) is None]  # GPTCache would install them itself
    thresholds = {} if absent else THRESHOLDS
    embedder, folder = MiniLM(workers=1), Path(mkdtemp(prefix="pkb-paraphrases-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # GPTCache writes its files at exit
    print(f"{'':38}{'pairs':>7}{'right':>7}{'wrong':>7}{'share':>8}{'median ms':>11}{'p95 ms':>9}")
    rows = list[Comparison]()
    for name in options.sets:
        tallies = {label: Tally() for label in (*RULES, *thresholds)}
        for number, user in enumerate(load(options.data, name, embedder, options.vectors)):
            pairs = paired(entries(user, embedder))
            measure(pairs, caches(folder / name / str(number), user.bank, embedder, thresholds), tallies)
        for label, tally in tallies.items():
            show(f"{name}: {label}", tally)
        rows += compared(name, tallies)
    if absent:
        print(f"GPTCache: not measured, {', '.join(absent)} not installed here")
    if options.to:
        write_file(options.to / "paraphrases.json", rows)


def arguments() -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--vectors", type=Path)
    parser.add_argument("--to", type=Path)
    return parser.parse_args()


def entries(user: IndexedUser, embedder: MiniLM) -> list[Entry]:
    """Answer every question of a user without a cache."""
    texts = [worded(row["question"]) for row in user.rows]
    about = zip(user.rows, texts, embedder.embed(texts), strict=True)
    return [entry(user, row, text, vector, embedder.fingerprint) for row, text, vector in about]


def worded(question: str) -> str:
    """Return the wording of a question that is embedded and answered, in an archive that knows nobody by name."""
    return reword(question, lambda _: {}).text


def entry(user: IndexedUser, row: dict[str, Any], text: str, vector: Vectors, embedder: str) -> Entry:
    """Retrieve for one question, and quote."""
    question = understand(text, NOW)
    evidence = retrieved(user.bank, question, vector)
    own = key(text, Scope(), "quote", moment(text, NOW, dated=False))
    pending = PendingQuestion(text, AskOptions(), own, 0, NOW, Trace(), Wording(text))
    reply = write(question, evidence, Trace(), LEAST, READER)
    read = fingerprint(evidence, "quote")
    return Entry(row, pending, QueryContext(question, vector, embedder, evidence, read), reply)


def retrieved(index: Reader, question: Question, vector: Vectors | None) -> Evidence:
    """Return the evidence for a question."""
    passages = tuple(join(retrieve(index, vector, question, Scope(), RankWeights()), K))
    chunks = tuple(chunk.id for passage in passages for chunk in passage.chunks)
    return settled(question, Evidence(passages, chunks, index.totals().covered))


def paired(known: Sequence[Entry]) -> list[Pair]:
    """Return the paraphrases of a set; without any, near twins with other gold answers, the nearest first."""
    by_id = {one.row["id"]: one for one in known}
    same = [(by_id[of], one) for one in known if (of := one.row.get("paraphrase_of")) in by_id]
    return same or list(_twins(known))


def _twins(known: Sequence[Entry]) -> Iterator[Pair]:
    bags = [(one, set(terms(one.pending.text))) for one in known]
    near = [(len(x & y) / len(x | y), a, b) for a, x in bags if not a.row.get("unanswerable") for b, y in bags if x & y]
    taken = set[str]()
    for share, a, b in sorted(near, key=lambda one: -one[0]):
        other = normalise(a.pending.text) != normalise(b.pending.text) and not golds(a.row) & golds(b.row)
        if share >= OVERLAP and other and taken.isdisjoint((a.row["id"], b.row["id"])):
            taken |= {a.row["id"], b.row["id"]}
            yield a, b


def caches(folder: Path, index: Reader, embedder: MiniLM, thresholds: Mapping[str, float]) -> dict[str, Cache]:
    """Make an empty cache of each kind."""
    for label in (*RULES, *thresholds):
        (folder / label).mkdir(parents=True)
    own = {label: pkb(folder / label, rules, index, embedder) for label, rules in RULES.items()}
    return own | {label: gptcache(folder / label, least, embedder.width) for label, least in thresholds.items()}


class _Embedded(Unable):
    """Has the vectors of cached questions and the evidence of each, and takes every answer for entailed."""

    def __init__(self, questions: QuestionVectors, index: Reader, evidence: Mapping[tuple[str, ...], Evidence]) -> None:
        self._questions, self._index, self._evidence = questions, index, evidence

    def question_vectors(self) -> QuestionVectors:
        return self._questions

    def reread(self, read: Sequence[str], scores: Sequence[float]) -> Evidence:
        return self._evidence[tuple(read)]

    def retrieve(self, question: Question, vector: Vectors | None, options: AskOptions, trace: Trace) -> Evidence:
        return retrieved(self._index, question, vector)


@dataclass(frozen=True, slots=True)
class OwnBank:
    """An answer cache of pkb's, looked up by some rules."""

    ledger: Ledger
    questions: QuestionVectors
    rules: SemanticRules
    index: Reader
    evidence: dict[tuple[str, ...], Evidence] = field(default_factory=dict)

    def lookup(self) -> SemanticLookup:
        """Return what looks up questions."""
        return SemanticLookup(_Embedded(self.questions, self.index, self.evidence), self.ledger, self.rules)

    def find(self, lookup: SemanticLookup, one: Entry) -> Near | None:
        """Return the question whose answer is served."""
        return lookup.find(replace(one.pending, generation=self.ledger.generation, trace=Trace()), one.context)

    def put(self, one: Entry) -> None:
        """Store the answer of a question."""
        asked = replace(one.pending, generation=self.ledger.generation)
        self.evidence[one.context.read] = one.context.evidence
        store_answer(AnswerBank(self.ledger), SETTINGS, asked, one.context, one.reply)


def own_bank(folder: Path, rules: SemanticRules, index: Reader, embedder: MiniLM) -> OwnBank:
    """Make an empty answer cache of pkb's."""
    ledger = open_ledger(folder / "ledger.db", create=True)
    return OwnBank(ledger, QuestionVectors(ledger, embedder.fingerprint, embedder.width), rules, index)


def pkb(folder: Path, rules: SemanticRules, index: Reader, embedder: MiniLM) -> Cache:
    """Make an empty cache of pkb's, to be compared with others."""
    bank = own_bank(folder, rules, index, embedder)
    lookup = bank.lookup()

    def find(one: Entry) -> str | None:
        found = bank.find(lookup, one)
        return found.answer.question if found else None

    return Cache(find, bank.put)


def gptcache(folder: Path, least: float, width: int) -> Cache:
    """Make an empty GPTCache; its answers begin with their question, which tells whose answer it serves."""
    api, manager = import_module("gptcache.adapter.api"), import_module("gptcache.manager")
    vectors: dict[str, Vectors] = {}
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
        assert one.context.vector is not None
        vectors[one.pending.text] = one.context.vector
        found = api.get(one.pending.text, cache_obj=held)
        return found.partition("\n")[0] if found else None

    def put(one: Entry) -> None:
        if one.reply.text is not None:
            api.put(one.pending.text, f"{one.pending.text}\n{one.reply.text}", cache_obj=held)

    return Cache(find, put)


def measure(pairs: Sequence[Pair], compared: Mapping[str, Cache], tallies: Mapping[str, Tally]) -> None:
    """Ask the first question of each pair, time the lookups of the second ones by turns, then ask those."""
    for cache in compared.values():
        for first, _ in pairs:
            if cache.find(first) is None:
                cache.put(first)
    timed = pairs[:: max(1, len(pairs) // TIMED)]
    times: dict[str, list[list[float]]] = {label: [[] for _ in timed] for label in compared}
    for _ in range(ROUNDS):
        for place, (_, second) in enumerate(timed):
            for label, cache in compared.items():
                began = perf_counter()
                cache.find(second)
                times[label][place].append(perf_counter() - began)
    for label, cache in compared.items():
        tallies[label].seconds += map(median, times[label])
        tallies[label].results.update(results(pairs, cache))


def results(pairs: Sequence[Pair], cache: Cache) -> Iterator[str]:
    """Ask the second question of each pair, and judge the hit."""
    by_text = {one.pending.text: golds(one.row) for pair in pairs for one in pair}
    for _, second in pairs:
        found = cache.find(second)
        if found is None:
            cache.put(second)
        yield "miss" if found is None else "right" if by_text[found] & golds(second.row) else "wrong"


def show(label: str, tally: Tally) -> None:
    """Print a line."""
    count, times = tally.results.total(), sorted(1000 * each for each in tally.seconds)
    if count:
        right, wrong, late = tally.results["right"], tally.results["wrong"], times[95 * len(times) // 100]
        print(f"{label:38}{count:7}{right:7}{wrong:7}{right / count:8.3f}{median(times):11.3f}{late:9.3f}", flush=True)


def compared(name: str, tallies: Mapping[str, Tally]) -> Iterator[Comparison]:
    """Yield the figures of pkb beside those of every cache that is not pkb's."""
    own = tallies["pkb"]
    for label, tally in tallies.items():
        if not label.startswith("pkb") and (count := tally.results.total()):
            note = f"{count} pairs; embedding left out"
            for end in ("right", "wrong"):
                yield Comparison(label, f"{name}: {end} hits", own.results[end], tally.results[end], "hits", note)
            yield Comparison(label, f"{name}: median lookup", _ms(own), _ms(tally), "ms", note)


def _ms(tally: Tally) -> float:
    return round(1000 * median(tally.seconds), 3)


if __name__ == "__main__":
    main()
