"""Lists the models installed on this machine, the memory each needs, and which are in use; selects one."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.models import lookup, runtime
from engine.models.lookup import EMBEDDER, InstalledModel, Role, architecture, find, installed, role
from engine.models.runtime import device
from engine.session import Session
from engine.settings import SERVED
from engine.text.terminal import plain, size
from store.errors import NoModel


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """The memory that a model needs, that pkb may use, and that this machine has, in bytes."""

    needs: int
    limit: int
    total: int

    @property
    def fits(self) -> bool:
        """Return whether the model may be loaded."""
        return self.needs <= self.limit

    def __str__(self) -> str:
        return f"{size(self.needs)} of memory; pkb may use {size(self.limit)} of {size(self.total)}"


def memory_budget(opened: Session, needs: int) -> MemoryBudget:
    """Compare the bytes that a model needs with the memory limit."""
    total = runtime.total()
    return MemoryBudget(needs, int(total * opened.settings.model.memory_share), total)


def memory_needed(name: str, weights: int, config: Mapping[str, Any]) -> int:
    """Return the bytes of memory that a model needs, from the bytes of its weights and its config.json."""
    stored = lookup.SINGLE if name == lookup.EMBEDDER else lookup.bits(config)  # MiniLM is used as stored
    return runtime.needed(weights, stored, device())


def memory_budget_of(opened: Session, local: InstalledModel) -> MemoryBudget:
    """Compare the memory that an installed model needs with the limit."""
    weights = sum(path.stat().st_size for path in local.weights)
    return memory_budget(opened, memory_needed(local.name, weights, local.config))


def select(opened: Session, name: str, revision: str) -> None:
    """Select the model that answers; an empty name selects none."""
    from engine.settings import save

    # Clear the revision first: after a kill in between, the old one must not apply to the new name.
    for key, value in (("revision", ""), ("name", name), ("revision", revision)):
        save(opened.home.config, f"model.{key}", value)


def why_unsupported(name: str, config: Mapping[str, Any]) -> str:
    """Return why pkb cannot use a model."""
    if "model_file" in config:
        return f"{name} needs custom code, which pkb does not run"
    kind = lookup.architecture(config) or "none"
    return f"pkb cannot use {name}: mlx-lm does not support architecture {kind}"


QUOTE, MINILM = "quote", "minilm"  # names in the settings that are not names on the hub


@dataclass(frozen=True, slots=True)
class ModelRow:
    """One model; sizes are in bytes, and `room` is the memory that pkb may use."""

    name: str
    revision: str | None
    folder: str | None
    role: Role
    architecture: str | None
    bytes: int
    needs: int
    room: int
    fits: bool
    in_use: bool

    def line(self, width: int) -> str:
        """Return one line of text, its name padded to `width` characters."""
        name = plain(self.name) + (f"@{self.revision[:8]}" if self.revision else "")
        what = "answers" if self.role == "writer" else "embeds"
        fit = f"{'fits' if self.fits else 'does not fit'}: {size(self.needs)} of {size(self.room)}"
        built_in = "by a server" if self.name.startswith(SERVED) else "built in"
        sizes = f"{size(self.bytes):>8}  {fit}" if self.folder else built_in
        return f"{'*' if self.in_use else ' '} {name:<{width}}  {what:<7}  {sizes}"


@dataclass(frozen=True, slots=True)
class Inventory:
    """All installed models, and the problem with the selected one, if any."""

    rows: tuple[ModelRow, ...]
    problem: NoModel | None


def list_models(opened: Session) -> Inventory:
    """List the installed models, quoting first."""
    used, problem = _selected(opened)
    embedder = _embedder(opened)
    found = dict.fromkeys([*installed(os.environ), *([embedder] if embedder else []), *([used] if used else [])])
    rows = [_row(opened, local, used, embedder) for local in sorted(found, key=lambda local: local.name)]
    limit = memory_budget(opened, 0).limit
    chosen = opened.settings.model
    quoting = used is None and problem is None and not chosen.is_served
    quotes = ModelRow(QUOTE, None, None, "writer", None, 0, 0, limit, True, quoting)
    served = ModelRow(chosen.name, None, None, "writer", None, 0, 0, limit, True, True)
    return Inventory((quotes, *([served] if chosen.is_served else []), *rows), problem)


def _selected(opened: Session) -> tuple[InstalledModel | None, NoModel | None]:
    chosen = opened.settings.model
    if chosen.name in ("", QUOTE) or chosen.is_served:
        return None, None
    try:
        return find(chosen.name, chosen.revision or None, os.environ), None
    except NoModel as error:
        return None, error


def _embedder(opened: Session) -> InstalledModel | None:
    """Return the embedder in use; MiniLM may be an installed package instead of a download."""
    from engine.models.minilm import find_weights

    name = opened.settings.embed.model
    try:
        if name != MINILM:
            return find(name, None, os.environ)
        folder = find_weights()
    except NoModel:
        return None
    return InstalledModel(EMBEDDER, folder, folder.name if folder.parent.name == "snapshots" else None)


def _row(
    opened: Session, local: InstalledModel, used: InstalledModel | None, embedder: InstalledModel | None
) -> ModelRow:
    config, budget = local.config, memory_budget_of(opened, local)
    use = "embedder" if local == embedder else role(local.name, config) or "writer"
    return ModelRow(
        local.name, local.revision, str(local.folder), use, architecture(config) or None, local.bytes,
        budget.needs, budget.limit, budget.fits, local in (used, embedder),
    )  # fmt: skip
