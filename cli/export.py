"""`pkb export` and `pkb import`: answers and abstracts in a file, and answers from one."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TextIO

import typer

from cli import output
from cli.output import open_pkb
from engine.text.terminal import in_json, line
from store.errors import PkbError, UsageError

if TYPE_CHECKING:
    from engine.transfer import ImportReport

_CORRUPT = 3  # exit code
_NAMED = 5  # lines in a message


def export(
    path: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="The file to write; without it, or with -, standard output.")
    ] = None,
    form: Annotated[
        Literal["jsonl", "md"], typer.Option("--format", help="JSON, an object a line, or Markdown.")
    ] = "jsonl",
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")] = False,
) -> None:
    """Write cached questions with answers and sources, and abstracts.

    Example: pkb export answers.jsonl
    """
    from cli.formats import export_lines

    with open_pkb() as pkb, _written(path, force=force) as file:
        rows = pkb.export()
        for text in export_lines(rows) if form == "md" else map(_json, rows):
            file.write(f"{text}\n")


def _json(row: dict[str, Any]) -> str:
    return in_json(json.dumps(row, ensure_ascii=sys.stdout.encoding.lower() != "utf-8"))


@contextmanager
def _written(path: Path | None, *, force: bool) -> Iterator[TextIO]:
    """Yield standard output, or a file for its owner alone that takes its place once it is written as a whole."""
    if path is None or str(path) == "-":
        yield sys.stdout
        return
    if path.exists() and not force:
        raise UsageError(f"{line(str(path))} exists", "pkb export FILE --force")
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        number = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise PkbError(f"cannot write {line(str(path))}: {(error.strerror or '').lower()}", None) from None
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            yield file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def import_answers(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="An export in JSON; - for standard input.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
) -> None:
    """Cache answers of an export, as far as they hold here.

    Example: pkb import answers.jsonl
    """
    with open_pkb() as pkb, output.bars(quiet=as_json) as tick:
        report = pkb.import_answers(sys.stdin.buffer if str(path) == "-" else path, tick)
    if as_json:
        output.data(report.to_json())
    else:
        print(_counted(report))
    if report.corrupt:
        named = ", ".join(map(str, report.corrupt[:_NAMED])) + (", ..." if len(report.corrupt) > _NAMED else "")
        output.say(f"pkb: skipped lines that cannot be read: {named}")
        raise typer.Exit(_CORRUPT)


_SAID: dict[str, Callable[[int], str]] = {
    "imported": "{:,} imported".format,
    "cached": "{:,} already cached".format,
    "missing": "{:,} without their messages".format,
    "other_model": "{:,} by another model".format,
    "other_day": "{:,} of another day".format,
    "rejected": "{:,} marked as wrong here".format,
    "no_room": "{:,} for which the cache has no room".format,
}


def _counted(report: "ImportReport") -> str:
    """Return the counts in words, without those of nothing."""
    return ", ".join(
        said(report.counts[name]) for name, said in _SAID.items() if report.counts[name] or name == "imported"
    )
