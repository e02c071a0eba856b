"""What some days brought: dates to come, tasks opened and done, decisions, people who wrote for the first time."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from email.message import EmailMessage
from pathlib import Path

import pytest

from engine.app import Pkb
from engine.kv.restore import PromptReader
from engine.llm.generate import in_words
from engine.types import Filters, OpenLoop, Report, json_text
from store.answers import Notice, Notices
from store.types import replace
from tests.demo import NANO
from tests.engine.llm.scripted_model import ScriptedModel
from tests.engine.models.chatserver import ChatServer, chatting, streamed

NOW = datetime(2024, 6, 19, 8, tzinfo=UTC)
ANN, BEN, EVA = "Ann Miller <ann@example.org>", "Ben Oak <ben@example.org>", "Eva Lind <eva@example.org>"


@pytest.fixture
def pkb(tmp_path: Path) -> Pkb:
    folder = tmp_path / "Mail"
    folder.mkdir()
    mails = [
        (ANN, BEN, "Tent", "I'll send you the list of tents.", 1),
        (ANN, BEN, "Cups", "Please bring the cups.", 2),
        (ANN, BEN, "Re: Tent", "Here is the list of tents.", 17),
        (EVA, BEN, "Engineer", "The engineer comes on Wednesday 3 July. Please send me the key of the hall.", 18),
    ]
    for number, (sender, to, subject, text, day) in enumerate(mails):
        message = EmailMessage()
        message["From"], message["To"], message["Subject"], message["Message-ID"] = sender, to, subject, f"<{number}@x>"
        message["Date"] = datetime(2024, 6, 1, 12, tzinfo=UTC) + timedelta(days=day - 1)
        message.set_content(text)
        (folder / f"{number}.eml").write_bytes(message.as_bytes())
    (folder / "call.txt").write_text("Call\nDate: 18 June 2024\n\nAnn: We decided to rent the tent.\nBen: Fine.\n")
    opened = Pkb(tmp_path / "home", environ={"PKB_NOW": NOW.isoformat()})
    opened.ingest([folder], embed=False)
    return opened


def by_kind(report: Report) -> dict[str, list[str]]:
    return {kind: own for kind in report.kinds if (own := [one.text for one in report.items if one.kind == kind])}


def test_days_bring_dates_tasks_decisions_and_people_with_their_sources(pkb: Pkb) -> None:
    with pkb:
        found = pkb.digest(Filters(since="7d"))
    assert by_kind(found) == {
        "date": ["The engineer comes on Wednesday 3 July."],
        "task": ["Please send me the key of the hall."],
        "done": ["I'll send you the list of tents."],
        "decision": ["We decided to rent the tent."],
        "person": ["Eva Lind <eva@example.org>"],
    }
    assert (found.items[0].due, found.title) == (date(2024, 7, 3), "Since Wednesday 12 June 2024")
    assert [one.source.title for one in found.items] == ["Engineer", "Engineer", "Re: Tent", "Call", "Engineer"]


def test_what_was_before_the_days_is_not_in_them(pkb: Pkb) -> None:
    with pkb:
        assert by_kind(pkb.digest(Filters(since="2024-06-19"))) == {}
        assert "Please bring the cups." in [one.text for one in pkb.digest(Filters(since="30d")).items]


def test_an_answer_that_changed_is_told_until_it_is_asked_for(pkb: Pkb) -> None:
    with pkb:
        asked = "When does the engineer come?"
        source = pkb.ask(asked).sources[0]
        ledger = pkb.session.ledger
        (key,) = ledger.rows.execute("SELECT key FROM answers").fetchone()
        at = (NOW - timedelta(days=1)).timestamp()
        Notices(ledger).add(Notice(key, "changed", "on 1 July", "on 3 July", json_text(source), at))
        changed = [one for one in pkb.digest(Filters(since="7d")).items if one.kind == "answer"]
        assert changed == [OpenLoop("answer", f"{asked}: on 3 July (before: on 1 July)", None, None, source)]
        assert "answer" not in by_kind(pkb.digest(Filters(since="2024-06-19")))
        ledger.rows.execute("UPDATE notices SET crc = crc + 1")
        assert "answer" not in by_kind(pkb.digest(Filters(since="7d")))  # a damaged row is not believed
        ledger.rows.execute("UPDATE notices SET crc = crc - 1")
        assert pkb.ask(asked).correction
        assert "answer" not in by_kind(pkb.digest(Filters(since="7d")))


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chatting() as found:
        yield found


def told(pkb: Pkb, server: ChatServer, text: str) -> dict[str, str | None]:
    """Return the words of each quote of a week, where a model writes a text."""
    server.write = lambda user: streamed(text)
    pkb.session.override("model.name", server.name)
    with pkb:
        return {one.text: one.words for one in pkb.digest(Filters(since="7d"), in_words=True).items}


ENGINEER, KEY, TENT = (
    *("The engineer comes on Wednesday 3 July.", "Please send me the key of the hall."),
    "We decided to rent the tent.",
)


def test_a_model_tells_each_quote_in_words(pkb: Pkb, server: ChatServer) -> None:
    said = "[1] On 3 July the engineer comes.\n2. Ben Oak sends Eva Lind the key of the hall [2]\n- Ann: rent the tent."
    found = told(pkb, server, said)
    assert {text: words for text, words in found.items() if words} == {
        ENGINEER: "On 3 July the engineer comes.",
        KEY: "Ben Oak sends Eva Lind the key of the hall",
        TENT: "Ann: rent the tent.",
    }
    assert all(quote in server.completions()[0]["messages"][1]["content"] for quote in (ENGINEER, KEY, TENT))


@pytest.mark.parametrize(
    "line",
    [
        "[1] The engineer comes on Wednesday 4 July.",  # another number
        "[2] Eva Lind sends Ben Oak the key of the hall.",  # turned round
        "[2] Gus sends Eva Lind the key of the hall.",  # another person
        "[2] Ben Oak does not send Eva Lind the key of the hall.",
        "[2] I have to send the key of the hall.",
        "[2] Ben Oak already sent Eva Lind the key of the hall.",
        "[2] Ben Oak refuses to send Eva Lind the key of the hall.",
        "[2] Ben Oak sends Eva Lind the key of the hall by tomorrow.",
        "[2] The hall sends Ben Oak the key.",
        "[3] Ann: decided against the tent, not to rent it.",
        "[3] Ann: the tent decided to rent.",
        "[3] They decided to rent the tent at http://evil.example",
        "[3] The mayor opens a swimming pool in Paris.",
        "Wednesday Wednesday Wednesday",
        "not found",
        "",
    ],
)
def test_what_a_quote_does_not_support_is_not_told(pkb: Pkb, server: ChatServer, line: str) -> None:
    assert {*told(pkb, server, line).values()} == {None}


def test_a_model_that_writes_nonsense_leaves_the_quotes(pkb: Pkb) -> None:
    pkb.session.override("model.name", str(NANO))
    with pkb:
        found = pkb.digest(Filters(since="7d"), in_words=True)
        quotes = pkb.digest(Filters(since="7d"))
    assert [replace(one, words=None) for one in found.items] == [*quotes.items]
    assert found.writer == f"in words of {NANO} where a source supports them"


def test_a_digest_is_quoted_where_the_model_cannot_be_reached(pkb: Pkb) -> None:
    pkb.session.override("model.name", "openai:http://127.0.0.1:9/v1#tiny")
    with pkb:
        found = pkb.digest(Filters(since="7d"), in_words=True)
        assert found.items == pkb.digest(Filters(since="7d")).items
    assert found.writer.startswith("in quotes alone: ")


def test_when_the_time_is_over_the_rest_is_quoted(pkb: Pkb) -> None:
    with pkb:
        items = [one for one in pkb.digest(Filters(since="7d")).items if one.text == ENGINEER] * 8
    left = [True, False]
    model = ScriptedModel(["[1] On 3 July the engineer", " comes."])
    found = in_words(lambda: PromptReader(model), items, lambda: left.pop(0))
    assert [one.words for one in found] == ["On 3 July the engineer comes.", *[None] * 7]
