"""Which model answers: what it needs beside what there is, why one cannot be used, and keeping the choice."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cli.plain import size
from cli.session import Session
from engine.models import catalog, memory
from engine.models.catalog import Local
from engine.models.runtime import device


@dataclass(frozen=True, slots=True)
class Room:
    """What a model needs of this machine's memory, and how much of it pkb may take, in bytes."""

    needs: int
    most: int
    total: int

    @property
    def fits(self) -> bool:
        """Tell whether it may be loaded."""
        return self.needs <= self.most

    def __str__(self) -> str:
        return f"{size(self.needs)} of memory; pkb may use {size(self.most)} of {size(self.total)}"


def room_for(opened: Session, needs: int) -> Room:
    """Put what a model needs beside what pkb may take."""
    total = memory.total()
    return Room(needs, int(total * opened.settings.model.memory_share), total)


def needs(name: str, weights: int, config: Mapping[str, Any]) -> int:
    """Give the bytes of memory that a model takes in use, from the bytes of its weights and its config.json."""
    stored = catalog.SINGLE if name == catalog.EMBEDDER else catalog.bits(config)  # that one is used as it is stored
    return memory.needed(weights, stored, device())


def room_of(opened: Session, local: Local) -> Room:
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
    """Say why pkb cannot use a model."""
    if "model_file" in config:
        return f"{name} needs custom code, which pkb does not run"
    kind = catalog.architecture(config) or "none"
    return f"pkb cannot use {name}: mlx-lm does not support architecture {kind}"
