"""The exact tier: what makes two questions the same. Light to import, for a hit must not wait."""

import json
import unicodedata
from dataclasses import asdict, dataclass
from datetime import date, datetime
from hashlib import blake2b

from prompts import version
from store.errors import UsageError
from store.types import Scope

_QUOTE = "quote-2"  # raised when the same evidence would be quoted in another way
_MODEL = "model-1"  # raised when the same evidence would be put to a model in another order or form
_PROMPTS = ("answer", "question")
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
        """Return the key of the bank."""
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
    limits = json.dumps(asdict(scope), default=date.isoformat)
    return Key(compared, limits, writer, now.date().isoformat() if calendar else None)


def scope_of(limits: str) -> Scope:
    """Return the scope of a key."""
    parts = json.loads(limits)
    days = {name: datetime.fromisoformat(parts[name]).date() for name in ("since", "until") if parts[name]}
    return Scope(**{**parts, **days})


def by_quotes(least: float) -> str:
    """Name the quote writer."""
    return f"{_QUOTE}/{least}"


def by_model(fingerprint: str, most: int, *options: str) -> str:
    """Name a language model as a writer: its files, the wording of its prompt, the tokens it may write.

    `options` says what else its words depend on, where it is not as usual: how a prompt is read.
    """
    return "/".join((_MODEL, fingerprint, version(*_PROMPTS), str(most), *filter(None, options)))
