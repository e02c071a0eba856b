"""Who writes the answers of one command: the quote writer, or a language model that is loaded when first needed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

    from engine.llm.prefill import Reading
    from engine.llm.prompt import Order
    from engine.llm.resident import Models
    from engine.models.catalog import Local
    from engine.models.mlx import Mlx
    from engine.settings import Settings
    from engine.text.question import Question
    from engine.types import Evidence, Say, Trace, Written
    from store.database import Ledger
    from store.home import Home


@dataclass(frozen=True, slots=True)
class Writer:
    """What writes a reply, and all that its words depend on beside the evidence; `load` gives its model, if any.

    `read` only reads what a reply would need, and `bears` says whether that bears an answer to a like question.
    """

    fingerprint: str
    write: "Callable[[Question, Evidence, Trace, Say | None], Written]"
    read: "Callable[[Question, Evidence, Trace], None]"
    bears: "Callable[[Question, Evidence, str, Trace], bool]"
    load: "Callable[[], Reading] | None" = None


def choose(
    home: "Home",
    settings: "Settings",
    ledger: "Callable[[], Ledger]",
    now: "datetime",
    environ: Mapping[str, str],
    *,
    models: "Callable[[], Models]",
    kept: bool = True,
    order: "Callable[[], Order]",
) -> Writer:
    """Give the writer that the settings name: none and "quote" mean the quotes; NoModel where the model is not here.

    `kept` tells whether what it reads is kept.
    """
    chosen = settings.model
    if chosen.name in ("", "quote"):
        return _quotes(settings.ask.decline_below)
    from engine.models.catalog import find, fingerprint

    found = find(chosen.name, chosen.revision or None, environ)
    print_of = fingerprint(found, home.cache / "digests")
    load = cache(lambda: _load(found, print_of, home, ledger(), settings, models(), kept=kept))
    return _model(found.name, print_of, load, now, settings, order)


def _quotes(least: float) -> Writer:
    from engine.ask.keys import by_quotes

    def write(question: "Question", evidence: "Evidence", trace: "Trace", _: "Say | None") -> "Written":
        with trace.step("import"):
            from engine.ask.extract import write

        return write(question, evidence, trace, least)

    # A quote needs no reading ahead, and is compared with the answer by itself.
    return Writer(by_quotes(least), write, lambda *_: None, lambda *_: True)


def _model(
    name: str,
    fingerprint: str,
    load: "Callable[[], Reading]",
    now: "datetime",
    settings: "Settings",
    order: "Callable[[], Order]",
) -> Writer:
    from engine.ask.keys import by_model

    most = settings.model.max_tokens

    def draft(*parts: "Any") -> "list[list[int]]":
        from engine.ask.extract import likely  # not before the first token is there

        return likely(*parts)

    def write(question: "Question", evidence: "Evidence", trace: "Trace", say: "Say | None") -> "Written":
        with trace.step("import"):
            from engine.llm.generate import generate

        return generate(
            name, load, question, evidence, trace, now, most, say, order(), settings.experiment.drafts, draft
        )

    def read(question: "Question", evidence: "Evidence", trace: "Trace") -> None:
        from engine.llm.generate import read_ahead

        read_ahead(load, question, evidence, trace, now, most, order())

    def bears(question: "Question", evidence: "Evidence", answer: str, trace: "Trace") -> bool:
        from engine.ask.semantic import bears

        return bears(load, question, evidence, answer, trace, now, most, order())

    return Writer(by_model(fingerprint, most, *_manner(settings)), write, read, bears, load)


def _manner(settings: "Settings") -> list[str]:
    """Name what else an answer in words depends on, where it is not as usual."""
    experiment = settings.experiment
    usual = type(experiment)()
    return [
        "" if settings.kv.reuse != "blocks" else "blocks",
        f"{bits} bits" if (bits := _bits(settings)) else "",
        "" if experiment.drafts == usual.drafts else f"{experiment.drafts} guessed",
    ]


def _bits(settings: "Settings") -> int:
    """Give the bits that tensors are kept in, 0 for all."""
    return settings.kv.bits if settings.kv.reuse != "off" else 0


def _load(
    found: "Local",
    fingerprint: str,
    home: "Home",
    ledger: "Ledger",
    settings: "Settings",
    models: "Models",
    *,
    kept: bool,
) -> "Reading":
    """Load a language model, where it is not in memory yet, and open what is kept of what it has read."""
    from engine.models.load import load
    from engine.models.runtime import fix_threads

    threads, share = fix_threads(ledger), settings.model.memory_share

    def loaded() -> "Mlx":
        return load(found.folder, name=found.name, cache=home.cache, memory_share=share, threads=threads)

    model = models.get((fingerprint, threads, share), loaded)
    opened = partial(_open, model, fingerprint, home, ledger, settings, threads, kept=kept)
    return models.reading((settings.kv, settings.experiment.score, kept), opened)


def _open(
    model: "Mlx", fingerprint: str, home: "Home", ledger: "Ledger", settings: "Settings", threads: int, *, kept: bool
) -> "Reading":
    from engine.llm.prefill import Reading
    from engine.models.rope import movable

    model = replace(model, bits=_bits(settings))
    ropes = movable(model) if settings.kv.reuse == "blocks" else None
    if not kept or not model.form.name:
        return Reading(model, None, ropes)
    from cli.tensors import kept as open_kept

    return Reading(
        model, open_kept(model, fingerprint, home, ledger, settings.kv, threads, settings.experiment.score), ropes
    )
