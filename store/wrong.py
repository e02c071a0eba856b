"""Answers that the user said are wrong, so that they are known again. They outlive the entries they stood in."""

from store.ledger import Ledger


class Wrong:
    """The last wrong answer of each question."""

    def __init__(self, ledger: Ledger) -> None:
        self._rows = ledger.rows

    def add(self, key: bytes, answer: str, at: float) -> None:
        """Note a wrong answer, in place of a former one."""
        self._rows.execute("INSERT OR REPLACE INTO wrong VALUES (?, ?, ?)", (key, answer, at))

    def find(self, key: bytes) -> tuple[str, float] | None:
        """Give the wrong answer of a question, and when that was said in seconds since the epoch."""
        row = self._rows.execute("SELECT answer, at FROM wrong WHERE key = ?", (key,)).fetchone()
        return (row[0], row[1]) if row else None

    def count(self) -> int:
        """Count the questions."""
        return int(self._rows.execute("SELECT count(*) FROM wrong").fetchone()[0])
