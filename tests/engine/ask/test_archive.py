"""Exact questions about the archive: the forms, the people, the figures; held against a scan of the same mails."""

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ask.keys import understood
from engine.session import Session
from engine.settings import put
from engine.types import AskOptions, Trace
from store.types import Scope
from tests.engine.ask.small_home import NOW, SmallHome, ask, ingest
from tests.engine.ingest.archive_files import zipped
from tests.engine.ingest.office_files import mail, pdf


class Sent(NamedTuple):
    """A mail of the home."""

    sender: str
    to: str
    day: date
    subject: str
    text: str


GUS, ANN, OTHER = "Gus Perez <gus@oak.example>", "Ann Lee <ann@oak.example>", "Ann Whit <awhit@elm.example>"
HOME, ME, NEWS = "Gus Perez <gus@home.example>", "Mira Quist <mira@example.org>", "Announce <announce@oak.example>"
SENT = [
    Sent(GUS, ME, date(2023, 5, 3), "Lease", "The lease ends in June."),
    Sent(HOME, ME, date(2024, 5, 4), "Re: Lease", "I signed the lease."),
    Sent(GUS, ANN, date(2024, 5, 20), "Lunch", "At noon?"),
    Sent(GUS, ME, date(2024, 6, 2), "Rent", "It is due."),
    Sent(ANN, ME, date(2024, 6, 3), "Rehearsal", "We meet on Friday."),
    Sent(OTHER, ME, date(2024, 6, 4), "Minutes", "Here they are."),
    Sent(NEWS, ME, date(2024, 6, 5), "Newsletter", "Please read."),
    Sent(ME, GUS, date(2024, 6, 6), "Re: Rent", "I have paid."),
]
_FILE = '--x\nContent-Type: application/pdf; name="plan.pdf"\nContent-Disposition: attachment\n\nAA\n--x--\n'


def _eml(number: int, one: Sent) -> str:
    head = f"From: {one.sender}\nTo: {one.to}\nSubject: {one.subject}\nMessage-ID: <{number}@x>\n"
    moment = datetime(one.day.year, one.day.month, one.day.day, 10)
    head += f"Date: {moment:%a, %d %b %Y %H:%M:%S} +0000\n"
    if one.subject != "Rent":
        return f"{head}\n{one.text}\n"
    return f"{head}Content-Type: multipart/mixed; boundary=x\n\n--x\n\n{one.text}\n{_FILE}"


@pytest.fixture(name="session", scope="module")
def _session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    home = SmallHome(tmp_path_factory.mktemp("archive"))
    home.mail.mkdir(parents=True)
    for number, one in enumerate(SENT):
        (home.mail / f"{number}.eml").write_text(_eml(number, one), "utf-8")
    (home.mail / "Budget 2024-06-01.txt").write_text("Priya: The budget is fine.\nGus: Good.\n" * 5, "utf-8")
    opened = home.open()
    ingest(opened, home.mail, vectors=False)
    opened.settings = put(opened.settings, "me.addresses", "mira@example.org")
    yield opened
    opened.ledger.close()


def exact(session: Session, text: str, scope: Scope | None = None) -> str | None:
    """Return the exact answer to a question; None where it falls through."""
    found = session.backend.count(understood(session.ledger, text, NOW), AskOptions(scope or Scope()), Trace())
    return found.fact if found else None


@pytest.mark.parametrize(
    ("question", "begins"),
    [
        ("How many mails did Gus send?", "4 mails from Gus Perez"),
        ("how many emails did Gus send me", "3 mails from Gus Perez"),
        ("How many mails did Gus send in May?", "2 mails from Gus Perez"),
        ("How many mails did Gus send in May 2023?", "1 mail from Gus Perez"),
        ("how many mails did I send this year", "1 mail from you <mira@example.org>"),
        ("How many mails from Gus about the lease?", "2 mails from Gus Perez"),
        ("who wrote to me most about the lease", "Gus Perez <gus@home.example, gus@oak.example>: 2 of 2"),
        ("Who sent me the most mails?", "Gus Perez <gus@home.example, gus@oak.example>: 3 of 6"),
        ("first and last mail from Gus", "Wednesday 3 May 2023: the first mail"),
        ("When did Gus last write to me?", "Sunday 2 June 2024: the last mail"),
        ("list mails from Gus to me since March", "2 mails from Gus Perez"),
        ("attachments from Gus this year", "1 mail from Gus Perez"),
        ("how many attachments did Gus send", "1 attachment in 1 mail"),
        ("which meetings was Priya in", "1 meeting with Priya"),
        ("mails from gus@home.example", "1 mail from Gus Perez <gus@home.example>"),
        ("how many mails did Gus send before June 2023", "1 mail"),
        ("how many mails did Gus send between May 2023 and May 2024", "3 mails"),
        ("How many mails did Gus send in 2022?", "0 mails"),
    ],
)
def test_a_question_that_is_understood_is_counted(session: Session, question: str, begins: str) -> None:
    assert (exact(session, question) or "").startswith(begins)


@pytest.mark.parametrize(
    "question",
    [
        "How many unread mails did Gus send?", "How many mails did Gus send tomorrow?", "How many mails did Zoe send?",
        "How many mails did Gus and Ann send?", "how many messages did Gus send", "who sent the rudest mail",
        "How many mails did Gus send about it?", "How many mails did Gus send about taxes?", "list mails",
        "What did Gus last write to me?", "How many mails did Gus send in early May?", "mails with Gus",
    ],
)  # fmt: skip
def test_a_question_with_a_word_left_falls_through(session: Session, question: str) -> None:
    assert exact(session, question) is None


def test_a_first_name_of_several_people_lists_them(session: Session) -> None:
    told = exact(session, "How many mails did Ann send?") or ""

    assert told.split("\n")[0] == "The name fits 2 people:"
    assert "announce" not in told


def test_a_blank_mail_counts_among_several_people_too(tmp_path: Path) -> None:
    home = SmallHome(tmp_path)
    home.mail.mkdir(parents=True)
    for number, one in enumerate((SENT[4], SENT[5], SENT[4]._replace(subject="", text=""))):
        (home.mail / f"{number}.eml").write_text(_eml(number, one), "utf-8")
    session = home.open()
    ingest(session, home.mail, vectors=False)

    told = (exact(session, "How many mails did Ann send?") or "").split("\n")
    assert sorted(line.split(" <")[0] for line in told[1:]) == ["1 mail from Ann Whit", "2 mails from Ann Lee"]


def test_who_wrote_most_may_have_written_before_the_newest_mails(tmp_path: Path) -> None:
    home = SmallHome(tmp_path)
    home.mail.mkdir(parents=True)
    others = [f"Other {letter} <{letter.lower()}@elm.example>" for letter in "BCDEFGHIJKLMNOPQRSTUVW"]
    for number, sender in enumerate([GUS, GUS, *others]):
        one = Sent(sender, ME, date(2024, 5, 1) + timedelta(number), f"Mail {number}", f"The plan has {number} parts.")
        (home.mail / f"{number}.eml").write_text(_eml(number, one), "utf-8")
    session = home.open()
    ingest(session, home.mail, vectors=False)

    asked = understood(session.ledger, "Who sent the most mails to Mira?", NOW)
    found = session.backend.count(asked, AskOptions(), Trace())
    assert found
    assert found.fact.startswith("Gus Perez <gus@oak.example>: 2 of 24 mails")
    assert [one.hits[0].title for one in found.passages] == ["Mail 1"]


def test_the_attachments_are_named(session: Session) -> None:
    assert (exact(session, "attachments from Gus") or "").endswith("Sunday 2 June 2024 · Rent · plan.pdf")


def test_an_attachment_counts_once_in_each_mail_whatever_it_holds(tmp_path: Path) -> None:
    home, inside = SmallHome(tmp_path), zipped({"a.txt": b"x", "b.pdf": pdf("One")})
    home.mail.mkdir(parents=True)
    files = [("a.pdf", pdf("One", "Two")), ("b.rtf", rb"{\rtf1 Dear Ann}"), ("c.zip", inside), ("d.csv", b"e,f")]
    (home.mail / "1.eml").write_bytes(mail(*files, ("n.txt", b"[attachment: o.txt]\nx")))
    (home.mail / "2.eml").write_bytes(mail(("d.csv", b"e,f"), name="2", kind="text/csv"))
    session = home.open()
    ingest(session, home.mail, vectors=False)

    assert (exact(session, "how many attachments did Ann send") or "").startswith("6 attachments in 2 mails ")
    assert (exact(session, "how many mails with attachments from Ann") or "").startswith("2 mails with attachments ")


def test_a_filter_limits_an_exact_question(session: Session) -> None:
    assert (exact(session, "how many mails did Gus send", Scope(recipient="ann")) or "").startswith("1 mail ")
    assert exact(session, "how many mails did Gus send", Scope(sender="ann")) is None


def test_in_a_collection_people_of_others_are_not_known(tmp_path: Path) -> None:
    home = SmallHome(tmp_path)
    home.write("1", "Hello.")
    session = home.open()
    ingest(session, home.mail, vectors=False)
    (other := tmp_path / "other").mkdir()
    (other / "1.eml").write_text(_eml(1, SENT[2]), "utf-8")
    ingest(session, other, "other", vectors=False)

    assert (exact(session, "how many mails did Gus send") or "").startswith("1 mail from Gus Perez")
    assert exact(session, "how many mails did Gus send", Scope(collection="mail")) is None
    assert exact(session, "how many mails from gus@oak.example", Scope(collection="mail")) is None
    assert (exact(session, "how many mails did Gus send", Scope(collection="other")) or "").startswith("1 mail")


def test_without_a_known_address_a_question_about_my_mail_falls_through(session: Session) -> None:
    trace, other = Trace(), SmallHome(Path(session.home.data).parent).open()
    other.settings = put(other.settings, "me.addresses", "")
    asked = understood(other.ledger, "how many mails did I send to Zoe", NOW)

    assert other.backend.count(asked, AskOptions(), trace) is None
    assert "ann@oak.example" not in [one.address for one in other.guesses if one.is_clear]


def test_the_guess_is_who_is_in_most_mails(session: Session) -> None:
    assert session.guesses[0].address == "mira@example.org"
    assert session.guesses[0].is_clear


@pytest.mark.parametrize(
    ("field", "is_told"),
    [
        ("Delivered-To: ann@work.example", True),
        ("X-Original-To: <Ann@Work.example>", True),
        ("Envelope-to: ann@work.example", True),
        ("Original-Recipient: rfc822;ann@work.example", True),
        ("X-Gm-Original-To: ann@work.example", True),
        ("Delivered-To: ann@work.example\nDelivered-To: all@lists.example", True),
        ("Delivered-To: box17@host.internal", False),  # which nobody writes to
        ("X-Complaints-To: ann@work.example", False),
    ],
)
def test_the_guess_is_whom_servers_delivered_mail_to(tmp_path: Path, field: str, is_told: bool) -> None:
    for number in range(6):
        to = "ann@work.example" if number == 0 else "all@lists.example"
        head = f"{field}\nFrom: Gus <gus@oak.example>\nTo: {to}\nSubject: {number}\nMessage-ID: <{number}@x>\n"
        (tmp_path / "mail").mkdir(exist_ok=True)
        (tmp_path / "mail" / f"{number}.eml").write_text(f"{head}\nHello.\n")
    session = SmallHome(tmp_path).open()
    ingest(session, tmp_path / "mail", vectors=False)

    assert ("ann@work.example" in session.me) == is_told


def test_the_same_question_is_an_exact_hit_until_mail_comes(tmp_path: Path) -> None:
    home = SmallHome(tmp_path)
    home.write("1", "Hello.")
    session = home.open()
    ingest(session, home.mail, vectors=False)
    question = "How many mails did Ida send?"
    first, again = ask(session, question).reply, ask(session, question).reply
    home.write("2", "Hello again.", day=4)
    ingest(session, home.mail, vectors=False)
    after = ask(session, question).reply

    assert (first.tier, again.tier, after.tier) == ("full", "exact", "full")
    assert (first.span, again.span, after.span) == ("1", "1", "2")
    assert [source.title for source in after.sources] == ["News", "News"]


PEOPLE = {
    "Gus": {GUS, HOME},
    "Gus Perez": {GUS, HOME},
    "ann@oak.example": {ANN},
    "Whit": {OTHER},
    "Announce": {NEWS},
    "me": {ME},
}
TIMES = {
    "": (date.min, date.max),
    " in 2023": (date(2023, 1, 1), date(2023, 12, 31)),
    " since 2024-05-10": (date(2024, 5, 10), date.max),
    " in May 2024": (date(2024, 5, 1), date(2024, 5, 31)),
    " before June 2024": (date.min, date(2024, 5, 31)),
}


@given(by=st.sampled_from([*PEOPLE][:-1]), to=st.sampled_from(["", *PEOPLE]), time=st.sampled_from([*TIMES]))
def test_a_count_is_that_of_a_scan(session: Session, by: str, to: str, time: str) -> None:
    first, last = TIMES[time]
    found = [one for one in SENT if one.sender in PEOPLE[by] and first <= one.day <= last]
    found = [one for one in found if not to or one.to in PEOPLE[to]]
    told = exact(session, f"how many mails are there from {by}{f' to {to}' if to else ''}{time}?") or ""

    assert told.split()[:1] == [str(len(found))]


def test_a_month_that_may_be_a_person_and_days_in_the_wrong_order_fall_through(tmp_path: Path) -> None:
    home = SmallHome(tmp_path)
    home.mail.mkdir(parents=True)
    (home.mail / "1.eml").write_text(
        _eml(1, Sent("May Chen <may@elm.example>", ME, date(2024, 5, 3), "A", "B")), "utf-8"
    )
    session = home.open()
    ingest(session, home.mail, vectors=False)

    assert exact(session, "how many mails from May") is None
    assert exact(session, "how many mails between December and January 2024") is None
    assert [
        (exact(session, f"how many mails {when}") or "")[0] for when in ("from May 2024", "in May", "from June")
    ] == [*"110"]


def test_days_are_those_before_now(session: Session) -> None:
    told = exact(session, "how many mails did Gus send yesterday") or ""
    yesterday = NOW.date() - timedelta(1)

    assert told.endswith(f"on {yesterday.day} June 2024.")
