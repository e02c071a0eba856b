"""`pkb export` and `pkb import`, and passages as CSV and Markdown: safe for spreadsheets, renderers and terminals."""

import csv
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TextIO

import typer

from cli import output
from cli.output import open_pkb
from cli.render import from_home
from engine.text.terminal import cited_numbers, line, one_line, plain
from engine.types import json_text
from store.errors import PkbError, UsageError
from store.home import replacing

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
    with open_pkb() as pkb, _written(path, force=force) as file:
        rows = pkb.export()
        for text in export_lines(rows) if form == "md" else map(_json, rows):
            file.write(f"{text}\n")


def _json(row: dict[str, Any]) -> str:
    return json_text(row, ascii_alone=sys.stdout.encoding.lower() != "utf-8")


@contextmanager
def _written(path: Path | None, *, force: bool) -> Iterator[TextIO]:
    """Yield standard output, or a file for its owner alone that takes its place once it is written as a whole."""
    if path is None or str(path) == "-":
        yield sys.stdout
        return
    if path.exists() and not force:
        raise UsageError(f"{line(str(path))} exists", "pkb export FILE --force")
    with ExitStack() as held:
        try:
            raw = held.enter_context(replacing(path, path.with_name(f".{path.name}.{os.getpid()}")))
        except OSError as error:
            raise PkbError(f"cannot write {line(str(path))}: {(error.strerror or '').lower()}", None) from None
        with TextIOWrapper(raw, encoding="utf-8") as file:
            yield file


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


_COLUMNS = ("number", "title", "sender", "date", "path", "first_line", "last_line", "message_id", "score", "quote")
_FORMULA = tuple("=+-@＝＋－＠")  # what begins a formula in a spreadsheet, behind blanks in some
_MARKDOWN = re.compile(r"[\\`*_\[\]<>&|~]")
_BACKSLASH = r"\\\g<0>"
_AT_START = re.compile(r"(\d*)([#+=.)-])")  # headings, lists, lines under headings
_DAY = len("2024-05-14")
_WHOLE = 1_000_000  # characters; more than any text has


def print_csv(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print sources as CSV with a heading."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for number, row in enumerate(rows, 1):
        first, last = row["lines"]
        values = {**row, "number": number, "first_line": first, "last_line": last}
        writer.writerow([_cell(values[name]) for name in _COLUMNS])


def _cell(value: Any) -> Any:
    """Return a value that no spreadsheet takes for a formula."""
    if not isinstance(value, str):
        return value
    text = plain(value)
    begins = text[:1] == "\t" or text.lstrip().startswith(_FORMULA)
    return f"'{text}" if begins else text


def print_markdown(rows: Iterable[Mapping[str, Any]]) -> None:
    """Print sources as a list with their passages and places."""
    for row in rows:
        print("\n".join(source_lines(row)), end="\n\n")


def source_lines(row: Mapping[str, Any], number: str = "") -> Iterator[str]:
    """Yield the lines of one source in Markdown: its number, what it is, where it stands, what it says."""
    name, day = _flat(row["author"] or row["sender"] or row["speaker"] or ""), (row["date"] or "no date")[:_DAY]
    yield " · ".join(filter(None, [f"- {number}**{_flat(row['title']) or 'no subject'}**", name, day])) + "  "
    first, last = row["lines"]
    of = "" if row["own_lines"] else " of pkb show"
    yield f"  {_code(from_home(line(row['path'])))}, lines {first} to {last}{of}"
    if row["quote"]:
        yield ""
        yield from (f"  > {shown}".rstrip() for shown in escaped(row["quote"]).split("\n"))


def export_lines(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield an export in Markdown: answers, without predicted ones that nobody asked for, then abstracts."""
    abstracts = False
    for row in rows:
        if row["kind"] == "export":
            yield from (
                "# Questions and answers",
                "",
                f"Exported by pkb {row['version']}, {row['created'][:_DAY]}.",
                "",
            )
        elif row["kind"] == "answer" and (row["origin"] == "user" or row["uses"]):
            yield from _answer_lines(row["reply"])
        elif row["kind"] == "abstract":
            yield from () if abstracts else ("# Abstracts", "")
            abstracts = True
            yield from (f"- {(row['date'] or 'no date')[:_DAY]}: {_flat(row['text'])}", "")


def _answer_lines(reply: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"## {_flat(reply['question'])}", "")
    lines = filter(None, escaped(reply["answer"] or "No answer found.").split("\n"))
    yield from ("\\\n".join(lines), "")  # a line ends behind a backslash alone
    cited = cited_numbers(reply["answer"] or "")
    originals = [row for row in reply["sources"] if not row["copy"]] if reply["answer"] else []
    for number, row in enumerate(originals, 1):
        if row["quote"] or number in cited:
            yield from (*source_lines(row, f"[{number}] " if cited else ""), "")


def escaped(text: str) -> str:
    """Return a text that Markdown shows as it is: no link, picture or tag of a mail is one in the page."""
    lines = _MARKDOWN.sub(_BACKSLASH, plain(text)).split("\n")
    starts = ((one, _AT_START.match(one)) for one in map(str.strip, lines))
    return "\n".join(f"{found[1]}\\{one[found.start(2) :]}" if found else one for one, found in starts)


def _flat(text: str) -> str:
    """Return a text on one line, behind another one."""
    return _MARKDOWN.sub(_BACKSLASH, one_line(text, _WHOLE))


def _code(text: str) -> str:
    """Return a text as code, between more backticks than stand in it."""
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    return f"{fence} {text} {fence}" if len(fence) > 1 else f"{fence}{text}{fence}"
