"""The ask path: question -> exact? -> retrieve -> same evidence? -> write -> keep -> answer with its sources.

Knows the bank of answers; opens nothing itself (the knowledge bank is opened by `gather`, when needed), prints nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from engine.ask.exact import Key, key
from engine.ask.moving import moves
from engine.ask.remember import remember
from engine.ask.reply import Reply, freeze, relocate, thaw
from engine.ask.trace import Trace
from store.bank import Bank, Kept
from store.ledger import Ledger
from store.records import Scope

if TYPE_CHECKING:
    from engine.ask.evidence import Evidence
    from engine.ask.question import Question

Say = Callable[[str], None]  # is given more of an answer while it is written


@dataclass(frozen=True, slots=True)
class Manner:
    """How to ask: within what, from how many sources, and whether the bank may answer and may learn."""

    scope: Scope = field(default_factory=Scope)
    k: int = 5
    read_bank: bool = True
    write_bank: bool = True
    stale_ok: bool = False


def _nothing() -> None:
    """Keep nothing."""


@dataclass(frozen=True, slots=True)
class Written:
    """A reply as its writer gives it; `keep` does what the writer wants to do when nobody waits any more."""

    reply: Reply
    keep: Callable[[], None] = _nothing


@dataclass(frozen=True, slots=True)
class Answered:
    """A reply, how it came about, and the share of the knowledge bank that vectors cover (None where none was read).

    `keep` is to be called when the reply has been shown: it saves what was read, for the next question.
    """

    reply: Reply
    trace: Trace
    covered: float | None = None
    keep: Callable[[], None] = _nothing


@dataclass(frozen=True, slots=True)
class _Ask:
    """One question on its way."""

    text: str
    manner: Manner
    key: Key
    generation: int
    now: datetime
    trace: Trace
    say: Say | None


class Asker:
    """Answers questions over one home.

    `gather` retrieves the evidence for a question, `write` makes a reply from it: neither is called on an exact hit of
    the same generation. `writer` names all that the words of an answer depend on beside the evidence.
    """

    def __init__(
        self,
        ledger: Ledger,
        gather: "Callable[[Question, Manner, Trace], Evidence]",
        write: "Callable[[Question, Evidence, Trace, Say | None], Written]",
        writer: str,
        bank_bytes: int,
    ) -> None:
        self._ledger, self._gather, self._write, self._writer, self._bytes = ledger, gather, write, writer, bank_bytes
        self._bank = Bank(ledger)

    def ask(self, text: str, manner: Manner, now: datetime, say: Say | None = None) -> Answered:
        """Follow the path for one question; UsageError where it is empty.

        What is made anew is given to `say` while it is written; what is kept is there at once.
        """
        trace = Trace()
        with trace.step("key"):
            asked = key(text, manner.scope, f"{self._writer}/{manner.k}", now, calendar=moves(text))
            # The generation is read before all else: whatever changes from here on makes this answer look again.
            ask = _Ask(text, manner, asked, self._ledger.generation, now, trace, say)
        kept = self._match(ask)
        if kept and kept.generation == ask.generation:
            return self._serve(ask, kept, ask.generation)
        with trace.step("understand"):
            from engine.ask.question import understand  # more patterns than an exact hit has time to compile

            question = understand(text, now)
        evidence = self._gather(question, manner, trace)
        if kept and kept.evidence == evidence.chunks:
            return self._serve(ask, self._follow(ask, kept, evidence), ask.generation, evidence)
        if kept and manner.stale_ok:
            return self._serve(ask, kept, kept.generation, evidence, stale=True)
        return self._make(ask, question, evidence)

    def _match(self, ask: _Ask) -> Kept | None:
        with ask.trace.step("match") as step:
            kept = self._bank.find(ask.key.digest) if ask.manner.read_bank else None
            step.note = _match_note(ask, kept)
        return kept

    def _follow(self, ask: _Ask, kept: Kept, evidence: "Evidence") -> Kept:
        """Give a kept answer with its sources where they stand now, for files are moved."""
        moved = replace(kept, reply=relocate(kept.reply, evidence.sources))
        if moved != kept and ask.manner.write_bank:
            self._bank.keep(ask.key.digest, moved, self._bytes)
        return moved

    def _serve(
        self, ask: _Ask, kept: Kept, generation: int, evidence: "Evidence | None" = None, *, stale: bool = False
    ) -> Answered:
        """Give a kept answer, counting its use and the generation that it was found right in."""
        if ask.manner.write_bank:
            with ask.trace.step("count"):
                self._bank.used(ask.key.digest, generation, ask.now.timestamp())
        age = max(0.0, ask.now.timestamp() - kept.created)
        ms = ask.trace.ms()
        reply = thaw(kept.reply, ask.text, ms | {"first_token": ms["total"]}, age, stale=stale)
        remember(self._ledger, ask.text, ask.now, reply, kept.made_ms - ms["total"], evidence)
        return Answered(reply, ask.trace, evidence.covered if evidence else None)

    def _make(self, ask: _Ask, question: "Question", evidence: "Evidence") -> Answered:
        written = self._write(question, evidence, ask.trace, ask.say)
        reply = written.reply
        if ask.manner.write_bank:
            made = (ask.generation, reply.tier, ask.now.timestamp(), reply.ms["total"])
            about = (ask.text, ask.key.scope, ask.key.writer, ask.key.day)
            kept = Kept(*about, freeze(reply), evidence.chunks, *made)
            self._bank.keep(ask.key.digest, kept, self._bytes)
        remember(self._ledger, ask.text, ask.now, reply, ask.trace.saved_s * 1000, evidence)
        return Answered(reply, ask.trace, evidence.covered, written.keep)


def _match_note(ask: _Ask, kept: Kept | None) -> str:
    if not ask.manner.read_bank:
        return "not looked for"
    if kept is None:
        return "no such question" + (f" on {ask.key.day}" if ask.key.day else "")
    return f"kept in generation {kept.generation}, now {ask.generation}"
