"""A bank that lives on while mail comes: chats are ingested session by session, all questions so far asked after each.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.sessions DATA [--users N] [--questions N] [--every N]`, where DATA
holds a folder for each user: questions.jsonl beside docs/. A question is known when the bank has an entry for it, and
unchanged when that was made of what is retrieved now: then no answer need be written. What is served and was made of
anything else is stale, of which there must be none.
"""

import json
import re
import shutil
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from cli import deeds
from cli.session import Session
from engine.ask.begin import begin, key_of, look
from engine.ask.means import Answered, Manner
from store.bank import Bank, Kept
from store.catalogue import Root
from tests.bench.homes import opened
from tests.bench.retrieval import counts

MANNER = Manner()
TIERS = ("exact", "semantic", "full")
_TRAILING = re.compile(r"(?P<head>\w.*\w) (?P<tail>(?:to|in|on|at|with|for|from|during|after|before|about) [^?]+)\?$")
_OPENERS = re.compile(r"(?:what|when|where|who|whose|which|why|how)\b", re.IGNORECASE)


@dataclass(slots=True)
class Tally:
    """What became of the asks of one user; a share is of the asks of known questions with unchanged evidence."""

    asks: int = 0
    known: int = 0
    unchanged: int = 0
    spared: int = 0  # of those, answered without writing anew
    stale: int = 0
    seconds: float = 0.0
    tiers: Counter[str] = field(default_factory=Counter)

    def count(self, answered: Answered, entry: Kept | None, evidence: Sequence[str], *, stale: bool) -> None:
        """Count one ask, by the entry that the question had before and what was retrieved for it."""
        served = answered.reply.tier in ("exact", "semantic")
        unchanged = entry is not None and entry.evidence == evidence
        self.asks, self.known = self.asks + 1, self.known + (entry is not None)
        self.unchanged, self.spared = self.unchanged + unchanged, self.spared + (unchanged and served)
        self.stale += stale
        self.seconds += answered.reply.ms["total"] / 1000
        self.tiers[answered.reply.tier] += 1

    def add(self, other: "Tally") -> None:
        """Count another user in."""
        for name in ("asks", "known", "unchanged", "spared", "stale", "seconds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.tiers += other.tiers


def main() -> None:
    """Print a line for each user and kind of question, and the sums."""
    options = arguments()
    sums = {"as asked": Tally(), "reordered": Tally()}
    head = "".join(f"{name:>10}" for name in ("asks", "known", "unchanged", "spared", "share", *TIERS, "stale", "ms"))
    print(f"{'':24}{head}", flush=True)
    for folder in sorted(file.parent for file in options.data.rglob("questions.jsonl"))[: options.users]:
        for kind, tally in replayed(folder, options.questions, options.every).items():
            show(f"{folder.name}, {kind}", tally)
            sums[kind].add(tally)
    for kind, tally in sums.items():
        show(f"all, {kind}", tally)


def arguments() -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--users", type=int, default=None)
    parser.add_argument("--questions", type=int, default=30, help="of each user, evenly spaced")
    parser.add_argument("--every", type=int, default=1, help="ask after every so many sessions")
    return parser.parse_args()


def replayed(user: Path, most: int, every: int) -> dict[str, Tally]:
    """Live through one user's sessions, in a home of its own."""
    rows = [json.loads(line) for line in (user / "questions.jsonl").read_text("utf-8").split("\n") if line.strip()]
    rows = [row for row in rows if counts(row)]
    rows = rows[:: max(1, len(rows) // most)][:most]
    tallies = {"as asked": Tally(), "reordered": Tally()}
    with TemporaryDirectory(prefix="pkb-sessions-") as name:
        session, docs, there = opened(Path(name)), Path(name, "docs"), set[str]()
        docs.mkdir()
        for number, document in enumerate(sorted((user / "docs").iterdir()), 1):
            shutil.copy(document, docs)
            there.add(f"docs/{document.name}")
            ingest(session, docs)
            if number % every == 0:
                for kind, text in asked(row for row in rows if there.issuperset(row["doc_ids"])):
                    ask(session, text, tallies[kind])
        session.ledger.close()
    return tallies


def ingest(session: Session, docs: Path) -> None:
    """Bring the home up to date, vectors too."""
    with session.locks.writer():
        for _ in deeds.ingest_run(session, prune=False).run(Root(str(docs), "docs", "transcript")):
            pass
    for _ in deeds.embed(session):
        pass


def asked(rows: Iterator[dict[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield each question, and behind it the same in another order of words where it has one."""
    for row in rows:
        yield "as asked", row["question"]
        if other := reordered(row["question"]):
            yield "reordered", other


def reordered(question: str) -> str | None:
    """Put what a question ends in first: "when did Ann go to Rome?", "to Rome, when did Ann go?"."""
    parts = _TRAILING.match(question.strip())
    if parts is None or not _OPENERS.match(parts["head"]):
        return None
    return f"{parts['tail'][0].upper()}{parts['tail'][1:]}, {parts['head'][0].lower()}{parts['head'][1:]}?"


def ask(session: Session, text: str, tally: Tally) -> None:
    """Ask one question, and look at what that was served from."""
    entry = kept(session, text)
    began = perf_counter()
    answered = session.asker.ask(text, MANNER, session.now)
    answered.reply.ms["total"] = 1000 * (perf_counter() - began)
    evidence = retrieved(session, text)
    lender = answered.reply.matched_question or (text if answered.reply.tier == "exact" else None)
    stale = lender is not None and not holds(session, lender)
    tally.count(answered, entry, evidence, stale=stale)


def holds(session: Session, question: str) -> bool:
    """Tell whether what is kept of a question was made of what is retrieved for it now."""
    entry = kept(session, question)
    return entry is not None and entry.state == "answered" and entry.evidence == retrieved(session, question)


def kept(session: Session, text: str) -> Kept | None:
    """Give the entry of a question."""
    return Bank(session.ledger).find(key_of(session.means, text, MANNER, session.now).digest)


def retrieved(session: Session, text: str) -> tuple[str, ...]:
    """Give what is retrieved for a question now."""
    return look(session.means, begin(session.means, session.ledger, text, MANNER, session.now)).evidence.chunks


def show(label: str, tally: Tally) -> None:
    """Print a line."""
    share = f"{tally.spared / tally.unchanged:.3f}" if tally.unchanged else "-"
    written = sum(tally.tiers.values()) - sum(tally.tiers[tier] for tier in TIERS[:2])
    tiers = (tally.tiers["exact"], tally.tiers["semantic"], written)
    ms = f"{1000 * tally.seconds / tally.asks:.0f}" if tally.asks else "-"
    values = (tally.asks, tally.known, tally.unchanged, tally.spared, share, *tiers, tally.stale, ms)
    print(f"{label:24}{''.join(f'{value!s:>10}' for value in values)}", flush=True)


if __name__ == "__main__":
    main()
