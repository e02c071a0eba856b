"""Which questions may share an answer, by their words."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ask.semantic import asks_in_same_words, synonymous, unmatched_words, why_different
from engine.text.question import Question, understand
from engine.text.words import base, one_root

NOW = datetime(2024, 5, 15, tzinfo=UTC)
ALIKE = (
    ("When is the rehearsal?", "When's rehearsal?"),
    ("When does the concert take place?", "When does the concert happen?"),
    ("When does the course start?", "When does the course begin?"),
    ("Where does the band rehearse?", "Where is the band's rehearsal?"),
    ("What is the price of the tickets?", "What is the ticket price?"),
    ("On Friday, where do we meet?", "Where do we meet on Friday?"),
    ("What kind of flooring does Jon want?", "What flooring does Jon want?"),
    ("Who invited Ann and Ben?", "Who invited Ben and Ann?"),
    ("What did the neighbours organise for Ann?", "What did the neighbors organize for Ann?"),
    ("In which year did Ann move to Bonn?", "When did Ann move to Bonn?"),
    ("What is the email address of Ann Frey?", "what's ann frey's email"),
    ("What is the email address of Ann Frey?", "Could you send me Ann Frey's email address please?"),
    ("What is the email address of Ann Frey?", "Which email address does Ann Frey use?"),
    ("What is the phone number of Ann Frey?", "What number can I call Ann Frey on?"),
    ("When did Ann break her leg?", "Remind me when Ann broke her leg"),
    ("Who wrote the report for Ben?", "Who was the report for Ben written by?"),
    ("What did Ann think about the hall?", "What were Ann's thoughts on the hall?"),
    ("What was said about the heating?", "What did they say about the heating?"),
    ("What instrument did Ben use to play when he was younger?", "Which instrument did Ben play when he was younger?"),
    ("Who sent Ann the invoice?", "From whom did Ann get the invoice?"),
    ("Which street have Ann and Ben both lived in?", "What street have Ben and Ann both lived in?"),
)
UNLIKE = (
    ("What did Ann tell Ben?", "What did Ben tell Ann?", "who does it to whom may differ"),
    ("Who has told Ann?", "Who has Ann told?", "who does it to whom may differ"),
    ("When was Ann paid?", "When did Ann pay?", "who does it to whom may differ"),
    ("What did Ann get from Ben?", "What did Ann get for Ben?", "who does it to whom may differ"),
    ("Where does Ann live?", "Where does Eva live?", "another name"),
    ("How many tickets are left for row 4?", "How many tickets are left for row 5?", "other numbers"),
    ("What happened on 3 May?", "What happened on 4 May?", "other numbers"),
    ("Who will be at the party?", "Who was at the party?", "about another time"),
    ("Where is Ann?", "Where was Ann?", "about another time"),
    ("Who should sign the form?", "Who signed the form?", "about another time"),
    ("Who has paid?", "Who has not paid?", "one of the two is negated"),
    ("When is my flight?", "When is her flight?", "about another person"),
    ("When was the first rehearsal?", "When was the last rehearsal?", "another of several"),
    ("What is his favourite film?", "What is his least favourite film?", "another of several"),
    ("Who spoke before Ann?", "Who spoke after Ann?", "another of several"),
    ("When does the ferry go to Hull?", "When does the ferry go with Hull?", "who does it to whom may differ"),
    ("What does Ann paint?", "Why does Ann paint?", "another kind of question"),
    ("Where is the exam?", "When is the exam?", "another kind of question"),
    ("What is grandma's present?", "What is grandpa's present?", "other words"),
    ("Who signed the basketball?", "Who signed the football?", "other words"),
    ("What did Eva say about rent?", "What did Eva say about rent and heating?", "other words"),
    ("Who should Ann's team visit?", "Who should visit Ann's team?", "who does it to whom may differ"),
    ("Who is keeping Ann informed?", "Who is Ann keeping informed?", "who does it to whom may differ"),
    ("Who asked for a lift?", "Who was asked for a lift?", "who does it to whom may differ"),
    ("What inspired Ann's painting?", "What did Ann's painting inspire?", "who does it to whom may differ"),
    ("What is Ann's gift to Ben?", "What is Ben's gift to Ann?", "who does it to whom may differ"),
    ("What did Ann say about Ben's plan?", "What did Ben say about Ann's plan?", "who does it to whom may differ"),
    ("When did Ann mock her friends?", "When did Ann's friends mock her?", "who does it to whom may differ"),
    ("Did you say Ann had called?", "Did Ann say you had called?", "who does it to whom may differ"),
    ("What was needed for the tapes?", "What were the tapes needed for?", "who does it to whom may differ"),
    ("Where did Ann move to?", "Where did Ann move from?", "another direction"),
    ("Who spoke for fees?", "Who spoke against fees?", "another direction"),
    ("Who is Ann Frey?", "Who is Ann Frey's boss?", "other words"),
    ("When did Ann accept the offer?", "When did Ann get accepted for the offer?", "who does it to whom may differ"),
    ("Wo wohnt die neue Lehrerin?", "Wo wohnt die Lehrerin?", "not in English"),
)


def question(text: str) -> Question:
    return understand(text, NOW)


@pytest.mark.parametrize(("one", "two"), ALIKE)
def test_paraphrases_pass(one: str, two: str) -> None:
    found = why_different(question(one), question(two)), why_different(question(two), question(one))
    assert found == (None, None)


@pytest.mark.parametrize(("one", "two", "reason"), UNLIKE)
def test_a_question_for_something_else_is_refused(one: str, two: str, reason: str) -> None:
    found = why_different(question(one), question(two)), why_different(question(two), question(one))
    assert found == (reason, reason)


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ("When is the exam of the rowing club?", "When will the rowing club's exam be?", True),
        ("When did Ann leave Rome?", "When has Ann left Rome?", False),
        ("What kind of boat does Ann have?", "What type of boat does Ann have?", False),
        ("When is the exam?", "When is the test?", False),
        ("When is the train?", "When is the training?", False),
        ("When is the custom?", "When are the customs?", False),
        ("When do we schedule the fair?", "When do we set up the fair?", False),
        ("What does Ann make of it?", "What does Ann think of it?", False),
        ("When is the tax form due?", "When is the tax due?", False),
        ("When is the talk about Rome?", "When is the talk of Rome?", False),
        ("Where is my boat?", "Where is the boat?", False),
        ("Who has 2 keys?", "Who has two keys?", False),
    ],
)
def test_synonyms_other_forms_and_rewritten_phrases_are_other_words(one: str, two: str, same: bool) -> None:
    assert asks_in_same_words(question(one), question(two)) is same
    assert asks_in_same_words(question(two), question(one)) is same


def test_us_in_capitals_is_a_name() -> None:
    found = why_different(question("Who visited us in May?"), question("Who visited US in May?"))
    assert found == "another name"


def test_one_additional_word_is_left_to_the_evidence_check() -> None:
    one, two = question("How long did Ann stay in Rome?"), question("How long did Ann stay in Rome without sleep?")
    found = unmatched_words(one, question("How long did Ann stay in Rome asleep?"))
    assert why_different(one, two) == "one of the two is negated"
    assert found == ([], ["asleep"])
    assert why_different(one, question("How long did Ann stay in Rome asleep?")) is None


def test_a_script_without_function_words_passes_only_if_all_words_are_equal() -> None:
    assert why_different(question("会议在哪里？"), question("会议在哪里")) is None
    assert why_different(question("会议在哪里？"), question("会议在什么时候")) == "not in English"


@pytest.mark.parametrize(
    ("one", "two"),
    [("decide", "decision"), ("create", "creation"), ("announce", "announcement"), ("responsible", "responsibility")],
)
def test_a_verb_and_its_noun_share_a_root(one: str, two: str) -> None:
    assert one_root(base(one), base(two))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("office", "official"),
        ("general", "generation"),
        ("secret", "secretary"),
        ("part", "party"),
        ("teach", "teacher"),
    ],
)
def test_similar_words_of_different_roots_are_told_apart(one: str, two: str) -> None:
    assert not one_root(base(one), base(two))


@pytest.mark.parametrize(
    ("one", "two"), [("lunch", "dinner"), ("mother", "father"), ("first", "last"), ("buy", "sell"), ("rise", "fall")]
)
def test_distinguishing_words_are_no_synonyms(one: str, two: str) -> None:
    assert not synonymous(base(one), base(two))


_WORDS = "who what whose which is was did does has will the by from of 's and Ann Ben to get not name email that"
_TEXTS = st.one_of(
    st.text(max_size=60),
    st.lists(st.sampled_from(_WORDS.split()), max_size=9).map(" ".join),
    st.lists(st.sampled_from(" ".join(one for pair in ALIKE for one in pair).split()), max_size=9).map(" ".join),
)


@pytest.mark.parametrize("text", ["did the", "who", "what's", "'s", "by whom", "is", "Who did Ann and", "the's of"])
def test_a_question_that_breaks_off_is_like_itself(text: str) -> None:
    assert why_different(question(text), question(text)) is None


@given(_TEXTS, _TEXTS)
def test_refusal_is_symmetric(one: str, two: str) -> None:
    first, second = question(one), question(two)
    assert why_different(first, second) == why_different(second, first)


@given(_TEXTS)
def test_a_question_always_matches_itself(text: str) -> None:
    assert why_different(question(text), question(text)) is None
