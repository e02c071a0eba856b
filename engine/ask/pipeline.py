"""The ask path: question -> exact? -> embed -> paraphrase? -> retrieve -> same evidence? -> write -> keep.

Also the notices beside an answer: what other senders say, and how it differs from the previous answer. A user who asks
again first learns, once, that an answer has changed and which message changed it: at once after new mail, or with the
first hit after an idle run noticed. Knows the bank of answers; opens nothing itself (the means do, when they are
called), prints nothing.
"""

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct, convert

from engine.ask import keys
from engine.ask.keys import PendingQuestion, QueryContext, same_answer
from engine.settings import Settings
from engine.text.terminal import shorten
from engine.text.time_sensitive import instruction_end
from engine.types import FIRST_MAIL, Answer, AskOptions, AskResult, Backend, Correction, Evidence, OnText, Source
from store.answers import AnswerBank, CachedAnswer, Notices, RejectedAnswers, Verifications
from store.database import Ledger
from store.errors import PkbError, UsageError
from store.history import History, HistoryEntry, RetrievalLog, link_documents
from store.types import Scope, replace

if TYPE_CHECKING:
    from engine.ask.semantic import SemanticRules


def remember(
    ledger: Ledger, ask: PendingQuestion, reply: Answer, saved_ms: float, evidence: Evidence | None, like: bytes | None
) -> None:
    """Keep a question with its reply's figures and evidence, if any; `like` is the key of whose answer it was given."""
    tokens, key = reply.tokens or {}, ask.key.digest if ask.options.write_bank else None  # None: past the answer cache
    about = (ask.now.timestamp(), ask.text, reply.tier, reply.answered, reply.ms["total"], saved_ms)
    asked = HistoryEntry(*about, tokens.get("prompt"), tokens.get("reused"), key, reply.stale)
    chunks = evidence.chunks if evidence else ()
    with ledger.transaction():
        number = History(ledger).add(asked)
        RetrievalLog(ledger).add(number, chunks, chunks[:2])  # the best ones count as asked about
        link_documents(ledger, key or str(number).encode(), keys.documents_of(evidence) if evidence else (), like)


class Miss(Struct, frozen=True):
    """A question that the exact tier leaves open, with its key; the answer that is `kept` under it may be outdated."""

    asker: "Asker"
    ask: PendingQuestion
    kept: CachedAnswer | None


class Asker:
    """Answers questions over one home; `rules` say when a question is given another one's answer, None never."""

    def __init__(
        self, ledger: Ledger, backend: Backend, settings: Settings, rules: "Callable[[], SemanticRules | None]"
    ) -> None:
        self._ledger, self._backend, self._settings, self._rules = ledger, backend, settings, rules
        self._bank = AnswerBank(ledger)

    def ask(self, text: str, options: AskOptions, now: datetime, say: OnText | None = None) -> AskResult:
        """Follow the path for one question, and `say` a new answer while it is written; UsageError if it is empty."""
        found = self.exact(text, options, now)
        return found.asker.finish(found, say) if isinstance(found, Miss) else found

    def exact(self, text: str, options: AskOptions, now: datetime) -> AskResult | Miss:
        """Return an up-to-date cached answer to a question, else the state for `finish`; UsageError."""
        if (backend := self._backend.within(options.scope)) is not self._backend:
            return Asker(self._ledger, backend, self._settings, self._rules).exact(text, options, now)
        ask = keys.begin(self._backend, self._ledger, text, options, now)
        with ask.trace.step("match") as step:
            kept = self._bank.find(ask.key.digest) if ask.options.read_bank else None
            note = f"not cached on {ask.key.day}" if ask.key.day else "not cached"
            note = f"{kept.state} in generation {kept.generation}, now {ask.generation}" if kept else note
            step.note = note if ask.options.read_bank else "skipped"
        if kept and kept.state != "answered":  # only deferred, or precomputed
            kept = None
        if kept and kept.generation == ask.generation:
            return self._serve(ask, kept)
        return Miss(self, ask, kept)

    def finish(self, miss: Miss, say: OnText | None) -> AskResult:
        """Answer a question that the exact tier has left open."""
        ask, kept = miss.ask, miss.kept
        if followed := self._after(ask, say):
            return followed
        ask = replace(ask, options=replace(ask.options, after=None))
        embedded = keys.embed(self._backend, ask)
        may_serve = kept is None and ask.options.read_bank and embedded.vector is not None
        if may_serve and (rules := self._rules()):
            from engine.ask.semantic import SemanticLookup, defer_verification

            if near := SemanticLookup(self._backend, self._ledger, rules).find(ask, embedded):
                told, matched = _served(ask, near.answer, stale=False), near.answer.question
                reply = replace(told, tier="semantic", matched_question=matched, similarity=near.similarity)
                if ask.options.write_bank:  # its own is made, and compared, by an idle run
                    defer_verification(self._ledger, self._settings, ask, embedded, near)
                return self._answered(ask, reply, near.key, near.answer.made_ms - reply.ms["total"], None)
        asked = keys.gather_context(self._backend, ask, embedded)
        if kept and kept.evidence == asked.read:
            moved = keys.relocate(kept, asked.evidence)  # its sources are where they are now
            if moved != kept and ask.options.write_bank:
                self._bank.put(ask.key.digest, moved, self._settings.bank.bytes)
            return self._serve(ask, moved, asked.evidence)
        if kept and ask.options.stale_ok:
            return self._serve(ask, kept, asked.evidence, stale=True)
        # Where another was kept, nothing is said before the two were compared.
        written = self._backend.generate(asked.question, asked.evidence, ask.trace, None if kept else say)
        return self._made(ask, asked, kept, written)

    def _after(self, ask: PendingQuestion, say: OnText | None) -> AskResult | None:
        """Answer a follow-up from the last sources, uncached; None if it is complete and to be asked as any other."""
        completed = bool(ask.options.after and ask.options.after.typed)
        if ask.options.after is None or (completed and keys.is_model(ask.key.writer)):
            return None
        asked = keys.gather_context(self._backend, ask)
        ask = replace(ask, options=replace(ask.options, write_bank=False))
        written = self._backend.generate(asked.question, asked.evidence, ask.trace, say)
        return self._made(ask, asked, None, written) if written.answered or not completed else None

    def _serve(
        self, ask: PendingQuestion, kept: CachedAnswer, evidence: Evidence | None = None, *, stale: bool = False
    ) -> AskResult:
        """Return a kept answer, counting its use and the generation that it was found right in."""
        if ask.options.write_bank:
            with ask.trace.step("count"):
                generation = kept.generation if stale else ask.generation
                self._bank.record_use(ask.key.digest, generation, ask.now.timestamp(), kept.evidence)
        reply = _served(ask, kept, stale=stale)
        return self._answered(ask, reply, ask.key.digest, kept.made_ms - reply.ms["total"], evidence)

    def _made(
        self, ask: PendingQuestion, asked: QueryContext, before: CachedAnswer | None, written: Answer
    ) -> AskResult:
        reply = keys.agreed(replace(written, question=ask.text))
        if ask.options.write_bank:
            keys.store_answer(self._bank, self._settings, ask, asked, reply)
        if before:
            reply = replace(reply, correction=change_of(before, reply, asked.evidence))
        answered = self._answered(ask, reply, None, ask.trace.saved_s * 1000, asked.evidence)
        return replace(answered, keep=ask.trace.keep) if ask.options.record or ask.options.write_bank else answered

    def _answered(
        self, ask: PendingQuestion, reply: Answer, like: bytes | None, saved_ms: float, evidence: Evidence | None
    ) -> AskResult:
        """Record a reply, and add a correction where an earlier answer has changed."""
        if ask.options.record:
            remember(self._ledger, ask, reply, saved_ms, evidence, like)
        if ask.options.scope.sender:
            ask.trace.notices.extend(keys.matched_senders(self._ledger, ask.options.scope))
        if any(source.rival or (reply.answered and source.warnings) for source in reply.sources):
            ask.trace.notices.extend(sender_notices(reply))
        if ask.options.write_bank:
            reply = self._corrected(ask, reply)
        return AskResult(reply, ask.trace, evidence.covered if evidence else None)

    def _corrected(self, ask: PendingQuestion, reply: Answer) -> Answer:
        """Return a reply with the correction that an idle run has found, if any, and say whether it was rejected."""
        notice = Notices(self._ledger).pop(ask.key.digest)
        doubted = RejectedAnswers(self._ledger).find(ask.key.digest)
        if doubted and doubted[0] == (reply.text or ""):
            ask.trace.notices.append("you marked this answer as wrong")
        if notice is None:
            return reply
        made = None
        if not same_answer(notice.before, reply.text, other_span=reply.span):  # else it says what was before the change
            cause = convert(json.loads(notice.cause), Source) if notice.cause else None
            made = Correction(notice.kind, notice.before or None, reply.correction.cause if reply.correction else cause)
        return replace(reply, correction=made)


def _served(ask: PendingQuestion, kept: CachedAnswer, *, stale: bool) -> Answer:
    age = max(0.0, ask.now.timestamp() - kept.created)
    return keys.answer_of(kept).served(ask.text, ask.trace.ms(), age, stale=stale)


_RIVALS = 2  # in notices


def sender_notices(reply: Answer) -> list[str]:
    """Return notices of senders who disagree, and of an only source that may be forged."""
    first, others = reply.sources[0], [one for one in reply.sources[1:] if not one.copy]
    orders = [one for one in (first, *others) if one.rival and instruction_end(one.quote)]
    left_out = [f"left out a sentence that dictates the answer, from {_sender(one)}" for one in orders[:_RIVALS]]
    if not reply.answered:
        return left_out
    rivals = [one for one in others if one.rival and one.quote != first.quote and one not in orders]
    own = (first.sender, {*first.warnings})  # a mail forged under that name and address has others
    strange = [one for one in rivals if one.sender and (one.sender, {*one.warnings}) != own]
    told = [f"another mail, from {_sender(one)}, says: {shorten(one.quote, 160)}" for one in strange[:_RIVALS]]
    trusted = (one for one in (first, *others) if FIRST_MAIL in one.warnings or not one.warnings)
    alone = not any(one is first or (one.quote and same_answer(first.quote, one.quote, reply.span)) for one in trusted)
    return [*([f"the only source is a doubtful mail, from {_sender(first)}"] if alone else []), *told, *left_out]


def _sender(source: Source) -> str:
    return shorten(source.sender, 80) + "".join(f" ({shorten(one, 80)})" for one in source.warnings)


def change_of(cached: CachedAnswer, reply: Answer, evidence: Evidence) -> Correction | None:
    """Return how a new answer differs from one cached with other evidence; None if it does not, or nobody saw that."""
    before, seen = keys.answer_of(cached), cached.origin == "user" or cached.uses > 0
    if not seen or same_answer(before.text, reply.text, before.span, reply.span):
        return None
    # The message that changed it: the new answer's source if it is new, else the best new message.
    known = set(cached.evidence)
    new = [read for read in evidence.passages if not known.issuperset(chunk.id for chunk in read.chunks)]
    places = [read.sources[0] for read in new if read.sources]
    rests = reply.sources[0].path if reply.answered and reply.sources else None
    cause = next((one for one in places if one.path == rests), next(iter(places), None))
    return Correction("changed", before.text, cause)


_AGAIN = 'pkb ask "QUESTION"'


def last_answer(ledger: Ledger, reread: Callable[[Sequence[str], Sequence[float], Scope], Evidence]) -> Answer:
    """Return the answer shown last, with the current places of its sources; PkbError if it is not cached."""
    last = History(ledger).last()
    if last is None:
        raise UsageError("no question was asked yet", 'pkb ask "when is rehearsal?"')
    if last.key is None:
        raise PkbError("the last question was asked without the answer cache, so its sources are not stored", _AGAIN)
    key: bytes | None = last.key
    if last.tier == "semantic":  # the answer that was shown is the matched question's
        key = pending.matched if (pending := Verifications(ledger).find(last.key)) else None
    cached = AnswerBank(ledger).find(key) if key else None
    if cached is None or cached.state != "answered" or cached.created > last.at:
        raise PkbError("the last answer was removed or replaced since", _AGAIN)
    answer = keys.answer_of(cached)
    if cached.generation == ledger.generation:
        return answer
    evidence = reread(cached.evidence, answer.scores, keys.scope_of(cached.scope))
    return answer.relocate(evidence.sources) if len(evidence.passages) == len(answer.scores) else answer
