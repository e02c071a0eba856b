"""The figures of `pkb stats`, from the counters of a home. Loads nothing heavy, and prints nothing."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date, timedelta
from typing import Any

from engine import operations
from engine.idle.refresh import upper
from engine.session import Session
from engine.types import SCHEMA, json_values
from store.answers import AnswerBank, Notices, RejectedAnswers, Verifications
from store.errors import UsageError
from store.history import DayCount, History, TierCount
from store.jobs import JobAccount, JobBenefit, Jobs, PredictionLog, PredictorCounts
from store.kv_index import CountTotal, KvCounts

_WEEK, _WEEKS, _DAYS = 7, 104, 28  # days of a week; most weeks and days that are listed
_DAY_S = 86_400.0


def so_far(benefits: Mapping[str, JobBenefit]) -> list[dict[str, Any]]:
    """Return cost and benefit of each kind of idle job in all runs, as plain values."""
    return [
        {"job": kind, **json_values(one), "seconds": round(one.seconds, 4), "saved_s": round(one.saved_s, 3)}
        for kind, one in benefits.items()
    ]


def gather(opened: Session) -> dict[str, Any]:
    """Return all figures, as the reference of `--json` describes them."""
    chunks, missing = opened.ledger.count("chunks"), operations.missing_vectors(opened)
    history = History(opened.ledger)
    tiers = history.by_tier()
    days = history.by_day(opened.now.timestamp() + _DAY_S)  # later ones were asked when the clock was wrong
    return {
        "schema": SCHEMA,
        "generation": opened.ledger.generation,
        "model": _model(opened),
        "adapters": _adapters(opened),
        "index": {**opened.catalogue.counts(), "chunks": chunks, "vectors": chunks - missing},
        "collections": opened.catalogue.by_collection(),
        "folders": _folders(opened),
        "answers": _answers(opened),
        "kv": _kv(opened),
        "bytes": opened.home.sizes(),
        "tiers": [_tier(t, answered=t.answered, median_ms=t.median_ms, saved_s=t.saved_ms / 1000) for t in tiers],
        "saved_s": round(sum(t.saved_ms for t in tiers) / 1000, 3),
        "history": {
            "first": days[0].day.isoformat() if days else None,
            "weeks": by_period(days, _WEEK, _WEEKS),
            "days": by_period(days, 1, _DAYS),
            "latency": [_tier(t, p50_ms=t.median_ms, p95_ms=t.p95_ms) for t in tiers],
        },
        "stale_served": history.stale(),
        "prompts": json_values(history.prompts()),
        "idle": _idle_counts(opened),
    }


def _tier(found: TierCount, **figures: float) -> dict[str, Any]:
    rounded = {name: round(figure, 3) for name, figure in figures.items()}
    return {"tier": found.tier, "by_model": found.by_model, "questions": found.questions, **rounded}


def by_period(counts: Sequence[DayCount], length: int, most: int) -> list[dict[str, Any]]:
    """Return questions, tiers and savings of periods of 7 days from Monday, or of 1: at most so many, oldest first.

    Periods without questions between the first and the last are included.
    """
    if not counts:
        return []
    first, last = (_start(counts[place].day, length) for place in (0, -1))
    number = min(most, (last - first).days // length + 1)
    periods = {last - timedelta(length * back): list[DayCount]() for back in reversed(range(number))}
    for count in counts:
        periods.get(_start(count.day, length), []).append(count)
    return [_period(start, within) for start, within in periods.items()]


def _start(day: date, length: int) -> date:
    return day - timedelta(day.weekday() % length)


def _period(start: date, counts: Sequence[DayCount]) -> dict[str, Any]:
    tiers: dict[str, int] = {}
    for one in counts:
        tiers[one.tier] = tiers.get(one.tier, 0) + one.questions
    saved_s = round(sum(one.saved_ms for one in counts) / 1000, 3)
    return {"start": start.isoformat(), "questions": sum(tiers.values()), "tiers": tiers, "saved_s": saved_s}


def _model(opened: Session) -> str | None:
    """Return the language model that answers, of a model server with its address; None if pkb quotes."""
    chosen = opened.settings.model
    if not chosen.is_served:
        return chosen.name if chosen.is_local else None
    from engine.models.endpoint import parse_endpoint

    with suppress(UsageError):  # `pkb doctor` names it
        return parse_endpoint(chosen.name).shown
    return chosen.name


def _adapters(opened: Session) -> dict[str, Any]:
    """Return the adapter of each task; None for none."""
    chosen = opened.settings.adapter
    tasks = {"answer": chosen.answer, "abstract": chosen.abstract, "predict": chosen.predict}
    return {task: name or None for task, name in tasks.items()}


def _folders(opened: Session) -> list[dict[str, Any]]:
    """Return what is indexed of each folder or file named to `pkb ingest`, and when it was last read."""
    from engine.ingest.imap import shown_path

    names = ("files", "documents", "first", "last", "read")
    return [
        {"path": shown_path(opened.home.mail, one.root.path), "collection": one.root.collection}
        | {name: getattr(one, name) for name in names}
        for one in opened.catalogue.root_counts()
    ]


def _answers(opened: Session) -> dict[str, Any]:
    """Return the size of the answer cache, and the results of verifying semantic hits."""
    bank = AnswerBank(opened.ledger)
    verified, wrong = Verifications(opened.ledger).result_counts()
    return {
        **bank.counts(),
        "bytes": bank.size()[1],
        "budget": opened.settings.bank.bytes,
        "tau": opened.tau,
        "verified": verified,
        "wrong": wrong,
        "false_hit_rate": round(wrong / verified, 4) if verified else None,
        "false_hit_upper": round(upper(wrong, verified), 4) if verified else None,
        "rejected": RejectedAnswers(opened.ledger).count(),
        "notices": Notices(opened.ledger).count(),
    }


def _kv(opened: Session) -> dict[str, Any]:
    """Return size, writes and hits of the KV cache."""
    from engine.backends import open_store

    settings = opened.settings.kv
    store = open_store(opened.home, opened.ledger, settings)
    found = store.stats()
    store.close()
    days, others = KvCounts(opened.ledger).written_by_day(), opened.home.other_cache_bytes()
    return {
        "reuse": settings.reuse, "nodes": found.nodes, "bytes": found.bytes, "budget": settings.bytes,
        "other_bytes": others, "written_today": found.written_today, "daily_budget": settings.daily_bytes,
        "written_by_day": {day.isoformat(): size for day, size in days.items()},
        "hits": found.hits.count, "partial": found.partial.count, "tokens": found.hits.tokens,
        "saved_s": _rounded(found.hits.seconds), "computed_tokens": found.computed.tokens + found.overlap.tokens,
        "fetched_tokens": found.fetched.tokens, "fetched_bytes": found.fetched.bytes,
        "fetched_saved_s": _rounded(found.fetched.seconds),
        "slow_loads": found.slow.count, "lost_s": _rounded(found.slow.seconds), "removed": _counts(found.removed),
        "removed_bytes": {reason: tally.bytes for reason, tally in found.removed.items()},
        "refused": _counts(found.refused), "ghosts": found.ghosts, "more_would_save_s": _rounded(found.missed.seconds),
    }  # fmt: skip


def _idle_counts(opened: Session) -> dict[str, Any]:
    """Return the pending idle jobs, cost and benefit so far, and which predictors are paused."""
    now, account = opened.now.timestamp(), JobAccount(opened.ledger)
    account.update(now)
    predictors = PredictionLog(opened.ledger).all()
    return {
        "pending": Jobs(opened.ledger).counts(),
        "so_far": so_far(account.by_kind()),
        "predicted": sum(one.predicted for one in predictors),
        "asked_later": round(float(sum(one.credited for one in predictors)), 3),
        "paused": _paused(predictors, now) if predictors else None,
    }


def _paused(predictors: list[PredictorCounts], now: float) -> str | None:
    from engine.idle.predict import WEEKS, paused_predictors  # a third of the time that all of this takes

    return paused_predictors(predictors, now, WEEKS)


def _counts(tallies: Mapping[str, CountTotal]) -> dict[str, int]:
    return {reason: tally.count for reason, tally in tallies.items()}


def _rounded(value: float) -> float:
    return round(float(value), 3)
