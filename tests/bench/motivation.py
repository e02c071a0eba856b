"""How similar one person's questions are: PerCache's motivation (figures 2, 3, 5, 6) on given corpora.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.motivation --to FOLDER [--data DATA] [--corpora NAME...] [--users N]`;
it writes FOLDER/motivation.json. Documents are ingested and retrieved from as pkb does, five sources a question, and
nothing is answered. Users are never mixed: what is told of a corpus is over the questions of all of them.
"""

import json
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import numpy as np

from engine.llm.prompt import candidates, in_document_order
from engine.text.question import understand
from engine.types import AskOptions, Trace
from store.hits import Vectors
from tests.bench import overlap
from tests.bench.corpora import CORPORA, users
from tests.bench.corpus import Query, User, same
from tests.bench.homes import opened, pkb
from tests.bench.living import DATA, NOW

PARTS = 10  # of a stream, and of the chunks
STEPS = 20  # from a cosine of 0 to one of 1
OVER_TIME = "tenths of the questions asked"
TITLES = {  # of each curve: what it shows, what the number of a value is, what the value is; with the paper's figure
    "similar": ("Questions with an earlier one so near (2)", "cosine, in twentieths", "share of questions"),
    "same_answer": (
        "The same, where the nearest has the same answer (2)",
        "cosine, in twentieths",
        "share of questions",
    ),
    "frequency": ("How retrievals fall on chunks (3)", "tenths of the retrieved chunks", "share of retrievals"),
    "overlap": ("Chunks that an earlier prompt begins with (5)", OVER_TIME, "share of a prompt"),
    "anywhere": ("Chunks that earlier prompts have anywhere (5)", OVER_TIME, "share of a prompt"),
    "evidence": ("Questions whose best chunk was retrieved before (6)", OVER_TIME, "share of questions"),
}
Figures = dict[str, tuple[float, ...]]  # by the keys of TITLES


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, its unit vector, and its chunks as its prompt shows them; `first` is the one that fits best."""

    query: Query
    vector: Vectors
    chunks: tuple[str, ...]
    first: str | None


Stream = Sequence[Asked]


def main() -> None:
    """Go through the corpora, write, and print."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--corpora", nargs="+", default=CORPORA, choices=CORPORA)
    parser.add_argument("--users", type=int, default=None, help="of each corpus, at most")
    options = parser.parse_args()
    found, questions = dict[str, Figures](), dict[str, int]()
    for name in options.corpora:
        with TemporaryDirectory(prefix="pkb-motivation-") as scratch:
            chosen = users(name, options.data, Path(scratch, "corpus"))[: options.users]
            if chosen:
                streams = [asked(user, Path(scratch, user.name)) for user in chosen]
                found[name], questions[name] = figures(streams), sum(map(len, streams))
                print(f"\n{name}: {questions[name]} questions of {len(chosen)} users\n{shown(found[name])}", flush=True)
    write(options.to, found, questions)


def write(folder: Path, found: Mapping[str, Figures], questions: Mapping[str, int]) -> Path:
    """Write the curves of all corpora."""
    folder.mkdir(parents=True, exist_ok=True)
    titles = {kind: dict(zip(("title", "x", "y"), words, strict=True)) for kind, words in TITLES.items()}
    path = folder / "motivation.json"
    path.write_text(json.dumps({"corpora": found, "titles": titles, "questions": questions}, indent=1), "utf-8")
    return path


def asked(user: User, folder: Path) -> list[Asked]:
    """Ingest a user's documents, and retrieve for the questions in turn."""
    done = pkb(folder, "ingest", *map(str, user.folders))
    assert done.returncode in (0, 3), done.stderr
    session = opened(folder)
    vectors = session.embedder.embed([query.text for query in user.queries])
    found = list[Asked]()
    for query, vector in zip(user.queries, vectors, strict=True):
        evidence = session.backend.retrieve(understand(query.text, NOW), vector, AskOptions(), Trace())
        chunks = tuple(one.chunk.id for one in in_document_order(candidates(evidence)))
        first = evidence.passages[0].chunks[0].id if evidence.passages else None
        found.append(Asked(query, vector, chunks, first))
    session.ledger.close()
    return found


def figures(streams: Sequence[Stream]) -> Figures:
    """Return the curves over the streams of some users, at least one question in all."""
    near = [pair for stream in streams for pair in nearest(stream)]
    lists = [[one.chunks for one in stream] for stream in streams]
    return {
        "similar": reached([cosine for cosine, _ in near], len(near)),
        "same_answer": reached([cosine for cosine, agrees in near if agrees], len(near)),
        "frequency": hottest([count for own in lists for count in frequencies(own)]),
        "overlap": along([list(overlap.prefix_overlap(own)) for own in lists]),
        "anywhere": along([list(overlap.seen_before(own)) for own in lists]),
        "evidence": along([list(known(stream)) for stream in streams]),
    }


def nearest(stream: Stream) -> Iterator[tuple[float, bool]]:
    """Yield each question's cosine to the nearest earlier one, and whether that one's answer is its own too.

    The first has none, and a cosine of 0.
    """
    matrix = np.array([one.vector for one in stream])
    for place, one in enumerate(stream):
        if not place:
            yield 0.0, False
            continue
        cosines = matrix[:place] @ one.vector
        at = int(cosines.argmax())
        yield float(cosines[at]), same(one.query, stream[at].query)


def reached(cosines: Sequence[float], whole: int) -> tuple[float, ...]:
    """Return the shares of so many questions whose cosine reaches each step up to 1, but for rounding."""
    return tuple(sum(cosine >= step / STEPS - 1e-6 for cosine in cosines) / whole for step in range(1, STEPS + 1))


def frequencies(lists: Iterable[Sequence[str]]) -> list[int]:
    """Count how many questions retrieved each chunk."""
    counts = dict[str, int]()
    for chunk in (chunk for chunks in lists for chunk in set(chunks)):
        counts[chunk] = counts.get(chunk, 0) + 1
    return list(counts.values())


def known(stream: Stream) -> Iterator[float]:
    """Tell of each question whether an earlier one retrieved the chunk that fits it best."""
    seen = set[str]()
    for one in stream:
        yield float(one.first in seen)
        seen.update(one.chunks)


def hottest(counts: Sequence[int]) -> tuple[float, ...]:
    """Return the share of retrievals that fall on each tenth of the chunks and those before it, the hottest first."""
    ordered, whole = sorted(counts, reverse=True), max(1, sum(counts))
    return tuple(sum(ordered[: -(-len(ordered) * part // PARTS)]) / whole for part in range(1, PARTS + 1))


def along(streams: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Return the mean over each tenth of the streams, of fewer parts where all streams are shorter than that."""
    parts = min(PARTS, max(map(len, streams)))
    values: list[list[float]] = [[] for _ in range(parts)]
    for stream in streams:
        for place, value in enumerate(stream):
            values[place * parts // len(stream)].append(value)
    return tuple(map(fmean, values))


def shown(found: Figures) -> str:
    """Return each curve in two lines."""
    rows = ((*TITLES[kind][:2], "".join(f"{value:6.3f}" for value in values)) for kind, values in found.items())
    return "\n".join(f"  {title}, over {across}\n    {cells}" for title, across, cells in rows)


if __name__ == "__main__":
    main()
