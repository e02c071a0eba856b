"""In how many chunks each word occurs, over the whole bank: what LanceDB does not tell and rank-bm25 needs."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from store.ledger import Ledger

_BATCH = 500  # variables in one statement, under SQLite's limit


@dataclass(slots=True)
class Tally:
    """A change to the frequencies; grows as chunks are counted in."""

    chunks: int = 0
    words: int = 0
    frequencies: Counter[str] = field(default_factory=Counter)

    def count(self, tokens: Iterable[str]) -> "Tally":
        """Count chunks in, each given as its words joined by spaces."""
        for words in tokens:
            split = words.split(" ") if words else []
            self.chunks, self.words = self.chunks + 1, self.words + len(split)
            self.frequencies.update(set(split))
        return self


def apply(ledger: Ledger, tally: Tally, sign: int) -> None:
    """Add (sign 1) or take away (sign -1) a tally, inside the caller's transaction."""
    sql = "INSERT INTO frequencies VALUES (?1, ?2) ON CONFLICT (word) DO UPDATE SET chunks = chunks + ?2"
    ledger.rows.executemany(sql, [(word, sign * count) for word, count in sorted(tally.frequencies.items())])
    if sign < 0:
        ledger.rows.executemany(
            "DELETE FROM frequencies WHERE word = ? AND chunks <= 0", [(w,) for w in tally.frequencies]
        )
    ledger.add("chunks", sign * tally.chunks)
    ledger.add("words", sign * tally.words)


def of(ledger: Ledger, words: Sequence[str]) -> Mapping[str, int]:
    """Give the number of chunks that hold each word; unknown words are left out."""
    found: dict[str, int] = {}
    for start in range(0, len(words), _BATCH):
        some = words[start : start + _BATCH]
        marks = ", ".join("?" * len(some))
        found |= dict(ledger.rows.execute(f"SELECT word, chunks FROM frequencies WHERE word IN ({marks})", some))
    return found
