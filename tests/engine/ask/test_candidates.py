"""What speaks for a sentence as an answer."""

from datetime import UTC, datetime

import pytest

from engine.ask.candidates import Candidate, candidates, content, coverage
from engine.text.question import understand
from engine.text.relative_dates import time_constraint
from engine.text.spans import Kind
from engine.types import Passage
from tests.engine.ask.passages import changed, of_text

NOW = datetime(2024, 5, 15, tzinfo=UTC)
CHAT = of_text(
    header="Meeting: talk, Mon 2023-05-08, Ann, Ben",
    text="Ann: Did you buy the trumpet? It looks great!\n"
    "Ben: I bought a trumpet in Oslo. [photo: a trumpet]\nAnn: I sold my harp.",
    date=datetime(2023, 5, 8, tzinfo=UTC),
    sender="",
    score=1.0,
)


def scored(question: str, *reads: Passage, kind: Kind | None = None) -> list[Candidate]:
    asked, given = understand(question, NOW), reads or (CHAT,)
    return candidates(asked, given, kind, time_constraint(asked, kind))


def best(question: str, *reads: Passage, kind: Kind | None = None) -> str:
    return max(scored(question, *reads, kind=kind), key=lambda one: one.score).text


def test_a_statement_is_preferred_to_the_question_it_answers() -> None:
    assert best("Who bought a trumpet?") == "I bought a trumpet in Oslo."


def test_what_was_said_is_preferred_to_what_stands_in_brackets() -> None:
    chat = changed(CHAT, text="Ben: I bought a trumpet in Oslo. [photo: a trumpet on a red chair]")
    assert best("What trumpet did Ben buy?", chat) == "I bought a trumpet in Oslo."


@pytest.mark.parametrize(
    "aside", ["> The boat leaves at nine.", "Re: The boat leaves at nine", "[attachment: boat.txt]"]
)
def test_what_is_quoted_or_attached_is_no_sentence_of_the_mail(aside: str) -> None:
    mail = changed(CHAT, text=f"{aside}\nThe boat waits for nobody.")
    assert best("Which boat leaves at nine?", mail) == "The boat waits for nobody."


def test_a_title_names_what_the_line_below_it_is_about() -> None:
    mail = changed(CHAT, text="Invitation: Harbour walk\nWhen: Friday 12 May 2023\nNotes: Bring a hat on Thursday.")
    assert best("When is the harbour walk?", mail, kind="date") == "Friday 12 May 2023"


def test_a_request_answers_what_its_sender_wants() -> None:
    mail = changed(
        CHAT, text="The van is mine. Could you please bring two ropes?", sender="Martha Lopez <m@example.org>"
    )
    assert best("What does Martha Lopez want me to bring?", mail) == "Could you please bring two ropes?"


def test_a_speaker_is_among_the_words_of_a_sentence_only_if_the_question_names_him() -> None:
    assert "ben" in scored("What did Ben buy?")[3 - 1].words
    assert "ben" not in scored("What did Ann buy?")[3 - 1].words


def test_the_sender_of_a_mail_speaks_its_sentences() -> None:
    mail = changed(CHAT, text="The van is mine.", sender="Martha Lopez <m@example.org>")
    assert scored("Whose van?", mail)[0].speaker == "Martha Lopez <m@example.org>"


def test_a_sentence_with_a_date_is_preferred_when_one_is_asked_for() -> None:
    mail = changed(CHAT, text="The concert is in the old hall. The concert is on Friday.")
    assert best("When is the concert?", mail, kind="date") == "The concert is on Friday."


def test_a_span_that_only_repeats_the_question_does_not_count() -> None:
    mail = changed(CHAT, text="On Friday the concert was moved.")
    assert scored("Was the concert on Friday moved?", mail, kind="date")[0].spans == ()


def test_a_source_of_the_day_that_is_asked_about_is_preferred() -> None:
    later = changed(CHAT, text="Ben: I bought a drum.", date=datetime(2023, 7, 1, tzinfo=UTC), score=0.9)
    sooner = changed(CHAT, text="Ben: I bought a harp.")
    assert best("What did Ben buy in July 2023?", sooner, later) == "I bought a drum."


def test_words_that_ask_for_a_summary_are_not_what_it_is_about() -> None:
    assert content(understand("Summarize the discussion about batteries", NOW)) == ("battery",)


def test_a_question_of_such_words_alone_keeps_them() -> None:
    assert content(understand("Summarize the discussion", NOW)) != ()


def test_coverage_is_the_share_by_weight() -> None:
    assert coverage({"harp": 3.0, "oslo": 1.0}, frozenset({"harp"})) == 0.75


def test_coverage_of_nothing_is_nothing() -> None:
    assert coverage({}, frozenset({"harp"})) == 0.0
