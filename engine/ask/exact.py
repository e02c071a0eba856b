"""The exact tier: what makes two questions the same. Standard library alone, for a hit must not wait for imports."""

import json
import unicodedata
from dataclasses import asdict, dataclass
from datetime import datetime
from hashlib import blake2b

from store.errors import UsageError
from store.records import Scope

QUOTE = "quote-1"  # the quote writer; raised when the same evidence would be quoted in another way
_TRAILING = " .?!…,;:。？！、"  # not all punctuation: C and C# are two things


@dataclass(frozen=True, slots=True)
class Key:
    """All that an answer depends on, except the data: the question as compared, scope, writer, and maybe the day."""

    question: str
    scope: str
    writer: str
    day: str | None

    @property
    def digest(self) -> bytes:
        """Give the key of the bank."""
        parts = json.dumps([self.question, self.scope, self.writer, self.day]).encode()
        return blake2b(parts, digest_size=16).digest()


def normalise(question: str) -> str:
    """Bring a question to what is compared: NFKC, case, white space, trailing punctuation; idempotent."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", question).casefold())
    return " ".join(folded.split()).rstrip(_TRAILING)


def key(question: str, scope: Scope, writer: str, now: datetime, *, calendar: bool) -> Key:
    """Make the key of a question asked now; UsageError where nothing is left of it."""
    compared = normalise(question)
    if not compared:
        raise UsageError("the question is empty", 'pkb ask "when is rehearsal?"')
    limits = json.dumps(asdict(scope), default=datetime.isoformat)
    return Key(compared, limits, writer, now.date().isoformat() if calendar else None)
