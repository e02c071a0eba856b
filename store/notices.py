"""What the next one to ask a question is told about the answer it had: wrong, or changed. Each is told once."""

from contextlib import nullcontext
from dataclasses import astuple, dataclass
from typing import Literal

from store.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Notice:
    """An answer as it was seen and as it is now (None: there is none any more).

    `because` is the JSON of the source that changed it, empty where none did.
    """

    key: bytes
    kind: Literal["wrong", "changed"]
    before: str
    after: str | None
    because: str
    at: float  # seconds since the epoch


class Notices:
    """What is still to be told, at most one notice a question."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._rows = ledger, ledger.rows

    def put(self, notice: Notice) -> None:
        """Have this told: after an untold notice what was seen is what that says, and a way there and back is nothing.

        Nothing is told of an entry that has gone.
        """
        sql = """INSERT INTO notices SELECT ?1, ?2, ?3, ?4, ?5, ?6 FROM answers WHERE key = ?1
                 ON CONFLICT (key) DO UPDATE SET after = excluded.after, because = excluded.because, at = excluded.at"""
        with nullcontext() if self._rows.in_transaction else self._ledger.transaction():
            self._rows.execute(sql, astuple(notice))
            self._rows.execute("DELETE FROM notices WHERE key = ? AND before IS after", (notice.key,))

    def take(self, key: bytes) -> Notice | None:
        """Give what is to be told of a question; nobody is given it again."""
        row = self._rows.execute("DELETE FROM notices WHERE key = ? RETURNING *", (key,)).fetchone()
        return Notice(*row) if row else None

    def count(self) -> int:
        """Count what is untold."""
        return int(self._rows.execute("SELECT count(*) FROM notices").fetchone()[0])
