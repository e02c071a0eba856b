"""Questions within one document: `--doc`, what its header answers, and standing questions that idle answers ahead."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.app import Pkb
from engine.operations import CacheUse
from engine.text.people import listed_attendees
from engine.types import Answer
from store.answers import predicted_use
from store.documents import titled_documents
from store.errors import UsageError
from store.jobs import JobResult

BUDGET = """Budget meeting
Date: {day}
Attendees: Ann Lee, Bob Roy{more}

Ann Lee: We decided to buy the piano in June.
Bob Roy: I will ask the bank about a loan by Friday.
Ann Lee: The hall is free on Tuesday evenings.
"""
MAIL = """From: Ann Lee <ann@example.org>
To: Bob Roy <bob@example.org>, choir@example.org
Date: Fri, 3 May 2024 10:00:00 +0200
Subject: Key to the hall
Message-ID: <1@example.org>

The key to the hall is with the caretaker.
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "budget-1.txt").write_text(BUDGET.format(day="2024-05-03", more=""))
    (folder / "budget-2.txt").write_text(BUDGET.format(day="2024-06-07", more=", Cleo Day"))
    (folder / "mail.eml").write_text(MAIL)
    return folder


@pytest.fixture
def pkb(files: Path, tmp_path: Path) -> Iterator[Pkb]:
    with Pkb(tmp_path / "home") as opened:
        opened.ingest([files], embed=False)
        yield opened


def first(pkb: Pkb, question: str, cache: CacheUse = "use") -> Answer:
    """Ask within the first budget meeting."""
    return pkb.ask(question, cache=cache, document="budget", until="2024-05")


def standing(pkb: Pkb) -> list[JobResult]:
    return [one for one in pkb.idle().results if one.job.kind == "standing"]


def said(results: list[JobResult]) -> set[str]:
    return {one.job.what for one in results}


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Who was there?", "Ann Lee, Bob Roy"),
        ("Who attended the meeting?", "Ann Lee, Bob Roy"),
        ("Could you tell me who was at the meeting?", "Ann Lee, Bob Roy"),
        ("When was it?", "Friday 3 May 2024"),
    ],
)
def test_the_header_of_a_meeting_answers_who_was_there_and_when(pkb: Pkb, question: str, answer: str) -> None:
    found = first(pkb, question)
    assert (found.text, found.span, [source.path[-12:] for source in found.sources]) == (
        answer, answer, ["budget-1.txt"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Who sent the email?", "Ann Lee <ann@example.org>"),
        ("Who received it?", "Bob Roy <bob@example.org>, choir@example.org"),
        ("What is the subject of the email?", "Key to the hall"),
        ("When was it sent?", "Friday 3 May 2024"),
    ],
)
def test_the_header_of_a_mail_answers_who_sent_it_to_whom_about_what_and_when(
    pkb: Pkb, question: str, answer: str
) -> None:
    assert pkb.ask(question, document="key").text == answer


def test_where_no_list_says_who_was_there_those_who_spoke_are_named(pkb: Pkb, files: Path) -> None:
    (files / "call.txt").write_text("Ann Lee: Hello.\nBob Roy: Hello Ann.\nAnn Lee: How is the piano?\n")
    pkb.ingest(embed=False)
    found = pkb.ask("Who was there?", document="call")
    assert (found.text, found.span) == ("Ann Lee, Bob Roy (who spoke)", "Ann Lee, Bob Roy")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("# Choir\n**Present:** Ann Lee (chair), Bob\n", ("Ann Lee (chair)", "Bob")),
        ("Choir\n\nAttendees\n- Ann Lee\n- Bob\n\nAnn Lee: Hello.\n", ("Ann Lee", "Bob")),
        ("Presentation: Ann Lee\nPresent your ticket\n", ()),
        ("Invited: Ann Lee, Bob\n", ()),
    ],
)
def test_a_list_of_those_present_is_read_as_it_is_written(text: str, names: tuple[str, ...]) -> None:
    assert listed_attendees(text.splitlines()) == names


def test_a_header_answers_nothing_that_it_does_not_say(pkb: Pkb) -> None:
    assert pkb.ask("Who was there?", document="key").text is None  # nobody is at a mail
    assert first(pkb, "Who sent it?").text is None


def test_a_question_in_other_words_about_the_whole_document_has_the_same_entry(pkb: Pkb) -> None:
    assert [first(pkb, one).tier for one in ("Who was there?", "Who took part in the meeting?")] == ["full", "exact"]
    assert pkb.ask("Who was there?", document="budget", since="2024-06").text == "Ann Lee, Bob Roy, Cleo Day"


def test_a_question_that_names_the_meeting_is_asked_within_it(pkb: Pkb) -> None:
    first(pkb, "Who was there?")
    found = pkb.ask("Who was at the budget meeting of 3 May?")
    assert (found.tier, found.text) == ("exact", "Ann Lee, Bob Roy")


@pytest.mark.parametrize("question", ["Who was at the budget meeting of 4 May?", "Who was at the meeting?"])
def test_a_name_that_fits_no_meeting_limits_nothing(pkb: Pkb, question: str) -> None:
    assert "Ann Lee, Bob Roy" not in (pkb.ask(question).text or "")


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Who was at the budget meeting?", "Ann Lee, Bob Roy, Cleo Day: Budget meeting (the newest of 2)"),
        ("When did we last meet?", "Friday 7 June 2024: Budget meeting (the newest of 2)"),
        (
            "What did we agree last time we met?",
            "Friday 7 June 2024: Budget meeting (the newest of 2)\n[1] Ann Lee: “We decided to buy the piano in June.”",
        ),
        (
            "What are the action items from the budget meeting of 3 May?",
            "Friday 3 May 2024: Budget meeting\n"
            "[1] Bob Roy: “I will ask the bank about a loan by Friday.” (due 2024-05-03)",
        ),
        (
            "Last time we met with Bob",
            "Friday 7 June 2024: Budget meeting (the newest of 2)\n"
            "[1] Ann Lee: “We decided to buy the piano in June.”\n"
            "[1] Bob Roy: “I will ask the bank about a loan by Friday.” (due 2024-06-07)\n"
            "no open question found by its words",
        ),
    ],
)
def test_of_several_meetings_the_newest_is_told_in_quotes(pkb: Pkb, question: str, answer: str) -> None:
    found = pkb.ask(question)
    assert found.text == answer
    assert found.sources[0].path.endswith("budget-1.txt" if "3 May" in question else "budget-2.txt")
    assert pkb.ask(question).tier == "exact"


def test_other_questions_are_answered_from_the_document_alone(pkb: Pkb) -> None:
    found = pkb.ask("Where is the key to the hall?", document="key")
    assert [source.title for source in found.sources] == ["Key to the hall"]
    assert {source.path[-12:] for source in first(pkb, "When is the hall free?").sources} == {"budget-1.txt"}


def test_quotes_decline_a_summary_of_a_document(pkb: Pkb) -> None:
    found = first(pkb, "What was it about?")
    assert (found.text, bool(found.synthesis)) == (None, True)


def test_quotes_say_what_was_decided_who_does_what_and_what_is_open(pkb: Pkb) -> None:
    assert "[1] Ann Lee: “We decided to buy the piano in June.”" in (first(pkb, "What was decided?").text or "")
    assert "[1] Bob Roy: “I will ask the bank" in (first(pkb, "Who does what by when?").text or "")
    assert (first(pkb, "What is still open?").text or "").endswith("\nno open question found by its words")


def test_a_document_is_named_by_its_file_or_by_words_of_its_title(pkb: Pkb, files: Path) -> None:
    assert pkb.ask("Who was there?", document=str(files / "budget-2.txt")).text == "Ann Lee, Bob Roy, Cleo Day"
    assert pkb.ask("Who sent it?", document="HALL key").text == "Ann Lee <ann@example.org>"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("budget", "--doc budget matches 2 documents (2024-06-07, 2024-05-03); choose with --since and --until"),
        ("piano", "--doc piano matches no document"),
        (" ", "--doc is empty"),
    ],
)
def test_a_name_of_no_one_document_is_an_error_that_says_so(pkb: Pkb, name: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        pkb.ask("Who was there?", document=name)
    assert raised.value.message == message


def test_titles_and_prepared_answers_go_with_their_document(pkb: Pkb, files: Path) -> None:
    standing(pkb)
    (files / "budget-2.txt").unlink()
    pkb.ingest(embed=False)
    rows = pkb.session.ledger.rows
    assert len(titled_documents(pkb.session.ledger, ("mail", "transcript"))) == 2
    assert rows.execute("SELECT count(*) FROM answers WHERE reply LIKE '%Cleo%'").fetchone() == (0,)


def test_idle_answers_the_standing_questions_of_each_meeting_that_quotes_can_answer(pkb: Pkb) -> None:
    done = standing(pkb)
    assert [one.state for one in done] == ["done"] * 10
    assert said(done) >= {"Who was there? (Budget meeting)", "What was decided? (Budget meeting)"}
    assert "What was it about? (Budget meeting)" not in said(done)
    found = first(pkb, "Who took part?")
    assert (found.tier, found.text) == ("exact", "Ann Lee, Bob Roy")
    assert standing(pkb) == []


def test_a_prepared_answer_is_the_one_that_asking_gives(pkb: Pkb) -> None:
    standing(pkb)
    prepared, anew = first(pkb, "Who was there?"), first(pkb, "Who was there?", cache="refresh")
    assert (prepared.tier, anew.tier) == ("exact", "full")
    assert (prepared.text, prepared.sources) == (anew.text, anew.sources)


def test_the_user_edits_the_list(pkb: Pkb) -> None:
    pkb.session.override("predict.standing", "When is the hall free?  who was there?? Who was there?")
    assert said(standing(pkb)) == {"When is the hall free? (Budget meeting)", "who was there? (Budget meeting)"}
    assert first(pkb, "When is the hall free?").tier == "exact"


def test_an_empty_list_prepares_nothing(pkb: Pkb) -> None:
    pkb.session.override("predict.standing", "")
    assert standing(pkb) == []


def test_a_hit_credits_the_question_that_was_prepared(pkb: Pkb) -> None:
    standing(pkb)
    first(pkb, "Who was there?")
    pkb.idle()
    counts = predicted_use(pkb.session.ledger)
    assert (counts["standing/who was there"], counts["standing/when was it"]) == ((1, 2), (0, 2))


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("When was the budget review?", "Friday 3 May 2024: Budget review"),
        ("When did the budget review take place?", "Friday 3 May 2024: Budget review"),
        ("When was the workshop meeting?", "Monday 3 June 2024: Workshop meeting"),
        ("Who was at the workshop meeting?", "Eve Fox, Gus Hill (who spoke): Workshop meeting"),
        ("Who attended the workshop meeting?", "Eve Fox, Gus Hill (who spoke): Workshop meeting"),
    ],
)
def test_a_title_alone_names_a_meeting(tmp_path: Path, question: str, answer: str) -> None:
    files = [tmp_path / "2024-05-03 Budget review.txt", tmp_path / "2024-06-03 Workshop meeting.txt"]
    files[0].write_text("Ann Lee: The hall costs more.\nBob Roy: We pay it.\n")
    files[1].write_text("Eve Fox: The lathe is here.\nGus Hill: Good.\n")
    with Pkb(tmp_path / "home") as opened:
        opened.ingest(files, embed=False)
        assert opened.ask(question, cache="off").text == answer
        assert opened.ask("When was the review of the lathe?", cache="off").text != "Friday 3 May 2024: Budget review"


@pytest.mark.parametrize(("about", "is_told"), [("meeting with Ann", True), ("last email from Ann", False)])
def test_a_question_about_a_mail_is_about_no_meeting(pkb: Pkb, about: str, is_told: bool) -> None:
    assert ("Budget meeting" in (pkb.ask(f"What was decided in the {about}?").text or "")) is is_told
