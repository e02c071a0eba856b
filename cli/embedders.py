"""Which embedder makes the vectors: MiniLM, or a Qwen3 that is on this machine. Nothing is loaded here."""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.models.types import Embedder
    from engine.settings import Settings
    from store.database import Ledger
    from store.home import Home


def choose(
    home: "Home", settings: "Settings", ledger: "Callable[[], Ledger]", environ: Mapping[str, str]
) -> "Embedder":
    """Give the embedder that the settings name; NoModel where it is not here, UsageError where it is none."""
    notes = home.cache / "digests"
    if settings.embed.model == "minilm":
        from engine.models.minilm import MiniLM

        return MiniLM(workers=settings.embed.workers or os.cpu_count() or 1, notes=notes)
    from engine.models.qwen3 import Qwen3, find_model
    from engine.models.runtime import threads_of

    found, share = find_model(settings.embed.model, environ), settings.model.memory_share
    return Qwen3(found, cache=home.cache, notes=notes, threads=threads_of(ledger()), memory_share=share)
