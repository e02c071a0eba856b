"""The answer to the question asked last, and its sources by their numbers. Light to import; opens nothing itself."""

from collections.abc import Callable, Sequence

from engine.ask.keys import scope_of
from engine.ask.prepare import answer_of
from engine.types import Answer, Evidence, Source, grouped
from store.answers import AnswerBank, CachedAnswer, Verifications
from store.database import Ledger
from store.errors import PkbError, UsageError
from store.history import History, HistoryEntry
from store.types import Scope

Reread = Callable[[Sequence[str], Sequence[float], Scope], Evidence]
_AGAIN = 'pkb ask "QUESTION"'


def last_answer(ledger: Ledger, reread: Reread) -> Answer:
    """Return the answer shown last, with its sources where they stand now; PkbError if it is not cached.

    `reread` returns evidence once more, as `Retriever.reread` does.
    """
    last = History(ledger).last()
    if last is None:
        raise UsageError("no question was asked yet", 'pkb ask "when is rehearsal?"')
    if last.key is None:
        raise PkbError("the last question was asked without the answer cache, so its sources are not stored", _AGAIN)
    cached = _shown(ledger, last.key, last)
    if cached is None or cached.state != "answered" or cached.created > last.at:
        raise PkbError("the last answer was removed or replaced since", _AGAIN)
    return _relocated(ledger, cached, reread)


def source_of(answer: Answer, number: int) -> Source:
    """Return the source of an answer that `pkb ask` shows under a number; UsageError if there is none."""
    groups = grouped(answer.sources)
    if not groups:
        raise UsageError("the last answer has no sources", _AGAIN)
    if not 0 < number <= len(groups):
        raise UsageError(f"no source {number}: the last answer has {len(groups)}", "pkb show 1")
    return groups[number - 1][0]


def _shown(ledger: Ledger, key: bytes, last: HistoryEntry) -> CachedAnswer | None:
    """Return the entry whose answer was shown, of a paraphrase hit that of the matched question; None if it is gone."""
    if last.tier != "semantic":
        return AnswerBank(ledger).find(key)
    pending = Verifications(ledger).find(key)
    return AnswerBank(ledger).find(pending.matched) if pending else None


def _relocated(ledger: Ledger, cached: CachedAnswer, reread: Reread) -> Answer:
    """Return an answer with its sources where they stand now, because files are moved."""
    answer = answer_of(cached)
    if cached.generation == ledger.generation:
        return answer
    evidence = reread(cached.evidence, answer.scores, scope_of(cached.scope))
    whole = len(evidence.passages) == len(answer.scores)
    return answer.relocate(evidence.sources) if whole else answer
