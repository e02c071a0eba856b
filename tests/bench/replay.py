"""One unit of the evaluation: a user's questions under one policy, with idle runs in between, a record per question."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

from engine.ask.keys import key_of, normalise
from engine.session import Session
from engine.types import AskOptions, AskResult, Trace
from store.answers import AnswerBank
from store.kv_index import KvIndex
from tests.bench.corpus import Query, User, same
from tests.bench.home import NOW, Home
from tests.bench.metrics import terms
from tests.bench.policies import Policy
from tests.bench.records import Cached, IdleWork, Line, Tokens


@dataclass(frozen=True, slots=True)
class Unit:
    """At most so many of a user's questions, under a policy, answered by a writer."""

    user: User
    policy: Policy
    writer: str
    questions: int

    @property
    def name(self) -> str:
        """Return the stem of its file names."""
        return f"{self.user.corpus}.{self.user.name}.{self.policy.name}.{self.writer}"

    @property
    def queries(self) -> tuple[Query, ...]:
        """Return the questions to ask."""
        return self.user.queries[: self.questions]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of the answer cache, of the KV cache, and of all KV ever written."""

    bank: int
    kv: int
    kv_written: int


@dataclass(frozen=True, slots=True)
class Match:
    """The cached question whose answer was served, whether it was predicted, and whether the answer is right."""

    question: str | None = None
    predicted: bool = False
    right: bool | None = None


@dataclass(slots=True)
class Replay:
    """A unit in progress: its home, the questions asked, and the latest idle run."""

    unit: Unit
    home: Home
    asked: list[Query] = field(default_factory=list)
    idle_work: IdleWork | None = None

    @property
    def done(self) -> bool:
        """Return whether all questions were asked."""
        return len(self.asked) == len(self.unit.queries)

    def idle(self, most: float = float("inf"), *, fill: bool = False) -> None:
        """Predict questions and do the idle jobs before the next question, if the policy has any.

        They are worth about `most` tokens of prefill; with `fill` as many questions as may be are predicted.
        """
        policy, home = self.unit.policy, self.home
        if not policy.predict:
            return
        begun, flops = perf_counter(), home.flops()
        predicted = home.predict(policy.predict, fill=fill)
        cost = home.idle(policy.idle, most)
        if policy.fixed_tau:
            home.session.ledger.rows.execute("UPDATE answers SET tau = NULL")
        seconds = round(perf_counter() - begun, 4)
        self.idle_work = IdleWork(seconds, home.flops() - flops, cost.read, cost.written, cost.units, predicted)

    def ask(self) -> Line:
        """Ask the next question and return its record."""
        return self.answered()[0]

    def answered(self) -> tuple[Line, AskResult]:
        """Ask the next question and return its record and the answer."""
        unit, home, query = self.unit, self.home, self.unit.queries[len(self.asked)]
        before, flops = sizes(home.session), home.flops()
        answered = home.ask(
            query.text, read_bank=unit.policy.bank, write_bank=unit.policy.bank and unit.policy.stores_own
        )
        reply, now, flops = answered.reply, sizes(home.session), home.flops() - flops
        match = self.match(query, answered)
        self.asked.append(query)
        line = Line(
            corpus=unit.user.corpus,
            user=unit.user.name,
            policy=unit.policy.name,
            writer=unit.writer,
            number=len(self.asked),
            question=query.text,
            gold=query.answer,
            answer=reply.text,
            tier=reply.tier,
            right=match.right,
            matched=match.question,
            similarity=reply.similarity,
            predicted=match.predicted,
            tokens=Tokens(**reply.tokens) if reply.tokens and reply.tier not in ("exact", "semantic") else None,
            cached=cached(segments_of(answered.trace)),
            ms=reply.ms,
            flops=flops,
            bank_bytes=now.bank,
            kv_bytes=now.kv,
            written=now.kv_written - before.kv_written + max(0, now.bank - before.bank),
            idle=self.idle_work,
        )
        return line, answered

    def match(self, query: Query, answered: AskResult) -> Match:
        """Find whose answer was served, and whether it is right: by gold, or for a predicted question by words."""
        reply = answered.reply
        if reply.tier not in ("exact", "semantic"):
            return Match()
        whose, session = reply.matched_question or query.text, self.home.session
        key = key_of(session.backend, session.ledger, whose, AskOptions(k=session.settings.ask.k), NOW).digest
        stored = AnswerBank(session.ledger).find(key)
        assert stored, "the served answer is not stored"
        if stored.origin == "predicted":
            return Match(stored.question, predicted=True, right=covers(reply.text, query.answer))
        same_text = [one for one in self.asked if normalise(one.text) == normalise(whose)]
        return Match(stored.question, right=same(query, same_text[-1]) if same_text else None)


def covers(answer: str | None, gold: str) -> bool:
    """Whether an answer has at least half of the words of the gold answer; where there is none, whether it is none.

    A predicted question has no gold of its own, so this misjudges some answers in either direction.
    """
    if answer is None or not gold:
        return answer is None and not gold
    wanted = Counter(terms(gold))
    return 2 * (wanted & Counter(terms(answer))).total() >= wanted.total()


def sizes(session: Session) -> Sizes:
    """Return what the caches hold, in bytes."""
    held = session.ledger.rows.execute("SELECT coalesce(sum(bytes), 0) FROM kv_nodes").fetchone()[0]
    written = KvIndex(session.ledger).written()
    return Sizes(AnswerBank(session.ledger).size()[1], int(held), written)


def segments_of(trace: Trace) -> list[tuple[int, int]]:
    """Return the reused tokens, and all, of each segment before the question, from the notes of the trace."""
    notes = (step.note for step in trace.steps if step.name == "prefill" and step.note)
    return [(int(reused), int(all_)) for note in notes for reused, all_ in re.findall(r"(\d+)/(\d+)", note)]


def cached(segments: Sequence[tuple[int, int]]) -> Cached | None:
    """Count the chunks of a prompt, and those reused as a whole; None where no prompt was read."""
    chunks = segments[1:]  # behind the system segment
    return Cached(len(chunks), sum(reused == all_ for reused, all_ in chunks)) if segments else None
