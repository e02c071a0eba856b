"""`pkb chat` over pipes and at a terminal: follow-ups made whole before any cache, its commands, how it ends."""

import os
import re
import select
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.conftest import Pkb, Ran
from tests.demo import NANO, environment
from tests.effort import PATIENCE_S
from tests.engine.models.shapes import SMALL, make

CONCERT = "When is the summer concert?"
KEY = "Who has the spare key to the workshop?"


def chat(pkb: Pkb, *lines: str, words: tuple[str, ...] = ("--json",)) -> Ran:
    return pkb("chat", *words, stdin="".join(f"{line}\n" for line in lines).encode())


def banked(pkb: Pkb) -> list[str]:
    """Return the questions that stand in the bank, in whatever state."""
    with sqlite3.connect(pkb.folder / "home" / "ledger.db") as ledger:
        rows = ledger.execute("SELECT question FROM answers").fetchall()
    ledger.close()
    return sorted(str(question) for (question,) in rows)


def test_a_follow_up_is_asked_as_a_whole_question_and_kept_as_that_alone(pkb: Pkb) -> None:
    ran = chat(pkb, CONCERT, "and where?", "what about the fair?")
    wholes = [CONCERT, "Where is the summer concert?", "Where is the fair?"]
    assert ran.code == 0
    assert [row["question"] for row in ran.rows] == [CONCERT, "and where?", "what about the fair?"]
    assert [row["asked"] for row in ran.rows] == wholes
    assert banked(pkb) == sorted(wholes)


def test_an_answer_has_the_keys_of_ask_and_the_question_as_asked(pkb: Pkb) -> None:
    keys = list(pkb("ask", KEY, "--json").row)
    assert [list(row) for row in chat(pkb, KEY).rows] == [[*keys, "asked"]]
    (row,) = chat(pkb, KEY, words=("--json", "--explain")).rows
    assert list(row) == [*keys, "asked", "explain"]
    assert row["explain"][0]["name"] == "condense"


def test_a_follow_up_is_answered_by_what_is_kept_of_the_whole_question(pkb: Pkb) -> None:
    made = pkb("ask", "Where is the summer concert?", "--json").row
    row = chat(pkb, CONCERT, "and where?").rows[1]
    assert (row["tier"], row["answer"]) == ("exact", made["answer"])


def test_an_answer_that_is_kept_of_the_same_raw_words_is_not_given_to_a_follow_up(pkb: Pkb) -> None:
    pkb("ask", "and where?")
    assert banked(pkb) == ["and where?"]
    rows = chat(pkb, "and where?", CONCERT, "and where?").rows
    assert [(row["asked"], row["tier"]) for row in rows] == [
        (None, "full"),
        (CONCERT, "full"),
        ("Where is the summer concert?", "full"),
    ]


def test_what_means_nothing_by_itself_is_asked_past_the_bank(pkb: Pkb) -> None:
    rows = chat(pkb, "where is it?", "which one?", "where is it?").rows
    assert [(row["asked"], row["tier"]) for row in rows] == [(None, "full")] * 3
    assert banked(pkb) == []


@pytest.mark.slow
def test_a_model_that_talks_nonsense_leaves_follow_ups_to_the_rules(pkb: Pkb) -> None:
    ran = chat(pkb, CONCERT, "and where?", words=("--json", "--explain", "--model", str(NANO), "--max-tokens", "8"))
    assert [row["asked"] for row in ran.rows] == [CONCERT, "Where is the summer concert?"]
    assert [row["model"] for row in ran.rows] == [str(NANO)] * 2  # or a quote in its place
    assert [row["explain"][0]["note"] for row in ran.rows] == ["by itself", "by rules"]
    assert banked(pkb) == sorted([CONCERT, "Where is the summer concert?"])


def test_without_the_cache_nothing_is_kept(pkb: Pkb) -> None:
    assert [row["tier"] for row in chat(pkb, CONCERT, CONCERT, words=("--json", "--cache=off")).rows] == [
        "full",
        "full",
    ]
    assert banked(pkb) == []


def test_its_limits_are_those_of_ask(pkb: Pkb) -> None:
    (row,) = chat(pkb, KEY, words=("--json", "-k", "2", "--in", "transcripts")).rows
    assert (len(row["sources"]), pkb("ask", KEY, "-k", "2", "--in", "transcripts", "--json").row["tier"]) == (
        2,
        "exact",
    )
    assert chat(pkb, KEY, words=("--in", "nope")).code == 2


def test_over_a_pipe_a_person_reads_answers_without_a_prompt(pkb: Pkb) -> None:
    ran = chat(pkb, KEY, "since when?", "/quit", CONCERT, words=())
    assert [line for line in ran.out.splitlines() if line.startswith("> ")] == []
    assert "spare key" in ran.out.splitlines()[0]
    assert "→ Since when is it that " in ran.err
    assert ran.err.count("→") == 1
    assert banked(pkb) == [KEY]  # what the last source answers, it answers in this conversation only
    assert ran.code == 0


def test_explain_shows_every_question_as_it_is_asked(pkb: Pkb) -> None:
    ran = chat(pkb, KEY, words=("--explain",))
    assert f"→ {KEY}" in ran.err
    assert "condense" in ran.err


def test_sources_are_numbered_and_shown_by_their_number(pkb: Pkb) -> None:
    answer, again, *opened = chat(pkb, KEY, "/answer", "/show 1").rows
    assert again["sources"] == answer["sources"]
    shown = ["show", answer["sources"][0]["path"], "--json"]
    assert opened == pkb(*shown).rows
    human = chat(pkb, KEY, "/answer", "/show 1", words=()).out
    assert human.count("[1] workshop meeting") == 2
    assert pkb("show", "1").out in human


def test_what_a_command_cannot_do_is_said_in_its_place(pkb: Pkb) -> None:
    lines = ["/answer", "/show 1", "/wrong", KEY, "/show", "/show 99", "/open -1", "/open ²", "/nope", "???", KEY]
    rows = chat(pkb, *lines).rows
    assert [row.get("error", {}).get("code") for row in rows] == [2, 2, 2, None, 2, 2, 2, 2, 2, 2, None]
    assert [row["question"] for row in rows] == lines
    assert rows[5]["error"]["message"] == "no source 99 of 5"


def test_a_wrong_answer_is_dropped_and_made_anew(pkb: Pkb) -> None:
    rows = chat(pkb, CONCERT, "and where?", "/wrong", "Where is the summer concert?", "/wrong", "/wrong").rows
    assert rows[2] == {"schema": 4, "question": "Where is the summer concert?", "tier": "full"}
    assert (rows[3]["asked"], rows[3]["tier"]) == ("Where is the summer concert?", "full")
    assert [rows[4].get("tier"), rows[5]["error"]["code"]] == ["full", 1]
    assert banked(pkb) == [CONCERT]


def test_what_was_asked_past_the_bank_takes_nothing_out_of_it(pkb: Pkb) -> None:
    pkb("ask", "and where?")
    assert chat(pkb, "hello", "/wrong").rows[1]["error"]["code"] == 1
    assert banked(pkb) == ["and where?"]


def test_help_names_every_command(pkb: Pkb) -> None:
    commands = ["/answer", "/show N", "/open N", "/wrong", "/help", "/quit"]
    assert all(name in chat(pkb, "/help", words=()).out for name in commands)


def test_a_home_without_anything_is_one_error(fresh: Pkb) -> None:
    ran = chat(fresh, KEY, KEY)
    assert (ran.code, ran.row["error"]["code"]) == (10, 10)


SAMPLE = "/open /show /answer /wrong /help / 1 99 and where why who he there Ben Friday what about ? concert key"
PIECES = st.lists(st.sampled_from(SAMPLE.split()), max_size=5).map(" ".join)


LINE = st.one_of(st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")), PIECES.map(str.encode))


@given(st.lists(st.one_of(LINE, st.binary(max_size=40)), min_size=6, max_size=6))
@settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_line_ends_a_conversation(pkb: Pkb, typed: list[bytes]) -> None:
    ran = pkb("chat", "--json", stdin=b"\n".join([KEY.encode(), *typed, b"/answer"]), env={"PKB_OPENER": "true"})
    assert ran.code == 0
    assert {"question", "asked"} <= ran.rows[-1].keys()


class Terminal:
    """A conversation at a terminal; what is written there is read once."""

    def __init__(self, process: subprocess.Popen[bytes], ours: int) -> None:
        self.process, self._ours, self._unread = process, ours, b""

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def until(self, wanted: str) -> None:
        """Read until something is written."""
        end = time.monotonic() + PATIENCE_S
        while wanted.encode() not in self._unread and time.monotonic() < end:
            if select.select([self._ours], [], [], 1)[0]:
                try:
                    self._unread += os.read(self._ours, 4096)
                except OSError:  # how Linux says that the other side has closed
                    break
        _, found, self._unread = self._unread.partition(wanted.encode())
        assert found.decode() == wanted

    def interrupt(self, wanted: str) -> None:
        """Interrupt until something is written: readline keeps a signal that comes too early for a whole line."""
        self.process.send_signal(signal.SIGINT)
        end = time.monotonic() + PATIENCE_S
        while wanted.encode() not in self._unread and time.monotonic() < end:
            if select.select([self._ours], [], [], 1)[0]:
                self._unread += os.read(self._ours, 4096)
            else:
                self.process.send_signal(signal.SIGINT)
        self.until(wanted)


@contextmanager
def terminal(folder: Path, *words: str, **more: str) -> Iterator[Terminal]:
    ours, theirs = os.openpty()
    env = {**environment(folder), "TERM": "xterm", "NO_COLOR": "1", **more}
    command = [sys.executable, "-m", "cli.app", "chat", *words]
    with subprocess.Popen(command, env=env, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        try:
            yield Terminal(process, ours)
        finally:
            process.kill()
            os.close(ours)


def test_at_a_terminal_there_is_a_prompt_and_the_end_of_input_ends_it(pkb: Pkb) -> None:
    with terminal(pkb.folder) as person:
        person.until("> ")
        person.type(f"{CONCERT}\n")
        person.until("full · ")
        person.until("> ")
        person.type("and where?\n")
        person.until("→ Where is the summer concert?")
        person.until("full · ")
        person.until("> ")
        person.type("\x04")
        assert person.process.wait(PATIENCE_S) == 0
    assert [path.name for path in pkb.folder.rglob("*history*")] == []


def test_at_the_prompt_an_interrupt_drops_the_line_and_the_signal_to_end_ends_it(pkb: Pkb) -> None:
    with terminal(pkb.folder) as person:
        person.until("> ")
        person.type("Who has the")
        person.until("the")
        person.interrupt("> ")
        person.process.terminate()
        assert person.process.wait(PATIENCE_S) == 143


@pytest.mark.slow
def test_an_interrupt_ends_the_answer_and_not_the_conversation(pkb: Pkb, tmp_path: Path) -> None:
    long = make(tmp_path / "long", SMALL | {"model_type": "llama", "max_position_embeddings": 100_000})
    with terminal(pkb.folder, "--model", str(long), "--max-tokens", "90000", "-k", "1", "--explain") as person:
        person.until("> ")
        person.type(f"{KEY}\n")
        person.until(f"→ {KEY}")  # from here on it reads, loads and writes for seconds
        person.process.send_signal(signal.SIGINT)
        person.until("pkb: stopped")
        person.until("> ")
        person.interrupt("> ")  # at the prompt there is nothing to end
        person.type("/quit\n")
        assert person.process.wait(PATIENCE_S) == 0
    assert banked(pkb) == []


def test_a_turn_shows_the_first_source_and_the_others_are_a_command_away(pkb: Pkb) -> None:
    brief, full = (pkb("chat", stdin=f"When is rehearsal?\n{more}".encode()).out for more in ("", "/answer\n"))
    assert full.startswith(brief)
    assert re.findall(r"^\[(\d)\]", brief, re.MULTILINE) == ["1"]
    assert re.findall(r"^\[(\d)\]", full.removeprefix(brief), re.MULTILINE)[:2] == ["1", "4"]
