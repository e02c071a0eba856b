"""What brackets a change that touches both LanceDB and the ledger, so that a killed writer's half can be undone.

A row is written before the tables change and goes in the transaction that acknowledges the change. A row that is still
there when a writer starts belongs to a dead one. Knows ids and counts, not what the tables hold.
"""

import json
from dataclasses import dataclass

from store.frequencies import Tally
from store.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Change:
    """Documents about to be added and removed, and the word counts that go with the removed ones."""

    adds: tuple[str, ...]
    removes: tuple[str, ...]
    tally: Tally


def begin(ledger: Ledger, change: Change, now: float) -> int:
    """Write down what is about to be done, and raise the generation: answers from before must look again."""
    tally = change.tally
    payload = json.dumps([change.adds, change.removes, tally.chunks, tally.words, tally.frequencies])
    with ledger.transaction():
        ledger.raise_generation()
        row = ledger.rows.execute("INSERT INTO journal (begun, payload) VALUES (?, ?)", (now, payload))
    return int(row.lastrowid or 0)


def end(ledger: Ledger, number: int) -> None:
    """Acknowledge, inside the transaction that holds the rest: answers made in between must look again too."""
    ledger.rows.execute("DELETE FROM journal WHERE id = ?", (number,))
    ledger.raise_generation()


def unfinished(ledger: Ledger) -> dict[int, Change]:
    """Give the changes of writers that died; only a holder of the writer lock may ask."""
    found = {}
    for number, payload in ledger.rows.execute("SELECT id, payload FROM journal ORDER BY id"):
        adds, removes, chunks, words, frequencies = json.loads(payload)
        tally = Tally(chunks, words)
        tally.frequencies.update(frequencies)
        found[int(number)] = Change(tuple(adds), tuple(removes), tally)
    return found
