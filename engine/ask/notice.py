"""What has become known of an answer since it was given: that it was wrong, or that new mail changed it."""

import json

from store.answers import Notice, Notices, Wrong
from store.database import Ledger

_LENGTH = 160  # of an answer that is told once more


def tell(ledger: Ledger, key: bytes, answer: str | None) -> list[str]:
    """Give what the asker of a question should be told beside its answer; each is told once."""
    found = [_sentence(notice)] if (notice := Notices(ledger).take(key)) else []
    doubted = Wrong(ledger).find(key)
    if doubted and doubted[0] == (answer or ""):
        found.append("you marked this answer as wrong")
    return found


def _sentence(notice: Notice) -> str:
    before, after = _short(notice.before), _short(notice.after)
    if notice.kind == "wrong":
        return f"the earlier answer, {before}, came from a similar question; this one's own is {after}"
    return f"the answer was {before}, now it is {after}{_because(notice.because)}"


def _because(source: str) -> str:
    """Name the message that changed an answer."""
    if not source:
        return ""
    named = json.loads(source)
    return f" ({named['title'] or 'no subject'}{', ' + named['date'][:10] if named['date'] else ''})"


def _short(answer: str | None) -> str:
    if not answer:
        return "no answer"
    flat = " ".join(answer.split())
    return f"“{flat if len(flat) <= _LENGTH else flat[: _LENGTH - 1] + '…'}”"
