"""The semantic tier: another question's answer, where cosine, words, evidence and answer all speak for it.

near? -> guard -> still fresh? -> borne by what was retrieved for this question -> lent, and the own answer owed.
Any doubt is a miss.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine.ask.begin import Ask, Asked, Room, floor_of, look, owing, vector_of
from engine.ask.means import Means
from engine.ask.question import Question, understand
from engine.ask.reply import answer_of, is_quote, relocate
from engine.ask.trace import Trace
from store.answers import Bank, Debt, Owed, Wrong
from store.database import Ledger

if TYPE_CHECKING:
    from store.question_index import Near

_LOOKED_AT = 8  # of the nearest questions
_VERIFIED = 2  # of those that the guard lets through


@dataclass(frozen=True, slots=True)
class Rules:
    """The least cosine of two questions, and what may speak against a hit; each part can be left out.

    `least` is the support under which a quote is no answer.
    """

    tau: float
    least: float
    guard: bool = True
    evidence: bool = True
    verify: bool = True
    check: bool = True


class Similar:
    """Looks for an answer to lend."""

    def __init__(self, means: Means, ledger: Ledger, rules: Rules) -> None:
        self._means, self._rules, self._wrong = means, rules, Wrong(ledger)

    def find(self, ask: Ask, asked: Asked) -> "Near | None":
        """Give the nearest question whose answer holds for this one too."""
        questions = self._means.questions()
        if questions is None or asked.vector is None:
            return None
        with ask.trace.step("similar") as step:
            if self._wrong.find(ask.key.digest):
                step.note = "an answer to it was marked wrong"
                return None
            key, notes, verified = ask.key, list[str](), 0
            near = questions.near(
                asked.vector, scope=key.scope, writer=key.writer, day=key.day, least=self._rules.tau, most=_LOOKED_AT
            )
            for one in near:
                kept = understand(one.kept.question, ask.now)
                reason = self._unlike(asked, kept, one)
                if reason is None:
                    fresh = self._fresh(ask, one)
                    reason = self._unborne(ask, asked, kept, fresh) if fresh else "its evidence has changed"
                    verified += 1
                if reason is None and fresh:
                    step.note = f"{fresh.similarity:.3f}"
                    return fresh
                notes.append(f"{one.similarity:.3f} {reason}")
                if verified == _VERIFIED:
                    break
            step.note = "; ".join(notes) or f"none above {self._rules.tau:g}"
        return None

    def _unlike(self, asked: Asked, kept: Question, near: "Near") -> str | None:
        """Say why two questions may not share an answer."""
        if near.kept.tau is not None and near.similarity < near.kept.tau:
            return f"below its own threshold of {near.kept.tau:.3f}"
        answer = answer_of(near.kept.reply)
        if answer is None:
            return "has no answer"
        if (doubted := self._wrong.find(near.key)) and doubted[0] == answer:
            return "its answer was marked wrong"
        if not self._rules.guard:
            return None
        from engine.ask.guard import refuse

        return refuse(asked.question, kept)

    def _fresh(self, ask: Ask, near: "Near") -> "Near | None":
        """Give what is kept, with its sources where they stand now; None where new mail may change it."""
        if near.kept.generation == ask.generation:
            return near
        again = look(self._means, replace(ask, text=near.kept.question, trace=Trace()))
        if again.evidence.chunks != near.kept.evidence:
            return None
        return replace(near, kept=replace(near.kept, reply=relocate(near.kept.reply, again.evidence.sources)))

    def _unborne(self, ask: Ask, asked: Asked, kept: Question, near: "Near") -> str | None:
        """Say why what was retrieved for this question does not bear the answer."""
        from engine.ask.verify import unsupported
        from engine.ask.write import quotable

        rules, answer = self._rules, answer_of(near.kept.reply) or ""
        parts = {"evidence": rules.evidence, "answer": rules.verify, "loose": rules.verify}
        off = frozenset(name for name, on in parts.items() if not on)
        found = (quotable(asked.evidence), asked.evidence.chunks, near.kept.evidence)
        quoted = answer if is_quote(near.kept.reply) else None
        reason = unsupported(asked.question, kept, *found, quoted, rules.least, off)
        if reason is None and rules.check and not self._means.bears(asked.question, asked.evidence, answer, ask.trace):
            reason = "the model rejects it"
        return reason


def owe(ledger: Ledger, room: Room, ask: Ask, asked: Asked, near: "Near") -> None:
    """Count the use of the answer that was lent, and note that this question is owed its own."""
    bank, at, served = Bank(ledger), ask.now.timestamp(), answer_of(near.kept.reply) or ""
    with ask.trace.step("count"):
        _follow(bank, room, near)
        bank.used(near.key, ask.generation, at, near.kept.evidence)
        bank.keep(
            ask.key.digest, owing(ask, asked), room.bytes, vector_of(asked), floor_of(asked, room), asked.embedder
        )
        Owed(ledger).add(Debt(ask.key.digest, near.key, near.similarity, served, at))


def _follow(bank: Bank, room: Room, near: "Near") -> None:
    """Keep the lender's sources where they stand now: it is stamped as found right."""
    kept = bank.find(near.key)
    if kept and kept.evidence == near.kept.evidence and kept.reply != near.kept.reply:
        bank.keep(near.key, near.kept, room.bytes)
