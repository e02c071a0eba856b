"""Replies in the forms of programs give one's own words, and who is quoted, when, with which words."""

from datetime import datetime, timedelta, timezone
from email.message import EmailMessage

import pytest

from engine.ingest.mail import read_mail
from engine.ingest.types import ParseLimits
from store.types import DocumentPassage
from tests.engine.ingest.replies import PROGRAMS, Reply, author

ZONE = timezone(timedelta(hours=2))
ASKED = datetime(2025, 6, 3, 22, 10, tzinfo=ZONE)
OWN = "Yes, I bring the ladder.\nThe paint as well.\n\nSee you at the shed"
QUOTED = "Will you bring the ladder?\n\nThe blue one, as the other is broken"
PEOPLE = [
    ("Ann Lee", "ann@example.org"),
    ("Annemarie Lindqvist Torres", "annemarie.lindqvist.torres@letters.example.org"),
]
FORMS = [(program, form) for program, (_, forms) in PROGRAMS.items() for form in forms]
DAYS_ALONE = {"of 2013, any language"}
UNDATED = {"Afrikaans, not translated"}


def passages(body: str) -> tuple[DocumentPassage, ...]:
    """Return the passages of a reply that has this body."""
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "Bob Ray <bob@example.org>", "ann@example.org", "Re: Shed"
    mail["Date"], mail["In-Reply-To"] = "Thu, 5 Jun 2025 09:00:00 +0200", "<a@example.org>"
    mail.set_content(body, subtype="html" if body.startswith("<") else "plain", cte="8bit")
    document = read_mail(mail.as_bytes(), ParseLimits()).document
    return document.passages if document else ()


def said(found: tuple[DocumentPassage, ...], role: str) -> str:
    return " ".join(word for one in found if one.role == role for word in one.text.split() if word != ">")


@pytest.mark.parametrize(("program", "form"), FORMS)
def test_a_reply_gives_ones_own_words_and_whom_it_quotes(program: str, form: str) -> None:
    write, forms = PROGRAMS[program]
    for name, address in PEOPLE:
        reply = Reply(OWN, QUOTED, name, address)
        for arrangement, body in write(reply, forms[form]).items():
            found = passages(body)
            last = [one for one in found if one.role == "quote"][-1]
            assert said(found, "body") == " ".join(OWN.split()), (arrangement, body)
            assert last.text.lstrip("> ") == QUOTED.split("\n")[-1], arrangement
            assert last.author == author(reply, forms[form]), arrangement
            assert_asked(last.written, form)


def assert_asked(written: datetime | None, form: str) -> None:
    if form in DAYS_ALONE:
        assert (written and written.date()) == ASKED.date()
    else:
        assert written == (None if form in UNDATED else ASKED)
