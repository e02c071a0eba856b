"""Why the sender of a document may not be who the name says: that name or a look-alike address is another's.

What is odd is said of the address that came later; where it is not known which did, of both.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, partial

from engine.text.people import folded_name
from engine.text.terminal import shorten
from store.database import Ledger
from store.filters import is_address
from store.provenance import (
    KnownAddress,
    NamedAddress,
    Provenance,
    addresses_of,
    provenance_of,
    senders_named,
)

_DAY = timedelta(days=1)  # addresses first seen closer together came at the same time: many mails are read in one run
_NAMED = 3  # addresses in a notice
_LOOK_ALIKE = "@"  # begins the names that are folded addresses


@dataclass(frozen=True, slots=True)
class Known:
    """When a document was first seen (ISO, in UTC), and why its sender may not be who the name says."""

    first_seen: str
    warnings: tuple[str, ...]


def known_of(ledger: Ledger, documents: Iterable[str]) -> dict[str, Known]:
    """Return what is known of documents; nothing of those that were read before it was recorded."""
    addresses = cache(partial(addresses_of, ledger))
    found = provenance_of(ledger, list(dict.fromkeys(documents)))
    return {name: Known(one.seen.isoformat(), _warnings(one, addresses)) for name, one in found.items()}


def _warnings(known: Provenance, addresses: Callable[[str], Sequence[KnownAddress]]) -> tuple[str, ...]:
    clashes = (_clash(one, addresses(one.name)) for one in known.people if one.sends)
    return tuple(dict.fromkeys([*known.warnings, *filter(None, clashes)]))


def _clash(sender: NamedAddress, known: Sequence[KnownAddress]) -> str | None:
    """Return whose name or look-alike address a sender has; None if it is their own."""
    for sends in (True, False):
        pool = [one for one in known if one.sends is sends and one.address]
        others = [one.address for one in _first(pool) if one.address != sender.address]
        if others and [one.address for one in _first(pool)] != [sender.address]:
            kind = "looks like" if sender.name.startswith(_LOOK_ALIKE) else "the name is that of"
            return f"{kind} {shorten(others[0], 60)}"
    return None


def _first(pool: Sequence[KnownAddress]) -> list[KnownAddress]:
    """Return the addresses that were seen first; of those, the ones of most documents."""
    earliest = min((one.seen for one in pool), default=None)
    early = [one for one in pool if earliest is not None and one.seen < earliest + _DAY]
    most = max((one.documents for one in early), default=0)
    return [one for one in early if one.documents == most]


def matched_senders(ledger: Ledger, sender: str) -> list[str]:
    """Return a notice where the name in --from fits senders of several addresses; an address is one sender's."""
    if is_address(sender):
        return []
    found = senders_named(ledger, folded_name(sender) or sender.lower())
    if len(found) < 2:
        return []
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    shown = ", ".join(shorten(address, 60) for address in found[:_NAMED])
    return [f"--from {shorten(sender, 40)} fits {len(found)} addresses: {shown}{more}"]
