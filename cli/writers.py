"""Who writes the answers of one command: the quote writer, or a language model that is loaded when first needed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from engine.ask.answer import Say, Written
    from engine.ask.evidence import Evidence
    from engine.ask.prefill import Reading
    from engine.ask.question import Question
    from engine.ask.trace import Trace
    from engine.models.place import Local
    from engine.settings import Settings
    from store.home import Home
    from store.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Writer:
    """What writes a reply, and all that its words depend on beside the evidence."""

    fingerprint: str
    write: "Callable[[Question, Evidence, Trace, Say | None], Written]"


def choose(
    home: "Home", settings: "Settings", ledger: "Callable[[], Ledger]", now: "datetime", environ: Mapping[str, str]
) -> Writer:
    """Give the writer that the settings name: none and "quote" mean the quotes; NoModel where the model is not here."""
    chosen = settings.model
    if chosen.name in ("", "quote"):
        return _quotes(settings.ask.decline_below)
    from engine.models.place import find, fingerprint

    found = find(chosen.name, chosen.revision or None, environ)
    print_of = fingerprint(found, home.cache / "digests")
    load = cache(lambda: _load(found, print_of, home, ledger(), settings))
    return _model(found.name, print_of, load, now, chosen.max_tokens)


def _quotes(least: float) -> Writer:
    from engine.ask.exact import by_quotes

    def write(question: "Question", evidence: "Evidence", trace: "Trace", _: "Say | None") -> "Written":
        with trace.step("import"):
            from engine.ask.write import write

        return write(question, evidence, trace, least)

    return Writer(by_quotes(least), write)


def _model(name: str, fingerprint: str, load: "Callable[[], Reading]", now: "datetime", most: int) -> Writer:
    from engine.ask.exact import by_model

    def write(question: "Question", evidence: "Evidence", trace: "Trace", say: "Say | None") -> "Written":
        with trace.step("import"):
            from engine.ask.generate import generate

        return generate(name, load, question, evidence, trace, now, most, say)

    return Writer(by_model(fingerprint, most), write)


def _load(found: "Local", fingerprint: str, home: "Home", ledger: "Ledger", settings: "Settings") -> "Reading":
    """Load a language model, and open what is kept of what it has read."""
    from engine.ask.prefill import Reading
    from engine.models.loading import load
    from engine.models.runtime import fix_threads

    threads, share = fix_threads(ledger), settings.model.memory_share
    model = load(found.folder, name=found.name, cache=home.cache, memory_share=share, threads=threads)
    if settings.kv.reuse == "off" or not model.sliceable():
        return Reading(model)
    from cli.tensors import kept

    return Reading(model, kept(model, fingerprint, home, ledger, settings.kv, threads))
