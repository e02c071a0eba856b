"""Jobs that answer or compare stored questions again: `refresh` and `verify`.

refresh (PerCache 4.1.3): a stale answer. Same evidence? raise its generation : generate it again -> did a person
see another answer? notify the next one who asks. Freshness is decided when an answer is served; this saves the wait.
What was only prefilled is answered, too, once answers are wanted.
verify: a question that was served the answer of a similar one gets its own, and the two are compared.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from msgspec import Struct

from engine.ask import keys
from engine.ask.pipeline import change_of
from engine.ask.semantic import above
from engine.backends import Generative
from engine.settings import Settings
from engine.text.time_sensitive import time_sensitivity
from engine.types import Answer, AskOptions, Backend, Evidence, Trace, json_values
from store import answers
from store.answers import AnswerBank, CachedAnswer, Notice, Notices, Origin, RefreshCandidates, Verifications, upper
from store.database import Ledger
from store.jobs import Job, Outcome
from store.types import replace


class Prepared(Struct, frozen=True):
    """What is now kept for a question, its reply where one was made, and the steps that took."""

    key: bytes
    kept: CachedAnswer
    reply: Answer | None
    trace: Trace


@dataclass(frozen=True, slots=True)
class Reasker:
    """Asks stored questions again, at a given time, and predicted ones, which without `decode` are only prefilled."""

    ledger: Ledger
    backend: Backend
    settings: Settings
    now: datetime
    decode: bool = True

    @property
    def options(self) -> AskOptions:
        """Return the options that predicted questions are asked with."""
        return AskOptions(k=self.settings.ask.k)

    def most_used(self, limit: int, *, before: int | None = None, prefilled: bool = False) -> list[bytes]:
        """Return the keys of entries that may be made the same way now, the most used first: see `most_used`."""
        writer, day = f"{self.backend.fingerprint}/", self.now.date().isoformat()
        return answers.most_used(self.ledger, writer, day, limit, before=before, prefilled=prefilled)

    def makes(self, key: bytes, cached: CachedAnswer) -> bool:
        """Return whether an entry would be made under the same key now: by this writer, for this day and wording.

        One whose key has the minute is not: it could never be a hit.
        """
        return is_lasting(cached.question) and self.key_of(cached.question, options_of(cached)).digest == key

    def key_of(self, question: str, options: AskOptions) -> keys.Key:
        """Return the key of a question as it is asked now."""
        return keys.key_of(self.backend, self.ledger, question, options, self.now)

    def is_cached(self, question: str, options: AskOptions) -> bool:
        """Return whether a question has an entry."""
        return AnswerBank(self.ledger).find(self.key_of(question, options).digest) is not None

    def evidence(self, cached: CachedAnswer) -> Evidence:
        """Retrieve for a stored question as of now, as a model is shown it."""
        asked = keys.begin(self.backend, self.ledger, cached.question, options_of(cached), self.now)
        found = keys.gather_context(self.backend, asked)
        backend = self.backend
        return backend.narrow(found.question, found.evidence) if isinstance(backend, Generative) else found.evidence

    def prepare(
        self, question: str, options: AskOptions, source: str, origin: Origin = "predicted", *, decode: bool
    ) -> Prepared:
        """Ready a question that `source` foresaw: with `decode` its answer, else what it reads; UsageError if empty."""
        backend, reply = self.backend.within(options.scope), None
        ask = keys.begin(backend, self.ledger, question, options, self.now)
        ask.trace.asked = False
        asked = keys.gather_context(backend, ask)
        if decode:
            written = backend.generate(asked.question, asked.evidence, ask.trace, None)
            reply = keys.agreed(replace(written, question=question))
            ask.trace.keep()
        else:
            backend.prefill(asked.question, asked.evidence, ask.trace)
        kept = keys.store_answer(AnswerBank(self.ledger), self.settings, ask, asked, reply, origin, source)
        return Prepared(ask.key.digest, kept, reply, ask.trace)

    def answer_s(self) -> float:
        """Return the seconds that an answer typically takes."""
        return answers.mean_seconds(self.ledger, self.backend.fingerprint) or 1.0  # until one was made


def is_lasting(question: str) -> bool:
    """Return whether the answer to a question can still be a hit after the current minute."""
    return time_sensitivity(question) != "clock"


def options_of(cached: CachedAnswer) -> AskOptions:
    """Return the options that an entry was asked with: the last part of its writer is the number of passages."""
    return AskOptions(keys.scope_of(cached.scope), int(cached.writer.rpartition("/")[2]))


def demand(cached: CachedAnswer) -> float:
    """Return how often an entry was wanted: once if a person asked for it, and at each use since."""
    return cached.uses + (1.0 if cached.origin == "user" else 0.1)


_MOST = 500  # answers in one plan


def plan_refreshes(reasker: Reasker) -> list[Job]:
    """Return a job for each entry that may be stale, first those that new chunks are similar to; each list by use.

    Last come those that were only prefilled, where answers are wanted.
    """
    ledger, planned = reasker.ledger, dict[str, Job]()
    lists = {
        "new mail is close to it": [key for key, *_ in RefreshCandidates(ledger).all()],
        "new mail since it was answered": reasker.most_used(_MOST, before=ledger.generation),
        "prefilled, not answered yet": reasker.most_used(_MOST, prefilled=True) if reasker.decode else [],
    }
    for reason, listed in lists.items():
        found = ((key, AnswerBank(ledger).find(key)) for key in listed if key.hex() not in planned)
        jobs = [
            Job("refresh", key.hex(), one.question, reason, demand(one), max(0.01, one.made_ms / 1000))
            for key, one in found
            if one and one.state != "pending" and reasker.makes(key, one)
        ]
        planned |= {job.subject: job for job in sorted(jobs, key=lambda job: -job.expected)[:_MOST]}
    return list(planned.values())


def refresh(reasker: Reasker, job: Job) -> Outcome:
    """Answer an entry again where its evidence has changed, or where it was only prefilled and answers are wanted."""
    key, ledger = bytes.fromhex(job.subject), reasker.ledger
    cached, generation = AnswerBank(ledger).find(key), ledger.generation
    if cached is None or cached.state == "pending" or not reasker.makes(key, cached):
        return Outcome("cached")
    evidence, decode = reasker.evidence(cached), reasker.decode or cached.state == "answered"
    if keys.fingerprint(evidence, cached.writer) == cached.evidence and (cached.state == "answered" or not decode):
        # Its sources may have other paths and lines.
        moved = keys.relocate(cached, evidence) if cached.reply else cached
        if moved != cached:
            AnswerBank(ledger).put(key, moved, reasker.settings.bank.bytes)
        answers.confirm(ledger, key, generation, cached.evidence)
        RefreshCandidates(ledger).remove(key)
        return Outcome()
    prepared = reasker.prepare(cached.question, options_of(cached), cached.source, cached.origin, decode=decode)
    reply = prepared.reply
    if reply and cached.reply and (change := change_of(cached, reply, evidence)):
        because = json.dumps(json_values(change.cause)) if change.cause else ""
        notice = Notice(key, "changed", change.before or "", reply.text, because, reasker.now.timestamp())
        Notices(ledger).add(notice)
    RefreshCandidates(ledger).remove(key)
    return Outcome("done", (prepared.key,))


TAU = "tau"  # the ledger value that holds the learned threshold


def plan_verifications(reasker: Reasker) -> list[Job]:
    """Return a job for each question that has only another's answer, which it was served; drop those answered since."""
    verifications, seconds, jobs = Verifications(reasker.ledger), reasker.answer_s(), list[Job]()
    for pending in verifications.all():
        cached = AnswerBank(reasker.ledger).find(pending.key)
        if cached and cached.state != "pending":
            verifications.drop(pending.key)
        elif cached and len(jobs) < _MOST and reasker.makes(pending.key, cached):
            reason, expected = f"semantic hit to verify, similarity {pending.similarity:.2f}", cached.uses + 1.0
            jobs.append(Job("verify", pending.key.hex(), cached.question, reason, expected, seconds))
    return sorted(jobs, key=lambda job: -job.expected)


def verify(reasker: Reasker, job: Job) -> Outcome:
    """Answer a question and compare that with the answer it was served."""
    key = bytes.fromhex(job.subject)
    verifications, bank, at = Verifications(reasker.ledger), AnswerBank(reasker.ledger), reasker.now.timestamp()
    pending, cached = verifications.find(key), bank.find(key)
    if pending is None or cached is None or cached.state != "pending":
        return Outcome("cached")
    prepared = reasker.prepare(cached.question, options_of(cached), cached.source, cached.origin, decode=True)
    reply = prepared.reply
    assert reply, "a verification writes an answer"
    right = keys.same_answer(reply.text, pending.served, reply.span)
    # A different answer says nothing about the similarity of the questions where messages have changed since.
    counts = right or prepared.kept.generation == cached.generation or prepared.kept.evidence == cached.evidence
    if counts:
        verifications.resolve(key, right, at)
        max_error, tau = reasker.settings.experiment.max_error, reasker.settings.bank.tau
        reasker.ledger.set(TAU, str(learned_tau(verifications.labels(None), max_error, tau)))
    else:
        verifications.drop(key)
    if not right:
        if counts:
            bank.raise_tau(pending.matched, above(pending.similarity))
        notice = Notice(key, "wrong" if counts else "changed", pending.served, reply.text, "", at)
        Notices(reasker.ledger).add(notice)
    return Outcome("done", (prepared.key,))


def learned_tau(labels: Iterable[tuple[float, bool]], max_error: float, floor: float) -> float:
    """Return the least threshold, `floor` or above, whose hits are wrong for at most a share `max_error`, to be safe.

    `labels` are the similarities of judged hits and whether they were right. As in vCache (arXiv 2502.03771) the bound
    is on an upper estimate of the error, not on the error itself. Unlike there, where nothing above a threshold was
    wrong that is enough: with a few questions a day the estimate alone would never let the first hit be served.
    """
    judged = list(labels)
    wrong = sorted({similarity for similarity, right in judged if not right and similarity >= floor})
    for tau in (floor, *(math.nextafter(similarity, math.inf) for similarity in wrong)):
        served = [right for similarity, right in judged if similarity >= tau]
        if not (bad := served.count(False)) or max(bad / len(served), upper(bad, len(served))) <= max_error:
            break
    return tau
