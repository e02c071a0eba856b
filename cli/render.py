"""Answers as a person reads them: the answer, its sources, how it was found.

Styled without rich, whose import takes a quarter of an exact hit.
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import typer

from engine.text.terminal import line, one_line, plain
from engine.types import Answer, AskResult, Source

_STYLES = re.compile(r"\x1b\[[\d;]*m")


def _print(text: str, *, stderr: bool = False) -> None:
    """Print styled text: with its styles only on a terminal that has them, and never with NO_COLOR."""
    stream = sys.stderr if stderr else sys.stdout
    plainly = not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") in ("dumb", "unknown")
    print(_STYLES.sub("", text) if plainly else text, file=stream, flush=True)


def show_answer(answered: AskResult, *, streamed: bool, explain: bool) -> None:
    """Print an answer, unless it was streamed, with its sources; what was done to find it goes to stderr."""
    reply = answered.reply
    if reply.text is None or not streamed:
        _print(_answer(reply))
    read = list(enumerate(grouped(reply.sources), 1))
    bearing = [(number, places) for number, places in read if reply.writer == "quote" or places[0].quote]
    for number, places in bearing:
        show_source(number, places)
    if aside := [f"[{number}] {_title(places)}" for number, places in read if (number, places) not in bearing]:
        _print(typer.style("\n".join(["\nAlso retrieved:", *aside]), dim=True))
    _print(typer.style(_how(answered), dim=True), stderr=True)
    if explain:
        _print(_steps(answered), stderr=True)


def show_source(number: int, places: Sequence[Source], whole: str = "") -> None:
    """Print where a source stands, its copies too, and what is quoted of it, or its whole text."""
    _print(_source(number, places))
    if whole:
        _print(plain(whole))


def _answer(reply: Answer) -> str:
    if reply.text is None:
        closest = " Closest passages:" if reply.sources else ""
        return typer.style(f"No answer found.{closest}", fg="yellow")
    if reply.highlight is None:
        return plain(reply.text)
    start, end = reply.highlight
    found = typer.style(plain(reply.text[start:end]), fg="green", bold=True)
    return plain(reply.text[:start]) + found + plain(reply.text[end:])


def grouped(sources: Sequence[Source]) -> list[list[Source]]:
    """Group each source with its copies."""
    groups: list[list[Source]] = []
    for source in sources:
        if source.copy and groups:
            groups[-1].append(source)
        else:
            groups.append([source])
    return groups


def _source(number: int, places: Sequence[Source]) -> str:
    source = places[0]
    lines = ["", typer.style(f"[{number}] ", bold=True) + _title(places)]
    if notes := warnings(source.to_json()):
        lines.append(typer.style(f"    ! {one_line('; '.join(notes), 240)}", fg="yellow"))
    for place in places:
        lines.append(typer.style(f"    {'also ' if place.copy else ''}{_where(place)}", dim=True))
    if source.quote:
        lines.append(typer.style(f"    “{one_line(source.quote, 240)}”", italic=True))
    return "\n".join(lines)


def _title(places: Sequence[Source]) -> str:
    source = places[0]
    day = _day(source.date) if source.date else "no date"
    quoted = f", quoting {_day(source.written)}" if source.written else ""
    parts = [one_line(source.title, 60) or "no subject", *_people(source), f"{day}{quoted}"]
    return " · ".join(parts)


_QUOTED = {"quote": "quoted by", "forward": "forwarded by"}


def _people(source: Source) -> list[str]:
    """Return who wrote what is quoted, by whom it came and to whom; of a meeting, who speaks."""
    if not source.sender:
        return [one_line(source.speaker, 60)] if source.speaker else []
    sender, quoted = one_line(source.sender, 80), _QUOTED.get(source.role)
    author = one_line(source.author, 80) if source.author else ""
    written = f"{author}, {quoted} {sender}" if author and quoted else f"{quoted} {sender}" if quoted else sender
    more = f" +{len(source.recipients) - 1}" if len(source.recipients) > 1 else ""
    return [written + (f" to {one_line(_name(source.recipients[0]), 40)}{more}" if source.recipients else "")]


def _name(person: str) -> str:
    return person.partition(" <")[0]


def warnings(document: Mapping[str, Any]) -> list[str]:
    """Return why a source or document, as JSON values, may not be what it says it is."""
    claimed = document["date_claimed"]
    later = [f"dated {_day(claimed)}, first seen {_day(document['date'])}"] if claimed != document["date"] else []
    return [*document["warnings"], *later]


def _day(moment: str) -> str:
    return datetime.fromisoformat(moment).strftime("%a %Y-%m-%d")


def _where(source: Source) -> str:
    first, last = source.lines
    path = from_home(line(source.path))
    # Elsewhere the numbers are those of the decoded text, which only `pkb show` prints.
    return f"{path}:{first}-{last}" if source.own_lines else f"{path}, lines {first}-{last} of pkb show"


def from_home(path: str) -> str:
    """Return a path as a person writes it: with ~ for the home folder."""
    home = f"{Path.home()}/"
    return f"~/{path.removeprefix(home)}" if path.startswith(home) else path


def _how(answered: AskResult) -> str:
    reply = answered.reply
    parts = [reply.tier, f"{reply.ms['total']:.0f} ms"]
    if reply.matched_question is not None:
        parts.append(f"same answer as “{one_line(reply.matched_question, 100)}”, similarity {reply.similarity:.0%}")
    if reply.age_s is not None:
        parts.append(f"answered {_age(reply.age_s)} ago" + (", may be stale" if reply.stale else ""))
    if reply.writer == "quote":
        parts.append("quoted; for generated answers: pkb model pull")
    elif reply.model:
        parts.append(one_line(Path(reply.model).name, 60))
    if answered.covered is not None and answered.covered < 1:
        parts.append(f"{answered.covered:.0%} of chunks have embeddings; keyword search covers all")
    return "\n" + plain(" · ".join([*parts, *answered.trace.notices]))


def _age(seconds: float) -> str:
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s"


def _steps(answered: AskResult) -> str:
    """Return the steps as a table, each with its milliseconds and what it found."""
    steps = ((step.name, f"{step.ms:.1f}", plain(step.note)) for step in answered.trace.steps)
    rows = [("step", "ms", "found"), *steps]
    names, figures = (max(len(row[column]) for row in rows) for column in (0, 1))
    heading, *lines = (f"{name:<{names}}  {ms:>{figures}}  {note}".rstrip() for name, ms, note in rows)
    return "\n".join([typer.style(heading, bold=True), *lines])
