"""What a turn of `pkb chat` shows: at most twelve rows of the terminal, and how to see the rest."""

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as some

from cli import output
from cli.chat import Conversation
from cli.render import show_answer
from engine.text.terminal import cells
from engine.types import Answer, AskOptions, AskResult, Correction, Source, Trace
from store.types import replace
from tests.cli.conftest import Pkb
from tests.cli.test_terminal import on_terminal

MOST = 12
ASKED = (
    "When is the summer concert?",
    "and where?",
    "who said that?",
    "What does Ann Whitlock want me to bring?",
    "Which quorv blimmers the choir?",
    "and when?",
    "Summarize the choir's spring",
    "List all mails from Ann",
    "How many mails did Ann Whitlock send to Mira Okafor in May 2024?",
    "What do people say about the fair?",
    "What did Ann Pereira say about the fair at the parents' committee of the school in March 2024?",
    "饺子摊的摊位是几号？",
    "why?",
)


def height(shown: str, columns: int) -> int:
    """Return the rows that a terminal shows of a text."""
    return sum(max(1, -(-cells(line) // columns)) for line in shown.split("\n")[:-1])


def test_a_turn_takes_at_most_twelve_rows(pkb: Pkb, monkeypatch: pytest.MonkeyPatch) -> None:
    conversation = Conversation(AskOptions(), as_json=False, explain=False)
    heights = {}
    with output.session() as opened:
        for question, columns in product(ASKED, (80, 60, 120)):
            monkeypatch.setenv("COLUMNS", str(columns))
            screen = on_terminal(monkeypatch)
            conversation.hear(question, opened)
            heights[question, columns] = height(re.sub(r".*\r\x1b\[2K", "", screen.getvalue()), columns)
    assert {asked: rows for asked, rows in heights.items() if not 4 <= rows <= MOST} == {}


WORDS = some.lists(some.text("ab饺é“.", min_size=1, max_size=20), max_size=60).map(" ".join)
DAYS = some.none() | some.just("2024-05-02T10:00:00")
PEOPLE = some.sampled_from(["", "Ann Lee <ann@example.org>", "x" * 90, "饺" * 40])
SOURCES = some.builds(
    Source,
    path=some.just("/m/a.eml"),
    message_id=some.none(),
    title=WORDS,
    date=DAYS,
    lines=some.just((1, 2)),
    score=some.just(1.0),
    quote=WORDS,
    copy=some.booleans(),
    sender=PEOPLE,
    speaker=some.none() | WORDS,
    warnings=some.lists(WORDS, max_size=2).map(tuple),
).map(lambda source: replace(source, date_claimed=source.date))


@some.composite
def answers(draw: some.DrawFn) -> Answer:
    """Return an answer by quotes, with what it highlights, or a declined question."""
    before, said, after = draw(WORDS), draw(some.text("cd", max_size=30)), draw(WORDS)
    sources, span = draw(some.lists(SOURCES, max_size=7)), (len(before), len(before) + len(said))
    made = Answer("?", before + said + after, "full", "quote", None, tuple(sources), {"total": 1.0})
    correction = draw(some.none() | some.builds(Correction, some.sampled_from(["changed", "wrong"]), WORDS, SOURCES))
    synthesis = draw(some.none() | some.sampled_from(["summary", "list"]))
    declined = replace(made, text=None, synthesis=synthesis)
    return draw(some.sampled_from([declined, replace(made, highlight=span if said else None, correction=correction)]))


def screen_of(answer: Answer, columns: int) -> str:
    """Return what a turn shows of an answer."""
    with pytest.MonkeyPatch.context() as patch:
        screen = on_terminal(patch)
        patch.setenv("COLUMNS", str(columns))
        notices = ["you marked this answer as wrong"]
        show_answer(AskResult(answer, Trace([], notices)), streamed=False, explain=False, more="/sources", most=MOST)
    return screen.getvalue()


@given(answers(), some.sampled_from([60, 80, 137, 200]))
def test_any_answer_fits_with_what_it_highlights_and_says_what_it_leaves_out(answer: Answer, columns: int) -> None:
    shown = screen_of(answer, columns)
    assert height(shown, columns) <= MOST
    assert answer.span in shown
    whole = "".join((answer.text or "").split()) in "".join(shown.split())
    assert whole or "all of it: /answer" in " ".join(shown.split())


def test_the_answer_of_a_language_model_is_whole_however_long() -> None:
    text = "\n".join(f"line {number} of it" for number in range(40))
    source = Source("/m/a.eml", None, "Fair", None, (1, 2), 1.0, "It is on Friday.")
    answer = Answer("?", text, "full", "model", "m", (source,) * 3, {"total": 1.0})
    shown = screen_of(answer, 80)
    assert shown.startswith(text)
    assert shown.removeprefix(text).splitlines()[2:] == [
        "[1] Fair · no date ← answer",
        "full · 1 ms · m · you marked this answer as wrong · 2 more sources: /sources",
    ]


def test_what_a_turn_leaves_out_is_a_command_away(pkb: Pkb) -> None:
    asked = "What does Ann Whitlock want me to bring?\n"
    brief, full = (pkb("chat", stdin=f"{asked}{more}".encode()).out for more in ("", "/answer\n"))
    path = next(line for line in full.splitlines() if ":13-22" in line)
    assert full.startswith(brief)
    assert (path in brief, full.count("← answer"), brief.count("← answer")) == (False, 2, 1)
