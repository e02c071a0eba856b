"""One unit of a replay: a user's questions under one policy, with idle runs between them, one line per question.

A night and the question after it are two steps, so that others may have theirs between. Knows a home that is open, and
neither how it was made nor where the lines go.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from engine.ask.keys import normalise
from engine.ask.prepare import key_of
from engine.session import Session
from engine.types import STAGES, AskOptions, AskResult, Trace
from store.answers import AnswerBank
from store.kv_index import KvCounts
from tests.bench.corpus import Query, User, same
from tests.bench.living import NOW, Life, added
from tests.bench.metrics import terms
from tests.bench.policies import Policy
from tests.bench.printed import Engine, reckon


@dataclass(frozen=True, slots=True)
class Work:
    """One unit: at most so many of a user's questions, under a policy, written by a writer."""

    user: User
    policy: Policy
    writer: str
    questions: int

    @property
    def name(self) -> str:
        """Return what its files are named by."""
        return f"{self.user.corpus}.{self.user.name}.{self.policy.name}.{self.writer}"


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes at one time: of the bank, of tensors, and of all tensors ever written."""

    bank: int
    tensors: int
    written: int


@dataclass(frozen=True, slots=True)
class Match:
    """Whose answer a question was given: the question, whether nobody asked it, and whether the answer is right."""

    question: str | None = None
    predicted_counts: bool = False
    right: bool | None = None


@dataclass(slots=True)
class Replay:
    """A unit at work: the life of its home, the engine that PerCache prints, what was asked, and the last night."""

    work: Work
    life: Life
    engine: Engine | None = None
    asked: list[Query] = field(default_factory=list)
    slept: dict[str, Any] | None = None

    @property
    def over(self) -> bool:
        """Return whether all questions were asked."""
        return len(self.asked) == min(self.work.questions, len(self.work.user.queries))

    def sleep(self) -> None:
        """Have the night before the next question."""
        self.slept = self.runner()

    def next(self) -> dict[str, Any]:
        """Ask the next question."""
        query = self.work.user.queries[len(self.asked)]
        line = self.line(query, self.slept)
        self.asked.append(query)
        return line

    def runner(self) -> dict[str, Any] | None:
        """Foresee, and do a night's work; None where the policy has none."""
        policy, life = self.work.policy, self.life
        if not policy.foresee:
            return None
        begun = perf_counter()
        predicted_counts = life.foresee(policy.foresee)
        spent = added([life.runner(policy.idle_runs)])
        if policy.printed:  # which knows no thresholds of single answers
            life.session.ledger.rows.execute("UPDATE answers SET tau = NULL")
        numbers = {"read": spent.read, "written": spent.written, "units": spent.units, "foreseen": predicted_counts}
        return {"seconds": round(perf_counter() - begun, 4), "flops": spent.flops, **numbers}

    def line(self, query: Query, runner: dict[str, Any] | None) -> dict[str, Any]:
        """Ask one question, and say all there is to say of it."""
        work, life = self.work, self.life
        before, flops = sizes(life.session), life.flops()
        answered = self.ask(query.text)
        reply, match = answered.reply, self.match(query, answered)
        flops, now = life.flops() - flops, sizes(life.session)
        ms: dict[str, float | None] = {**dict.fromkeys(STAGES), **reply.ms}
        segments = read_of(answered.trace)
        grown = max(0, now.bank - before.bank)
        printed = self.engine and reckon(self.engine, ms, flops, now.tensors, [there for there, _ in segments])
        return {
            "corpus": work.user.corpus,
            "user": work.user.name,
            "policy": work.policy.name,
            "writer": work.writer,
            "number": len(self.asked) + 1,
            "question": query.text,
            "gold": query.answer,
            "answer": reply.text,
            "tier": reply.tier,
            "right": match.right,
            "matched": match.question,
            "similarity": reply.similarity,
            "foreseen": match.predicted_counts,
            "tokens": reply.tokens if reply.tier not in ("exact", "semantic") else None,
            "slots": slots(segments),
            "ms": ms,
            "flops": flops,
            "kept": {"bank_bytes": now.bank, "kv_bytes": now.tensors},
            "written": now.written - before.written + grown,
            "night": runner,
            "printed": printed,
        }

    def ask(self, text: str) -> AskResult:
        """Ask as a person does, and keep what was read when the answer is there."""
        policy, session = self.work.policy, self.life.session
        options = AskOptions(k=session.settings.ask.k, read_bank=policy.bank, write_bank=policy.bank and policy.keeps)
        answered = session.asker.ask(text, options, NOW)
        answered.keep()
        return answered

    def match(self, query: Query, answered: AskResult) -> Match:
        """Find whose answer it is, and whether it is right: by gold where that question was asked, else by words."""
        reply = answered.reply
        if reply.tier not in ("exact", "semantic"):
            return Match()
        whose = reply.matched_question or query.text
        session = self.life.session
        key = key_of(session.backend, whose, AskOptions(k=session.settings.ask.k), NOW).digest
        kept = AnswerBank(session.ledger).find(key)
        assert kept, "an answer was given that is not there"
        if kept.origin == "predicted":
            return Match(kept.question, predicted_counts=True, right=entails(reply.text, query.answer))
        same_text = [one for one in self.asked if normalise(one.text) == normalise(whose)]
        return Match(kept.question, right=same(query, same_text[-1]) if same_text else None)


def entails(answer: str | None, gold: str) -> bool:
    """Whether an answer holds at least half of the words of the gold one; where there is none, whether it is none.

    A foreseen question has no gold of its own: this takes some wrong answers that are near for right, and some right
    ones in other words for wrong.
    """
    if answer is None or not gold:
        return answer is None and not gold
    wanted = Counter(terms(gold))
    return 2 * (wanted & Counter(terms(answer))).total() >= wanted.total()


def sizes(session: Session) -> Sizes:
    """Weigh what is kept."""
    tensors = session.ledger.rows.execute("SELECT coalesce(sum(bytes), 0) FROM kv_nodes").fetchone()[0]
    written = sum(KvCounts(session.ledger).written_by_day().values())
    return Sizes(AnswerBank(session.ledger).size()[1], int(tensors), written)


def read_of(trace: Trace) -> list[tuple[int, int]]:
    """Return the tokens that were there, and all, of each segment in front of the question, as the trace notes them."""
    notes = (step.note for step in trace.steps if step.name == "prefill" and step.note)
    return [(int(there), int(all_)) for note in notes for there, all_ in re.findall(r"(\d+)/(\d+)", note)]


def slots(segments: Sequence[tuple[int, int]]) -> dict[str, int] | None:
    """Count the chunks of a prompt, and those that were there whole; None where no prompt was read."""
    chunks = segments[1:]  # behind the system segment
    return {"chunks": len(chunks), "found": sum(there == all_ for there, all_ in chunks)} if segments else None
