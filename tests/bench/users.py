"""What it costs a user's home to follow an archive, in processor seconds: `python -m tests.bench.users COPY_OF_A_HOME`.

Without a home, questions to the bundled mail and meetings, of the owner and of a user who sees them all, by turns.
"""

import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from engine.app import Pkb
from engine.operations import CacheUse
from store.database import CHANGED_SINCE, Ledger, open_ledger
from store.home import locate
from store.readers import User, UserBook, take_over
from tests.demo import CHANGED, DATA, environment


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


def ask() -> None:
    """Print the medians of an exact hit and of a question past the cache."""
    with TemporaryDirectory() as folder:
        owner = {**environment(Path(folder)), "PKB_DAEMON": "off"}
        with Pkb(environ=owner) as pkb:
            pkb.ingest([DATA], collection="All")
        UserBook(home := locate(owner)).put(User("ann", ("All",)))
        cases: tuple[tuple[str, CacheUse], ...] = (("exact hit", "use"), ("past the cache", "off"))
        for what, cache in cases:
            took: dict[str, list[float]] = {"owner": [], "user": []}
            for _ in range(30):
                for who, environ in (("owner", owner), ("user", {**owner, **home.of_user("ann").environ})):
                    with Pkb(environ=environ) as pkb:
                        pkb.ask(CHANGED, cache=cache)  # which opens and imports
                    start = time.process_time()
                    with Pkb(environ=environ) as pkb:
                        pkb.ask(CHANGED, cache=cache)
                    took[who].append(time.process_time() - start)
            print(f"{what:<24} owner {median(took['owner']):.4f}, user {median(took['user']):.4f}")


if __name__ == "__main__":
    main(Path(sys.argv[1])) if sys.argv[1:] else ask()
