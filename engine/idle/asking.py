"""How idle asks questions anew: in the manner they were asked in, without a person. Knows no kind of work."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from engine.ask.keys import scope_of
from engine.ask.question import BankBudget, Prepared, begin, key_of, look, prepare
from engine.types import Manner, Means
from store.answers import Kept, Mine
from store.database import Ledger

if TYPE_CHECKING:
    from engine.types import Evidence


@dataclass(frozen=True, slots=True)
class Asking:
    """By what means questions are asked anew, at what time."""

    ledger: Ledger
    means: Means
    room: BankBudget
    now: datetime

    @property
    def mine(self) -> Mine:
        """Give what the entries have in common that would be made the same way today."""
        return Mine(f"{self.means.writer}/", self.now.date().isoformat())

    def makes(self, kept: Kept) -> bool:
        """Tell whether an entry would be made the same way today: by this writer, for this day."""
        mine = kept.writer.startswith(f"{self.means.writer}/")
        return mine and key_of(self.means, kept.question, manner_of(kept), self.now).day == kept.day

    def evidence(self, kept: Kept) -> "Evidence":
        """Retrieve for a kept question as things are now."""
        return look(self.means, begin(self.means, self.ledger, kept.question, manner_of(kept), self.now)).evidence

    def anew(self, kept: Kept, *, decode: bool = True) -> Prepared:
        """Make a kept entry anew; with `decode` its answer too."""
        parts = (self.ledger, self.means, self.room, kept.question, manner_of(kept), self.now)
        return prepare(*parts, decode=decode, origin=kept.origin, source=kept.source)


def manner_of(kept: Kept) -> Manner:
    """Give the manner in which an entry was asked for: the last part of its writer is the number of sources."""
    return Manner(scope_of(kept.scope), int(kept.writer.rpartition("/")[2]))


def worth(kept: Kept) -> float:
    """Give how often an entry was wanted: it was asked for when a person had it made, and at each use since."""
    return kept.uses + (1.0 if kept.origin == "user" else 0.1)
