"""Whether a prompt cache changes answers: the same prompts cold, warm, behind other prompts, and after a restart.

Usage: python -m tests.bench.coldwarm pkb --model FOLDER_OR_NAME
       python -m tests.bench.coldwarm URL[#MODEL] --start "COMMAND that serves there"

Asks greedily, and compares each answer with the cold one: tokens, and log-probabilities of the likeliest of each place.
With --start a server is started anew before each cold prompt; without it cold prompts are sent with `cache_prompt:
false`, which llama.cpp knows, else cold means the first request. Ends with 1 if an answer differs. `pkb` is its engine,
each time in a new process over a home whose KV cache is empty, or over the same home for a restart.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from engine.kv.restore import PromptReader, keep, prefill
from engine.models.mlx import Mlx
from engine.models.served import Refused, ServerClient, as_count, as_dict, describe, parse_endpoint
from engine.models.types import Ids, spelled
from engine.session import session
from engine.settings import save
from engine.types import Trace
from store.errors import PkbError
from tests.bench.home import environment
from tests.bench.judged import wilson
from tests.bench.synthetic import world
from tests.store.kv_kit import run_python

DOCUMENTS, PROMPTS, TOKENS = (1, 2, 4, 8), 8, 32  # documents of a prompt, by turns; tokens of an answer
TOP = 8  # tokens of each place whose log-probabilities are compared
SYSTEM = "Answer the question from the messages below.\n"
OTHER = "Question: Who wrote the first message?\nAnswer:"
PATIENCE_S = 120.0  # for a server to start
SLOT = "coldwarm.bin"  # where llama.cpp keeps a slot over a restart, if it may
EXTRAS = ("cache_prompt", "chat_template_kwargs", "seed")  # that a strict server may refuse
SCORES = ("logprobs", "top_logprobs")


@dataclass(frozen=True, slots=True)
class Case:
    """One prompt in parts."""

    system: str
    documents: tuple[str, ...]
    question: str

    @property
    def segments(self) -> tuple[str, ...]:
        """Return the texts of the prompt behind the system message, one for each document and the question."""
        return (*(f"[{number}]\n{text}\n" for number, text in enumerate(self.documents, 1)), self.question)


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer; by place the log-probabilities of the likeliest tokens, if known, and token counts of the prompt."""

    text: str
    tops: tuple[Mapping[str, float], ...] = ()
    prompt: int | None = None
    reused: int | None = None

    @property
    def tokens(self) -> tuple[str, ...]:
        """Return the likeliest token of each place."""
        return tuple(max(top, key=top.__getitem__) for top in self.tops)


@dataclass(frozen=True, slots=True)
class Difference:
    """How an answer differs from the cold one: the first token, from 0, and the largest gap of log-probabilities.

    Gaps count up to the first token that differs; where no log-probabilities are known, that is the first character.
    `reused` is the share of the prompt's tokens that was not computed.
    """

    condition: str
    prompt: int | None
    first: int | None
    gap: float | None
    reused: float | None


class Subject(Protocol):
    """What is asked."""

    def fresh(self) -> bool:
        """Start with nothing cached; False if that cannot be done."""

    def restart(self) -> bool:
        """Start again with what is kept over a restart; False if that cannot be done."""

    def ask(self, case: Case, *, cached: bool = True) -> Reply:
        """Return the greedy answer to a prompt."""


def cases(count: int, documents: Sequence[int]) -> list[tuple[Case, str]]:
    """Return prompts of generated mail, each with one more document; no two begin alike."""
    found = list[tuple[Case, str]]()
    for number in range(count):
        made, rng = world(number), Random(number)
        texts = [text for path, text in made.documents.items() if path.startswith("mail/")]
        *shown, spare = rng.sample(texts, documents[number % len(documents)] + 1)
        told = next(fact for fact in made.facts if made.documents[fact.document] in shown)
        question = f"Question: {told.kind.asked[0].format(it=told.thing)}\nAnswer:"
        found.append((Case(f"{number}: {SYSTEM}", tuple(shown), question), spare))
    return found


def partners(case: Case, spare: str) -> dict[str, Case]:
    """Return prompts that share a part with this one, to be asked before it, by the name of the condition."""
    *before, last = case.documents
    edited = last[: len(last) // 2] + spare[len(spare) // 2 :]
    lists = {
        "behind a shorter prompt": case.documents[: len(case.documents) // 2],
        "behind a longer prompt": (*case.documents, spare),
        "behind an edited prompt": (*before, edited),
    }
    return {name: replace(case, documents=tuple(texts), question=OTHER) for name, texts in lists.items()}


def asked(subject: Subject, case: Case, spare: str) -> Iterator[Difference]:
    """Ask one prompt under each condition and yield how the answers differ from the cold one."""
    subject.fresh()
    cold = subject.ask(case, cached=False)
    yield compare("warm", cold, subject.ask(case))
    if subject.restart():
        yield compare("after a restart", cold, subject.ask(case))
    for name, partner in partners(case, spare).items():
        subject.fresh()
        subject.ask(partner)
        yield compare(name, cold, subject.ask(case))


def compare(condition: str, cold: Reply, other: Reply) -> Difference:
    """Return how an answer differs from the cold one."""
    known = bool(cold.tops and other.tops)
    pairs = zip_longest(cold.tokens, other.tokens) if known else zip_longest(cold.text, other.text)
    first = next((place for place, (one, two) in enumerate(pairs) if one != two), None)
    alike = zip(cold.tops, other.tops, strict=False)
    gaps = [
        abs(top[token] - others[token])
        for place, (top, others) in enumerate(alike)
        if first is None or place <= first
        for token in top.keys() & others.keys()
        if top[token] != others[token]
    ]
    gap = max(gaps, default=0.0) if known else None
    reused = other.reused / other.prompt if other.prompt and other.reused is not None else None
    return Difference(condition, other.prompt, first, gap, reused)


@dataclass(slots=True)
class Server:
    """A server that speaks OpenAI's chat protocol, started by a command if there is one; mutable."""

    client: ServerClient
    command: Sequence[str]
    most: int
    process: "subprocess.Popen[bytes] | None" = field(default=None)

    def fresh(self) -> bool:
        """Start the server anew."""
        if not self.command:
            return False
        self.close()
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + PATIENCE_S
        while self.client.values(f"{self.client.endpoint.path}/models") is None:
            if self.process.poll() is not None or time.monotonic() > until:
                raise PkbError(f"nothing serves at {self.client.endpoint.place}: {shlex.join(self.command)}")
            time.sleep(0.1)
        return True

    def restart(self) -> bool:
        """Start the server anew; llama.cpp's first slot is saved before and restored, where it has a path for that."""
        slot = "/slots/0?action="
        saved = self.client.values(slot + "save", {"filename": SLOT}) if self.command else None
        if not self.fresh():
            return False
        if saved:
            self.client.values(slot + "restore", {"filename": SLOT})
        return True

    def ask(self, case: Case, *, cached: bool = True) -> Reply:
        """Have the server answer; fields that it refuses are left out."""
        users = [{"role": "system", "content": case.system}, {"role": "user", "content": "".join(case.segments)}]
        body = {"messages": users, "temperature": 0, "max_tokens": self.most, "logprobs": True, "top_logprobs": TOP}
        body |= {"seed": 0, "cache_prompt": cached, "chat_template_kwargs": {"enable_thinking": False}}
        for left_out in ((), EXTRAS, (*EXTRAS, *SCORES)):
            try:
                return self._sent({key: value for key, value in body.items() if key not in left_out})
            except Refused as error:
                if error.status not in (400, 422) or left_out == (*EXTRAS, *SCORES):
                    raise PkbError(f"the server refused a prompt (HTTP {error.status})") from None
        raise AssertionError

    def _sent(self, body: Mapping[str, Any]) -> Reply:
        endpoint = self.client.endpoint
        named = {**body, "model": endpoint.name or describe(self.client)[0]}
        return reply_of(json.loads(b"".join(self.client.stream(("POST", f"{endpoint.path}/chat/completions", named)))))

    def close(self) -> None:
        """Stop the server that was started."""
        if self.process:
            self.process.kill()
            self.process.wait()


def reply_of(values: Mapping[str, Any]) -> Reply:
    """Read a chat completion."""
    choice, usage = values["choices"][0], as_dict(values.get("usage"))
    places = as_dict(choice.get("logprobs")).get("content") or []
    tops = tuple({_token(one): float(one["logprob"]) for one in place.get("top_logprobs") or ()} for place in places)
    reused = as_dict(usage.get("prompt_tokens_details")).get("cached_tokens")
    message = choice["message"]
    text = (message.get("reasoning_content") or "") + (message.get("content") or "")
    return Reply(text, tops if all(tops) else (), as_count(usage.get("prompt_tokens")), reused)


def _token(one: Mapping[str, Any]) -> str:
    return str(one.get("id", one.get("bytes") or one["token"]))


@dataclass(slots=True)
class Engine:
    """pkb's engine in a process of its own over a home below a folder; mutable."""

    scratch: Path
    model: str
    most: int
    process: "subprocess.Popen[str] | None" = field(default=None)

    def fresh(self) -> bool:
        """Start a process over an empty home."""
        self.close()
        shutil.rmtree(self.scratch, ignore_errors=True)
        return self.restart()

    def restart(self) -> bool:
        """Start another process over the same home."""
        self.close()
        code = "import sys; from tests.bench.coldwarm import serve; serve(sys.argv[1], int(sys.argv[2]))"
        self.process = run_python(code, self.model, str(self.most), **environment(self.scratch))
        return True

    def ask(self, case: Case, *, cached: bool = True) -> Reply:
        """Have the process answer; it always reads and fills the KV cache."""
        assert self.process
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(asdict(case)) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise PkbError("the process that answers has ended")
        return Reply(**json.loads(line))

    def close(self) -> None:
        """End the process."""
        if self.process:
            self.process.communicate()


def serve(model: str, most: int) -> None:
    """Answer prompts from stdin, a line of JSON each, with the home of this process's environment."""
    save(Path(os.environ["PKB_CONFIG"]), "model.name", model)
    with session() as opened:
        opened.make()
        assert opened.model, "a model by name or folder is needed"
        reader = opened.model.load()
        for line in sys.stdin:
            given = json.loads(line)
            case = Case(given["system"], tuple(given["documents"]), given["question"])
            print(json.dumps(asdict(answered(reader, case, most))), flush=True)


def answered(reader: PromptReader, case: Case, most: int) -> Reply:
    """Answer one prompt as pkb does, through the KV cache, and store what was computed."""
    model, segments, trace = reader.model, _segments(reader, case), Trace()
    assert isinstance(model, Mlx)
    assert reader.kept
    read = prefill(reader, segments[:-1], trace)
    said, tops = list[int](), list[Mapping[str, float]]()
    ids: Sequence[int] = segments[-1]
    for _ in range(most):
        top = _likeliest(model, read.cache, ids)
        ids = (int(max(top, key=top.__getitem__)),)
        tops.append(top)
        if ids[0] in model.stops:
            break
        said += ids
    keep(reader.kept, segments[:-1], read)
    text = "".join(spelled(model.vocabulary, said))
    return Reply(text, tuple(tops), sum(map(len, segments)), sum(read.reused))


def _segments(reader: PromptReader, case: Case) -> list[Ids]:
    model = reader.model
    *documents, question = (tuple(model.tokens(text)) for text in case.segments)
    system = (*model.frame.opening, *model.tokens(case.system), *model.frame.turning)
    return [system, *documents, (*question, *model.frame.closing)]


def _likeliest(model: Mlx, cache: Any, ids: Sequence[int]) -> dict[str, float]:
    """Return the log-probabilities of the likeliest next tokens."""
    import numpy as np

    logits = model.logits(cache, ids).astype(np.float64)
    scores = logits - logits.max()
    scores -= np.log(np.exp(scores).sum())
    return {str(id): float(scores[id]) for id in np.argsort(-scores, kind="stable")[:TOP]}


def table(found: Sequence[Difference]) -> Iterator[str]:
    """Yield the lines of a Markdown table, a row for each condition."""
    yield "| condition | prompts | equal answers [95 %] | first token that differs | largest gap | reused |"
    yield "|---|---:|---:|---:|---:|---:|"
    for condition in dict.fromkeys(one.condition for one in found):
        rows = [one for one in found if one.condition == condition]
        equal, firsts = sum(one.first is None for one in rows), [one.first for one in rows if one.first is not None]
        gaps = [one.gap for one in rows if one.gap is not None]
        shares = [one.reused for one in rows if one.reused is not None]
        low, high = wilson(equal, len(rows))
        cells = (
            f"{equal} [{low:.2f}, {high:.2f}]",
            str(min(firsts)) if firsts else "",
            f"{max(gaps):.2g}" if gaps else "not told",
            f"{sum(shares) / len(shares):.2f}" if shares else "not told",
        )
        yield f"| {condition} | {len(rows)} | {' | '.join(cells)} |"


def arguments(words: Sequence[str] | None = None) -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("subject", help="pkb, or the URL of a server, with #MODEL if it serves several")
    parser.add_argument("--model", default="", help="of pkb: a folder or a name")
    parser.add_argument("--start", default="", help="command that starts the server, to be run again and again")
    parser.add_argument("--documents", type=int, nargs="+", default=DOCUMENTS, help="of a prompt, by turns")
    parser.add_argument("--prompts", type=int, default=PROMPTS)
    parser.add_argument("--tokens", type=int, default=TOKENS, help="of an answer, at most")
    parser.add_argument("--json", action="store_true", help="print each comparison instead of the table")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Ask, print, and return 1 if an answer differs from the cold one."""
    given, found = arguments(words), list[Difference]()
    with TemporaryDirectory(prefix="pkb-coldwarm-") as scratch, closing(_subject(given, Path(scratch))) as subject:
        for number, (case, spare) in enumerate(cases(given.prompts, given.documents), 1):
            found += asked(subject, case, spare)
            print(f"prompt {number} of {given.prompts}: {found[-1].prompt} tokens", file=sys.stderr, flush=True)
    print(json.dumps([asdict(one) for one in found]) if given.json else "\n".join(table(found)))
    return int(any(one.first is not None for one in found))


def _subject(given: Namespace, scratch: Path) -> Server | Engine:
    if given.subject == "pkb":
        return Engine(scratch / "home", given.model, given.tokens)
    return Server(ServerClient(parse_endpoint(given.subject)), shlex.split(given.start), given.tokens)


if __name__ == "__main__":
    sys.exit(main())
