"""Figures as a person reads them, on one screen. With rich, so not on the light path."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli import output
from cli.output import open_pkb
from engine.text.terminal import count, plain, size

if TYPE_CHECKING:
    from rich.table import Table

_WENT = {"room": "for lack of space", "forgotten": "deleted"}  # by any other reason a file was gone or damaged
_REFUSED = {
    "room": "for lack of space",
    "day": "over the daily write limit",
    "disk": "after a write error",
    "parent": "without their parent",
}  # by any other reason another process was quicker
Line = tuple[str, str]


def tensors(row: dict[str, Any]) -> Iterator[Line]:
    """Return what is kept of what a model has read, what that saved, what went, and what more room would have saved."""
    kept, prompts = row["tensors"], row["prompts"]
    if kept["nodes"] or kept["written_by_day"]:
        today = f"{size(kept['written_today'])} of {size(kept['daily_budget'])} written today"
        yield "KV cache", f"{count(kept['nodes'], 'segment')}, {size(kept['bytes'])}; {today}"
    if prompts["questions"]:
        share = _share(prompts["reused"] / prompts["tokens"])
        among = f"in {prompts['with_reuse']:,} of {count(prompts['questions'], 'prompt')}"
        tokens = f"{prompts['reused']:,} of {prompts['tokens']:,} tokens ({share})"
        yield "reused", f"{tokens}, {among}; {kept['saved_s']:.1f} s saved"
    if kept["removed"]:
        yield "evicted", _reasons(kept["removed"], _WENT, "with a missing or damaged file")
    if "room" in kept["removed"] and kept["others"] < kept["budget"]:
        yield "", f"more room would have saved {kept['more_would_save_s']:.1f} s"
    if kept["refused"]:
        yield "not stored", _reasons(kept["refused"], _REFUSED, "already stored by another process")


def _reasons(counts: Mapping[str, int], words: Mapping[str, str], others: str) -> str:
    """Return how many for which reason, most frequent first."""
    merged: dict[str, int] = {}
    for reason, number in counts.items():
        said = words.get(reason, others)
        merged[said] = merged.get(said, 0) + number
    return ", ".join(f"{number:,} {said}" for said, number in sorted(merged.items(), key=lambda one: -one[1]))


def _share(share: float) -> str:
    return f"{share * 100:.0f} %"


_LABEL = 12  # columns


def show_figures(row: dict[str, Any]) -> None:
    """Print what `pkb stats` found."""
    console = output.console()
    _print(_kept(row))
    if row["asked"]:
        console.print()
        console.print(_tiers(row))
    else:
        _print([("asked", "nothing yet; try: pkb ask QUESTION")])
    if shown := [*_idle_lines(row["night"]), *tensors(row)]:
        console.print()
        _print(shown)


def _print(rows: Iterable[tuple[str, str]]) -> None:
    """Print lines, each under its label or the one above it."""
    from rich.text import Text  # not before there is something to show

    for label, shown in rows:
        output.console().print(Text.assemble((label.ljust(_LABEL), "bold"), shown))


def _kept(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    kept, bank, names = row["kept"], row["bank"], row["collections"].items()
    yield (
        "indexed",
        f"{count(kept['documents'], 'document')} in {count(kept['files'], 'file')}, {count(kept['chunks'], 'chunk')}",
    )
    if kept["vectors"] < kept["chunks"]:
        yield "", f"{kept['vectors']:,} of them have embeddings; the others are found by keywords only"
    if len(names) > 1:
        yield "", ", ".join(f"{plain(name)}: {documents:,}" for name, documents in names)
    if kept["problems"]:
        yield "", f"{count(kept['problems'], 'item')} could not be read; list them with: pkb ingest --json"
    yield "answers", f"{bank['answers']:,} cached, {size(bank['bytes'])} of {size(bank['budget'])}"
    yield from (("", words) for words in _semantic_lines(bank))
    disk = ", ".join(f"{name} {size(used)}" for name, used in row["bytes"].items())  # the cache comes last
    cache = row["tensors"]
    yield "on disk", f"{disk} of {size(cache['budget'])}"
    if cache["others"] >= cache["budget"]:
        yield "", f"no KV cache is stored: other cache files take {size(cache['others'])}"


def _semantic_lines(bank: dict[str, Any]) -> Iterator[str]:
    """Return what is known of answers that were given to other questions than their own."""
    if bank["predicted"] or bank["undecoded"]:
        yield f"{bank['predicted']:,} predicted, {bank['undecoded']:,} prefilled without an answer"
    if bank["owed"]:
        yield f"{count(bank['owed'], 'semantic hit')} to be verified by pkb idle"
    if bank["judged"]:
        share = f"{bank['judged_wrong'] / bank['judged'] * 100:.1f} %"
        yield f"{count(bank['judged'], 'semantic hit')} verified, {bank['judged_wrong']:,} wrong ({share})"
    if bank["said_wrong"]:
        yield f"{bank['said_wrong']:,} marked wrong"


def _idle_lines(runner: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Return what idle work took, and what it brought."""
    done = [one for one in runner["so_far"] if one["units"]]
    if done:
        seconds, saved = sum(one["seconds"] for one in done), sum(one["saved_s"] for one in done)
        hits = count(sum(one["hits"] for one in done), "cache hit")
        yield "idle work", f"{seconds:.1f} s, {hits}, {saved:.1f} s saved"
        yield "", ", ".join(f"{one['job']}: {one['units']:,} in {one['seconds']:.1f} s" for one in done)
    if runner["predicted"]:
        yield "", f"{count(runner['predicted'], 'question')} predicted, {runner['asked_later']:,g} asked later"
    if runner["resting"]:
        yield "", plain(runner["resting"])
    if runner["waiting"]:
        waiting = ", ".join(f"{jobs:,} {kind}" for kind, jobs in runner["waiting"].items())
        yield "", f"pending for pkb idle: {waiting}"


def _tiers(row: dict[str, Any]) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), title=None)
    for heading in ("tier", "asked", "answered", "median", "saved"):
        table.add_column(heading, justify="left" if heading == "tier" else "right")
    for tier in row["asked"]:
        cells = (
            f"{tier['questions']:,}",
            f"{tier['answered']:,}",
            f"{tier['median_ms']:.1f} ms",
            f"{tier['saved_s']:.1f} s",
        )
        table.add_row(tier["tier"] + (", by the model" if tier["read"] and tier["tier"] == "full" else ""), *cells)
    table.add_row(Text("all", style="bold"), *_sum(row))
    return table


def _sum(row: dict[str, Any]) -> tuple[str, str, str, str]:
    questions = sum(tier["questions"] for tier in row["asked"])
    answered = sum(tier["answered"] for tier in row["asked"])
    return f"{questions:,}", f"{answered:,}", "", f"{row['saved_s']:.1f} s"


def stats(as_json: Annotated[bool, typer.Option("--json", help="Print the statistics as JSON.")] = False) -> None:
    """Show the size of index and caches, and the time they saved.

    Example: pkb stats --json
    """
    with open_pkb() as pkb:
        row = pkb.stats()
    if as_json:
        output.data(row)
        return
    show_figures(row)
