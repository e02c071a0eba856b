"""Answers as a person reads them: the answer, its sources, how it was found. With rich, so not on the light path."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from cli import output
from engine.text.terminal import line, one_line, plain
from engine.types import Answer, AskResult, Source

if TYPE_CHECKING:
    from rich.table import Table


def show_answer(answered: AskResult, *, streamed: bool, explain: bool) -> None:
    """Print an answer, unless it was streamed, with its sources; what was done to find it goes to stderr."""
    reply = answered.reply
    if reply.text is None or not streamed:
        output.console().print(_answer(reply))
    read = list(enumerate(grouped(reply.sources), 1))
    bearing = [(number, places) for number, places in read if reply.writer == "quote" or places[0].quote]
    for number, places in bearing:
        show_source(number, places)
    if aside := [_titled(*one) for one in read if one not in bearing]:
        output.console().print(Text("\nAlso retrieved:\n", style="dim").append("\n".join(line.plain for line in aside)))
    output.console(stderr=True).print(Text(_how(answered), style="dim"))
    if explain:
        output.console(stderr=True).print(_steps(answered))


def show_source(number: int, places: Sequence[Source], whole: str = "") -> None:
    """Print where a source stands, its copies too, and what is quoted of it, or its whole text."""
    output.console().print(_source(number, places))
    if whole:
        output.console().print(Text(plain(whole)))


def _answer(reply: Answer) -> Text:
    if reply.text is None:
        closest = " Closest passages:" if reply.sources else ""
        return Text(f"No answer found.{closest}", style="yellow")
    start, end = reply.highlight or (0, 0)
    parts = (reply.text[:start], reply.text[start:end], reply.text[end:])
    return Text.assemble(plain(parts[0]), (plain(parts[1]), "bold green"), plain(parts[2]))


def grouped(sources: Sequence[Source]) -> list[list[Source]]:
    """Put each source and the copies behind it together."""
    groups: list[list[Source]] = []
    for source in sources:
        if source.copy and groups:
            groups[-1].append(source)
        else:
            groups.append([source])
    return groups


def _source(number: int, places: Sequence[Source]) -> Text:
    source = places[0]
    text = Text("\n").append_text(_titled(number, places))
    for place in places:
        text.append(f"\n    {'also ' if place.copy else ''}{_where(place)}", style="dim")
    if source.quote:
        text.append(f"\n    “{one_line(source.quote, 240)}”", style="italic")
    return text


def _titled(number: int, places: Sequence[Source]) -> Text:
    source = places[0]
    day = datetime.fromisoformat(source.date).strftime("%a %Y-%m-%d") if source.date else "no date"
    return Text.assemble((f"[{number}] ", "bold"), f"{one_line(source.title, 60) or 'no subject'} · {day}")


def _where(source: Source) -> str:
    first, last = source.lines
    path = _from_home(line(source.path))
    # Elsewhere the numbers are those of the decoded text, which only `pkb show` prints.
    return f"{path}:{first}-{last}" if source.own_lines else f"{path}, lines {first}-{last} of pkb show"


def _from_home(path: str) -> str:
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
    return "\n" + " · ".join([*parts, *answered.trace.notices])


def _age(seconds: float) -> str:
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s"


def _steps(answered: AskResult) -> "Table":
    from rich.table import Table  # as slow to import as all else of an exact hit

    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("step", "ms", "found"):
        table.add_column(heading, justify="right" if heading == "ms" else "left")
    for step in answered.trace.steps:
        table.add_row(step.name, f"{step.ms:.1f}", Text(step.note))
    return table
