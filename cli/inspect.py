"""`pkb search`, `show`, `list`, `todo`, `meeting`, `before`, `wrong` and `doctor`: the commands that inspect a home."""

import shlex
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

from cli import output
from cli.output import InDocument, filtered, open_pkb
from cli.render import markdown, show_open_loop, show_person, show_report, show_source, warnings
from engine import operations
from engine.serve.client import unknown_person
from engine.text.terminal import cells, count, line, one_line, plain, valid_text, wrap
from engine.types import NO_FILTERS, Filters, Listing, ListOptions, Report, json_values
from store.errors import UsageError
from store.home import replacing
from store.types import Scope, replace

if TYPE_CHECKING:
    from engine.app import Pkb
    from store.integrity import Repaired


_MARKS = {"ok": "ok  ", "note": "note", "bad": "BAD "}


def _check_data(*, repair: bool, read_data: bool, as_json: bool) -> NoReturn:
    with open_pkb() as pkb:
        findings, repaired = operations.check(pkb.session, read_data=read_data, repair=repair)
    wrong = [finding for finding in findings if finding.wrong]
    if as_json:
        rows = [{"name": one.name, "wrong": one.wrong or None, "note": one.note or None} for one in findings]
        output.data({"sound": not wrong, "findings": rows, "to_read_again": repaired.documents,
                     "files_to_read_again": list(repaired.files)})  # fmt: skip
    else:
        for finding in findings:
            mark = _MARKS["bad" if finding.wrong else "note" if finding.note else "ok"]
            print(f"{mark}  {finding.name:<10} {plain(finding.wrong or finding.note) or 'no problems'}")
        if repair:
            _say_what_is_left(repaired, sound=not wrong)
        elif wrong:
            output.say("pkb: problems found; try: pkb doctor --data --repair")
    raise typer.Exit(1 if wrong else 0)


_NAMED = 10  # files to read again


def _say_what_is_left(repaired: "Repaired", *, sound: bool) -> None:
    for path in repaired.files[:_NAMED]:
        gone = "; it is missing: restore it, or its documents are lost" if path in repaired.gone else ""
        output.say(f"pkb: to be read again: {path}{gone}")
    if len(repaired.files) > _NAMED:
        output.say(f"pkb: and {len(repaired.files) - _NAMED:,} more files; pkb doctor --data --repair --json names all")
    step = "pkb ingest" if repaired.roots else "pkb ingest FOLDER"
    if repaired.files or not repaired.roots:
        many = f"{repaired.documents:,}" if repaired.documents else "all"
        output.say(f"pkb: repaired; {many} documents must be read again; try: {step}")
    elif repaired.embeddings:
        output.say(f"pkb: repaired; {repaired.embeddings:,} chunks must be embedded again; try: {step}")
    elif not sound:
        output.say(f"pkb: problems found; try: {step}")


def doctor(
    of_data: Annotated[bool, typer.Option("--data", help="Check the index and caches for damage instead.")] = False,
    repair: Annotated[bool, typer.Option("--repair", help="With --data: repair the problems found.")] = False,
    read_data: Annotated[bool, typer.Option("--read-data", help="With --data: verify all of it; slower.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check this machine, or with --data the index and caches.

    Example: pkb doctor --data --repair
    """
    if of_data or repair or read_data:
        _check_data(repair=repair, read_data=read_data, as_json=as_json)
    with open_pkb() as pkb:
        checks = []
        for found in pkb.doctor():
            checks.append(found)
            if not as_json:
                step = f"; try: {found.next_step}" if found.next_step else ""
                print(line(f"{_MARKS[found.state]}  {found.name:<10} {found.found}{step}"), flush=True)
    fit = all(found.state != "bad" for found in checks)
    if as_json:
        rows = [{"name": c.name, "state": c.state, "found": c.found, "next": c.next_step} for c in checks]
        output.data({"fit": fit, "checks": rows})
    raise typer.Exit(0 if fit else 1)


@filtered()
def search(
    words: Annotated[list[str], typer.Argument(metavar="WORDS", help="Keywords, or a question.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the passages as JSON.")] = False,
    k: Annotated[int, typer.Option("-k", metavar="N", min=1, max=50, help="Number of passages.")] = 10,
    filters: Filters = NO_FILTERS,
) -> None:
    """Show the best matching passages, without answering.

    Example: pkb search minutes budget --from ann -k 3
    """
    with open_pkb() as pkb:
        scope = pkb.scope(filters)
        if not (query := valid_text(" ".join(words))).strip():
            raise UsageError("there are no words to search for", "pkb search WORDS")
        with output.progress_line(pkb.session):
            found = pkb.find(query, scope, k)
        if as_json:
            output.data({"query": query, "sources": [one for each in found for one in each]})
        for number, one in enumerate(found if not as_json else (), 1):
            show_source(number, one, whole=one[0].quote)
        if not (found or as_json):
            print("No matches.")
        _say_matched(pkb, scope)
        if not found:
            why = "nothing matches within these filters" if filters else "no message has these words"
            step = f"pkb search {shlex.quote(query) if filters else 'OTHER WORDS'}"
            output.say(f"pkb: {unknown_person(pkb.session, scope) or f'{why}; try: {step}'}")
        raise typer.Exit(0 if found else 4)


def _say_matched(pkb: "Pkb", scope: Scope) -> None:
    if not scope.sender:
        return
    from engine.ask.keys import matched_senders

    for notice in matched_senders(pkb.session.ledger, scope):
        output.say(f"pkb: {notice}")


def show(
    file: Annotated[str, typer.Argument(metavar="FILE", help="An indexed file, or the number of a source.")],
    message_id: Annotated[str | None, typer.Option(metavar="ID", help="Message-ID of one message of an mbox.")] = None,
    whole: Annotated[bool, typer.Option("--thread", help="Print all mails of its thread, newest first.")] = False,
    opens: Annotated[bool, typer.Option("--open", help="Open the file of a source of the last answer.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the documents as JSON.")] = False,
) -> None:
    """Print the indexed text of a file or source, or open its file.

    Example: pkb show ~/Mail/archive.mbox --message-id 1234@example.org
    """
    with open_pkb() as pkb:
        number = operations.source_number(file)
        if number is not None and message_id is not None:
            raise UsageError(f"{file} is the number of a source; a file of that name is ./{file}", "pkb show --help")
        if opens:
            if number is None:
                step = "pkb show 1 --open"
                raise UsageError(f"--open opens a source of the last answer by its number, not {file}", step)
            source = pkb.open_source(number)
            if as_json:
                output.data({"number": number, "source": source})
            elif source.place:
                output.say(f"pkb: opened {line(source.place)}")
            return
        cited = None if number is None else pkb.source(number)
        with output.progress_line(pkb.session, "Reading..."):
            rows = pkb.show_source(cited) if cited else pkb.show(file, message_id)
        if not rows:
            which = f"message {message_id} of {file}" if message_id else file
            raise UsageError(f"{which} is not indexed", f"pkb ingest {file}")
        for row in pkb.thread(rows[0]) if whole else rows:
            is_cited = cited and (row["path"], row["message_id"]) == (cited.path, cited.message_id)
            output.data(row) if as_json else print_document(row, cited.lines if cited and is_cited else None)


def print_document(row: dict[str, Any], marked: tuple[int, int] | None = None) -> None:
    """Print one document, its lines or turns numbered by the lines of the file; an angle bracket marks some."""
    about = {
        "File": row["path"],
        "Message-ID": row["message_id"],
        "From": row["sender"],
        "To": ", ".join(row["recipients"]),
        "Date": row["date"],
        "Title": row["title"],
        "First seen": row["first_seen"],
        "Caution": "; ".join(warnings(row)),
    }
    for name, value in about.items():
        if value:
            print(f"{name}: {line(value)}")
    print()
    begin, end = marked or (0, 0)
    turns = [(*turn["lines"], turn["text"]) for turn in row["turns"] or ()]
    lines = [(number, number, text) for number, text in enumerate(row["text"].split("\n"), row["lines"][0])]
    for first, last, text in turns or lines:
        shown = f"{first:>5}{'>' if begin <= last and first <= end else ' '} {plain(text)}"
        print(wrap(shown, output.width(), " " * 7) if turns else shown)
    print()


def wrong(as_json: Annotated[bool, typer.Option("--json", help="Print the dropped question as JSON.")] = False) -> None:
    """Mark the last answer as wrong and drop it from the cache.

    Example: pkb wrong
    """
    with open_pkb() as pkb:
        last = pkb.reject()
    row = {"question": last.question, "tier": last.tier}
    output.result(row, f"Dropped: {one_line(last.question, 200)}", as_json=as_json)
    if not as_json:
        output.say("pkb: the next time you ask, it will be answered from scratch")


_WHO, _DAY, _NARROWEST = 26, len("2024-05-14"), 60  # columns


@filtered()
def list_documents(
    title: Annotated[list[str] | None, typer.Argument(metavar="TITLE", help="Words of the title, or a name.")] = None,
    number: Annotated[int, typer.Option("-n", metavar="N", min=0, help="How many to list; 0 for all.")] = 20,
    oldest: Annotated[bool, typer.Option("--oldest", help="List the oldest first.")] = False,
    about: Annotated[str | None, typer.Option(metavar="WORDS", help="Only with these words in title or text.")] = None,
    count_only: Annotated[bool, typer.Option("--count", help="Print only how many there are.")] = False,
    paths: Annotated[bool, typer.Option("--paths", help="Print only the path of each file.")] = False,
    problems: Annotated[bool, typer.Option("--problems", help="List skipped, misread and left-out items.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the list as one JSON object.")] = False,
    filters: Filters = NO_FILTERS,
) -> None:
    """List messages and meetings, newest first.

    Example: pkb list budget --from ann --since 2024-05
    """
    with open_pkb() as pkb:
        if problems:
            return _show_problems(operations.problems(pkb.session), as_json=as_json)
        scope = pkb.scope(filters)
        words = tuple(valid_text(" ".join(title or [])).split())
        with output.progress_line(pkb.session, "Listing..."):
            options = ListOptions(scope, words, 0 if count_only else number or None, oldest, valid_text(about or ""))
            found = pkb.list_documents(options)
            for role in ("sender", "recipient") if words and not (scope.sender or scope.recipient) else ():
                if not found.total:  # then it may be somebody's name
                    scope = replace(options.scope, **{role: " ".join(words)})
                    found = pkb.list_documents(replace(options, scope=scope, title=()))
        if as_json:
            output.data({"total": found.total, "documents": found.documents})
        elif count_only:
            print(found.total)
        else:
            _print(found, paths=paths)
        _say_matched(pkb, scope)
        if not found.total:
            output.say(f"pkb: {unknown_person(pkb.session, scope) or 'no match'}")
        raise typer.Exit(0 if found.total else 4)


def _show_problems(kinds: Sequence[dict[str, Any]], *, as_json: bool) -> None:
    said = list[str]()
    for one in kinds:
        paths = Counter(item["path"] for item in one["items"]).items()
        said.append(f"{one['meaning']}: {one['count']:,}")
        said += (line(f"    {path} ({number:,})" if number > 1 else f"    {path}") for path, number in paths)
    output.result({"kinds": kinds}, "\n".join(said) or "nothing was skipped, misread or left out", as_json=as_json)


def _print(found: Listing, *, paths: bool) -> None:
    if paths:
        for path in dict.fromkeys(row["path"] for row in found.documents):
            print(line(path))
        return
    width = max(get_terminal_size().columns, _NARROWEST) if sys.stdout.isatty() else None
    for row in found.documents:
        print(_line(row, width))
    if 0 < len(found.documents) < found.total:
        output.say(f"{len(found.documents):,} of {found.total:,}; all: pkb list -n 0")


def _line(row: dict[str, Any], width: int | None) -> str:
    copies = f" ({count(row['copies'], 'copy', 'copies')})" if row["copies"] else ""
    title, who = line(" ".join(row["title"].split())) or "no subject", _who(row)
    if width:
        title = _cut(title, width - _DAY - _WHO - 4 - len(copies))
    return f"{(row['date'] or 'no date')[:_DAY]:<{_DAY}}  {who}{' ' * (_WHO - cells(who))}  {title}{copies}"


def _who(row: dict[str, Any]) -> str:
    people = [row["sender"]] if row["kind"] == "mail" else row["recipients"]
    if not people:
        return ""
    more = f" +{len(people) - 1}" if len(people) > 1 else ""
    name = people[0].partition(" <")[0].strip("<> ")
    return f"{_cut(one_line(name, 200), _WHO - len(more))}{more}"


def _cut(text: str, width: int) -> str:
    if cells(text) <= width:
        return text
    while text and cells(text) >= width:
        text = text[:-1]
    return f"{text.rstrip()}…"


def people(
    name: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="A name, or an address.", autocompletion=output.person)
    ] = None,
    number: Annotated[int, typer.Option("-n", metavar="N", min=1, help="How many people to show.")] = 20,
    same: Annotated[list[str] | None, typer.Option(metavar="ADDRESS", help="Theirs, too: join it for good.")] = None,
    apart: Annotated[list[str] | None, typer.Option(metavar="ADDRESS", help="Not theirs: never join it.")] = None,
    collection: output.Collection = None,
    as_json: output.Json = False,
) -> None:
    """Show who somebody is: addresses, phone numbers, title, with sources.

    Example: pkb people ann pereira
    """
    with open_pkb() as pkb:
        if same or apart:
            pkb.tie_people(" ".join(name or []), same=same or (), apart=apart or ())
        with output.progress_line(pkb.session, "Reading..."):
            found = pkb.people(" ".join(name or []), limit=number, collection=collection)
        if as_json:
            output.data({"people": found})
        for one in found if not as_json else ():
            show_person(one)
        if not found or (name and found[1:]):
            output.say(f"pkb: {'several people fit' if found else 'nobody fits'}; try: pkb people ADDRESS")
        raise typer.Exit(0 if found else 4)


_Kind = Annotated[Literal["task", "question"] | None, typer.Option("--kind", help="Only tasks or questions.")]
_Since = Annotated[str | None, typer.Option("--since", metavar="DAY", help="Only from this day on (default: 30d).")]


@filtered(since=_Since, document=InDocument, kind=_Kind)
def todo(
    number: Annotated[int, typer.Option("-n", metavar="N", min=0, help="How many to show; 0 for all.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print the items as one JSON object.")] = False,
    filters: Filters = NO_FILTERS,
) -> None:
    """List open tasks and unanswered questions, earliest due first.

    Example: pkb todo --since 2024-05 --from ann
    """
    with open_pkb() as pkb:
        scope = pkb.scope(filters)
        with output.progress_line(pkb.session, "Reading..."):
            found = pkb.open_loops(filters, number or None)
        if as_json:
            output.data({"items": found.items})
        else:
            heading: str | None = None
            for place, item in enumerate(found.items, 1):
                if item.whose != heading and (heading := item.whose):
                    print(f"{'Yours' if heading == 'mine' else 'Of others'}:")
                show_open_loop(place, item, pkb.session.now.date())
        _say_matched(pkb, scope)
        if not found.items:  # why, and the year of the newest document
            some = f"nothing is open in {count(found.documents, 'document')}" if found.documents else ""
            newest, lost = _newest(pkb, scope), None if some else unknown_person(pkb.session, scope)
            advice = f"; try: pkb todo --since {newest[:4]}" if newest else ""
            output.say(f"pkb: {lost or (some or 'nothing from these dates') + advice}")
            raise typer.Exit(4)
        if len(found.items) < found.total:
            output.say(f"pkb: {len(found.items):,} of {found.total:,}; all: pkb todo -n 0")
        if found.read < found.documents:
            only = f"only the newest {found.read:,} of {found.documents:,} documents were read"
            output.say(f"pkb: {only}; for others, set --until")


def _newest(pkb: "Pkb", scope: Scope) -> str:
    """Return the date of the newest document, whatever days are asked for; empty if there is none."""
    ever = ListOptions(replace(scope, since=None, until=None), limit=1)
    return next((row["date"] or "" for row in pkb.list_documents(ever).documents), "")


_Output = Annotated[Path | None, typer.Option("--output", metavar="FILE", help="Write it to a file, as Markdown.")]


@filtered()
def meeting(
    name: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Title, speaker, day; else the last.", autocompletion=output.title),
    ] = None,
    before: Annotated[bool, typer.Option("--before", help="Show what is still open of it and what changed.")] = False,
    file: _Output = None,
    as_json: output.Json = False,
    filters: Filters = NO_FILTERS,
) -> None:
    """Show who was at a meeting, what was decided and who does what.

    Example: pkb meeting parents committee --output minutes.md
    """
    _report(lambda pkb: pkb.meeting(" ".join(name or []), filters, before=before), file, as_json=as_json)


@filtered()
def digest(file: _Output = None, as_json: output.Json = False, filters: Filters = NO_FILTERS) -> None:
    """Show what the last days brought, for a look in the morning or a cron mail.

    Example: pkb digest --since yesterday
    """
    _report(lambda pkb: pkb.digest(filters, in_words=True), file, as_json=as_json)


def _report(read: "Callable[[Pkb], Report]", file: Path | None, *, as_json: bool) -> None:
    """Print a report, or write it to a file; exit code 4 if nothing is in it."""
    with open_pkb() as pkb:
        with output.progress_line(pkb.session, "Reading..."):
            found = read(pkb)
        is_empty = not found.items and not found.people
        if file:
            with replacing(file) as written:  # for its owner alone, whatever was there
                written.write(markdown(found).encode())
        if as_json:
            output.data(json_values(found))
        elif not file and not is_empty:  # cron mails what is printed
            show_report(found)
        if is_empty and sys.stderr.isatty():  # a person, who would wonder
            output.say(f"pkb: nothing found; try: pkb digest --since {_newest(pkb, pkb.scope())[:7] or '30d'}")
        raise typer.Exit(4 if is_empty else 0)
