"""Which chunks each question of the history retrieved, in the order in which a prompt shows them. Knows no retrieval.

A row goes with its question: when the history drops that, or when somebody removes it.
"""

import json
from collections.abc import Sequence

from store.ledger import Ledger


class Retrieved:
    """The chunk ids that questions retrieved."""

    def __init__(self, ledger: Ledger) -> None:
        self._rows = ledger.rows

    def add(self, question: int, chunks: Sequence[str]) -> None:
        """Keep what a row of the history retrieved; nothing where that was nothing."""
        if chunks:
            self._rows.execute("INSERT INTO retrieved VALUES (?, ?)", (question, json.dumps(chunks)))

    def frequencies(self) -> dict[str, int]:
        """Give how many questions retrieved each chunk, the most frequent first; the chunk may be gone since."""
        sql = "SELECT value, count(*) FROM retrieved, json_each(chunks) GROUP BY value ORDER BY 2 DESC, 1"
        return dict(self._rows.execute(sql).fetchall())

    def lists(self, limit: int) -> list[tuple[str, ...]]:
        """Give what the last so many questions retrieved, oldest first."""
        sql = "SELECT chunks FROM retrieved ORDER BY asked DESC LIMIT ?"
        return [tuple(json.loads(chunks)) for (chunks,) in self._rows.execute(sql, (limit,))][::-1]
