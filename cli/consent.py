"""Asking the person at the terminal before what cannot be taken back, or costs."""

import sys

from cli.plain import line
from store.errors import UsageError


def agreed(question: str, *, yes: bool, usual: bool, step: str) -> bool:
    """Tell whether the person agrees, `usual` being the answer of an empty line; UsageError where nobody is there."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError("cannot ask for confirmation: not a terminal", step)
    sys.stderr.write(f"{line(question)} [{'Y/n' if usual else 'y/N'}] ")
    sys.stderr.flush()
    said = sys.stdin.readline()  # empty where what is typed has ended: that is no consent
    return usual if said == "\n" else said.strip().casefold() in ("y", "yes")
