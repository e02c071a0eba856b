"""Follow-ups as people type them: over the bundled mail and meetings, a real mailbox and real meetings."""

import io
import json
import re
import subprocess
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from cli.chat import Conversation
from cli.output import open_pkb
from engine.types import AskOptions
from tests.cli.conftest import Pkb
from tests.cli.serving import Served

ASKED = [
    tuple(line.split("\t"))
    for line in Path(__file__).parents[1].joinpath("data", "follow_ups.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
]
CONCERT = "When is the summer concert?"
KEY = "Who has the spare key to the workshop?"
BIKES = "How many bicycles were repaired on the repair day?"
FAIR = "How much did the fair bring in?"
BRING = "What does Ann Whitlock want me to bring?"
PRIZE = "Who won the second prize in the raffle?"
NONSENSE = "Which quorv blimmers the choir?"


def answers(conversations: Sequence[Sequence[str]]) -> list[list[dict[str, Any]]]:
    """Return the answers of conversations, found by words alone."""
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PKB_EMBED", "")
        with open_pkb() as pkb:
            for lines in conversations:
                one, out = (
                    Conversation(AskOptions(), as_json=True, explain=False),
                    io.TextIOWrapper(io.BytesIO(), "utf-8"),
                )
                with redirect_stdout(out):
                    for line in lines:
                        assert one.hear(line, pkb)
                out.seek(0)
                found.append([json.loads(line) for line in out])
    return found


@pytest.mark.usefixtures("pkb")
def test_short_follow_ups_are_answered_as_they_stand_or_as_whole_questions() -> None:
    expected = [
        (CONCERT, "why?", None, "the Old Ropeworks has let itself be booked twice"),
        (CONCERT, "who said that?", None, "Ann Whitlock"),
        (CONCERT, "and where?", "Where is the summer concert?", "for your diaries: the summer concert will be"),
        (
            KEY,
            "since when?",
            "Since when is it that Gus Tindall has the spare key to the workshop?",
            "27 February 2024",
        ),
        (BIKES, "who said that?", None, "Dele Marsh"),
        (FAIR, "who told us?", None, "Samir Haddad"),
        ("When is the AGM?", "why was it moved?", "Why was the AGM moved?", "the auditor has hay fever"),
        ("When is rehearsal?", "where is that?", None, "So that it stands in one place: from 23 May rehearsal"),
        (PRIZE, "and the first?", "Who won the first prize in the raffle?", "Ivo Castellan"),
        (PRIZE, "and the first prize?", "Who won the first prize in the raffle?", "Ivo Castellan"),
        (BRING, "why?", None, None),
        (BRING, KEY, KEY, "Gus Tindall: From today I keep"),
        (NONSENSE, "who said that?", None, None),
        (NONSENSE, "why?", None, None),
    ]
    found = []
    for (first, then, _, start), (_, row) in zip(expected, answers([one[:2] for one in expected]), strict=True):
        found.append((first, then, row["asked"], row["answer"] and row["answer"][: len(start or "")]))
    assert found == expected


@pytest.mark.usefixtures("pkb")
def test_the_first_source_is_the_one_that_an_answer_rests_on() -> None:
    (rows,) = answers([[CONCERT, "who said that?", "and where?", KEY, "since when?", BIKES, FAIR, "who told us?"]])
    resting = [row["sources"][row["answer_source"]] for row in rows]
    assert any(row["lead"] for row in rows)  # another source was ranked first
    assert resting[1]["quote"] == resting[0]["quote"]
    assert resting[7]["quote"] == resting[6]["quote"]
    assert [source["quote"][slice(*source["span"])].split() for source in resting if source["span"]] == [
        ["Saturday", "22", "June", "at", "19:00"],
        ["the", "Old", "Ropeworks"],
        ["From", "today", "I", "keep", "the", "spare", "key", "to", "the", "workshop."],
        ["today"],
        ["thirty-seven"],
        ["1,938", "pounds"],
    ]


@pytest.mark.slow
def test_the_background_server_looks_in_the_document_of_the_answer_before(home: Served) -> None:
    lines = f"{BIKES}\nwho said that?\n".encode()
    command = home.command("chat", "--json", "--cache=off")
    shown = []
    for more in ((), ("--no-daemon",)):
        ran = subprocess.run([*command, *more], input=lines, env=home.environ, capture_output=True, check=True)
        shown.append([json.loads(line) | {"ms": None} for line in ran.stdout.splitlines()])
    assert home.is_there
    assert shown[0] == shown[1]
    assert (shown[0][1]["asked"], shown[0][1]["answer"]) == (None, "Dele Marsh")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder", "least", "most"),
    [
        ("enron/slinger-r", 17, 1),
        ("zoom/focil", 9, 4),
        ("enron/carson-m/mail", 2, 3),
        ("clinton-foia/mail", 4, 0),
        ("qmsum/ami-ES2004/docs", 3, 1),
        ("qmsum/committee-covid/docs", 3, 0),
    ],
)
def test_follow_ups_over_real_data_are_answered_or_declined(
    fresh: Pkb, shared: Path, folder: str, least: int, most: int
) -> None:
    fresh("ingest", str(shared / "data" / folder), env={"PKB_EMBED": ""})
    mine = [one[1:] for one in ASKED if one[0] == folder]
    right, wrong = 0, list[str]()
    for (first, then, gold), (_, row) in zip(mine, answers([one[:2] for one in mine]), strict=True):
        if row["answered"] and re.search(gold, row["answer"]):
            right += 1
        elif row["answered"]:
            wrong.append(f"{first} {then} -> {row['asked']}: {row['answer']} ({gold})")
    assert (right >= least, len(wrong) <= most) == (True, True), "\n".join([f"{right} right", *wrong])
