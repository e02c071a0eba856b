"""Borrowing KV from another place: nodes that are not stored here are fetched while the first of them are computed.

find -> plan -> fetch from the back, compute from the front -> append. What comes is verified before it is used, and
whatever the other side does, computing goes on. Knows the model and the remote by their methods.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from engine.kv.costs import Unit
from engine.kv.overlap import Loader
from engine.llm.restore import Ids, KvBinding, Planning, Restored
from engine.models.kv_read import UnreadableCache
from engine.types import Trace
from store.kv_files import Header
from store.kv_index import Match
from store.remote import FetchedNode, Remote, RemoteMiss, headers_of

_TOKEN_S = 0.002  # guessed seconds of computing a token, before any was measured
_MOST_TOKEN_BYTES = 1 << 20  # of keys and values; what claims more is nothing that a model here made
_PATIENCE = 2.0  # times as long as computing takes, and at least _LEAST_S, may a node take to come
_LEAST_S = 1.0
_NOTHING = {"": "nothing there", "late": "no answer in time"}


@dataclass(frozen=True, slots=True)
class _Offer:
    """Nodes that the other side has: headers that they must have, and what each takes to compute and to fetch."""

    headers: Sequence[Header]
    units: Sequence[Unit]
    is_measured: bool  # else the seconds of computing are a guess


def borrow(kept: KvBinding, match: Match, found: Restored | None, segments: Sequence[Ids], trace: Trace) -> Restored:
    """Return the cache with as many of the next segments as another place has, fetched or computed meanwhile."""
    here = found or Restored(kept.model.begin(), (), ())
    remote, planning = kept.remote, kept.planning
    complete = not match.partial and here.present == tuple(len(node.ids) for node in match.nodes)
    if remote is None or planning is None or not complete or not kept.model.reads_ranges:
        return here
    with trace.step("remote") as step:
        offer = _offer(kept, remote, planning, segments, len(match.nodes))
        if not offer.units or planning.planner(offer.units).way == "compute":
            step.note = "computing is sooner" if offer.units else _NOTHING.get(remote.last_miss, "no answer")
            return here
        begun = time.perf_counter()
        fetched, seconds = _fetched(kept, remote, planning, here, offer)
        result = _appended(kept, here, offer, fetched, seconds)
        _account(kept, offer, fetched, time.perf_counter() - begun, trace)
        step.note = _described(offer, fetched, result, len(here.present))
    return result


def _offer(kept: KvBinding, remote: Remote, planning: Planning, segments: Sequence[Ids], first: int) -> _Offer:
    headers = headers_of(kept.root, segments)[first:]
    sizes = remote.find([one.key for one in headers])
    position, units = sum(map(len, segments[:first])), list[Unit]()
    for header, size in zip(headers, sizes, strict=False):
        count = len(header.ids)
        if size > count * _MOST_TOKEN_BYTES:
            break
        taken = planning.costs.costs.prefill_s(position, position + count)
        units.append(Unit(count, size, count * _TOKEN_S if taken is None else taken, _arrival_s(remote, size)))
        position += count
    return _Offer(headers[: len(units)], units, planning.costs.costs.prefill_s(0, 1) is not None)


def _arrival_s(remote: Remote, size: int) -> float | None:
    """Predict the seconds of fetching a node; None where nothing came of late."""
    latency, rate = remote.latency, remote.rate
    return None if latency is None or rate is None else latency + size / rate


def _fetched(
    kept: KvBinding, remote: Remote, planning: Planning, here: Restored, offer: _Offer
) -> tuple[dict[int, FetchedNode], list[float]]:
    """Fetch nodes from the back and compute from the front; returns those fetched, and the seconds of the others."""
    fetched, seconds = dict[int, FetchedNode](), list[float]()

    def load(number: int) -> None:
        unit = offer.units[number]
        fetched[number] = remote.fetch(offer.headers[number], unit.size, max(_LEAST_S, _PATIENCE * unit.compute_s))

    position = sum(here.present)
    with Loader(offer.units, load, (RemoteMiss,), remote.cancel) as loader:
        while (number := loader.next()) is not None:
            ids, begun = offer.headers[number].ids, time.perf_counter()
            kept.model.prefill(here.cache, ids)
            seconds.append(time.perf_counter() - begun)
            planning.costs.record_prefill(position, position + len(ids), seconds[-1])
            position += len(ids)
        back = loader.back
    return {number: fetched[number] for number in range(back, len(offer.units))}, seconds


def _appended(
    kept: KvBinding, here: Restored, offer: _Offer, fetched: dict[int, FetchedNode], seconds: list[float]
) -> Restored:
    """Append what was fetched to the cache; what does not fit the model is computed after all."""
    try:
        if fetched:
            kept.model.append(here.cache, [fetched[number].tensors for number in sorted(fetched)])
    except UnreadableCache:
        fetched.clear()
    taken = [*seconds, *(offer.units[number].compute_s * offer.is_measured for number in sorted(fetched))]
    counts = [unit.tokens for unit in offer.units[: len(taken)]]
    loaded = [unit.tokens if number in fetched else 0 for number, unit in enumerate(offer.units[: len(taken)])]
    return Restored(here.cache, (*here.present, *counts), (*here.loaded, *loaded), tuple(taken))


def _account(kept: KvBinding, offer: _Offer, fetched: dict[int, FetchedNode], seconds: float, trace: Trace) -> None:
    """Count what came and what it saved; fetching that took longer than computing would have is counted, too."""
    if not fetched or not trace.asked:
        return
    worth = sum(unit.compute_s for unit in offer.units) if offer.is_measured else seconds
    units = [offer.units[number] for number in fetched]
    kept.store.record_fetched(sum(u.tokens for u in units), sum(u.size for u in units), worth - seconds)
    trace.saved_s += max(0.0, worth - seconds)


def _described(offer: _Offer, fetched: dict[int, FetchedNode], result: Restored, before: int) -> str:
    size = sum(offer.units[number].size for number in fetched)
    meanwhile = sum(result.present[before:]) - sum(result.loaded[before:])
    computed = f", {meanwhile} tokens computed meanwhile" if meanwhile else ""
    return f"{len(fetched)} of {len(offer.units)} segments fetched, {size / 1e6:.1f} MB{computed}"
