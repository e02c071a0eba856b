"""Which questions need a synthesis of several passages, and which a passage may answer."""

import pytest

from engine.text.question import Synthesis, synthesis


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("Summarize the whole meeting.", "summary"),
        ("Could you please summarise what was said about the boat?", "summary"),
        ("What did the team discuss about the kiln?", "summary"),
        ("List all mails from Ben", "list"),
        ("Which emails mention the kiln?", "list"),
        ("How many mails did Ann Lee send to Ben in May?", "count"),
        ("How many of the e-mails that I got are from Ben?", "count"),
        ("How many people replied?", "count"),
        ("How many times did Ann mention the kiln?", "count"),
        ("Who talked most?", "comparison"),
        ("Who writes to me most often?", "comparison"),
        ("What was decided?", "decisions"),
        ("What did we decide about the kiln?", "decisions"),
        ("What are the action items?", "decisions"),
        ("What did I promise Ann?", "decisions"),
        ("What does everybody think about the kiln?", "opinions"),
        ("What do people say about the kiln?", "opinions"),
        ("Fasse das Treffen zusammen", "summary"),
        ("Was wurde beschlossen?", "decisions"),
        ("Wie viele Mails hat Ann geschickt?", "count"),
        ("Qui parle le plus ?", "comparison"),
        ("¿Qué se decidió?", "decisions"),
        ("Riassumi la riunione", "summary"),
        ("Wie praat het meest?", "comparison"),
        ("O que foi decidido?", "decisions"),
    ],
)
def test_questions_that_need_a_synthesis_are_told_by_their_words(question: str, kind: Synthesis) -> None:
    assert synthesis(question) == kind


@pytest.mark.parametrize(
    "question",
    [
        "What did Ann say about the kiln?",
        "What does Ann think of the kiln?",
        "What did Ann promise to bring?",
        "Why did Ben object?",
        "What is the decision on the date of the fair?",
        "How many bicycles were repaired?",
        "How many people attended the concert?",
        "How many times a week is rehearsal?",
        "How often does the ferry go?",
        "Who is on the list of speakers?",
        "Who sent the mail 'Summarize the whole meeting'?",
        "Who will summarize the key points?",
        "Which email address does Ben use?",
        "Which team did Ben sign with?",
        "What does Ann love most about camping?",
    ],
)
def test_what_a_passage_may_say_needs_none(question: str) -> None:
    assert synthesis(question) is None
