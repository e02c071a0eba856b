"""Follow-ups rewritten by rules, or by a model within limits; complete questions stay."""

import json
from pathlib import Path
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ask.followup import Condensed, Turn, condense, is_vague, lacks, trusted, turn_of, with_model
from engine.kv.restore import PromptReader
from engine.models.types import Frame
from engine.types import Answer, Writer
from tests.engine.llm.scripted_model import ScriptedModel

CONCERT = Turn("When is the summer concert?", "On Saturday 22 June.", "Saturday 22 June")
KEY = Turn("Who has the spare key to the workshop?", "I gave it to Dele.", "Dele")
CHOIR = Turn("Where does the choir rehearse now?", "In the Old Chapel.", "the Old Chapel")
BIKES = Turn("How many bicycles were repaired on the repair day?", "We did 31.", "31")
PARIS = Turn("Did Ann meet Carla in Paris on Monday?", "Yes.")
CAKE = Turn("Who will bring the cake on Friday?", "Mira will.", "Mira")
TICKET = Turn("How much is a ticket for the summer concert?", "8 pounds.", "8 pounds")
BAND = Turn("Which band will play at the fair?", "The Hollows do.", "The Hollows")
LOGIN = Turn("What is the login for the members' pages?", "It is quay.", "quay")
PRIZE = Turn("Who won the second prize in the raffle?", "Ivo did.", "Ivo")
BRANCH = Turn("Which Release is Ann's branch based on?", "Release 7.", "Release 7")
FEE = Turn("What is the fee for up to 100 copies?", "3 pounds.", "3 pounds")
TIN = Turn("What does Ann Whitlock want me to bring?", "Please bring a cake tin.")

MADE = [
    (CONCERT, "and where?", "Where is the summer concert?"),
    (CONCERT, "how much does it cost?", "How much does the summer concert cost?"),
    (CONCERT, "Who will be there?", "Who will be at the summer concert?"),
    (CONCERT, "what about the raffle?", "When is the raffle?"),
    (CONCERT, "And when is the fair?", "When is the fair?"),
    (CONCERT, "in May?", "When is the summer concert in May?"),
    (KEY, "since when?", "Since when is it that Dele has the spare key to the workshop?"),
    (KEY, "where does he keep it?", "Where does Dele keep the spare key?"),
    (KEY, "what is his address?", "What is Dele's address?"),
    (KEY, "and the shed?", "Who has the spare key to the shed?"),
    (KEY, "Who else?", "Who else has the spare key to the workshop?"),
    (CHOIR, "how do I get there?", "How do I get to the Old Chapel?"),
    (CHOIR, "who told them?", "Who told the choir?"),
    (BIKES, "who repaired them?", "Who repaired bicycles?"),
    (BIKES, "and where?", "Where were bicycles repaired on the repair day?"),
    (PARIS, "and in Rome?", "Did Ann meet Carla in Rome on Monday?"),
    (PARIS, "what about Ben?", "Did Ben meet Carla in Paris on Monday?"),
    (PARIS, "on Tuesday?", "Did Ann meet Carla in Paris on Tuesday?"),
    (PARIS, "why did she go there?", "Why did Ann go to Paris?"),
    (PARIS, "what did they talk about?", "What did Ann and Carla talk about?"),
    (CAKE, "and on Saturday?", "Who will bring the cake on Saturday?"),
    (CAKE, "when?", "When will Mira bring the cake on Friday?"),
    (TICKET, "and for children?", "How much is a ticket for the summer concert for children?"),
    (TICKET, "what about the fair?", "How much is a ticket for the fair?"),
    (BAND, "when do they play?", "When do the band play?"),
    (LOGIN, "and the password?", "What is the password for the members' pages?"),
    (LOGIN, "and the library?", "What is the login for the library?"),
    (PRIZE, "and the first?", "Who won the first prize in the raffle?"),
    (PRIZE, "and the third prize?", "Who won the third prize in the raffle?"),
    (BRANCH, "and Ben?", "Which Release is Ben's branch based on?"),
    (KEY, "and who has it?", "Who has the spare key?"),
]


@pytest.mark.parametrize(("turn", "text", "whole"), MADE, ids=[text for _, text, _ in MADE])
def test_a_follow_up_is_completed_from_the_previous_turn(turn: Turn, text: str, whole: str) -> None:
    assert condense(text, [turn]) == Condensed(whole, "rules")


@pytest.mark.parametrize("text", [text for _, text, _ in MADE if not text.startswith("And when")])
def test_a_follow_up_without_a_previous_turn_is_not_rewritten(text: str) -> None:
    assert condense(text, []).asked is None or lacks(text, first=True) is None


@pytest.mark.parametrize(
    ("turn", "text"),
    [
        (CONCERT, "why?"),  # is the summer concert
        (TIN, "when?"),  # does Ann Whitlock want me to bring
        (FEE, "and over 200?"),  # what the fee for up to 100 copies over 200 is
        (KEY, "what did Dele say?"),  # of what
        (KEY, "who said that?"),
    ],
)
def test_what_would_make_no_sense_as_a_whole_question_is_asked_as_it_stands(turn: Turn, text: str) -> None:
    assert condense(text, [turn]).asked is None


@pytest.mark.parametrize("text", ["which one?", "are you?", "really?", "ok", "so?", "and his wife?", "where is it?"])
def test_lines_that_cannot_be_completed_are_not_rewritten(text: str) -> None:
    assert condense(text, [TIN]).asked is None


@pytest.mark.parametrize(
    "text",
    [
        "When is rehearsal?", "Who is Anthony?", "What books has Melanie read?", "What is on this week?",
        "Is it true that the fair is cancelled?", "Is there a bouncy castle at the fair?", "dentist appointment",
        "How many primes are there that end in 7?", "When did Evan lose his job?", "Who will bring the cake?",
        "Will Ann and her sister come to the fair?", "What did Tim's teammates give him?",
        "So far how many came to it?",
        "Wann ist Anmeldeschluss für den Chorbesuch?", "饺子摊的摊位是几号？",
        "How long does it take to walk to the hall?",
    ],
)  # fmt: skip
def test_a_complete_question_is_unchanged(text: str) -> None:
    assert condense(f" {text} ", [KEY, CONCERT]) == Condensed(text, "itself")


def test_few_complete_questions_of_public_sets_are_changed(shared: Path) -> None:
    files = sorted((shared / "data").glob("**/questions.jsonl"))
    rows = [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]
    alone = [row["question"] for row in rows if row.get("standalone", True)]
    touched = [text for text in alone if condense(text, [KEY, CONCERT]).by != "itself"]
    assert len(alone) > 3000
    assert len(touched) / len(alone) < 0.01


def test_a_pronoun_refers_past_turns_without_a_person() -> None:
    assert condense("why does he have it?", [KEY]).asked == "Why does Dele have the spare key?"
    assert condense("where does he live?", [KEY, BIKES, TICKET]).asked == "Where does Dele live?"


def test_a_follow_up_builds_on_the_rewritten_question_before_it() -> None:
    first = condense("and where?", [CONCERT]).asked
    assert first is not None
    assert condense("and the fair?", [CONCERT, Turn(first)]).asked == "Where is the fair?"


@pytest.mark.parametrize(
    "said",
    [
        "Where is the summer concert?", "where is the summer concert", ' "Where is the summer concert?" \n\nAnswer: in',
        "Question: Where is the summer concert?", "The last question in full: Where is the summer concert?",
    ],
)  # fmt: skip
def test_output_of_a_model_is_parsed_leniently(said: str) -> None:
    assert condense("and where?", [CONCERT], lambda *_: said) == Condensed("Where is the summer concert?", "model")


@pytest.mark.parametrize(
    "said",
    [
        "Where is the summer concert in Hollowby?", "Where is the summer concert on 23 June?",
        "Where is Ben's concert?",
        "When is the summer concert?", "Where is it?", "Where?", "The Old Chapel.", "", "\n\n", "where where where",
        "Is the summer concert in the park?",
    ],
)  # fmt: skip
def test_invented_words_of_a_model_are_rejected_in_favour_of_the_rules(said: str) -> None:
    assert trusted(said, "and where?", [CONCERT]) is None
    assert condense("and where?", [CONCERT], lambda *_: said) == Condensed("Where is the summer concert?", "rules")


def test_a_name_from_an_answer_or_the_follow_up_is_no_new_one() -> None:
    said = "Did Dele give Ben the spare key to the workshop?"
    assert trusted(said, "did he give Ben the key?", [KEY]) == said
    assert trusted(said, "did he give it away?", [KEY]) is None


def test_a_model_is_not_asked_about_complete_questions_or_first_ones() -> None:
    asked = list[str]()

    def write(text: str, _: object) -> str:
        asked.append(text)
        return ""

    condense("When is the fair?", [CONCERT], write)
    condense("and where?", [], write)
    condense("and where?", [CONCERT], write)
    assert asked == ["and where?"]


@pytest.mark.parametrize(
    ("writer", "answer", "highlight", "focus"),
    [
        ("quote", "It is on Saturday 22 June at seven.", (9, 25), "Saturday 22 June"),
        ("quote", "Dele.", None, ""),
        ("model", "Dele.", None, "Dele"),
        ("model", "It hangs behind the kitchen door of Gus.", None, ""),
        ("model", None, None, ""),
    ],
)
def test_the_span_of_an_answer_can_complete_the_next_question(
    writer: Writer, answer: str | None, highlight: tuple[int, int] | None, focus: str
) -> None:
    reply = Answer("Who?", answer, "full", writer, None, (), {"total": 1.0}, highlight)
    assert turn_of(reply) == Turn("Who?", answer, focus)


SAMPLE = (
    "and what about the why who is it there then he she they his that those Ben Paris Friday in on May does did will "
    "concert key come has else one more how many 3 ? ' . , \n \t the a Ann's"
)
WORDS = st.sampled_from(SAMPLE.split(" "))
LINES = st.one_of(st.text(max_size=80), st.lists(WORDS, max_size=12).map(" ".join))


@given(LINES, st.lists(st.builds(Turn, LINES, st.none() | LINES, LINES), max_size=3))
def test_any_line_after_any_turns_is_rewritten_or_left(text: str, turns: list[Turn]) -> None:
    made = condense(text, turns)
    assert made.asked is None or made.by != "itself" or made.asked == text.strip()
    assert made.asked is None or "\n" not in made.asked or made.by == "itself"


@given(LINES, LINES, st.lists(st.builds(Turn, LINES, st.none() | LINES, LINES), max_size=3))
def test_no_output_of_a_model_adds_a_number(said: str, text: str, turns: list[Turn]) -> None:
    made = trusted(said, text, turns)
    known = normalize("NFKC", " ".join([text, *(f"{turn.asked} {turn.answer}" for turn in turns)])).casefold()  # ³ is 3
    assert made is None or all(word.strip("?'.,") in known for word in made.casefold().split() if word.isdecimal())


def test_a_model_is_shown_the_last_turns_that_fit_it() -> None:
    model = ScriptedModel(["Where is the fair", "?"], context=10_000, frame=Frame((-1,), (-2,), (-3,)))
    turns = [KEY, CONCERT, CHOIR, BIKES]
    assert with_model(lambda: PromptReader(model))("and\nwhere?", turns) == "Where is the fair?"
    system, asked = model.text()
    assert (system[:4], system[-4:]) == ("(-1)", "(-2)")
    assert asked.startswith("Question: When is the summer concert? Answer: On Saturday 22 June. Question: Where does")
    assert asked.endswith("Last question: and where The question in full: (-3)")


@pytest.mark.parametrize(("context", "shown"), [(400, 3), (135, 1), (20, 0)])
def test_a_model_with_little_room_is_shown_less_or_not_asked(context: int, shown: int) -> None:
    model = ScriptedModel(["Yes"], context=context)
    said = with_model(lambda: PromptReader(model))("and where?", [KEY, CONCERT, CHOIR, BIKES])
    assert said == ("Yes" if shown else "")
    assert " ".join(model.text()).count("Answer:") == shown


def test_a_model_that_repeats_the_question_is_stopped() -> None:
    model = ScriptedModel(["Where is the summer concert?\n"] * 9)
    assert with_model(lambda: PromptReader(model))("and where?", [CONCERT]) == "Where is the summer concert?\n"


@pytest.mark.parametrize("piece", [".", " ", "a", "and ", "the ", "'", "May ", "x? "])
def test_a_very_long_line_is_rewritten_or_left(piece: str) -> None:
    long = f"who sings {piece * 200_000} x"
    assert condense(long, [KEY]) in (Condensed(long.strip()), Condensed("Who sings x?", "rules"))
    assert condense("and where?", [KEY, Turn(long)]).asked is None


@pytest.mark.parametrize("text", ["What's Ann's email?", "What is Ben's phone number?"])
def test_a_question_for_an_address_is_complete(text: str) -> None:
    assert not is_vague(text)
