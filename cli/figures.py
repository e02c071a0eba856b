"""Figures as a person reads them. With rich, so not on the light path."""

from typing import Any

from rich.table import Table
from rich.text import Text

from cli import out
from cli.plain import count, plain


def show_figures(row: dict[str, Any]) -> None:
    """Print what `pkb stats` found."""
    console, kept = out.console(), row["kept"]
    console.print(
        f"{count(kept['documents'], 'document')} in {count(kept['files'], 'file')}, {count(kept['chunks'], 'chunk')}"
    )
    if kept["vectors"] < kept["chunks"]:
        console.print(f"{kept['vectors']:,} of them can be searched by meaning; the rest by words")
    for name, documents in row["collections"].items():
        console.print(f"  {plain(name)}: {count(documents, 'document')}")
    if kept["problems"]:
        console.print(f"{count(kept['problems'], 'item')} could not be read; to see which: pkb ingest --json")
    console.print(f"{count(row['bank']['answers'], 'answer')} kept in {size(row['bank']['bytes'])}")
    if row["tensors"]["nodes"] or row["tensors"]["hits"]:
        console.print(_tensors(row["tensors"]))
    console.print("on disk: " + ", ".join(f"{name} {size(used)}" for name, used in row["bytes"].items()))
    if row["asked"]:
        console.print(_tiers(row))


def _tensors(row: dict[str, Any]) -> str:
    """Say what is kept of what a model has read, what that saved, and what more room would have."""
    kept = f"{count(row['nodes'], 'message')} read and kept in {size(row['bytes'])} of {size(row['budget'])}"
    saved = f"reused in {count(row['hits'], 'answer')}: {row['tokens']:,} tokens, {row['saved_s']:.1f} s saved"
    more = [f"{times} the room, {seconds:.1f} s more" for times, seconds in row["more_would_save_s"].items() if seconds]
    return "; ".join([kept, saved, *more])


def size(used: float) -> str:
    """Give bytes in the unit that reads best."""
    for unit in ("B", "kB", "MB", "GB"):
        if used < 1000:
            return f"{used:.0f} {unit}" if unit == "B" else f"{used:.1f} {unit}"
        used /= 1000
    return f"{used:.1f} TB"


def _tiers(row: dict[str, Any]) -> Table:
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
        table.add_row(tier["tier"], *cells)
    table.add_row(Text("all", style="bold"), *_sum(row))
    return table


def _sum(row: dict[str, Any]) -> tuple[str, str, str, str]:
    questions = sum(tier["questions"] for tier in row["asked"])
    answered = sum(tier["answered"] for tier in row["asked"])
    return f"{questions:,}", f"{answered:,}", "", f"{row['saved_s']:.1f} s"
