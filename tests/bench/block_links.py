"""Blocks with link tokens against prefix mode: KL and next token along its answer, equal answers and F1.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.block_links DATA OUT SET... --model FOLDER [--plain] [--sources N]
[--count N] [--links N...] [--seconds N]`: questions of the sets in turn, until so many processor seconds are over; a
JSON line for each is added to OUT. A model with a role adapter is shown all sources, not one. `--report OUT` prints the
figures, with 95 % intervals of the change of F1.
"""

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from pathlib import Path
from statistics import fmean
from time import process_time
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from engine.kv.restore import PromptReader
from engine.llm import prompt
from engine.llm.generate import cite, parse, read, segments_of
from engine.llm.prompt import Segments
from engine.llm.stopping import Output
from engine.models import kv_cache
from engine.models.load import movable
from engine.models.mlx import Mlx
from engine.retrieval.retrieve import RankWeights, join, retrieve
from engine.text.question import Question, understand
from engine.types import Answer, Evidence, Trace
from store.types import Scope
from tests.bench.indexed import load
from tests.bench.quoting import NOW
from tests.bench.reading import Asked, graded, interval, open_reader, questions, rows

Rows = NDArray[np.float64]


def main() -> None:
    """Measure, or report."""
    given = _arguments()
    if given.report:
        report(given.out)
        return
    vars(prompt)["_ROLE_SOURCES"] = given.sources  # one source leaves nothing that blocks could not see
    usual = open_reader(given.model, plain=given.plain)
    users = {name: list(load(given.data, name)) for name in given.sets}
    every = [[one for one in questions(name, own, [], given.count) if one.group == "answerable"]
             for name, own in users.items()]  # fmt: skip
    done, begun = {row["name"] for row in rows(given.out)} if given.out.exists() else set(), process_time()
    with given.out.open("a", encoding="utf-8") as file:
        for one in filter(None, chain.from_iterable(zip_longest(*every))):
            if process_time() - begun < given.seconds and one.name not in done:
                file.write(json.dumps(compared(one, usual, given), ensure_ascii=False) + "\n")
                file.flush()


def compared(asked: Asked, usual: PromptReader, given: Namespace) -> dict[str, Any]:
    """Return the row of a question: the usual answer, and that of each number of links against it."""
    question = understand(" ".join(asked.row["question"].split()), NOW)
    passages = tuple(join(retrieve(asked.user.bank, None, question, Scope(), RankWeights()), given.sources))
    evidence = Evidence(passages, tuple(chunk.id for passage in passages for chunk in passage.chunks), 0.0)
    model, found = cast("Mlx", usual.model), dict[str, dict[str, Any]]()
    said, wanted = list[int](), np.zeros((0, 0))
    blocks = [replace(usual, ropes=movable(model), links=links) for links in given.links]
    for name, reader in zip(("usual", *map(str, given.links)), (usual, *blocks), strict=True):
        segments = segments_of(reader, question, evidence, NOW, given.most)
        begun = process_time()
        cache = read(reader, segments.ids[:-1], Trace()).cache
        text = written(model, cache, segments, given.most)
        said = said or model.tokens(text)[: given.most] or [0]
        got = behind(model, cache, segments, said)
        wanted = got if name == "usual" else wanted
        found[name] = of(asked, question, evidence, segments, text) | {
            "kl": float((np.exp(wanted) * (wanted - got)).sum(axis=-1).mean()),
            "same": float((got.argmax(axis=-1) == wanted.argmax(axis=-1)).mean()),
            "seconds": process_time() - begun,
        }
    return {"name": asked.name, "set": asked.set, "found": found}


def written(model: Mlx, cache: Any, segments: Segments, most: int) -> str:
    """Return the answer behind a cache, which is left as it was."""
    from mlx_lm.models.cache import trim_prompt_cache

    output, start = Output(most), kv_cache.length(cache)
    for piece in model.decode(cache, segments.ids[-1], most):
        if not output.add(piece):
            break
    trim_prompt_cache(cache, kv_cache.length(cache) - start)
    return output.close()


def behind(model: Mlx, cache: Any, segments: Segments, said: Sequence[int]) -> Rows:
    """Return the log-probabilities behind the question and behind each token said but the last."""
    import mlx.core as mx
    from mlx_lm.models.cache import trim_prompt_cache

    start, last = kv_cache.length(cache), segments.ids[-1]
    logits = model._rows(cache, mx.array([*last, *said[:-1]]), adapted=True)[0, len(last) - 1 :]
    values = np.array(logits.astype(mx.float32)).astype(np.float64)
    trim_prompt_cache(cache, kv_cache.length(cache) - start)
    values -= values.max(axis=-1, keepdims=True)
    return cast("Rows", values - np.log(np.exp(values).sum(axis=-1, keepdims=True)))


def of(asked: Asked, question: Question, evidence: Evidence, segments: Segments, text: str) -> dict[str, Any]:
    """Return the scores of an answer."""
    said = parse(text)
    cited = cite(said, question.text, evidence.passages, segments.sources)
    lead = (cited.first or 0) if cited.stands else 0
    return graded(asked, evidence, Answer(question.text, said.answer, "full", "model", None, (), {}, lead=lead))


def report(path: Path) -> None:
    """Print the figures of a file."""
    found = [row["found"] for row in rows(path)]
    print(f"n = {len(found)}, F1 of prefix mode {fmean(row['usual']['f1'] for row in found):.3f}")
    for name in list(found[0])[1:]:
        own, gains = [row[name] for row in found], [row[name]["f1"] - row["usual"]["f1"] for row in found]
        low, high = interval(gains)
        equal = fmean(row[name]["answer"] == row["usual"]["answer"] for row in found)
        kl, same, source = (fmean(one[key] for one in own) for key in ("kl", "same", "source"))
        change = f"{fmean(gains):+.3f} [{low:+.3f}, {high:+.3f}]"
        print(f"{name:>4} links: KL {kl:.3f}, same {same:.3f}, equal {equal:.2f}, F1 {change}, source {source:.2f}")


def _arguments() -> Namespace:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--report", action="store_true")
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("sets", nargs="*")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--sources", type=int, default=3)
    parser.add_argument("--count", type=int, default=16)
    parser.add_argument("--most", type=int, default=32)
    parser.add_argument("--links", type=int, nargs="+", default=[0, 8, 16, 32, 64])
    parser.add_argument("--seconds", type=float, default=1000)
    return parser.parse_args()


if __name__ == "__main__":
    main()
