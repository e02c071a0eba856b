"""The models installed on this machine: the memory each needs, and which are in use. Prints nothing."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.models import lookup, memory
from engine.models.lookup import EMBEDDER, InstalledModel, Role, architecture, find, installed, role
from engine.models.runtime import device
from engine.session import Session
from engine.text.terminal import plain, size
from store.errors import NoModel


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """What a model needs of this machine's memory, and how much of it pkb may take, in bytes."""

    needs: int
    most: int
    total: int

    @property
    def fits(self) -> bool:
        """Return whether it may be loaded."""
        return self.needs <= self.most

    def __str__(self) -> str:
        return f"{size(self.needs)} of memory; pkb may use {size(self.most)} of {size(self.total)}"


def room_for(opened: Session, needs: int) -> MemoryBudget:
    """Put what a model needs beside what pkb may take."""
    total = memory.total()
    return MemoryBudget(needs, int(total * opened.settings.model.memory_share), total)


def needs(name: str, weights: int, config: Mapping[str, Any]) -> int:
    """Return the bytes of memory that a model takes in use, from the bytes of its weights and its config.json."""
    stored = lookup.SINGLE if name == lookup.EMBEDDER else lookup.bits(config)  # that one is used as it is stored
    return memory.needed(weights, stored, device())


def room_of(opened: Session, local: InstalledModel) -> MemoryBudget:
    """Put what a model that is here needs beside what pkb may take."""
    weights = sum(path.stat().st_size for path in local.weights)
    return room_for(opened, needs(local.name, weights, local.config))


def choose(opened: Session, name: str, revision: str) -> None:
    """Make a model the one that answers; an empty name is none."""
    from engine.settings import save

    # The old revision is no revision of the new name, should pkb be killed in between.
    for key, value in (("revision", ""), ("name", name), ("revision", revision)):
        save(opened.home.config, f"model.{key}", value)


def why_not(name: str, config: Mapping[str, Any]) -> str:
    """Return why pkb cannot use a model."""
    if "model_file" in config:
        return f"{name} needs custom code, which pkb does not run"
    kind = lookup.architecture(config) or "none"
    return f"pkb cannot use {name}: mlx-lm does not support architecture {kind}"


QUOTE, USUAL = "quote", "minilm"  # what the settings call the writer and the embedder that are no names of the hub


@dataclass(frozen=True, slots=True)
class ModelRow:
    """One model; the sizes are bytes, `room` what pkb may take of the memory."""

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
        """Return it in a line, the name in so many letters."""
        name = plain(self.name) + (f"@{self.revision[:8]}" if self.revision else "")
        what = "answers" if self.role == "writer" else "embeds"
        fit = f"{'fits' if self.fits else 'does not fit'}: {size(self.needs)} of {size(self.room)}"
        took = f"{size(self.bytes):>8}  {fit}" if self.folder else "built in"
        return f"{'*' if self.in_use else ' '} {name:<{width}}  {what:<7}  {took}"


@dataclass(frozen=True, slots=True)
class Inventory:
    """Everything that is here, and what is wrong with the model in use, if something is."""

    rows: tuple[ModelRow, ...]
    problem: NoModel | None


def take(opened: Session) -> Inventory:
    """Look at what is here."""
    used, problem = _used(opened)
    embedder = _embedder(opened)
    found = dict.fromkeys([*installed(os.environ), *([embedder] if embedder else []), *([used] if used else [])])
    rows = [_row(opened, local, used, embedder) for local in sorted(found, key=lambda local: local.name)]
    room = room_for(opened, 0)
    quotes = ModelRow(QUOTE, None, None, "writer", None, 0, 0, room.most, room.fits, used is None and problem is None)
    return Inventory((quotes, *rows), problem)


def _used(opened: Session) -> tuple[InstalledModel | None, NoModel | None]:
    chosen = opened.settings.model
    if chosen.name in ("", QUOTE):
        return None, None
    try:
        return find(chosen.name, chosen.revision or None, os.environ), None
    except NoModel as error:
        return None, error


def _embedder(opened: Session) -> InstalledModel | None:
    """Return the embedder in use; the usual one may have been installed instead of fetched."""
    from engine.models.minilm import find_weights

    name = opened.settings.embed.model
    try:
        if name != USUAL:
            return find(name, None, os.environ)
        folder = find_weights()
    except NoModel:
        return None
    return InstalledModel(EMBEDDER, folder, folder.name if folder.parent.name == "snapshots" else None)


def _row(
    opened: Session, local: InstalledModel, used: InstalledModel | None, embedder: InstalledModel | None
) -> ModelRow:
    config, room = local.config, room_of(opened, local)
    use = "embedder" if local == embedder else role(local.name, config) or "writer"
    return ModelRow(
        local.name, local.revision, str(local.folder), use, architecture(config) or None, local.bytes,
        room.needs, room.most, room.fits, local in (used, embedder),
    )  # fmt: skip
