"""Unsafe-served rate: questions that a cache answers, and wrongly, in six regimes, of pkb and of simpler caches.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.unsafe DATA [--sets NAME...] [--every N] [--vectors FOLDER] [--show]`.
The regimes and the rate, a share of all questions, are GroundedCache's (arXiv 2605.27494); the writer quotes. Documents
are ingested and asked about through pkb's engine. What a cache serves is unsafe if the writer, asked past the cache at
that moment, says something else, and no gold answer is in it; for lookalikes, and once documents have changed, the
writer alone counts. "Worse" are those where the writer would have been right. The other caches hold the same writer's
answers and look at no document. GPTCache is measured where its packages are, as in `paraphrases`. With --every, each
N-th question is repeated, and asked again after changes.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, fields
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from engine.app import Pkb
from engine.ask.keys import normalise, same_answer
from engine.models.minilm import MiniLM
from engine.models.types import Embedder
from engine.types import Answer, AskOptions
from store.answers import upper
from store.types import Vectors
from tests.bench import paraphrases, rewordings
from tests.bench.corpus import PUBLIC, folders, rows
from tests.bench.home import NOW
from tests.bench.indexed import golds, load, stored_vectors
from tests.bench.metrics import terms

REPEAT, PARAPHRASE, NEAR, DRIFT, LONG, SMALL = REGIMES = (
    *("exact repeat", "paraphrase", "near miss", "document drift", "long shared document", "small base"),
)
LONGEST = ("locomo", "qmsum")  # sets of long documents that many questions are about
SMALLEST, BASE = ("locomo", "enron-annotated"), 5  # sets that are cut into bases, of so many documents
SHORTEST = 2  # characters of a gold answer that is replaced in a document
PKB, COSINE, EXACT, GPTCACHE = "pkb", f"cosine {paraphrases.TAU}", "exact only", "GPTCache"
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Query:
    """A question; the gold answers as words, empty where only the writer can tell what is right."""

    text: str
    gold: frozenset[tuple[str, ...]] = frozenset()


@dataclass(frozen=True, slots=True)
class Cache:
    """An answer cache that looks at no document."""

    find: Callable[[str], Answer | None]
    put: Callable[[str, Answer], None]


@dataclass(slots=True)
class Tally:
    """What a cache did in one regime; mutable."""

    asked: int = 0
    served: int = 0
    differing: int = 0  # of those, not what the writer says uncached
    unsafe: int = 0  # of those, not right either
    worse: int = 0  # of those, where what the writer says uncached is right, or nobody knows what is


@dataclass(slots=True)
class Remembering:
    """An embedder that computes each text once; mutable."""

    inner: Embedder
    known: dict[str, Vectors] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """Name the weights."""
        return self.inner.fingerprint

    @property
    def width(self) -> int:
        """Return the number of dimensions."""
        return self.inner.width

    def learn(self, texts: Sequence[str], folder: Path | None = None) -> None:
        """Embed texts in advance, or load their vectors where they were stored."""
        self.known.update(zip(texts, stored_vectors(texts, self.inner, folder), strict=True))

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit row per text."""
        self.learn([text for text in dict.fromkeys(texts) if text not in self.known])
        return np.stack([self.known[text] for text in texts]) if texts else self.inner.embed(texts)

    def knows(self, word: str) -> bool:
        """Return that every word is known."""
        return True

    def embed_question(self, text: str) -> Vectors:
        """Return the unit row of a question."""
        row: Vectors = self.embed([text])[0]
        return row


class Home:
    """A user's documents in pkb, and the caches that are compared with it."""

    def __init__(self, pkb: Pkb, embedder: Remembering, caches: Mapping[str, Cache], show: bool) -> None:
        self._pkb, self._caches, self._show = pkb, caches, show
        self.embedder, self.tallies = embedder, dict[tuple[str, str], Tally]()
        self.changed = list[bool]()  # whether the writer says something else once documents have changed
        pkb.session.now, pkb.session.embedder = NOW, embedder

    def ingest(self, *documents: Path) -> None:
        """Read folders or files, and embed what is new; what is gone is removed."""
        self._pkb.ingest(documents, prune=True)

    def ask(self, query: Query, regime: str = "") -> Answer:
        """Ask pkb and look into all caches; returns what the writer says uncached. Tallied if a regime is named."""
        text = " ".join(query.text.split())
        reply = self._answer(text)
        hit = reply.tier in ("exact", "semantic")
        now = self._answer(text, cached=False) if hit else reply
        found = {PKB: reply if hit else None, **{name: cache.find(text) for name, cache in self._caches.items()}}
        for name, served in found.items():
            if regime:
                self._count(name, regime, query, served, now)
            if served is None and name != PKB and now.text is not None:
                self._caches[name].put(text, now)
        return now

    def _answer(self, text: str, *, cached: bool = True) -> Answer:
        session = self._pkb.session
        options = AskOptions(k=session.settings.ask.k, read_bank=cached, write_bank=cached)
        answered = session.asker.ask(text, options, NOW)
        answered.keep()
        return answered.reply

    def _count(self, name: str, regime: str, query: Query, served: Answer | None, now: Answer) -> None:
        tally = self.tallies.setdefault((regime, name), Tally())
        tally.asked += 1
        if served is None:
            return
        tally.served += 1
        if same_answer(served.text, now.text, served.span, now.span):
            return
        tally.differing += 1
        if not holds(served.text or "", query.gold):
            tally.unsafe += 1
            tally.worse += not query.gold or holds(now.text or "", query.gold)
            if name == PKB and self._show:
                about = served.matched_question or served.question
                print(f"{regime}: {query.text} <= {about}\n  served {served.text!r}\n  now    {now.text!r}", flush=True)


def holds(answer: str, gold: frozenset[tuple[str, ...]]) -> bool:
    """Return whether an answer holds the words of a gold answer, in order and together."""
    said = terms(answer)
    places = ((one, at) for one in gold for at in range(len(said) - len(one) + 1))
    return any(said[at : at + len(one)] == one for one, at in places)


def main() -> None:
    """Measure, and print a table."""
    options = arguments()
    absent = [name for name in paraphrases.NEEDED if find_spec(name) is None]
    embedder, tallies, changed = Remembering(MiniLM(workers=1)), dict[tuple[str, str], Tally](), list[bool]()
    with TemporaryDirectory(prefix="pkb-unsafe-") as scratch:
        for number, home in enumerate(measured(options, embedder, Path(scratch), gptcache=not absent)):
            add(tallies, home.tallies)
            changed += home.changed
            print(f"{number + 1} homes, {sum(one.asked for one in tallies.values()):,} look-ups", flush=True)
    print("\n".join(table(tallies)))
    print(f"after changes the writer says something else to {sum(changed)} of {len(changed)} questions")
    if absent:
        print(f"GPTCache: not measured, {', '.join(absent)} not installed here")


def arguments() -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", nargs="+", default=PUBLIC)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--vectors", type=Path)
    parser.add_argument("--show", action="store_true", help="print what pkb served unsafely")
    return parser.parse_args()


@dataclass(frozen=True, slots=True)
class Person:
    """A user of a set: the folder beside whose questions the documents are, the first questions, and lookalikes."""

    corpus: str
    folder: Path
    firsts: tuple[Row, ...]  # each text once
    same: tuple[tuple[str, Row], ...]  # paraphrases, with the row that they ask the same as
    other: tuple[tuple[str, Row], ...]  # lookalikes with other answers, with the row that they look like

    @property
    def texts(self) -> list[str]:
        """Return all questions."""
        found = [row["question"] for row in self.firsts] + [text for text, _ in (*self.same, *self.other)]
        return list(dict.fromkeys(" ".join(text.split()) for text in found))

    def within(self, documents: frozenset[str]) -> "Person":
        """Return the questions that some of the documents answer alone."""
        firsts = [row for row in self.firsts if row.get("doc_ids") and documents.issuperset(row["doc_ids"])]
        ids = {row["id"] for row in firsts}
        same, other = (tuple(one for one in ones if one[1]["id"] in ids) for ones in (self.same, self.other))
        return Person(self.corpus, self.folder, tuple(firsts), same, other)


def person(corpus: str, file: Path, lookalikes: Sequence[Row]) -> Person:
    """Read the questions of a user, and those that were written to look like them."""
    own = list(rows(file))
    by_id = {row["id"]: row for row in own}
    firsts = {row["question"]: row for row in own if row.get("paraphrase_of") not in by_id}
    same = [(row["question"], by_id[row["paraphrase_of"]]) for row in own if row.get("paraphrase_of") in by_id]
    written = [row for row in lookalikes if row["of"] in by_id]
    same += [(row["text"], by_id[row["of"]]) for row in written if row["same"]]
    other = [(row["text"], by_id[row["of"]]) for row in written if not row["same"]]
    return Person(corpus, file.parent, tuple(firsts.values()), tuple(same), tuple(other))


def measured(options: Namespace, embedder: Remembering, scratch: Path, *, gptcache: bool) -> Iterator[Home]:
    """Yield the homes of each user, and of small bases, when their questions were asked."""
    lookalikes = rewordings.rows()
    for name in options.sets:
        files = sorted((options.data / name).rglob("questions.jsonl"))
        for file, user in zip(files, load(options.data, name, embedder.inner, options.vectors), strict=True):
            about = person(name, file, lookalikes)
            vectors = ((f"{hit.chunk.header}\n{hit.chunk.text}", hit.vector) for hit in user.bank.hits)
            embedder.known = {text: vector for text, vector in vectors if vector is not None}
            embedder.learn(about.texts, options.vectors)
            make = partial(opened, embedder=embedder, gptcache=gptcache, show=options.show)
            with TemporaryDirectory(dir=scratch) as folder:
                yield from _asked(make, Path(folder), about, options.every)


def _asked(
    make: Callable[[Path], AbstractContextManager[Home]], folder: Path, about: Person, every: int
) -> Iterator[Home]:
    copies = [copytree(one, folder / "documents" / one.name) for one in folders(about.folder)]
    with make(folder / "whole") as home:
        home.ingest(*copies)
        ask_all(home, about, every)
        drift(home, about, copies, every)
        yield home
    for number, base in enumerate(bases(about) if about.corpus in SMALLEST else ()):
        with make(folder / str(number)) as home:
            home.ingest(*(about.folder / path for path in base))
            ask_small(home, about.within(base))
            yield home


@contextmanager
def opened(folder: Path, embedder: Remembering, *, gptcache: bool, show: bool) -> Iterator[Home]:
    """Open an empty home, with empty caches beside it."""
    folder.mkdir(parents=True)
    caches = {COSINE: by_cosine(embedder), EXACT: by_words()}
    if gptcache:
        caches[GPTCACHE] = by_gptcache(folder, embedder)
    with Pkb(folder / "home") as pkb:
        yield Home(pkb, embedder, caches, show)


def by_words() -> Cache:
    """Make a cache of answers to the same words."""
    known: dict[str, Answer] = {}
    return Cache(lambda text: known.get(normalise(text)), lambda text, answer: known.update({normalise(text): answer}))


def by_cosine(embedder: Embedder) -> Cache:
    """Make a cache of answers to the nearest question, if that is near enough."""
    answers, matrix = list[Answer](), np.zeros((0, embedder.width), np.float32)

    def find(text: str) -> Answer | None:
        if not answers:
            return None
        near = matrix[: len(answers)] @ embedder.embed_question(text)
        best = int(near.argmax())
        return answers[best] if near[best] >= paraphrases.TAU else None

    def put(text: str, answer: Answer) -> None:
        nonlocal matrix
        if len(answers) == len(matrix):
            matrix = np.concatenate([matrix, np.zeros((len(matrix) + 64, embedder.width), np.float32)])
        matrix[len(answers)] = embedder.embed_question(text)
        answers.append(answer)

    return Cache(find, put)


def by_gptcache(folder: Path, embedder: Embedder) -> Cache:
    """Make an empty GPTCache as its README sets it up."""
    (folder / "gptcache").mkdir()
    held = paraphrases.gptcache(folder / "gptcache", paraphrases.THRESHOLDS[GPTCACHE], embedder.width)
    answers: dict[str, Answer] = {}

    def entry(text: str, answer: Answer | None = None) -> paraphrases.Entry:
        parts = {
            "pending": SimpleNamespace(text=text),
            "context": SimpleNamespace(vector=embedder.embed_question(text)),
        }
        return cast(paraphrases.Entry, SimpleNamespace(**parts, reply=answer))

    def find(text: str) -> Answer | None:
        found = held.find(entry(text))
        return answers[found] if found else None

    def put(text: str, answer: Answer) -> None:
        answers[text] = answer
        held.put(entry(text, answer))

    return Cache(find, put)


def ask_all(home: Home, about: Person, every: int) -> None:
    """Ask the first questions, then what looks like them, then some of them once more."""
    before = list[tuple[frozenset[str], Row]]()
    for row in about.firsts:
        bag = frozenset(terms(row["question"]))
        is_near = any(
            len(bag & other) >= paraphrases.OVERLAP * len(bag | other) and _differ(row, one) for other, one in before
        )
        home.ask(Query(row["question"], golds(row)), NEAR if is_near else LONG if about.corpus in LONGEST else "")
        before.append((bag, row))
    for text, row in about.same:
        home.ask(Query(text, golds(row)), PARAPHRASE)
    for text, _ in about.other:
        home.ask(Query(text), NEAR)
    for row in about.firsts[::every]:
        home.ask(Query(row["question"], golds(row)), REPEAT)


def _differ(row: Row, other: Row) -> bool:
    return not golds(row) & golds(other)


def ask_small(home: Home, about: Person) -> None:
    """Ask the questions about a small base, then what looks like them, and them once more."""
    for row in about.firsts:
        home.ask(Query(row["question"], golds(row)), SMALL)
    for text, row in about.same:
        home.ask(Query(text, golds(row)), SMALL)
    for text in [*(text for text, _ in about.other), *(row["question"] for row in about.firsts)]:
        home.ask(Query(text), SMALL)


def bases(about: Person) -> list[frozenset[str]]:
    """Cut a user's documents into small bases, in order of their paths."""
    paths = [path for folder in folders(about.folder) for path in folder.rglob("*") if path.is_file()]
    names = sorted(path.relative_to(about.folder).as_posix() for path in paths)
    return [frozenset(names[at : at + BASE]) for at in range(0, len(names), BASE)]


def drift(home: Home, about: Person, copies: Sequence[Path], every: int) -> None:
    """Change documents by turns (another answer in them, removed, newer ones beside them, none), and ask again.

    Every second question is asked in other words, where there are any.
    """
    files = [path for folder in copies for path in sorted(folder.rglob("*")) if path.is_file()]
    fates = {str(path): number % 4 for number, path in enumerate(files)}
    asked = [(row, home.ask(Query(row["question"]))) for row in about.firsts[::every]]
    for number, (row, before) in enumerate(asked):
        lead = _lead(before)
        other = asked[(number + 1) % len(asked)][0]["answer"] or "nobody knows"
        change(Path(lead), fates.get(lead, 3), row, other, copies[0] / f"2024-05-14 update {number}.txt")
    home.ingest(*copies)
    reworded = {row["id"]: text for text, row in about.same}
    for number, (row, before) in enumerate(asked):
        text = str(reworded.get(row["id"], row["question"]) if number % 2 else row["question"])
        after = home.ask(Query(text), DRIFT)
        if text == row["question"]:
            home.changed.append(not same_answer(before.text, after.text, before.span, after.span))


def _lead(answer: Answer) -> str:
    return answer.sources[answer.lead].path if answer.text and answer.sources else ""


def change(document: Path, fate: int, row: Row, other: str, newer: Path) -> None:
    """Change the document that an answer is from: 0 puts another answer in, 1 removes it, 2 writes one beside it."""
    if fate == 2:
        newer.write_text(f"Ann: {row['question']} That has changed. Now it is: {other}\n", "utf-8")
    elif fate == 1:
        document.unlink(missing_ok=True)
    elif fate == 0:
        text = document.read_bytes()
        for gold in (row["answer"], *row.get("answers", ())):
            if len(gold) >= SHORTEST:
                text = text.replace(gold.encode(), other.encode())
        document.write_bytes(text)


def add(tallies: dict[tuple[str, str], Tally], more: Mapping[tuple[str, str], Tally]) -> None:
    """Add the counts of one home to those of all."""
    for place, one in more.items():
        tally = tallies.setdefault(place, Tally())
        for each in fields(Tally):
            setattr(tally, each.name, getattr(tally, each.name) + getattr(one, each.name))


def table(tallies: Mapping[tuple[str, str], Tally]) -> Iterator[str]:
    """Yield a Markdown table, a row for each regime and cache, and rows for all regimes."""
    yield "| regime | cache | questions | served | not as uncached | unsafe | rate | at most (95 %) | worse |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|---:|"
    whole = dict[tuple[str, str], Tally]()
    for (_, name), one in tallies.items():
        add(whole, {("all", name): one})
    for regime in (*REGIMES, "all"):
        for (own, name), one in {**tallies, **whole}.items():
            if own == regime:
                rate, most = one.unsafe / one.asked, upper(one.unsafe, one.asked)
                served = f"{one.served} ({one.served / one.asked:.3f})"
                yield (
                    f"| {regime} | {name} | {one.asked} | {served} | {one.differing} | {one.unsafe} "
                    f"| {rate:.4f} | {most:.4f} | {one.worse} |"
                )


if __name__ == "__main__":
    main()
