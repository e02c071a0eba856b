"""The quote writer: what it answers, in which form, and what it declines."""

from dataclasses import replace
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
    assert (found.answer, found.resolved, found.highlight) == ("7 May 2023", "7 May 2023", (0, 10))


@pytest.mark.parametrize(
    ("question", "text", "answer"),
    [
        (
            "Who's the project manager for the mill?",
            "It is for Al Ray, the clerk; Rob Cone, the mill project manager, and Jo Lee.",
            "Rob Cone",
        ),
        ("Who is our project manager?", "Don asked when our project manager, Rob Cone, will be back.", "Rob Cone"),
        ("Who is the treasurer of the choir?", "Yours,\n\nRob Cone\nTreasurer, Ahrens choir\n+49 555 0100", "Rob Cone"),
        (
            "Who told us the Mill League is against bills?",
            "He told me that the Mill League is against bills.",
            "Martha Lopez: He told me that the Mill League is against bills.",
        ),
        (
            "Where can I pick up the signed letter?",
            "I have the signed letter for you to pick up. I am on the 4th floor.",
            "I have the signed letter for you to pick up. I am on the 4th floor.",
        ),
        (
            "Why was the new meter put off?",
            "The new meter is late, since PG cannot come.\nThe meter is new.",
            "The new meter is late, since PG cannot come.",
        ),
        (
            "What worries Martha about the auction?",
            "I have a concern about the auction. My concern is their head start.",
            "My concern is their head start.",
        ),
        (
            "How much power is in the sale?",
            "The sale is of 4,000 MW of power. The sale excludes the 1,000 MW of power of towns.",
            "4,000 MW",
        ),
    ],
)
def test_a_mail_is_answered_in_the_form_that_a_reader_would_give(question: str, text: str, answer: str) -> None:
    assert answered(question, text, read=MAIL).answer == answer


@pytest.mark.parametrize(
    ("question", "number"),
    [
        ("What is Rob Cone's fax number?", "(925) 555-3550"),
        ("What is Rob Cone's mobile number?", "925 555 7777"),
        ("What is Rob Cone's phone number?", "(925) 555-3879"),
        ("What is Rob Cone's pager number?", None),
    ],
)
def test_a_number_is_of_the_line_that_is_asked_for(question: str, number: str | None) -> None:
    signature = "Rob Cone\n(925) 555-3879\nFax (925) 555-3550\n925 555 7777 (mobile)"
    assert answered(question, signature, read=MAIL).answer == number


@pytest.mark.parametrize(
    ("question", "text", "answer"),
    [
        ("What did they build at the pool?", "About what they build at the pool. Two slides and a bar.", None),
        (
            "What did they build at the pool?",
            "Hi Ben,\nThey build at the pool.\nIt is a slide and a bar.\nMartha",
            "They build at the pool. It is a slide and a bar.",
        ),
        (
            "What did they build at the pool?",
            "They build two slides, nine ladders, a bar, a shop, a sauna and a pump at the pool. Bring cake for us.",
            "They build two slides, nine ladders, a bar, a shop, a sauna and a pump at the pool.",
        ),
    ],
)
def test_a_sentence_that_tells_little_is_shown_with_those_beside_it(
    question: str, text: str, answer: str | None
) -> None:
    assert answered(question, text, read=MAIL).answer == (answer or text)


def test_the_sentence_behind_a_short_answer_is_quoted() -> None:
    found = answered("When did Ann go to the support group?", "Ann: Hi! I went to a support group yesterday.")
    assert found.quotes == ("I went to a support group yesterday.",)


def test_a_coming_appointment_is_answered_with_its_time() -> None:
    found = answered("When is the rehearsal?", "Ben: The rehearsal is on Friday at 7 p.m. in the hall.")
    assert found.answer == "12 May 2023, 7 p.m."


def test_when_without_a_date_is_answered_by_the_sentence_and_its_day() -> None:
    found = answered("When did Ben sell the drum kit?", "Ben: I sold the drum kit.")
    assert (found.answer, found.resolved) == ("Ben, 8 May 2023: I sold the drum kit.", None)


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
        (
            "When does the ferry leave?",
            "The ferry does leave as soon as it is full.",
            "The ferry does leave as soon as it is full.",
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
            "thousand nodes",
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
        ("How many members voted for it?", "In the end fifty per cent of the members voted for it.", "fifty per cent"),
        ("How many signatures did we get?", "We did get 231 signatures so far.", "231 signatures"),
        ("What time is the call?", "The call is from 3 to 4:30 pm Central.", "from 3 to 4:30 pm Central"),
        ("When is the fair?", "The fair is from 3 to 7 June in the park.", "from 3 to 7 June 2023"),
        ("When is the fair?", "The fair is June 3-7 in the park.", "June 3-7"),
        ("When is the hall open?", "The hall is open Mon-Wed.", "Mon-Wed"),
        ("Who comes to the fair?", "Ann, Ben and Carla come to the fair.", "Ann, Ben and Carla"),
        ("Where are the fairs?", "The fairs are in Houston, Portland and Rome.", "Houston, Portland and Rome"),
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


@pytest.mark.parametrize(
    ("question", "text", "answer"),
    [
        ("When is the next fork?", "Ann: That was the fork, thanks.\nBen: See you all in 2 weeks.", None),
        ("When do we launch the boat?", "Ann: Lunch?\nBen: Yes, good soup.\nAnn: I am away.\nBen: On Friday.", None),
        ("When do we launch the boat?", "Ann: When do we launch the boat?\nBen: On Friday.", "12 May 2023"),
        ("When do we launch version 2 of the boat?", "Ann: We launch the boat in version 10.0 then.", None),
        ("Did anyone object to the new boat?", "Ann: The new boat is here, will it be red", None),
        ("Did anyone object to the new boat?", "Ann: I object to the new boat.", "Ann: I object to the new boat."),
        (
            "Who is going to look at the boat plans?",
            "Ann: The boat plans look fine to me now.\nBen: I'll look at the boat plans.",
            "Ben: I'll look at the boat plans.",
        ),
        ("Who has the boat plans?", "Ann: The boat plans are in APIs.", "Ann: The boat plans are in APIs."),
        (
            "Why can't we test the boat?",
            "Ann: We test the boat so that ship has now sailed.\nBen: We have no water to test the boat.",
            "Ben: We have no water to test the boat.",
        ),
        (
            "Which boat did Ben settle on?",
            "Ben: On this boat I want some more advice please.\nBen: I'll go with the red boat.",
            "Ben: I'll go with the red boat.",
        ),
    ],
)
def test_a_sentence_answers_by_what_it_says_and_not_by_its_words_alone(
    question: str, text: str, answer: str | None
) -> None:
    assert answered(question, text, read=changed(TALK, recipients=("Ann", "Ben"))).answer == answer


def test_a_meeting_is_asked_about_by_its_day_and_place() -> None:
    moved = "The kiln meeting is in the Cascade conference room."
    other = "The kiln throws its pots into the Blue Room."
    reads = [changed(MAIL, text=moved), changed(MAIL, text=other, date=datetime(2023, 6, 9, tzinfo=UTC))]
    assert quote(understand("Where is the kiln meeting?", NOW), reads).answer == "the Cascade conference room"


@pytest.mark.parametrize("line", ["-----Original Message-----", "---------- Forwarded message ---------", "_____"])
def test_a_line_between_messages_is_no_answer(line: str) -> None:
    found = answered(
        "Who has the kiln plans?", f"The kiln plans are with us.\n\n{line}\n\nAnn Lee has them.", read=MAIL
    )
    assert found.answer is not None
    assert "essage" not in found.answer
    assert line not in found.quotes


def test_who_did_something_is_whoever_tells_it_as_their_own() -> None:
    text = (
        "TSWG and SC Contacts have the corrections to this statement. I sincerely apologize for the corrections to it."
    )
    found = answered("Who apologized for the corrections to the statement?", text, read=MAIL)
    assert found.answer == "Martha Lopez: I sincerely apologize for the corrections to it."


def test_when_a_quoted_mail_was_sent_is_no_day_of_an_event() -> None:
    text = "Martha Lopez\nMonday, May 8, 2023 4:58 PM\n\nThe wedding plans of Martha Lopez are with us."
    assert answered("When is the wedding of Martha Lopez?", text, read=MAIL).answer is None


def test_a_place_without_a_capital_is_highlighted_in_its_sentence() -> None:
    found = answered("Where did the dog hide the bone?", "Ann: The dog hid the bone in my slipper once!")
    assert found.answer is not None
    assert found.highlight is not None
    assert found.answer[slice(*found.highlight)] == "in my slipper"


def test_what_is_answered_by_a_sentence() -> None:
    found = answered("What did Ben buy in Oslo?", "Ann: Nice!\nBen: I bought a trumpet in Oslo. It was cheap.")
    assert (found.answer, found.highlight) == ("Ben: I bought a trumpet in Oslo.", None)


def test_why_is_answered_with_what_the_speaker_says_next() -> None:
    found = answered("Why did Ben sell the drum kit?", "Ben: I sold the drum kit. It was too loud.\nAnn: I see.")
    assert found.answer == "Ben: I sold the drum kit. It was too loud."


def test_a_discussion_is_answered_by_several_sentences_with_their_speakers() -> None:
    text = "Ann: The remote needs a rubber case.\nBen: A rubber case for the remote costs too much.\nAnn: Lunch?"
    question = understand("Summarize the discussion about the rubber case of the remote", NOW)
    found = quote(question, [changed(TALK, text=text)], QuoteSettings(forced=True))
    assert found.answer == "Ann: The remote needs a rubber case. Ben: A rubber case for the remote costs too much."


def test_what_no_one_passage_answers_is_declined_with_what_it_asks_for() -> None:
    text = "Ann: The remote needs a rubber case.\nBen: We decided that a rubber case for the remote costs too much."
    found = answered("What did we decide about the rubber case of the remote?", text)
    assert (found.answer, found.highlight, found.synthesis) == (None, None, "decisions")
    assert found.quotes == ("We decided that a rubber case for the remote costs too much.",)


CALL = changed(TALK, recipients=("potuz", "Ann Lee", "jochem-brouwer"))
SPOKEN = "Ann Lee: What about the fork date?\npotuz: I would move the fork.\njochem-brouwer: The fork date must stay."


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What did potuz say about the fork?", "potuz: I would move the fork."),
        ("What did jochem-brouwer think about the fork?", "jochem-brouwer: The fork date must stay."),
        ("What was potuz's opinion on the fork?", "potuz: I would move the fork."),
        ("What is the view of jochem-brouwer on the fork?", "jochem-brouwer: The fork date must stay."),
        ("According to potuz, what should be done about the fork?", "potuz: I would move the fork."),
        ("What did Ann say about the fork date?", "Ann Lee: What about the fork date?"),
    ],
)
def test_what_somebody_says_is_answered_from_their_turns_alone(question: str, answer: str) -> None:
    found = answered(question, SPOKEN, read=CALL)
    assert found.answer is not None
    assert found.answer.startswith(answer)
    assert found.quotes[0] == answer.partition(": ")[2]


def test_a_reply_to_a_question_has_its_own_speaker() -> None:
    found = answered("How do we move the fork?", "Ann Lee: How do we move the fork?\npotuz: Slowly.", read=CALL)
    assert found.answer == "Ann Lee: How do we move the fork? potuz: Slowly."


def test_nobodys_words_answer_what_somebody_says_who_is_silent_in_the_source() -> None:
    found = answered("What did potuz say about the venue?", "Ann Lee: The venue is cold.\npotuz: ok", read=CALL)
    assert found.answer is None


def test_who_sent_is_answered_by_the_sender() -> None:
    found = answered("Who sent the mail about the rehearsal?", "The rehearsal is moved.", read=MAIL)
    assert found.answer == "Martha Lopez <m.lopez@example.org>"


def test_who_did_what_a_speaker_tells_of_himself_is_answered_with_his_name() -> None:
    found = answered(
        "Who will bring the drums to the rehearsal?", "I will bring the drums to the rehearsal.", read=MAIL
    )
    assert found.answer == "Martha Lopez: I will bring the drums to the rehearsal."


def test_an_address_is_that_of_the_person_asked_about() -> None:
    read = changed(MAIL, recipients=("Joe Weiss <joe.weiss@example.org>",))
    found = answered("What is the email address of Joe Weiss?", "Joe Weiss, see m.lopez@example.org.", read=read)
    assert found.answer == "joe.weiss@example.org"


def test_the_address_of_somebody_else_is_no_answer() -> None:
    found = answered("What is the email address of Joe Weiss?", "Joe Weiss asked me.", read=MAIL)
    assert (found.answer, found.quotes) == (None, ("Joe Weiss asked me.",))


def test_a_number_below_its_owner_in_a_signature_is_found() -> None:
    found = answered("What is the phone number of Shona Wray?", "See you there.\n\nShona Wray\n713 555 9123", read=MAIL)
    assert found.answer == "713 555 9123"


def test_a_question_that_nothing_supports_is_declined() -> None:
    found = answered("When does the ferry to Bergen leave?", "Ann: I went to a support group yesterday.")
    assert (found.answer, found.source, found.highlight) == (None, None, None)


def test_what_another_speaker_tells_of_himself_is_no_answer() -> None:
    text = "Ann: Nice.\nBen: I bought a silver trumpet in Oslo."
    assert answered("Did Ann buy a silver trumpet in Oslo?", text).answer is None


@pytest.mark.parametrize(
    ("question", "text", "reason"),
    [
        ("When does the ferry to Bergen leave?", "Ann: I slept.", "no source has most words of the question"),
        ("Where did Ann buy a harp?", "Ann: Nice.\nBen: I bought a harp in Oslo.", "it is said of somebody else"),
        (
            "How long is the trumpet concert?",
            "Ben: The trumpet concert is loud.",
            "no sentence gives what is asked for",
        ),
        ("Who bought a harp in Oslo?", "Ben: I bought a harp in Oslo.", "one source has most words of the question"),
    ],
)
def test_the_strongest_reason_to_answer_or_decline_is_told(question: str, text: str, reason: str) -> None:
    assert answered(question, text).reason == reason


def test_the_trace_says_how_much_supports_an_answer_and_why() -> None:
    trace = Trace()
    write(
        understand("When does the ferry leave?", NOW),
        Evidence((changed(TALK, text="Ann: I slept."),), (), 1.0),
        trace,
        0.5,
    )
    assert trace.steps[-1].note == "support 0.00: declined: no source has most words of the question"


def test_no_sources_are_declined() -> None:
    assert answered("When is the rehearsal?") == Quote(None, None, None, (), 0.0)


def test_the_source_is_the_one_that_the_answer_stands_in() -> None:
    found = answered(
        "Where is the rehearsal?", "Ben: The rehearsal was good.", "Ann: The rehearsal is in Room 12 of course."
    )
    assert (found.answer, found.source) == ("Room 12", 1)


def test_a_line_break_in_a_sentence_is_a_blank_in_the_answer() -> None:
    text = "The trumpet that Ben bought in Oslo last winter was made\nby an old man in Bergen."
    assert answered("Who made the trumpet that Ben bought in Oslo?", text).quotes == (text,)
    assert "\n" not in (answered("What did Ben buy in Oslo?", text).answer or "")


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("What is Ann's e-mail address?", "email"),
        ("What is the mobile number of Ann?", "phone"),
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


@pytest.mark.parametrize(
    ("subject", "question", "answer"),
    [
        ("Rehearsal on Friday at 7 pm", "When is the rehearsal?", "12 May 2023, 7 pm"),
        ("Dress rehearsal 19 May 2023", "When is the dress rehearsal?", "19 May 2023"),
        ("Re: Dress rehearsal 19 May 2023", "When is the dress rehearsal?", "19 May 2023"),
        ("Re: Rehearsal on Friday", "When is the rehearsal?", None),
    ],
)
def test_a_subject_says_when_something_is(subject: str, question: str, answer: str | None) -> None:
    text = "Please bring your scores and be on time."
    mail = of_text(f"From: Martha Lopez, {subject}", text, TALK.date, "Martha Lopez <m@example.org>", 1.0)
    titled = replace(mail, hits=(replace(mail.hits[0], title=subject),))
    found = quote(understand(question, NOW), [titled])
    assert (found.answer if answer else found.highlight) == answer
    assert found.quotes == (text,)
