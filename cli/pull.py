"""`pkb model pull`, and the embedding model for `pkb ingest`: asks, downloads, selects. The only network use."""

import os
import sys
from datetime import datetime, timedelta

from cli import output
from cli.output import agreed, bars
from engine.inventory import MINILM, MemoryBudget, memory_budget, memory_needed, select, why_unsupported
from engine.models import lookup, runtime
from engine.models.hub import DownloadPlan, Hub
from engine.models.lookup import InstalledModel, split
from engine.models.runtime import device
from engine.session import Session
from engine.text.terminal import size
from engine.types import SCHEMA
from store.errors import NoModel, PkbError, UsageError

_NAMED = "pkb model pull ORG/NAME"


def pull(opened: Session, given: str | None, *, yes: bool, force: bool, use: bool, as_json: bool) -> None:
    """Download a model after showing its size and asking; then select it."""
    named = split(_default(opened) if given is None else given)
    if named is None:
        raise UsageError(f"{given} is not a name like org/name" if given else "no model name given", _NAMED)
    hub = Hub(os.environ)
    plan = hub.plan(*named)
    role = _role(plan)
    budget = memory_budget(opened, memory_needed(plan.name, plan.weights, plan.config))
    missing = hub.missing(plan)
    _show(plan, missing, hub.free(), budget)
    _require_fit(plan, missing, hub.free(), budget, force=force)
    again = f"pkb model pull {given or plan.name}"
    if missing and not agreed("download it?", yes=yes, default=budget.fits, step=f"{again} --yes"):
        raise PkbError("nothing was downloaded", "pkb model list")
    local = _fetch(hub, plan, again, quiet=as_json)
    if chosen := use and role == "writer":
        select(opened, local.name, local.revision or "")
    _tell(local, role, missing, budget, chosen=chosen, as_json=as_json)


_DECLINED = "embedder_declined_at"  # in the ledger, once the person has said no: when they were last told the way back
_AGAIN = timedelta(days=7)


def tell_keywords_only(opened: Session, error: NoModel) -> None:
    """Say that search is by keywords only, and what to type; to a person who wants no model, once a week."""
    declined = opened.ledger.get(_DECLINED) if opened.settings.embed.model == MINILM else None
    if declined and opened.now < datetime.fromisoformat(declined) + _AGAIN:
        return
    output.say(f"pkb: {error.message}; keyword search only; try: {error.next_step}")
    if declined:
        opened.ledger.set(_DECLINED, opened.now.isoformat())


def offer_embedder(opened: Session) -> bool:
    """Ask at a terminal, until the person says no, whether to download the default embedding model; True if done."""
    usual = opened.settings.embed.model == MINILM and not os.environ.get(lookup.FOLDER_VARIABLE)
    if not (usual and sys.stdin.isatty() and sys.stderr.isatty()) or opened.ledger.get(_DECLINED):
        return False
    name = f"the embedding model {lookup.EMBEDDER} (91 MB)"
    output.say(f"{name} finds passages that say the same in other words; without it, search is by keywords only")
    if not agreed("download it from Hugging Face now?", yes=False, default=True, step=""):
        opened.ledger.set(_DECLINED, (opened.now - _AGAIN).isoformat())
        return False
    try:
        hub = Hub(os.environ)
        plan = hub.plan(lookup.EMBEDDER, "")
        budget = memory_budget(opened, memory_needed(plan.name, plan.weights, plan.config))
        _require_fit(plan, hub.missing(plan), hub.free(), budget, force=False)
        _fetch(hub, plan, f"pkb model pull {plan.name}", quiet=False)
    except PkbError as error:
        output.say(f"pkb: {error.message}")
        return False
    return True


def _default(opened: Session) -> str:
    budget = memory_budget(opened, 0)
    name = lookup.default(budget.total, budget.limit, lambda weights: runtime.needed(weights, 4, device()))
    if name is None:
        here = f"{size(budget.total)} of memory, {device()}"
        raise PkbError(f"no recommended model for this machine ({here}); name one yourself, or use quotes", _NAMED)
    return name


def _role(plan: DownloadPlan) -> lookup.Role:
    """Return what the model is for; PkbError if pkb cannot use it, before its weights are downloaded."""
    role = lookup.role(plan.name, plan.config)
    if role is None:
        raise PkbError(why_unsupported(plan.name, plan.config), _NAMED)
    return role


def _show(plan: DownloadPlan, missing: int, free: int, budget: MemoryBudget) -> None:
    output.say(f"{plan.name}, commit {plan.commit}")
    output.say(f"to download: {size(missing)} of {size(plan.bytes)}; free disk space: {size(free)}")
    output.say(f"{'fits' if budget.fits else 'does not fit'}: it needs {budget}")


def _require_fit(plan: DownloadPlan, missing: int, free: int, budget: MemoryBudget, *, force: bool) -> None:
    """Raise PkbError if a model does not fit on the disk or, unless forced, in memory."""
    if not budget.fits and not force:
        raise PkbError(f"{plan.name} does not fit: it needs {budget}", f"pkb model pull {plan.name} --force")
    if missing > free:
        message = f"{plan.name} does not fit on the disk: it needs {size(missing)}, {size(free)} are free"
        raise PkbError(message, f"free some disk space, then run: pkb model pull {plan.name}")


def _fetch(hub: Hub, plan: DownloadPlan, again: str, *, quiet: bool) -> InstalledModel:
    try:
        with bars(quiet=quiet) as tick:
            tick("MB", 0, None)
            return hub.pull(plan, lambda done: tick("MB", done // 10**6, plan.bytes // 10**6))
    except KeyboardInterrupt:
        output.say(f"pkb: interrupted; the partial download is kept; try: {again}")
        raise


def _tell(
    local: InstalledModel, role: lookup.Role, fetched: int, budget: MemoryBudget, *, chosen: bool, as_json: bool
) -> None:
    if as_json:
        output.data({
            "schema": SCHEMA, "name": local.name, "revision": local.revision, "folder": str(local.folder),
            "role": role, "bytes": local.bytes, "fetched": fetched, "needs": budget.needs, "room": budget.limit,
            "fits": budget.fits, "in_use": chosen,
        })  # fmt: skip
        return
    print(f"downloaded {local.name} to {local.folder}")
    if role == "embedder":
        print(_embeds(local))
    elif chosen:
        print('now answering with it; next: pkb ask "when is rehearsal?"')
    else:
        print(f"to answer with it: pkb model use {local.name}")


def _embeds(local: InstalledModel) -> str:
    if local.name != lookup.EMBEDDER:
        return f"to embed with it: pkb config set embed.model {local.name}"
    if (used := lookup.find_weights()) != local.folder:
        return f"embeddings are still computed by the copy in {used}"
    return "embeddings are computed by it; next: pkb ingest"
