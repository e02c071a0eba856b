"""The figures of `pkb bench --blocks`: one's own questions, or an example's, read in the usual way and in blocks."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from cli import deeds
from cli.progress import bars
from cli.session import Session
from store.errors import PkbError, UsageError

if TYPE_CHECKING:
    from engine.ask.evidence import Evidence
    from engine.ask.prefill import Reading
    from engine.ask.segments import Segments
    from engine.kv.trial import Trial
    from store.ledger import Ledger

_ROOM = 1 << 30  # bytes of tensors, for as long as it takes


def gather(home: Session, folder: Path, asked: Sequence[str], *, quiet: bool) -> dict[str, Any]:
    """Try questions, or where there are none those of an example; what is kept meanwhile is kept in the folder."""
    from engine.kv.pieces import in_blocks
    from engine.kv.trial import again
    from store.ledger import open_ledger

    reading, ledger = _load(home), open_ledger(folder / "ledger.db", create=True)
    prompts = list(_prompts(home, reading, _found(home, asked) if asked else _example()))
    usual = [prompt.ids for _, prompt in prompts]
    blocks = [in_blocks(reading.model, prompt).ids for _, prompt in prompts]
    both = list(zip(usual, blocks, strict=True))
    trials = list(_trials(reading, folder, ledger, both, home.settings.model.max_tokens, quiet=quiet))
    ledger.close()
    named = zip((question for question, _ in prompts), trials, strict=True)
    return {
        "questions": len(prompts),
        **_agreement(trials),
        "reused": {"usual": again(usual, blocks=False), "blocks": again(blocks, blocks=True)},
        "first_token_ms": {
            f"{way}_{how}": _median_ms([getattr(getattr(one, way), how) for one in trials])
            for way in ("usual", "blocks")
            for how in ("computed", "loaded")
        },
        "different": [
            {"question": question, "usual": one.answers[0], "blocks": one.answers[1]}
            for question, one in named
            if not one.equal
        ],
    }


def _load(home: Session) -> "Reading":
    """Load the model, to be read with in blocks."""
    from cli.writers import choose
    from engine.config import put

    settings = put(home.settings, "kv.reuse", "blocks", "this command")
    parts = (home.home, settings, lambda: home.ledger, home.now, home.environ)
    load = choose(*parts, models=lambda: home.models, kept=False, order=lambda: home.order).load
    if load is None:
        raise UsageError("there is no language model to try", "pkb model pull")
    return load()


def _found(home: Session, asked: Sequence[str]) -> "Iterator[tuple[str, Evidence]]":
    """Give questions with what is found for them now."""
    from store.records import Scope

    for question in asked:
        yield question, deeds.search(home, question, Scope(), home.settings.ask.k)


def _example() -> "Iterator[tuple[str, Evidence]]":
    from engine.kv.example import examples

    return examples()


def _prompts(
    home: Session, reading: "Reading", asked: "Iterator[tuple[str, Evidence]]"
) -> "Iterator[tuple[str, Segments]]":
    """Give the prompts of questions; one that nothing is found for, or nothing that fits the model, is left out."""
    from engine.ask.segments import fit

    for question, evidence in asked:
        try:
            yield question, fit(reading.model, question, home.now, evidence, home.settings.model.max_tokens)
        except PkbError:
            continue


def _trials(
    reading: "Reading",
    folder: Path,
    ledger: "Ledger",
    prompts: "Sequence[tuple[Sequence[tuple[int, ...]], Sequence[tuple[int, ...]]]]",
    most: int,
    *,
    quiet: bool,
) -> "Iterator[Trial]":
    """Try each prompt, with nothing kept of those before it: each has a root of its own."""
    from cli.tensors import open_store
    from engine.ask.prefill import Kept
    from engine.kv.trial import trial
    from engine.settings import KvSettings
    from store.home import Home
    from store.kv_tree import root_of

    model: Any = reading.model
    home = Home(folder, folder / "cache", folder / "config.toml")
    store = open_store(home, ledger, KvSettings(bytes=_ROOM, daily_bytes=_ROOM * len(prompts)), model.sub_step)
    with bars(quiet=quiet) as tick:
        for number, both in enumerate(prompts):
            tick("trying", number, len(prompts))
            kept, moved = (Kept(store, root_of({"trial": f"{number} {way}"}), model) for way in ("usual", "blocks"))
            yield trial(model, replace(reading, kept=kept, ropes=None), replace(reading, kept=moved), both, most)
    store.close()


def _agreement(trials: "Sequence[Trial]") -> dict[str, Any]:
    """Sum up how far answers agree; all null where there was nothing to answer."""
    kl = [step for one in trials for step in one.kl]
    return {
        "tokens": len(kl),
        "kl_first": fmean(one.kl[0] for one in trials) if trials else None,
        "kl": fmean(kl) if kl else None,
        "top_1": sum(one.same for one in trials) / len(kl) if kl else None,
        "equal_answers": sum(one.equal for one in trials),
        "same_words": sum(one.same_words for one in trials),
    }


def _median_ms(seconds: Sequence[float]) -> float | None:
    return round(1000 * median(seconds), 3) if seconds else None
