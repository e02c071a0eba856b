"""The figures of `pkb stats`, gathered from what the home counts. Prints nothing, and loads nothing heavy."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from engine import operations
from engine.session import Session
from engine.types import SCHEMA

if TYPE_CHECKING:
    from store.jobs import JobBenefit
    from store.kv_index import CountTotal


def so_far(paid: "Mapping[str, JobBenefit]") -> list[dict[str, Any]]:
    """Return what each kind of work took in all nights, and what it brought, as plain values."""
    return [
        {
            "job": kind,
            "units": one.units,
            "seconds": round(one.seconds, 4),
            "hits": one.hits,
            "saved_s": round(one.saved_s, 3),
        }
        for kind, one in paid.items()
    ]


def gather(opened: Session) -> dict[str, Any]:
    """Return all figures, as the JSON page describes them."""
    from store.history import History

    chunks, missing = opened.ledger.count("chunks"), operations.missing_vectors(opened)
    history = History(opened.ledger)
    tiers, prompts = history.by_tier(), history.prompts()
    return {
        "schema": SCHEMA,
        "generation": opened.ledger.generation,
        "kept": {**opened.catalogue.counts(), "chunks": chunks, "vectors": chunks - missing},
        "collections": opened.catalogue.by_collection(),
        "bank": _bank(opened),
        "tensors": _tensors(opened),
        "bytes": opened.home.sizes(),
        "asked": [
            {"tier": t.tier, "read": t.read, "questions": t.questions, "answered": t.answered,
             "median_ms": round(t.median_ms, 3), "saved_s": round(t.saved_ms / 1000, 3)}
            for t in tiers
        ],
        "saved_s": round(sum(t.saved_ms for t in tiers) / 1000, 3),
        "stale_served": history.stale(),
        "prompts": {"questions": prompts.questions, "with_reuse": prompts.with_reuse, "tokens": prompts.tokens,
                    "reused": prompts.reused},
        "night": _idle_counts(opened),
    }  # fmt: skip


def _bank(opened: Session) -> dict[str, Any]:
    """Return what is kept of answers, and what is known of those that other questions were given."""
    from store.answers import AnswerBank, Notices, RejectedAnswers, Verifications

    bank, (judged, wrong), rules = AnswerBank(opened.ledger), Verifications(opened.ledger).rate(), opened.rules()
    return {
        **bank.census(),
        "bytes": bank.size()[1],
        "budget": opened.settings.bank.bytes,
        "tau": rules.tau if rules else None,
        "judged": judged,
        "judged_wrong": wrong,
        "false_hits": round(wrong / judged, 4) if judged else None,
        "said_wrong": RejectedAnswers(opened.ledger).count(),
        "untold": Notices(opened.ledger).count(),
    }


def _tensors(opened: Session) -> dict[str, Any]:
    """Return what is kept of what a model has read, and what that did."""
    from engine.session import open_store
    from store.kv_index import KvCounts

    settings = opened.settings.kv
    store = open_store(opened.home, opened.ledger, settings)
    found = store.stats()
    store.close()
    days, others = KvCounts(opened.ledger).written_by_day(), opened.home.beside_tensors()
    return {
        "reuse": settings.reuse,
        "nodes": found.nodes,
        "bytes": found.bytes,
        "budget": settings.bytes,
        "others": others,
        "written_today": found.written_today,
        "daily_budget": settings.daily_bytes,
        "written_by_day": {day.isoformat(): size for day, size in days.items()},
        "hits": found.hits.count,
        "partial": found.partial.count,
        "tokens": found.hits.tokens,
        "saved_s": _seconds(found.hits.seconds),
        "removed": _counts(found.removed),
        "removed_bytes": {reason: tally.bytes for reason, tally in found.removed.items()},
        "refused": _counts(found.refused),
        "ghosts": found.ghosts,
        "more_would_save_s": _seconds(found.missed.seconds),
    }


def _idle_counts(opened: Session) -> dict[str, Any]:
    """Return what idle work waits, what it took and brought so far, and which predictors rest."""
    from engine.idle.predict import WEEKS, paused_predictors
    from store.jobs import JobAccount, Jobs, PredictionLog

    now, account = opened.now.timestamp(), JobAccount(opened.ledger)
    account.gather(now)
    yields = PredictionLog(opened.ledger).all()
    return {
        "waiting": Jobs(opened.ledger).counts(),
        "so_far": so_far(account.by_kind()),
        "predicted": sum(one.predicted for one in yields),
        "asked_later": round(float(sum(one.paid for one in yields)), 3),
        "resting": paused_predictors(yields, now, WEEKS),
    }


def _counts(tallies: "Mapping[str, CountTotal]") -> dict[str, int]:
    return {reason: tally.count for reason, tally in tallies.items()}


def _seconds(seconds: float) -> float:
    return round(float(seconds), 3)
