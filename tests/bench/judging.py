"""What a language model answers to judged questions, and which of that is let pass.

`python -m tests.bench.judging record QUESTIONS.jsonl OUT.pkl --data DIR --file MODEL.gguf` has llama.cpp answer over
the evidence that pkb retrieves, of which it sees the `--sources` best in at most `--most` characters; an interrupted
run goes on. `report OUT.pkl VERDICTS` counts, by a file with the id of a question and R (right) or W (wrong) in each
line, the wrong answers in words that are caught and the right ones that are lost: by the check of words, and by the
reader.
"""

import json
import pickle
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from engine.app import Pkb
from engine.ask.keys import begin, gather_context
from engine.ask.semantic import judge_of
from engine.llm.generate import cite, parse
from engine.llm.prompt import PromptChunk, candidates, chunk_segment, in_document_order, question_segment
from engine.models.minilm import SpanReader
from engine.text.question import Question
from engine.types import AskOptions, Evidence
from prompts import prompt
from tests.bench.judged import read_lines, wilson
from tests.engine.models.served import LlamaServer

NOW = datetime(2026, 11, 27, 14, tzinfo=UTC)
LEAST = 0.5
Record = tuple[str, Question, Evidence, tuple[int, ...], str]  # its id, what was shown, and what was written


def evidence(asked: Sequence[dict[str, Any]], data: Path) -> Iterator[tuple[str, Question, Evidence]]:
    """Yield each question as it is understood, with what pkb retrieves for it; one home a folder."""
    for folder, group in groupby(sorted(asked, key=lambda one: str(one["folder"])), key=lambda one: str(one["folder"])):
        with tempfile.TemporaryDirectory() as home, Pkb(home) as pkb:
            pkb.session.override("model.name", "quote")
            pkb.ingest([data / folder], embed=False)
            for one in group:
                opened = pkb.session
                found = gather_context(
                    opened.backend, begin(opened.backend, opened.ledger, one["question"], AskOptions(), NOW)
                )
                yield one["id"], found.question, found.evidence


def record(asked: Namespace) -> None:
    """Have a model answer, and keep each answer."""
    done: list[Record] = pickle.loads(asked.out.read_bytes()) if asked.out.exists() else []
    server, known = LlamaServer(asked.file, context=6144), {one[0] for one in done}
    rest = [one for one in read_lines(asked.questions) if one["id"] not in known]
    for name, question, found in evidence(rest, asked.data.resolve()):
        shown = in_document_order(list(fitting(candidates(found, asked.sources), asked.most)))
        chunks = [chunk_segment(number, one.chunk) for number, one in enumerate(shown, 1)]
        said = chat(server.url, prompt("answer") + "\n", "".join(chunks) + question_segment(question.text, NOW))
        done.append((name, question, found, tuple(one.source for one in shown), said))
        asked.out.write_bytes(pickle.dumps(done))


def fitting(shown: Sequence[PromptChunk], most: int) -> Iterator[PromptChunk]:
    """Yield the first chunks, at least one, that have so many characters together."""
    total = 0
    for one in shown:
        total += len(one.chunk.text)
        if total > most and one is not shown[0]:
            return
        yield one


def chat(url: str, system: str, user: str) -> str:
    """Return what a server's model answers."""
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    body = {"messages": messages, "temperature": 0, "max_tokens": 100, "seed": 0}
    sent = Request(f"{url}/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"})
    with urlopen(sent, timeout=600) as answer:
        return str(json.load(answer)["choices"][0]["message"]["content"])


def report(asked: Namespace) -> None:
    """Print what is caught and lost, and what stands in the place of each answer that is not given."""
    verdicts = dict(line.split() for line in asked.verdicts.read_text("utf-8").splitlines())
    reader, counts = SpanReader(), list[tuple[bool, bool, bool]]()
    for name, question, found, sources, text in pickle.loads(asked.out.read_bytes()):
        said, judge = parse(text), judge_of(question, found, LEAST, reader)
        given = judge(said) if judge else None
        if said.answer is not None and name in verdicts:
            words = cite(said, question.text, found.passages, sources).stands
            counts.append((verdicts[name] == "R", words, given.writer == "model" if given else words))
        if given and given.writer == "quote":
            print(name, "|", question.text, "|", said.answer, "|", given.grade, "|", given.text)
    for label, right in (("wrong, caught", False), ("right, lost", True)):
        some = [(words, own) for is_right, words, own in counts if is_right is right]
        for gate, stands in zip(("words", "reader"), zip(*some, strict=True), strict=True):
            low, high = wilson(stands.count(False), len(some))
            print(f"{label} by the {gate}: {stands.count(False)} of {len(some)} [{low:.2f}, {high:.2f}]")


def main() -> None:
    """Record, or report."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("record")
    one.set_defaults(run=record)
    one.add_argument("questions", type=Path)
    one.add_argument("out", type=Path)
    one.add_argument("--data", type=Path, required=True)
    one.add_argument("--file", type=Path, required=True, help="a GGUF file")
    one.add_argument("--sources", type=int, default=2)
    one.add_argument("--most", type=int, default=1000, help="characters of sources, but one chunk at least")
    two = commands.add_parser("report")
    two.set_defaults(run=report)
    two.add_argument("out", type=Path)
    two.add_argument("verdicts", type=Path)
    asked = parser.parse_args()
    asked.run(asked)


if __name__ == "__main__":
    main()
