"""What it costs a user's home to follow an archive: `python -m tests.bench.users COPY_OF_A_HOME`, processor seconds."""

import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from store.database import CHANGED_SINCE, Ledger, open_ledger
from store.readers import take_over


def main(home: Path) -> None:
    """Print the cost of the first time, of a look without a change, and after a change."""
    with TemporaryDirectory() as folder, closing(open_ledger(home / "ledger.db")) as main:
        with closing(open_ledger(Path(folder, "ledger.db"), create=True)) as own:

            def timed(what: str, change: Callable[[], object] = lambda: None) -> None:
                change()
                start = time.process_time()
                take_over(own, home / "ledger.db", [name for (name,) in collections])
                print(f"{what:<24} {time.process_time() - start:.4f}")

            collections = main.rows.execute("SELECT DISTINCT collection FROM places").fetchall()
            main.set(CHANGED_SINCE, main.get(CHANGED_SINCE) or str(main.generation))  # as the next ingest notes it
            (count,) = main.rows.execute("SELECT count(*) FROM documents").fetchone()
            timed(f"first, {count:,} documents")
            timed("nothing changed")
            timed("one document removed", lambda: _remove_one(main))
        print(f"{'bytes of its ledger':<24} {Path(folder, 'ledger.db').stat().st_size:,}")


def _remove_one(ledger: Ledger) -> None:
    """Remove a document, in a transaction as of an ingest."""
    with ledger.transaction():
        (one,) = ledger.rows.execute("SELECT id FROM documents LIMIT 1").fetchone()
        ledger.rows.execute("DELETE FROM documents WHERE id = ?", (one,))
        ledger.rows.execute("DELETE FROM places WHERE document = ?", (one,))
        ledger.raise_generation()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
