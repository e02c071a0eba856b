"""Times questions cold, warm and exact over a copy of a home, by the path that all questions take.

Knows an asker and, where a language model writes, its KV store; both must be ones to try things in. Prints nothing.
"""

import os
import platform
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from shutil import rmtree
from statistics import median
from typing import TYPE_CHECKING

from engine.ask.keys import normalise
from engine.types import AskOptions
from store.errors import PkbError
from store.history import latest

if TYPE_CHECKING:
    from engine.ask.pipeline import Asker
    from engine.types import Answer
    from store.database import Ledger
    from store.home import Home
    from store.kv_store import KvStore
    from store.locks import Locks

UNLIMITED = 1 << 40  # bytes that the KV store of the copy may take, in all and in a day
_ASKED_PER_QUESTION = 4  # questions that the history is searched through for each different one
_EXACT_RUNS = 3  # of a question: an exact hit is so fast that one run says little


@dataclass(frozen=True, slots=True)
class MachineInfo:
    """The machine that the figures hold for; `memory` in bytes, `device` as MLX names it."""

    system: str
    processor: str
    cores: int
    memory: int
    device: str


@dataclass(frozen=True, slots=True)
class Spread:
    """The median, lowest and highest of `n` values."""

    median: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True)
class Timed:
    """The replies to one question: nothing cached, the KV cache reused (None without one), the answer cached."""

    cold: "Answer"
    warm: "Answer | None"
    exact: "tuple[Answer, ...]"


@dataclass(frozen=True, slots=True)
class Tier:
    """Milliseconds of a tier's answers until their first token and their end."""

    first_token_ms: Spread | None
    total_ms: Spread | None


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Tokens of the prompts, those of them that warm answers reused, and tokens of the answers."""

    prompt: Spread | None
    reused: Spread | None
    generated: Spread | None


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of `questions`; `same` of the `compared` warm answers are those that were given cold."""

    questions: int
    declined: int
    cold: Tier
    warm: Tier | None
    exact: Tier
    tokens: TokenCounts | None
    compared: int
    same: int


@contextmanager
def copied(home: "Home", ledger: "Ledger", locks: "Locks") -> "Iterator[Home]":
    """Copy a home for as long as a measurement takes, without its KV cache; Locked where another one runs.

    The ledger is copied; tables, locks and the rest of the cache are linked. The copy lies within the home, so that
    nobody else may read it, and one that a killed process left goes first.
    """
    private, temporary = home.trial, os.environ.get("TMPDIR")
    copy = replace(home, data=private / "data", cache=private / "cache")
    with locks.bench():
        rmtree(private, ignore_errors=True)
        for folder in (private, copy.data, copy.cache):
            folder.mkdir(mode=0o700)
        try:
            ledger.copy_to(copy.ledger)
            cache = home.cache.iterdir() if home.cache.is_dir() else ()
            _link(copy.data, filter(Path.exists, (home.tables, home.locks, home.adapters)))
            _link(copy.cache, (path for path in cache if path != home.kv))
            yield copy
        finally:
            os.environ.pop("TMPDIR", None)  # a model points it into the cache in use, which goes now
            os.environ.update({"TMPDIR": temporary} if temporary else {})
            rmtree(private)


def questions(ledger: "Ledger", count: int) -> list[str]:
    """Return the latest questions, oldest first, each once."""
    found = dict[str, str]()
    for question in latest(ledger, _ASKED_PER_QUESTION * count):
        found.setdefault(normalise(question), question)
    return list(found.values())[:count][::-1]


def measure(asker: "Asker", asked: Sequence[str], k: int, now: datetime, store: "KvStore | None") -> Iterator[Timed]:
    """Yield the replies to each question; one whose evidence does not fit the model is left out.

    The first is asked once more before, untimed: a process computes its first prompt more slowly.
    """

    def ask(question: str, options: AskOptions) -> "Answer":
        answered = asker.ask(question, options, now)
        answered.keep()  # also unpins the KV cache that it reused
        return answered.reply

    fresh = AskOptions(k=k, read_bank=False)
    with suppress(PkbError):
        ask(asked[0], replace(fresh, write_bank=False))
    for question in asked:
        if store:
            store.shrink(0)
            store.shrink(UNLIMITED)
        try:
            cold = ask(question, fresh)
        except PkbError:
            continue
        warm = ask(question, replace(fresh, write_bank=False)) if store and cold.tokens else None
        hits = [ask(question, AskOptions(k=k)) for _ in range(_EXACT_RUNS)]
        yield Timed(cold, warm, tuple(reply for reply in hits if reply.tier == "exact"))


def figures(timed: Sequence[Timed]) -> Figures:
    """Sum up the replies to all questions."""
    cold, warm = [one.cold for one in timed], [one.warm for one in timed if one.warm]
    return Figures(
        questions=len(timed),
        declined=sum(not reply.answered for reply in cold),
        cold=_tier(cold),
        warm=_tier(warm) if warm else None,
        exact=_tier([reply for one in timed for reply in one.exact]),
        tokens=_tokens(cold, warm) if any(reply.tokens for reply in cold) else None,
        compared=len(warm),
        same=sum(one.warm is not None and one.warm.text == one.cold.text for one in timed),
    )


def spread(values: Iterable[float | None]) -> Spread | None:
    """Return the spread of the values that are not None; None if there are none."""
    there = [value for value in values if value is not None]
    if not there:
        return None
    middle, low, high = (round(float(value), 3) for value in (median(there), min(there), max(there)))
    return Spread(middle, low, high, len(there))


def machine() -> MachineInfo:
    """Describe this machine."""
    from engine.models.runtime import device, total

    return MachineInfo(platform.system(), platform.machine(), os.cpu_count() or 1, total(), device())


def _tier(replies: "Sequence[Answer]") -> Tier:
    first, total = (spread(reply.ms.get(stage) for reply in replies) for stage in ("first_token", "total"))
    return Tier(first, total)


def _tokens(cold: "Sequence[Answer]", warm: "Sequence[Answer]") -> TokenCounts:
    prompt, generated = (spread((reply.tokens or {}).get(name) for reply in cold) for name in ("prompt", "generated"))
    return TokenCounts(prompt, spread((reply.tokens or {}).get("reused") for reply in warm), generated)


def _link(folder: Path, paths: Iterable[Path]) -> None:
    for path in paths:
        (folder / path.name).symlink_to(path)
