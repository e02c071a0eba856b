"""`pkb bench`: what an answer takes on this machine, cold, warm and exact, measured on the user's own questions."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from cli import output
from cli.output import bars, session
from engine import operations
from engine.session import Session
from engine.text.terminal import count, line, size
from store.errors import PkbError

if TYPE_CHECKING:
    from engine.bench import Figures, MachineInfo, Spread, Timed


_LONG_S = 60.0  # from which on the command says how long it will take
_LONG_MS, _FEW = 1000, 10  # from which on seconds are shown, under which a tenth counts
_CELL = 24
_MEANING = {"cold": "nothing cached", "warm": "KV cache reused", "exact": "answer cached"}


def bench(
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="Measure this language model, not the one in use.")
    ] = None,
    questions: Annotated[int, typer.Option("--questions", metavar="N", min=1, help="Time the latest N.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Time your latest questions with and without the caches.

    Example: pkb bench --questions 5
    """
    from engine.bench import figures, machine
    from engine.bench import questions as latest

    began = time.perf_counter()
    with session() as opened:
        if not (asked := latest(opened.ledger, questions)):
            raise PkbError("there are no questions to measure with yet", 'pkb ask "when is rehearsal?"')
        with _copy(opened, model) as own:
            name, start_s = _open(own, asked[0])
            found, adapter = figures(_measure(own, asked, quiet=as_json)), own.adapter
    here, start_s, seconds = machine(), round(start_s, 3), round(time.perf_counter() - began, 3)
    if not as_json:
        _show(found, here, f"{name}, adapter {adapter}" if adapter else name, start_s)
        return
    about = {"schema": output.SCHEMA, "machine": asdict(here), "model": name, "adapter": adapter}
    output.data({**about, "start_s": start_s, **asdict(found), "seconds": seconds})


@contextmanager
def _copy(opened: Session, model: str | None) -> Iterator[Session]:
    """Open a copy of a home, with its settings and room for all that a model reads."""
    from engine.bench import UNLIMITED, copied

    with copied(opened.home, opened.ledger, opened.locks) as home:
        places = {"PKB_HOME": str(home.data), "PKB_CACHE": str(home.cache), "PKB_CONFIG": str(home.config)}
        with session({**opened.environ, **places}) as own:
            for key in ("kv.bytes", "kv.daily_bytes"):
                own.override(key, UNLIMITED)
            if model is not None:
                own.override("model.name", model)
                own.override("model.revision", "")
            yield own


def _open(own: Session, question: str) -> tuple[str | None, float]:
    """Open the index, the embedder and the model; return the model's name and the seconds that all of it took."""
    from store.types import Scope

    began = time.perf_counter()
    operations.search(own, question, Scope(), own.settings.ask.k)
    name = own.load_model().model.name if own.load_model else None
    return name, time.perf_counter() - began


def _measure(own: Session, asked: "list[str]", *, quiet: bool) -> "list[Timed]":
    """Time each question, and say on stderr how long it will take where that is long."""
    from engine.bench import measure

    kept = own.load_model().kept if own.load_model else None
    store, began, timed = kept.store if kept else None, time.perf_counter(), list["Timed"]()
    with bars(quiet=quiet) as tick:
        tick("timing", 0, len(asked))
        for one in measure(own.asker, asked, own.settings.ask.k, own.now, store):
            timed.append(one)
            tick("timing", len(timed), len(asked))
            left = len(asked) - 1
            if len(timed) == 1 and (more := (time.perf_counter() - began) * left) > _LONG_S:
                minutes = count(round(more / 60 + 0.5), "minute")
                output.say(f"pkb: about {minutes} for {left} more questions; fewer: pkb bench --questions 3")
    return timed


def _show(found: "Figures", here: "MachineInfo", model: str | None, start_s: float) -> None:
    """Print the figures as a person reads them."""
    about = f"{here.system} {here.processor}, {count(here.cores, 'core')}, {size(here.memory)}, {here.device}"
    print(f"{line(model) if model else 'quotes, without a language model'}; {about}")
    print(f"your latest {count(found.questions, 'question')}, {found.declined} without an answer")
    if not found.questions:
        return
    heads = ("first token", "whole answer") if model else ("answer",)
    print("\n" + "tier   " + "".join(f"{head:<{_CELL}}" for head in heads) + "  n")
    tiers = {"cold": found.cold, "warm": found.warm, "exact": found.exact}
    for name, tier in tiers.items():
        if tier and tier.total_ms:
            cells = (tier.first_token_ms, tier.total_ms) if model else (tier.total_ms,)
            shown = "".join(f"{_spread(cell):<{_CELL}}" for cell in cells)
            print(f"{name:<7}{shown}{tier.total_ms.n:>3}  {_MEANING[name]}")
    print(f"\nmedian (lowest to highest); opening the index and the model took {start_s:.1f} s before")
    if found.tokens and found.tokens.prompt and found.tokens.generated:
        reused = f", {found.tokens.reused.median:.0f} of them reused when warm" if found.tokens.reused else ""
        print(
            f"tokens: {found.tokens.prompt.median:.0f} a prompt{reused}, {found.tokens.generated.median:.0f} an answer"
        )
    if found.compared:
        print(f"{found.same} of {count(found.compared, 'warm answer')} match the cold ones")


def _spread(found: "Spread | None") -> str:
    """Return a median with its ends, in the same unit."""
    if found is None:
        return "-"
    unit, by = ("s", 1000) if found.median >= _LONG_MS else ("ms", 1)
    digits = 1 if found.median / by < _FEW else 0
    middle, low, high = (f"{value / by:,.{digits}f}" for value in (found.median, found.low, found.high))
    return f"{middle} {unit} ({low} to {high})"
