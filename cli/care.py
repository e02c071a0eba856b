"""`pkb check` and `pkb doctor`: is what is kept sound, and is this machine fit."""

from typing import Annotated

import typer

from cli import deeds, out
from cli.out import session
from cli.plain import plain

_MARKS = {"ok": "ok  ", "note": "note", "bad": "BAD "}


def check(
    repair: Annotated[bool, typer.Option("--repair", help="Repair the problems found.")] = False,
    read_data: Annotated[bool, typer.Option("--read-data", help="Verify all data too; slower.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check the index and caches for damage, and repair them.

    Example: pkb check --repair
    """
    with session() as opened:
        findings, again = deeds.check(opened, read_data=read_data, repair=repair)
    wrong = [finding for finding in findings if finding.wrong]
    if as_json:
        rows = [{"name": one.name, "wrong": one.wrong or None, "note": one.note or None} for one in findings]
        out.data({"schema": out.SCHEMA, "sound": not wrong, "findings": rows, "to_read_again": again})
    else:
        for finding in findings:
            mark = _MARKS["bad" if finding.wrong else "note" if finding.note else "ok"]
            print(f"{mark}  {finding.name:<10} {plain(finding.wrong or finding.note) or 'no problems'}")
        if wrong:
            out.say(f"pkb: problems found; try: pkb {'ingest' if repair else 'check --repair'}")
        elif again:
            out.say(f"pkb: repaired; {again:,} documents must be read again; try: pkb ingest")
    raise typer.Exit(1 if wrong else 0)


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False) -> None:
    """Check that this machine can run pkb, and suggest fixes.

    Example: pkb doctor
    """
    with session() as opened:
        checks = []
        for found in deeds.examine(opened):
            checks.append(found)
            if not as_json:
                step = f"; try: {found.next_step}" if found.next_step else ""
                print(f"{_MARKS[found.state]}  {found.name:<10} {plain(found.found)}{step}", flush=True)
    fit = all(found.state != "bad" for found in checks)
    if as_json:
        rows = [{"name": c.name, "state": c.state, "found": c.found, "next": c.next_step} for c in checks]
        out.data({"schema": out.SCHEMA, "fit": fit, "checks": rows})
    raise typer.Exit(0 if fit else 1)
