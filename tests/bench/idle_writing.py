"""Questions that a language model with a role adapter predicts at idle, beside those filled into forms.

Run `python -m tests.bench.idle_writing DATA [SET...] --model FOLDER [--count 40] [--chunks 8]`. DATA and sets are those
of tests.bench.quoting. Of each set `count` documents are drawn, always the same, that answer questions; of a longer one
a stretch of `chunks`. For each the product's own functions predict as many questions as one idle run: filled into forms
of the user's questions about other documents, and by the model. A question about the document is hit if its cosine with
a predicted one reaches a threshold.

Intervals are of 95 %, over documents; questions and seconds are medians of a document.
"""

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import fmean, median
from time import perf_counter

from engine.idle.plan import PREDICTION_TOKENS
from engine.idle.predict import AskAbout, Prediction, from_chunks, from_forms, pick, shares
from engine.kv.restore import PromptReader
from engine.llm.generate import ask_about
from engine.models.minilm import MiniLM
from engine.models.types import Embedder
from engine.settings import Experiment
from engine.text.words import FUNCTION_WORDS
from store.types import Hit, Vectors
from tests.bench.indexed import IndexedUser, load
from tests.bench.metrics import terms
from tests.bench.quoting import SETS
from tests.bench.reading import Row, interval, open_with_roles

TAUS = (0.85, 0.7)  # the semantic tier's own threshold, and a lower one
_STRIDE, _HISTORY = Experiment().stride, Experiment().history


@dataclass(frozen=True, slots=True)
class Source:
    """A document that answers questions: some of its chunks, its questions, and those of its user about others."""

    user: IndexedUser
    hits: tuple[Hit, ...]
    rows: tuple[Row, ...]
    past: tuple[str, ...]

    @property
    def gold(self) -> frozenset[str]:
        """Return the words of all gold answers, without function words."""
        return frozenset(word for row in self.rows for word in terms(row["answer"])) - FUNCTION_WORDS


@dataclass(frozen=True, slots=True)
class Writing:
    """What was written about a document: shares that it reached, its length in words or questions, and seconds."""

    shares: tuple[float, ...]
    length: int
    seconds: float


def main() -> None:
    """Print the figures of each set."""
    asked = _arguments()
    embedder, reader = MiniLM(workers=1), open_with_roles(asked.model)
    predict = _asking(reader, PREDICTION_TOKENS)
    for name in asked.sets or SETS:
        found = sources(name, list(load(asked.data, name)), asked.count, asked.chunks)
        print(f"{name}: {len(found)} documents, {sum(len(one.rows) for one in found)} questions about them")
        hits = [f"hit at {tau}" for tau in TAUS]
        show(("predicted", "questions", *hits), [predictions(one, predict, embedder) for one in found])


def sources(name: str, users: Sequence[IndexedUser], count: int, most: int) -> list[Source]:
    """Draw `count` documents of a set that answer questions, always the same, with at most so many chunks of each."""
    every = [one for user in users for one in _sources_of(user, most)]
    return Random(name).sample(every, len(every))[:count]


def _sources_of(user: IndexedUser, most: int) -> Iterator[Source]:
    hits = defaultdict[str, list[Hit]](list)
    for hit in user.bank.hits:
        hits[hit.chunk.document].append(hit)
    for document, paths in user.paths.items():
        about = [row for row in user.rows if not set(paths).isdisjoint(row.get("doc_ids") or ())]
        past = tuple(row["question"] for row in user.rows if row not in about)
        rows = tuple(row for row in about if not row.get("unanswerable"))
        one = Source(user, stretch(hits[document], most), rows, past)
        if one.gold:
            yield one


def stretch(hits: Sequence[Hit], most: int) -> tuple[Hit, ...]:
    """Return at most so many chunks of a document in a row, beginning at a multiple of that, always the same."""
    start = Random(hits[0].chunk.document).randrange(0, len(hits), most)
    return tuple(hits[start : start + most])


def _asking(reader: PromptReader, most: int) -> AskAbout:
    return lambda chunks, said: ask_about(reader, chunks, said, most, lambda: None)


def predictions(source: Source, ask: AskAbout, embedder: Embedder) -> dict[str, Writing]:
    """Return the questions about a document that idle predicts without a model, those by it, and all it predicts."""
    real = embedder.embed([row["question"] for row in source.rows])
    forms, forms_s = predicted(
        source, ["history/form"], lambda: from_forms(source.hits, source.past[-_HISTORY:], lambda: False)
    )
    model, model_s = predicted(source, ("chunks/model",), lambda: from_chunks(source.hits[:_STRIDE], _STRIDE, ask))
    found = {"forms": (forms, forms_s), "model": (model, model_s), "both": (forms + model, forms_s + model_s)}
    return {
        label: Writing(hit(real, embedder.embed(texts)), len(texts), seconds)
        for label, (texts, seconds) in found.items()
    }


def predicted(
    source: Source, names: Sequence[str], predict: Callable[[], Sequence[Prediction]]
) -> tuple[list[str], float]:
    """Predict questions about a document and choose among them as an idle run does; returns them, and the seconds."""
    began = perf_counter()
    chosen = pick(predict(), shares(names, {}, _STRIDE), source.past, lambda _: False)
    return [one.question for one in chosen], perf_counter() - began


def hit(real: Vectors, guessed: Vectors) -> tuple[float, ...]:
    """Return the share of real questions whose cosine with a predicted one reaches each threshold."""
    nearest = [max(row, default=0.0) for row in (real @ guessed.T).tolist()]
    return tuple(fmean(cosine >= tau for cosine in nearest) for tau in TAUS)


def show(columns: Sequence[str], found: Sequence[Mapping[str, Writing]]) -> None:
    """Print a line for each writer."""
    what, length, *reached = columns
    print(f"  {what:20}{'n':>4}  " + "".join(f"{name:20}" for name in reached) + f"{length:>9}{'seconds':>10}")
    for label in found[0] if found else ():
        each = [one[label] for one in found]
        means = "".join(f"{_mean(values):20}" for values in zip(*(one.shares for one in each), strict=True))
        words, seconds = median(one.length for one in each), median(one.seconds for one in each)
        print(f"  {label:20}{len(each):4}  {means}{words:9.0f}{seconds:10.3f}", flush=True)


def _mean(values: Sequence[float]) -> str:
    low, high = interval(values)
    return f"{fmean(values):.2f} [{low:.2f}, {high:.2f}]"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.idle_writing",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("sets", nargs="*")
    parser.add_argument("--model", type=Path, required=True, metavar="FOLDER", help="a model with a role adapter")
    parser.add_argument("--count", type=int, default=40, help="documents of each set")
    parser.add_argument("--chunks", type=int, default=8, help="most chunks of a document")
    return parser.parse_args()


if __name__ == "__main__":
    main()
