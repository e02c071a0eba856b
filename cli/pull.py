"""`pkb model pull`: what a model would take, consent, the download, the choice of it. The one way to the network."""

import os
import sys

from cli import output
from cli.output import bars
from engine.inventory import MemoryBudget, choose, needs, room_for, why_not
from engine.models import lookup, memory
from engine.models.hub import DownloadPlan, Hub
from engine.models.lookup import InstalledModel, split
from engine.models.runtime import device
from engine.session import Session
from engine.text.terminal import line, size
from store.errors import PkbError, UsageError


def agreed(question: str, *, yes: bool, usual: bool, step: str) -> bool:
    """Return whether the person agrees, `usual` being the answer of an empty line; UsageError where nobody is there."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError("cannot ask for confirmation: not a terminal", step)
    sys.stderr.write(f"{line(question)} [{'Y/n' if usual else 'y/N'}] ")
    sys.stderr.flush()
    said = sys.stdin.readline()  # empty where what is typed has ended: that is no consent
    return usual if said == "\n" else said.strip().casefold() in ("y", "yes")


_NAMED = "pkb model pull ORG/NAME"


def pull(opened: Session, given: str | None, *, yes: bool, force: bool, use: bool, as_json: bool) -> None:
    """Fetch a model, after saying what it takes and asking; then use it."""
    named = split(_default(opened) if given is None else given)
    if named is None:
        raise UsageError(f"{given} is not a name like org/name" if given else "no model name given", _NAMED)
    hub = Hub(os.environ)
    plan = hub.plan(*named)
    role = _role(plan)
    room = room_for(opened, needs(plan.name, plan.weights, plan.config))
    missing = hub.missing(plan)
    _show(plan, missing, hub.free(), room)
    _demand(plan, missing, hub.free(), room, force=force)
    again = f"pkb model pull {given or plan.name}"
    if missing and not agreed("download it?", yes=yes, usual=room.fits, step=f"{again} --yes"):
        raise PkbError("nothing was downloaded", "pkb model list")
    local = _fetch(hub, plan, again, quiet=as_json)
    if chosen := use and role == "writer":
        choose(opened, local.name, local.revision or "")
    _tell(local, role, missing, room, chosen=chosen, as_json=as_json)


def _default(opened: Session) -> str:
    room = room_for(opened, 0)
    name = lookup.default(room.total, room.most, lambda weights: memory.needed(weights, 4, device()))
    if name is None:
        here = f"{size(room.total)} of memory, {device()}"
        raise PkbError(f"no recommended model for this machine ({here}); name one yourself, or use quotes", _NAMED)
    return name


def _role(plan: DownloadPlan) -> lookup.Role:
    """Return what the model is for; PkbError where pkb cannot use it, before its weights are fetched."""
    role = lookup.role(plan.name, plan.config)
    if role is None:
        raise PkbError(why_not(plan.name, plan.config), _NAMED)
    return role


def _show(plan: DownloadPlan, missing: int, free: int, room: MemoryBudget) -> None:
    output.say(f"{plan.name}, commit {plan.commit}")
    output.say(f"to download: {size(missing)} of {size(plan.bytes)}; free disk space: {size(free)}")
    output.say(f"{'fits' if room.fits else 'does not fit'}: it needs {room}")


def _demand(plan: DownloadPlan, missing: int, free: int, room: MemoryBudget, *, force: bool) -> None:
    """Raise PkbError where a model fits neither on the disk nor, unless forced, in memory."""
    if not room.fits and not force:
        raise PkbError(f"{plan.name} does not fit: it needs {room}", f"pkb model pull {plan.name} --force")
    if missing > free:
        message = f"{plan.name} does not fit on the disk: it needs {size(missing)}, {size(free)} are free"
        raise PkbError(message, f"free some disk space, then: pkb model pull {plan.name}")


def _fetch(hub: Hub, plan: DownloadPlan, again: str, *, quiet: bool) -> InstalledModel:
    try:
        with bars(quiet=quiet) as tick:
            return hub.pull(plan, lambda done: tick("MB", done // 10**6, plan.bytes // 10**6))
    except KeyboardInterrupt:
        output.say(f"pkb: interrupted; the partial download is kept; try: {again}")
        raise


def _tell(
    local: InstalledModel, role: lookup.Role, fetched: int, room: MemoryBudget, *, chosen: bool, as_json: bool
) -> None:
    if as_json:
        output.data({
            "schema": output.SCHEMA, "name": local.name, "revision": local.revision, "folder": str(local.folder),
            "role": role, "bytes": local.bytes, "fetched": fetched, "needs": room.needs, "room": room.most,
            "fits": room.fits, "in_use": chosen,
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
    from engine.models.minilm import find_weights

    if (used := find_weights()) != local.folder:
        return f"embeddings are still computed by the copy in {used}"
    return "embeddings are computed by it; next: pkb ingest"
