"""Follow-ups as people type them, over a real mailbox and real meetings: how many are answered rightly."""

from pathlib import Path

import pytest

from tests.cli.conftest import Pkb

ASKED = [
    tuple(line.split("\t"))
    for line in Path(__file__).parents[1].joinpath("data", "follow_ups.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
]


@pytest.mark.slow
@pytest.mark.parametrize(("folder", "least"), [("enron/slinger-r", 9), ("zoom/focil", 4)])
def test_follow_ups_are_answered(fresh: Pkb, shared: Path, folder: str, least: int) -> None:
    fresh("ingest", str(shared / "data" / folder), env={"PKB_EMBED": ""})
    wrong = list[str]()
    mine = [one[1:] for one in ASKED if one[0] == folder]
    for first, then, gold in mine:
        row = fresh("chat", "--json", stdin=f"{first}\n{then}\n".encode()).rows[1]
        shown = f"{row['answer']} {row['sources'][0]['speaker'] if row['sources'] else ''}"
        if not any(each in shown for each in gold.split("|")):
            wrong.append(f"{first} {then} -> {row['asked']}: {row['answer']} ({gold})")
    assert len(mine) - len(wrong) >= least, "\n".join(wrong)
