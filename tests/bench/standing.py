"""Questions within one meeting or message, as people ask them with it in view: hits, and answers against gold.

Run `python -m tests.bench.standing DATA [SET...] [--model FOLDER] [--most N] [--listed TEXT]`. Of each user of a set,
the questions marked `standalone: false` are asked within their document, first in a home without idle runs, then in
one whose idle run has answered the standing questions of each document: as new documents come, one by one. Printed is
for both the share of questions answered from the cache, of all questions of the set too; the share that is answered at
all; and of what is answered how well it fits the gold answer, with intervals of 95 %. Of what a header answers, a
recipient counts as right if the answer names them, since the set has a row for each.
"""

import argparse
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from time import perf_counter

from engine.app import Pkb
from engine.session import Session
from engine.settings import PredictSettings
from engine.text.time_sensitive import whole_document_question
from engine.types import AskOptions
from store.types import Scope
from tests.bench.corpus import folders, question
from tests.bench.home import NOW, environment, opened
from tests.bench.metrics import f1, rouge_l, terms
from tests.bench.reading import interval

SETS = ("qmsum", "enron-annotated")


@dataclass(frozen=True, slots=True)
class Asked:
    """One question within its document: what is asked for, and what came of it."""

    aspect: str
    hit: bool
    answered: bool
    f1: float
    rouge: float
    recall: float  # of the words of the gold answer
    ms: float


def main() -> None:
    """Ask each set in both homes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("sets", nargs="*", default=list(SETS))
    parser.add_argument("--model", default="", help="language model; quotes without one")
    parser.add_argument("--most", type=int, default=10**6, help="questions of a user")
    parser.add_argument("--users", nargs="*", help="folders of a set")
    parser.add_argument("--listed", default=PredictSettings().standing, help="the standing questions")
    options = parser.parse_args()
    for name in options.sets:
        files = sorted((options.data / name).rglob("questions.jsonl"))
        files = [file for file in files if not options.users or file.parent.name in options.users]
        every = sum(len(file.read_bytes().splitlines()) for file in files)
        for listed in ("", options.listed):
            found = [one for file in files for one in of_user(file, options.model, listed, options.most)]
            report(f"{name}, {'with standing questions' if listed else 'without'}", found, every)


def of_user(file: Path, model: str, listed: str, most: int) -> Iterator[Asked]:
    """Ask the questions of one user within their documents, after an idle run over all of them."""
    rows = [row for line in file.read_bytes().splitlines() if (row := question(line))]
    rows = [row for row in rows if row.get("standalone") is False and not row.get("gold_error")][:most]
    os.environ.pop("TMPDIR", None)  # loading a model has set it to a home that is deleted now
    with tempfile.TemporaryDirectory() as folder:
        settings = {"model.name": model} if model else {}
        with Pkb(environ={**os.environ, **environment(Path(folder))}) as pkb:
            pkb.index(folders(file.parent))
        with opened(Path(folder), settings | {"predict.standing": listed}) as home:
            document_of = {path: _document(home.session, file.parent / path) for row in rows for path in row["doc_ids"]}
            began, done = perf_counter(), home.idle(["standing"]).units
            print(f"{file.parent.name}: {done} prepared in {perf_counter() - began:.1f} s", flush=True)
            for row in rows:
                if document := document_of[row["doc_ids"][0]]:
                    yield _ask(home.session, row, document)


def _document(session: Session, path: Path) -> str | None:
    places = session.catalogue.places_in(str(path))
    return places[0].document if places else None


def _ask(session: Session, row: dict[str, str], document: str) -> Asked:
    options = AskOptions(Scope(document=document), session.settings.ask.k)
    reply = session.asker.ask(row["question"], options, NOW).reply
    given, gold = terms(reply.text or ""), terms(row["answer"])
    known, asked = frozenset(given), whole_document_question(row["question"])
    recall = fmean(word in known for word in gold) if gold else float(not given)
    return Asked(
        asked.aspect if asked else "other", reply.tier in ("exact", "semantic"), reply.answered, f1(given, gold),
        rouge_l(given, gold), recall, reply.ms["total"],
    )  # fmt: skip


def report(name: str, found: Sequence[Asked], every: int) -> None:
    """Print the figures of a set, and of what is asked for."""
    groups = defaultdict[str, list[Asked]](list)
    for one in found:
        groups["all"].append(one)
        groups[one.aspect].append(one)
    print(f"\n{name}, of {every} questions in all")
    print(f"{'':12}{'n':>4}  hits  of all  answered, from the cache  F1 of answers [95 %]  ROUGE-L  gold words  ms")
    for aspect, several in sorted(groups.items()):
        said = [one for one in several if one.answered]
        hits, low_high = fmean(one.hit for one in several), interval([one.f1 for one in said]) if said else (0.0, 0.0)
        parts = [fmean(getattr(one, part) for one in said) if said else 0.0 for part in ("f1", "rouge", "recall")]
        print(
            f"{aspect:12}{len(several):4}  {hits:.3f}  {sum(one.hit for one in several) / every:.3f}"
            f"  {fmean(one.answered for one in several):.3f}, {fmean(one.hit and one.answered for one in several):.3f}"
            f"  {parts[0]:.3f} [{low_high[0]:.3f}, {low_high[1]:.3f}]  {parts[1]:.3f}  {parts[2]:.3f}"
            f"  {sorted(one.ms for one in several)[len(several) // 2]:.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
