"""The job `refresh`: answers that new mail may have changed, looked at again before anybody asks (PerCache 4.1.3).

hinted or of an older generation -> same evidence? its generation is stamped : the answer is made anew -> where a person
has seen another one, the next one who asks is told. Freshness itself is decided when serving: this saves the waiting.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING

from engine.idle.asking import Asking, worth
from engine.idle.same import same
from engine.idle.units import DONE, Outcome, Unit, by_rate
from engine.types import Reply, relocate
from store.answers import Bank, Hints, Kept, Notice, Notices, older, stamp

if TYPE_CHECKING:
    from engine.types import Evidence

MOST = 500  # answers looked at in a night
_LEAST_S = 0.01  # that looking takes, whatever the answer took


def plan(asking: Asking) -> list[Unit]:
    """Give a unit for each entry that may be out of date: those first that new chunks came near to."""
    hinted = {key: None for key, *_ in Hints(asking.ledger).all()}
    old = older(asking.ledger, asking.mine, asking.ledger.generation, MOST)
    near = _units(asking, list(hinted), "new mail is close to it")
    return [*near[:MOST], *_units(asking, [key for key in old if key not in hinted], "new mail since it was answered")]


def _units(asking: Asking, keys: Sequence[bytes], why: str) -> list[Unit]:
    found = ((key, Bank(asking.ledger).find(key)) for key in keys)
    return by_rate(_unit(asking, key, kept, why) for key, kept in found if kept and _fits(asking, kept))


def _fits(asking: Asking, kept: Kept) -> bool:
    return kept.state != "owed" and asking.makes(kept)


def _unit(asking: Asking, key: bytes, kept: Kept, why: str) -> Unit:
    seconds = max(_LEAST_S, kept.made_ms / 1000)
    return Unit("refresh", key.hex(), kept.question, why, worth(kept), seconds, seconds, partial(_do, asking, key))


def _do(asking: Asking, key: bytes) -> Outcome:
    """Look at an entry again, as it is now."""
    kept, generation = Bank(asking.ledger).find(key), asking.ledger.generation
    if kept is None or not _fits(asking, kept):
        return Outcome("there")
    evidence = asking.evidence(kept)
    if evidence.chunks == kept.evidence:
        _still_right(asking, key, kept, evidence, generation)
        return DONE
    prepared = asking.anew(kept, decode=kept.state == "answered")
    if prepared.reply and (kept.origin == "user" or kept.uses):
        _tell(asking, key, kept, prepared.reply, evidence)
    Hints(asking.ledger).done(key)
    return Outcome("done", (prepared.key,))


def _still_right(asking: Asking, key: bytes, kept: Kept, evidence: "Evidence", generation: int) -> None:
    """Stamp an entry whose evidence is what it was, with its sources where they stand now."""
    moved = replace(kept, reply=relocate(kept.reply, evidence.sources)) if kept.reply else kept
    if moved != kept:
        Bank(asking.ledger).keep(key, moved, asking.room.bytes)
    stamp(asking.ledger, key, generation, kept.evidence)
    Hints(asking.ledger).done(key)


def _tell(asking: Asking, key: bytes, kept: Kept, reply: Reply, evidence: "Evidence") -> None:
    """Note that an answer has changed, with the first source that it did not have before."""
    before = json.loads(kept.reply)
    answer, marked = before["answer"], before["highlight"]
    if same(answer, reply.answer, _span(answer, marked), _span(reply.answer, reply.highlight)):
        return
    known = set(kept.evidence)
    new = next((read for read in evidence.reads if not known.issuperset(c.id for c in read.chunks)), None)
    because = json.dumps(asdict(new.sources[0])) if new and new.sources else ""
    notice = Notice(key, "changed", answer or "", reply.answer, because, asking.now.timestamp())
    Notices(asking.ledger).put(notice)


def _span(answer: str | None, highlight: Sequence[int] | None) -> str:
    return answer[highlight[0] : highlight[1]] if answer and highlight else ""
