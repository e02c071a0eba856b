"""What is open in real homes: what later mail closes, what is due, who is meant, and where it stands."""

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from email.message import EmailMessage
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.app import Pkb
from engine.retrieval.open_loops import WholeDocument, candidates
from engine.types import OpenLoop
from store.types import Chunk, Hit, Scope
from tests.demo import DATA

NOW = datetime(2024, 6, 19, 8, tzinfo=UTC)
ANN, BEN, EVA = "Ann Miller <ann@example.org>", "Ben Oak <ben@example.org>", "Eva Lind <eva@example.org>"
Write = Callable[..., None]


class Box:
    """A folder of mail, and the home that indexes it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._home = folder / "Mail", folder / "home"
        self.folder.mkdir()

    def mail(
        self, text: str, sender: str = ANN, to: str = BEN, subject: str = "Fair", day: int = 10, **more: str
    ) -> None:
        """Write a message of this day of June."""
        number = len(list(self.folder.iterdir()))
        message = EmailMessage()
        message["From"], message["To"], message["Subject"] = sender, to, subject
        message["Date"] = datetime(2024, 6, 1, 12, number, tzinfo=UTC) + timedelta(days=day - 1)
        message["Message-ID"] = f"<{number}@example.org>"
        for name, value in more.items():
            message[name.replace("_", "-")] = value
        message.set_content(text)
        (self.folder / f"{number}.eml").write_bytes(message.as_bytes())

    def todo(self, **filters: str | None) -> list[OpenLoop]:
        """Index what is new and return what is open."""
        with Pkb(self._home, environ={"PKB_NOW": NOW.isoformat()}) as pkb:
            pkb.ingest([self.folder], embed=False)
            return pkb.todo(kind=None, limit=None, **filters)

    def texts(self, **filters: str | None) -> list[str]:
        """Return the sentences alone."""
        return [one.text for one in self.todo(**filters)]


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pkb]:
    """Yield a home with the bundled mail and meetings."""
    folder = tmp_path_factory.mktemp("todo")
    with Pkb(folder / "home", environ={"PKB_NOW": NOW.isoformat()}) as pkb:
        pkb.ingest([DATA / "mail", DATA / "transcripts"], embed=False)
        yield pkb


def test_a_task_has_who_is_to_do_it_by_when_and_its_source(box: Box) -> None:
    box.mail(
        "Dear Ben,\n\nI'll send you the key of the hall at the harbour by\nFriday, 21 June. Please bring the cups.\n"
    )
    first, second = box.todo()
    text = "I'll send you the key of the hall at the harbour by Friday, 21 June."
    assert (first.kind, first.text, first.who, first.due) == ("task", text, "Ann Miller", date(2024, 6, 21))
    assert (second.text, second.who, second.due) == ("Please bring the cups.", "Ben Oak", None)
    assert (first.asked_by, second.asked_by) == (None, "Ann Miller")
    assert first.source.quote == text.replace(" by ", " by\n")
    assert (first.source.path, first.source.sender) == (str(box.folder / "0.eml"), ANN)


def test_what_is_due_comes_first_by_day_and_then_the_newest(box: Box) -> None:
    box.mail("Please send the list by 30 June.", subject="a", day=18)
    box.mail("Please send the key by 22 June.", subject="b", day=1)
    box.mail("Please send the cups.", subject="c", day=2)
    box.mail("Please send the plates by 12 June.", subject="d", day=11)
    assert [one.source.title for one in box.todo()] == ["b", "a", "d", "c"]


def test_what_was_due_long_ago_is_not_shown(box: Box) -> None:
    box.mail("Please send the list by 3 June.", subject="a", day=1)
    (one,) = box.todo()
    assert one.due == date(2024, 6, 3)
    box.mail("Please send the key by 3 May.", subject="b", day=-29)
    assert box.texts(since="2024-04") == ["Please send the list by 3 June."]


def test_an_answer_in_the_thread_closes_a_question(box: Box) -> None:
    box.mail("When does the fair begin?")
    assert box.texts() == ["When does the fair begin?"]
    box.mail("At noon.", sender=BEN, to=ANN, subject="Re: Fair", day=11)
    assert box.texts() == []


def test_what_the_asker_adds_or_somebody_else_writes_does_not(box: Box) -> None:
    box.mail("When does the fair begin?")
    box.mail("The tents are here.", subject="Re: Fair", day=11)
    box.mail("The choir sings in June.", sender=BEN, to=EVA, subject="Concert", day=11)
    assert box.texts() == ["When does the fair begin?"]


def test_an_earlier_message_of_the_thread_does_not(box: Box) -> None:
    box.mail("The fair is soon.", sender=BEN, to=ANN, day=9)
    box.mail("When does the fair begin?", subject="Re: Fair")
    assert box.texts() == ["When does the fair begin?"]


def test_an_answer_under_another_subject_closes_what_it_is_about(box: Box) -> None:
    box.mail("When does the summer fair begin?")
    box.mail("By the way, the summer fair will begin at noon.", sender=BEN, to=ANN, subject="Hello", day=12)
    assert box.texts() == []


def test_a_task_is_closed_by_who_says_that_it_is_done(box: Box) -> None:
    box.mail("Please send me the list of stalls.")
    box.mail("I'll look for the list.", sender=BEN, to=ANN, subject="Re: Fair", day=11)
    assert box.texts() == ["I'll look for the list.", "Please send me the list of stalls."]
    box.mail("Here is the list of stalls.", sender=BEN, to=ANN, subject="Re: Fair", day=12)
    assert box.texts() == []


def test_a_copy_counts_once(box: Box) -> None:
    box.mail("Please send me the list of stalls.", subject="a")
    box.mail("Please send me the list of stalls!", subject="b", day=12)
    box.mail("Please send me the list of stalls.", subject="c", to=EVA)
    assert [(one.source.title, one.who) for one in box.todo()] == [("b", "Ben Oak"), ("c", "Eva Lind")]


def test_quotes_forwards_signatures_and_mass_mail_hold_nothing_open(box: Box) -> None:
    quoted = "On Mon, 3 Jun 2024 at 10:00, Eva Lind wrote:\n> Please send me the key.\n"
    box.mail(f"Thanks.\n\n{quoted}\n-- \nAnn\nPlease print this mail.\n", subject="a")
    box.mail("Please order the book. To unsubscribe, click here.", sender="Shop <ads@shop.example>", subject="b")
    box.mail("Please order now.", sender="Shop <newsletter@shop.example>", subject="c")
    box.mail("Please bring a cake.", to=", ".join(f"p{n}@example.org" for n in range(30)), subject="d")
    assert box.texts() == []


def test_people_days_and_kinds_limit_what_is_shown(box: Box) -> None:
    box.mail("Please send me the key.", subject="key", day=1)
    box.mail("Where is the key?", sender=EVA, subject="harbour", day=12)
    box.mail("It is here.", sender=BEN, to=EVA, subject="Re: harbour", day=13)
    box.mail("Where are the cups?", sender=EVA, subject="cups", day=14)
    assert box.texts(sender="ann") == ["Please send me the key."]
    assert box.texts(sender="eva") == ["Where are the cups?"]  # what others wrote later counts
    assert box.texts(until="2024-06-05") == ["Please send me the key."]
    assert box.texts(document="key") == ["Please send me the key."]
    assert [one.kind for one in box.todo()] == ["question", "task"]


def test_only_the_last_thirty_days_are_read_unless_told(box: Box) -> None:
    box.mail("Please send me the key.", day=-20)
    assert box.texts() == []
    assert box.texts(since="2024-05") == ["Please send me the key."]


def test_in_a_meeting_the_speaker_or_who_is_called_is_to_do_it(box: Box) -> None:
    said = "Ann Miller: I'll send you the minutes.\nCarl Reed: Then please book the hall, Ann.\nAnn Miller: What for?\n"
    (box.folder / "2024-06-08 fair meeting.txt").write_text(said * 2)
    assert [(one.text, one.who, one.asked_by, one.source.speaker) for one in box.todo()] == [
        ("I'll send you the minutes.", "Ann Miller", None, "Ann Miller"),
        ("Then please book the hall, Ann.", "Ann", "Carl Reed", "Carl Reed"),
    ]
    assert box.texts(sender="carl") == ["Then please book the hall, Ann."]


def test_a_line_marked_as_a_task_is_one(box: Box) -> None:
    box.mail("Minutes of today:\n\nAction: the hall (Ben)\n\nTODO: cups and plates\n\nRemarks: none\n")
    assert box.texts() == ["the hall (Ben)", "cups and plates"]


def test_quotes_stand_in_their_documents(demo: Pkb) -> None:
    found = demo.todo(since="2024", limit=None)
    assert len(found) > 10
    for one in found:
        (text,) = [row["text"] for row in demo.show(one.source.path, one.source.message_id)][:1]
        assert " ".join(one.source.quote.split()) == one.text
        assert one.text in " ".join(text.split())


def test_the_answer_to_the_parking_question_of_the_choir_closes_it(demo: Pkb) -> None:
    texts = [one.text for one in demo.todo(since="2024", limit=None)]
    assert "Where do we leave our cars?" not in texts
    assert "Could you please bring the white gazebo and two extension leads to the fair?" in texts


TEXTS = st.text() | st.lists(
    st.sampled_from(
        ["Please send it by Friday.", "Where is it?", "Action:", "Ann:", "\n", "I'll", "[ ]", "\0", "?", "\r"]
    )
).map(" ".join)


@given(TEXTS, st.booleans())
def test_any_text_yields_sentences_of_its_own(text: str, is_meeting: bool) -> None:
    header = "Meeting: Fair" if is_meeting else "From: Ann"
    chunk = Chunk("c", "d", 0, header, text, 1, 1)
    hit = Hit(chunk, "", None, NOW, "Ann", ("Ann", "Ben"), "Fair")
    for one in candidates(WholeDocument((hit,)), Scope()):
        assert one.text in text
        assert one.text.strip()


@pytest.mark.parametrize(
    ("question", "titles"),
    [
        ("What did I promise?", ["list"]),
        ("what waits for me", ["key", "list"]),
        ("What do I still have to do?", ["key", "list"]),
        ("What am I waiting for?", ["cups"]),
        ("who owes me a reply", ["cups"]),
    ],
)
def test_questions_about_what_is_mine_are_answered_with_their_lines(
    tmp_path: Path, question: str, titles: list[str]
) -> None:
    (folder := tmp_path / "Mail").mkdir()
    mails = [
        (BEN, ANN, "list", "I'll send you the list on 1 July."),
        (ANN, BEN, "key", "Please bring the key of the hall."),
    ]
    mails += [(BEN, ANN, "cups", "Please bring the cups."), (ANN, EVA, "other", "Please bring the drum.")]
    for day, (sender, to, title, text) in enumerate(mails, 1):
        message = EmailMessage()
        message["From"], message["To"], message["Subject"], message["Message-ID"] = sender, to, title, f"<{title}@x>"
        message["Date"] = datetime(2024, 6, day, 12, tzinfo=UTC)
        message.set_content(text)
        (folder / f"{title}.eml").write_bytes(bytes(message))
    with Pkb(tmp_path / "home", environ={"PKB_NOW": "2024-06-19T08:00+00:00"}) as pkb:
        pkb.ingest([folder], embed=False)
        pkb.session.override("me.addresses", "ben@example.org")
        found = pkb.ask(question)
        later = pkb.ask("what did Ben promise to bring")
    assert sorted(source.title for source in found.sources) == titles
    assert (found.text or "").startswith(f"{len(titles)} open item{'s' * (len(titles) > 1)} since 20 May 2024:\n[1] ")
    assert not (later.text or "").startswith("1 open item")


def test_without_knowing_the_user_nothing_is_said_to_be_theirs(tmp_path: Path) -> None:
    (folder := tmp_path / "Mail").mkdir()
    (folder / "a.txt").write_text("Call\nDate: 18 June 2024\n\nAnn: I'll send the list.\nBen: Fine.\n")
    with Pkb(tmp_path / "home", environ={"PKB_NOW": "2024-06-19T08:00+00:00"}) as pkb:
        pkb.ingest([folder], embed=False)
        assert not (pkb.ask("what waits for me").text or "").startswith("1 open item")
