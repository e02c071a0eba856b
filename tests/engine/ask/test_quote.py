"""The quote writer: what it answers, in which form, and what it declines."""

from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ask.candidates import wanted
from engine.ask.extract import Quote, QuoteSettings, quote, write
from engine.text.question import understand
from engine.types import Evidence, Passage, Trace
from tests.bench.indexed import load
from tests.bench.quoting import ask, best_sentence, judged
from tests.effort import examples
from tests.engine.ask.passages import changed, of_text

NOW = datetime(2024, 5, 15, tzinfo=UTC)
TALK = of_text("Meeting: talk, Mon 2023-05-08, Ann, Ben", "", datetime(2023, 5, 8, 13, 56, tzinfo=UTC), "", 1.0)
MAIL = changed(TALK, header="From: Martha Lopez, Rehearsal", sender="Martha Lopez <m.lopez@example.org>")
WORDS = [
    "Ann: ",
    "Ben: ",
    "Ann ",
    "rehearsal ",
    "is on ",
    "Friday",
    "I ",
    "you ",
    "went ",
    "yesterday",
    ". ",
    "? ",
    "\n",
    "a@b.org ",
    "12 ",
    "…",
]


def answered(question: str, *texts: str, read: Passage = TALK) -> Quote:
    reads = [changed(read, text=text, score=1.0 - number / 10) for number, text in enumerate(texts)]
    return quote(understand(question, NOW), reads)


def test_when_is_answered_by_the_day_that_a_relative_date_means() -> None:
    found = answered(
        "When did Ann go to the support group?", "Ann: I went to a support group yesterday and it was good."
    )
    assert (found.answer, found.highlight) == ("7 May 2023", (0, 10))


def test_the_sentence_behind_a_short_answer_is_quoted() -> None:
    found = answered("When did Ann go to the support group?", "Ann: Hi! I went to a support group yesterday.")
    assert found.quotes == ("I went to a support group yesterday.",)


def test_a_coming_appointment_is_answered_with_its_time() -> None:
    found = answered("When is the rehearsal?", "Ben: The rehearsal is on Friday at 7 p.m. in the hall.")
    assert found.answer == "12 May 2023, 7 p.m."


def test_when_without_a_date_is_answered_by_the_sentence_and_its_day() -> None:
    found = answered("When did Ben sell the drum kit?", "Ben: I sold the drum kit.")
    assert found.answer == "Ben, 8 May 2023: I sold the drum kit."


@pytest.mark.parametrize(
    ("question", "text", "answer"),
    [
        ("When was the rehearsal?", "The rehearsal was great fun.", None),
        ("When will Ben be back from the rehearsal?", "Let us wait for Ben to be back from the rehearsal.", None),
        (
            "When did Martha sell the drum kit?",
            "I did sell the drum kit.",
            "written 8 May 2023: I did sell the drum kit.",
        ),
    ],
)
def test_the_day_of_a_mail_is_not_said_as_that_of_what_it_tells(question: str, text: str, answer: str | None) -> None:
    found = answered(question, text, read=MAIL)
    assert (found.answer, found.highlight) == (answer, None)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (
            "Ben: The devnet will have a thousand nodes.\nAnn: The devnet will have old blocks of 5 months.",
            "Ben: The devnet will have a thousand nodes.",
        ),
        ("Ann: The devnet will have old blocks of 5 months, or like 4.", None),
        ("Ann: How many nodes will the devnet have?\nBen: It will have 40, I think.", "Ben: It will have 40, I think."),
    ],
)
def test_a_number_of_other_things_is_no_count(text: str, answer: str | None) -> None:
    assert answered("How many nodes will the devnet have?", text).answer == answer


@pytest.mark.parametrize(
    ("question", "text", "answer"),
    [
        ("What time is the call?", "The call is from 3 to 4:30 pm Central.", "from 3 to 4:30 pm Central"),
        ("When is the fair?", "The fair is from 3 to 7 June in the park.", "from 3 to 7 June 2023"),
        ("When is the fair?", "The fair is June 3-7 in the park.", "June 3-7"),
        ("When is the hall open?", "The hall is open Mon-Wed.", "Mon-Wed"),
        ("Who comes to the fair?", "Ann, Ben and Carla come to the fair.", "Ann, Ben and Carla"),
    ],
)
def test_a_span_that_answers_is_whole(question: str, text: str, answer: str) -> None:
    found = answered(question, text, read=MAIL)
    assert (found.answer, found.highlight) == (answer, (0, len(answer)))


@pytest.mark.parametrize(
    "text", ["A ticket is 12 pounds, 8 for children.", "A ticket is 12 euros for adults and 8 euros for children."]
)
def test_a_price_stands_with_the_other_prices_of_its_sentence(text: str) -> None:
    found = answered("How much is a ticket?", text, read=MAIL)
    assert found.answer == text
    assert found.highlight
    assert found.answer[slice(*found.highlight)] in ("12 pounds", "12 euros")


def test_a_meeting_is_asked_about_by_its_day_and_place() -> None:
    moved = "The kiln meeting is in the Cascade conference room."
    other = "The kiln throws its pots into the Blue Room."
    reads = [changed(MAIL, text=moved), changed(MAIL, text=other, date=datetime(2023, 6, 9, tzinfo=UTC))]
    assert quote(understand("Where is the kiln meeting?", NOW), reads).answer == moved


@pytest.mark.parametrize("line", ["-----Original Message-----", "---------- Forwarded message ---------", "_____"])
def test_a_line_between_messages_is_no_answer(line: str) -> None:
    found = answered(
        "Who has the kiln plans?", f"The kiln plans are with us.\n\n{line}\n\nAnn Lee has them.", read=MAIL
    )
    assert found.answer is not None
    assert "essage" not in found.answer
    assert line not in found.quotes


def test_what_is_answered_by_a_sentence() -> None:
    found = answered("What did Ben buy in Oslo?", "Ann: Nice!\nBen: I bought a trumpet in Oslo. It was cheap.")
    assert (found.answer, found.highlight) == ("Ben: I bought a trumpet in Oslo.", None)


def test_what_no_one_passage_answers_is_declined_with_what_it_asks_for() -> None:
    text = "Ann: The remote needs a rubber case.\nBen: We decided that a rubber case for the remote costs too much."
    found = answered("What did we decide about the rubber case of the remote?", text)
    assert (found.answer, found.highlight, found.synthesis) == (None, None, "decisions")
    assert found.quotes == ("We decided that a rubber case for the remote costs too much.",)


CALL = changed(TALK, recipients=("potuz", "Ann Lee", "jochem-brouwer"))
SPOKEN = "Ann Lee: What about the fork date?\npotuz: I would move the fork.\njochem-brouwer: The fork date must stay."


def test_who_sent_is_answered_by_the_sender() -> None:
    found = answered("Who sent the mail about the rehearsal?", "The rehearsal is moved.", read=MAIL)
    assert found.answer == "Martha Lopez <m.lopez@example.org>"


def test_who_did_what_a_speaker_tells_of_himself_is_answered_with_his_name() -> None:
    found = answered(
        "Who will bring the drums to the rehearsal?", "I will bring the drums to the rehearsal.", read=MAIL
    )
    assert found.answer == "Martha Lopez: I will bring the drums to the rehearsal."


def test_the_address_of_somebody_else_is_no_answer() -> None:
    found = answered("What is the email address of Joe Weiss?", "Joe Weiss asked me.", read=MAIL)
    assert (found.answer, found.quotes) == (None, ("Joe Weiss asked me.",))


def test_a_question_that_nothing_supports_is_declined() -> None:
    found = answered("When does the ferry to Bergen leave?", "Ann: I went to a support group yesterday.")
    assert (found.answer, found.source, found.highlight) == (None, None, None)


def test_the_trace_says_how_much_supports_an_answer_and_why() -> None:
    trace = Trace()
    write(
        understand("When does the ferry leave?", NOW),
        Evidence((changed(TALK, text="Ann: I slept."),), (), 1.0),
        trace,
        0.5,
    )
    assert trace.steps[-1].note == "support 0.00: declined: no sentence is likely to answer"


def test_no_sources_are_declined() -> None:
    found = answered("When is the rehearsal?")
    assert (found.answer, found.quotes, found.support) == (None, (), 0.0)


def test_the_source_is_the_one_that_the_answer_stands_in() -> None:
    found = answered(
        "Where is the rehearsal?", "Ben: The rehearsal was good.", "Ann: The rehearsal is in Room 12 of course."
    )
    assert (found.answer, found.source) == ("Ann: The rehearsal is in Room 12 of course.", 1)


def test_a_line_break_in_a_sentence_is_a_blank_in_the_answer() -> None:
    text = "The trumpet that Ben bought in Oslo last winter was made\nby an old man in Bergen."
    assert answered("Who made the trumpet that Ben bought in Oslo?", text).quotes == (text,)
    assert "\n" not in (answered("What did Ben buy in Oslo?", text).answer or "")


HAVING = (
    "What's Ann Lee's {}?",
    "what is the {} of Ann Lee",
    "Ann's {}?",
    "Do you know Ann's {}?",
    "Could you tell me Ann's {}?",
    "Remind me of Ann's {}",
    "What is my landlord's {}?",
    "How can I reach Ann by {}?",
)


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("What is Ann's e-mail address?", "email"),
        ("What is the mobile number of Ann?", "phone"),
        *((form.format("email"), "email") for form in HAVING),
        *((form.format("phone number"), "phone") for form in HAVING),
        ("Where can I email Ann?", "email"),
        ("Ann's mobile?", "phone"),
        ("What is the subject of Ann's email?", None),
        ("What is the email of Friday about?", None),
        ("What did Ann's email say?", None),
        ("Who sent Ann's email?", "person"),
        ("What's wrong with Ann's email?", None),
        ("How long did it take?", "duration"),
        ("How long ago was it?", "date"),
        ("Who came?", "person"),
        ("Who is Ann Vey?", None),
        ("What's the most we can spend on a boat?", "amount"),
        ("What is the website of the choir?", "link"),
        ("What is the password for the website?", None),
        ("Is it true?", None),
        ("What happened?", None),
    ],
)
def test_the_wording_tells_the_kind_of_span(question: str, kind: str | None) -> None:
    found = wanted(understand(question, NOW))
    assert (found if found != "number" else "date") == kind


reads = st.builds(
    of_text,
    header=st.text(max_size=20),
    text=st.one_of(st.text(), st.lists(st.sampled_from(WORDS)).map("".join)),
    date=st.one_of(st.none(), st.datetimes()),
    sender=st.sampled_from(["", "Ann", "Ben <b@example.org>", "<"]),
    score=st.floats(-10, 10),
    recipients=st.lists(st.text(max_size=10), max_size=2).map(tuple),
)
questions = st.one_of(
    st.text(), st.lists(st.sampled_from(["When ", "Who ", "is ", "email address ", "?", *WORDS])).map("".join)
)


@given(questions, st.lists(reads, max_size=4))
@examples(150)
def test_every_quote_is_part_of_its_source(question: str, given_reads: list[Passage]) -> None:
    found = quote(understand(question, NOW), given_reads, QuoteSettings(least=0.0))
    assert all(part in read.text for part, read in zip(found.quotes, given_reads, strict=True))


@given(questions, st.lists(reads, max_size=4))
@examples(150)
def test_a_highlight_lies_within_the_answer(question: str, given_reads: list[Passage]) -> None:
    found = quote(understand(question, NOW), given_reads, QuoteSettings(least=0.0))
    assert found.highlight is None or 0 <= found.highlight[0] < found.highlight[1] <= len(found.answer or "")


@given(questions, st.lists(reads, max_size=3))
@examples(50)
def test_the_same_question_and_sources_give_the_same_quote(question: str, given_reads: list[Passage]) -> None:
    assert quote(understand(question, NOW), given_reads) == quote(understand(question, NOW), given_reads)


@given(questions, st.lists(reads, max_size=3))
@examples(50)
def test_support_is_a_share(question: str, given_reads: list[Passage]) -> None:
    assert 0.0 <= quote(understand(question, NOW), given_reads).support <= 1.0


@pytest.mark.slow
def test_on_real_chats_the_quote_writer_beats_the_best_sentence_of_bm25(shared: Path) -> None:
    user = next(load(shared / "data", "locomo"))
    cases = [ask(user, user, "answerable", row) for row in user.rows if not row.get("unanswerable")]
    ours = fmean(judged(case, case.given.answer or "")[1] for case in cases)
    assert ours > 2 * fmean(judged(case, best_sentence(case))[1] for case in cases)
