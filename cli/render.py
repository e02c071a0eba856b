"""Answers as a person reads them: the answer, its sources, how it was found.

Styled without rich, whose import takes a quarter of an exact hit.
"""

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import typer

from cli import output
from engine.text.terminal import cited_numbers, count, ending, line, one_line, plain, unstyled, wrap
from engine.text.time_sensitive import FUNCTION_WORDS
from engine.types import Answer, AskResult, Correction, OpenLoop, Person, Report, Source, grouped, json_values

_INDENT = "    "
_SHOWN = 3  # sources in full
_QUOTE, _WHOLE = 240, 1_000_000  # characters of a quote that are shown; more than any has
_BEFORE = 160  # characters of an earlier answer


def tell(text: str, *, stderr: bool = False, indent: str = "", whole: bool = False) -> None:
    """Print styled text, wrapped to the width of a terminal unless `whole`; NO_COLOR turns styles off.

    FORCE_COLOR keeps the styles in a pipe, as for less -R.
    """
    stream = sys.stderr if stderr else sys.stdout
    on_terminal = stream.isatty()
    if on_terminal and not whole:
        text = wrap(text, output.width(), indent)
    styled = (on_terminal or os.environ.get("FORCE_COLOR")) and not os.environ.get("NO_COLOR")
    plainly = not styled or os.environ.get("TERM") in ("dumb", "unknown")
    print(unstyled(text) if plainly else text, file=stream, flush=True)


def show_answer(answered: AskResult, *, streamed: bool, explain: bool, more: str, brief: bool = False) -> None:
    """Print an answer, unless it was streamed, and the sources that hold it; how it was found goes to stderr.

    `more` is what to type for a line on each of the other sources; where it is empty, they are listed. A `brief` answer
    has the first source alone, and those that it names.
    """
    reply = answered.reply
    if reply.correction:
        tell(_correction(reply.correction) + "\n")
    if reply.text is None or not streamed:
        tell(_answer(reply))
    read = list(enumerate(grouped(reply.sources), 1))
    bearing = _bearing(reply, read)
    if reply.synthesis:  # by day; those without one last
        bearing.sort(key=lambda one: (one[1][0].date is None, one[1][0].date or ""))
    bearing = [one for one in bearing if not brief or one[0] in {1, *cited_numbers(reply.text or "")}]
    for number, places in bearing:
        beside = (sys.stdout.isatty() and number == 1 and reply.context) or ""
        show_source(number, places, rests=number == 1 and reply.answered, context=beside)
    others = [f"[{number}] {_title(places)}" for number, places in read if (number, places) not in bearing]
    shown = [f"{count(len(others), 'more source')}: {more}"] if more and others else others
    for one in ["", *shown] if shown else []:
        tell(typer.style(one, dim=True) if one else "", indent=_INDENT)
    tell(typer.style("\n" + _how(answered), dim=True), stderr=True)
    if explain:  # the steps as a table
        steps = ((step.name, f"{step.ms:.1f}", plain(step.note)) for step in answered.trace.steps)
        show_table([("step", "ms", "found"), *steps], "<><", stderr=True)


def show_table(rows: Sequence[Sequence[str]], sides: str, *, stderr: bool = False) -> None:
    """Print a heading and rows in columns, each set to the side (< or >) that `sides` has for it."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(sides))]
    columns = list(zip(sides, widths, strict=True))
    set_out = ([f"{cell:{side}{width}}" for cell, (side, width) in zip(row, columns, strict=True)] for row in rows)
    heading, *lines = ("  ".join(cells).rstrip() for cells in set_out)
    tell("\n".join([typer.style(heading, bold=True), *lines]), stderr=stderr, whole=True)


_Numbered = tuple[int, Sequence[Source]]


def _bearing(reply: Answer, read: Sequence[_Numbered]) -> list[_Numbered]:
    """Return the sources to show in full: the one the answer is from, and others that say the same."""
    if reply.text is None:
        return list(read[:_SHOWN])
    if reply.writer == "model":
        return [one for one in read if one[0] == 1 or one[1][0].quote]
    start, end = reply.highlight or (0, len(reply.text))
    wanted = _content(reply.text[start:end])
    numbers = {1, *cited_numbers(reply.text)}
    cited = [one for one in read if one[0] in numbers]
    figures = {word for word in wanted if word.isdigit() and len(word) < len("2024")}  # years are often left out

    def agrees(said: set[str]) -> bool:
        """Return whether a quote has two thirds of the words of the answer, and its numbers."""
        return bool(wanted) and figures <= said and 3 * len(wanted & said) >= 2 * len(wanted)

    others = (one for one in read if one not in cited and agrees(_content(one[1][0].quote)))
    return sorted([*cited, *islice(others, max(0, _SHOWN - len(cited)))], key=lambda one: one[0])


def _content(text: str) -> set[str]:
    return {word for word in re.findall(r"\w+", text.casefold()) if word not in FUNCTION_WORDS}


def show_source(number: int, places: Sequence[Source], whole: str = "", context: str = "", rests: bool = False) -> None:
    """Print a source's title, place and quote, or its whole text; marked if it answers."""
    source = places[0]
    tell("")
    mark = typer.style(" ← answer", fg="green") if rests else ""
    tell(typer.style(f"[{number}] ", bold=True) + _title(places) + mark, indent=_INDENT)
    if notes := warnings(json_values(source)):
        tell(typer.style(f"{_INDENT}! {one_line('; '.join(notes), 240)}", fg="yellow"), indent=_INDENT)
    also = f", and {count(len(places) - 1, 'copy', 'copies')}" if len(places) > 1 else ""
    tell(typer.style(_place(source, also), dim=True))
    if source.quote and not whole:
        tell(_INDENT + _quoted(source, context=context), indent=_INDENT)
    if whole:
        # Indented, a line of it cannot pass for the heading of another source.
        tell("\n".join(f"{_INDENT}{one}".rstrip() for one in plain(whole).split("\n")), indent=_INDENT)


def show_open_loop(number: int, item: OpenLoop, today: date) -> None:
    """Print a task or a question, who is to do it, who asked for it and by when, and its source."""
    people = (("for", item.who), ("asked by", item.asked_by))
    who = [f"{role} {one_line(person, 60)}" for role, person in people if person]
    due = [f"{'overdue since' if item.due < today else 'due'} {item.due:%a %Y-%m-%d}"] if item.due else []
    about = typer.style(f" ({', '.join([*who, *due])})", fg="yellow" if due else None) if who or due else ""
    tell(typer.style(f"[{number}] ", bold=True) + one_line(item.text, _QUOTE) + about, indent=_INDENT)
    if notes := warnings(json_values(item.source)):
        tell(typer.style(f"{_INDENT}! {one_line('; '.join(notes), 240)}", fg="yellow"), indent=_INDENT)
    tell(typer.style(_INDENT + _title([item.source]), dim=True), indent=_INDENT)
    tell(typer.style(_place(item.source), dim=True))


_KINDS = {
    "date": "Dates to come", "decision": "Decisions", "task": "Action items", "question": "Open questions",
    "done": "Done", "mail": "Mail since", "person": "Wrote for the first time", "answer": "Answers that changed",
}  # fmt: skip


def show_report(report: Report) -> None:
    """Print a report: for people on a terminal, and in a pipe as Markdown."""
    on_terminal = sys.stdout.isatty()
    tell(markdown(report, (lambda text: one_line(text, _WHOLE)) if on_terminal else _escaped).rstrip(), indent="  ")


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>#|~&!])", r"\\\1", one_line(text, _WHOLE))


def markdown(report: Report, written: Callable[[str], str] = _escaped) -> str:
    """Return a report as Markdown; marks in it are escaped, so that no message shows a link or a picture."""
    day, people = f" · {_day(report.date)}" if report.date else "", written(report.people)
    lines = [f"# {written(report.title)}{day}", *(["", about] if (about := people or written(report.writer)) else [])]
    for kind in report.kinds:
        own = [item for item in report.items if item.kind == kind]
        if not own and not report.people:  # of some days
            continue
        lines += ["", f"## {_KINDS[kind]}", "", *([] if own else ["None found by its words."])]
        for item in own:
            who, due = [f"for {item.who}"] if item.who else [], [f"{item.due:%a %Y-%m-%d}"] if item.due else []
            about = f" ({', '.join([*who, *due])})" if who or due else ""
            told = [f"{_title([item.source])}, {_where(item.source)}"]
            told = [f"“{item.text}”"] * bool(item.words) + told
            told += (f"! {note}" for note in warnings(json_values(item.source)))
            lines += [f"- {written((item.words or item.text) + about)}", *(f"  {written(one)}" for one in told)]
    return "\n".join([*lines, ""])


def show_person(one: Person) -> None:
    """Print a person's name and addresses, then a line for each fact, with who says so and where."""
    tell(typer.style(one_line(one.name, 80), bold=True) + f" <{line(', '.join(one.addresses))}>" * bool(one.addresses))
    last = f", last {_day(one.last)}" if one.last else ""
    tell(typer.style(f"{_INDENT}{count(one.wrote, 'document')} from, {one.received:,} to{last}", dim=True))
    for said, others in (("also", one.spellings), ("perhaps the same", one.similar)):
        if others:
            tell(f"{_INDENT}{said}: {line(', '.join(others))}", indent=_INDENT)
    for fact in one.facts:
        kind = f"{fact.kind}{f' ({line(fact.label)})' * bool(fact.label)}{', before' * fact.older}"
        tell(f"{_INDENT}{kind}: {typer.style(one_line(fact.value, _QUOTE), bold=not fact.older)}", indent=_INDENT)
        about = [f"says {one_line(fact.by, 60)}" if fact.by else "", _day(fact.source.date) if fact.source.date else ""]
        notes = (f"! {one_line(note, 120)}" for note in warnings(json_values(fact.source)))
        tell(typer.style(_INDENT * 2 + " · ".join(filter(None, [*about, _where(fact.source), *notes])), dim=True))


_NEEDS = {"list": "a complete list", "decisions": "several passages", "opinions": "several people's words"}
_LISTED = {"list": "list", "count": "count", "comparison": "count"}  # what `pkb list` does


def _answer(reply: Answer) -> str:
    if asked := reply.synthesis:  # no passage answers it; a command to paste
        instead = "use a language model: pkb model pull"
        if verb := _LISTED.get(asked):
            instead = f"{verb} documents: pkb list --from NAME --about WORDS{' --count' if verb == 'count' else ''}"
        below = "see the passages below, by date, or " if reply.sources else "instead "
        needs = _NEEDS.get(asked, f"a {asked}")
        return typer.style(plain(f"This needs {needs}, and pkb only quotes; {below}{instead}"), fg="yellow")
    if reply.text is None:
        return typer.style(f"No answer found.{' Closest passages:' if reply.sources else ''}", fg="yellow")
    said = typer.style("Closest passage: ", fg="yellow") if reply.grade == "closest" else ""
    before = typer.style(f" (before: {plain(reply.before)})", dim=True) if reply.before else ""
    if reply.highlight is None:
        return said + plain(reply.text) + before
    start, end = reply.highlight
    found = typer.style(plain(reply.text[start:end]), fg="green", bold=reply.grade != "closest")
    return said + plain(reply.text[:start]) + found + plain(reply.text[end:]) + before


def _correction(made: Correction) -> str:
    was = f"“{one_line(made.before, _BEFORE)}”" if made.before else "no answer"
    if made.kind == "wrong":
        return typer.style("Corrected:", fg="yellow", bold=True) + f" {was}, said before, answers a similar question."
    because = f" by {one_line(_title([made.cause]), _BEFORE)}" if made.cause else ""
    return typer.style("Changed", fg="yellow", bold=True) + f"{because}; before: {was}"


def _quoted(source: Source, width: int = _QUOTE, context: str = "") -> str:
    """Return about `width` characters of a quote on one line, the answer marked and never cut off, its context dim."""
    if context and source.quote in context:
        beside = (one_line(one, width) for one in context.split(source.quote, 1))
        before, after = (typer.style(one, dim=True) if one else "" for one in beside)
        return f"{before} {_quoted(source, width)} {after}".strip()
    text, span = source.quote, source.span or (0, 0)
    begin, stop = (len(one_line(text[:place] + "|", _WHOLE)) - 1 for place in span)
    flat, cut = one_line(text, _WHOLE), max(0, stop - width)
    after = flat[stop : cut + width]
    if len(flat) > cut + width:
        after = after.rstrip() + "…"
    parts = ("…" if cut else "") + flat[cut:begin], flat[begin:stop], after
    if not (parts[0] or after):  # all of it answers, and is printed above already
        return typer.style(f"“{parts[1]}”", italic=True)
    before, said, after = (typer.style(part, italic=True) if part else "" for part in parts)
    return f"“{before}{typer.style(said, bold=True, fg='green') if said else ''}{after}”"


def _title(places: Sequence[Source]) -> str:
    source = places[0]
    day = _day(source.date) if source.date else "no date"
    quoted = f", quoting {_day(source.written)}" if source.written else ""
    return " · ".join([one_line(source.title, 60) or "no subject", *_people(source), f"{day}{quoted}"])


def _people(source: Source) -> list[str]:
    """Return the author of the quoted text, its sender and recipients; of a meeting, the speaker.

    With their addresses where a warning says that the name may be another's.
    """
    if not source.sender:
        return [one_line(source.speaker, 60)] if source.speaker else []
    sender, author = (
        one_line(one if source.warnings else one.partition(" <")[0], 80) for one in (source.sender, source.author or "")
    )
    quoted = {"quote": "quoted by", "forward": "forwarded by"}.get(source.role)
    written = f"{author}, {quoted} {sender}" if author and quoted else f"{quoted} {sender}" if quoted else sender
    if not source.recipients:
        return [written]
    more = f" +{len(source.recipients) - 1}" if len(source.recipients) > 1 else ""
    return [f"{written} to {one_line(source.recipients[0].partition(' <')[0], 40)}{more}"]


def warnings(document: Mapping[str, Any]) -> list[str]:
    """Return why a source or document, as JSON values, may not be what it says it is."""
    claimed = document["date_claimed"]
    later = [f"dated {_day(claimed)}, first seen {_day(document['date'])}"] if claimed != document["date"] else []
    return [*document["warnings"], *later]


def _day(moment: str) -> str:
    return datetime.fromisoformat(moment).strftime("%a %Y-%m-%d")


def _place(source: Source, also: str = "") -> str:
    """Return the line that tells where a source is: on a terminal, a long path loses its beginning."""
    told = _where(source) + also
    return _INDENT + (ending(told, output.width() - len(_INDENT)) if sys.stdout.isatty() else told)


def _where(source: Source) -> str:
    first, last = source.lines
    path = from_home(line(source.path))
    if source.place:
        return f"{path}: {line(source.place)}"
    # Elsewhere the numbers are those of the decoded text, as `pkb show` prints it.
    at, decoded = f" at {line(source.at)}" if source.at else "", "message" if source.sender else "text"
    return f"{path}:{first}-{last}{at}" if source.own_lines else f"{path}, lines {first}-{last} of the {decoded}"


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
        units = ((86400, "d"), (3600, "h"), (60, "min"), (0, "s"))
        seconds, unit = next(one for one in units if reply.age_s >= one[0])
        age = f"{reply.age_s / max(1, seconds):.0f} {unit}"
        parts.append(f"answered {age} ago" + (", may be stale" if reply.stale else ""))
    if reply.writer == "quote" and not reply.synthesis:
        parts.append("quoted")
    if reply.model:
        parts.append(one_line(Path(reply.model).name, 60))
    if answered.covered is not None and answered.covered < 1:
        parts.append(f"{answered.covered:.0%} of chunks have embeddings; keyword search covers all")
    return plain(" · ".join([*parts, *answered.trace.notices]))
