"""Mails that want to be somebody else's, another mail, or none: each is marked, kept apart, and keeps its words."""

import pytest

from engine.ingest.mail import read_mail
from engine.ingest.types import ParseLimits
from engine.text.people import domain_of, header_warnings
from store.catalog import recount_people
from tests.attack.lab import ANN, BEN, EVIL, Lab, mail

FEE = "The boathouse rent is 900 euros."
KNOWN = {
    f"known {day}.eml": mail(f"Rehearsal {day} is in the hall.", day=f"2024-05-{day:02}T10:00+00:00", title="Singing")
    for day in (1, 2, 3)
}


def plain(*more: str, sender: str = ANN, body: str = FEE) -> bytes:
    return mail(body, *more, sender=sender)


LIST = "List-Post: <mailto:l@evil.example>"
# Each pretends to be Ann's; what reads it must say that something is odd.
FORGED = {
    "another country's second level": plain("Reply-To: eve@evil.co.uk", sender="Ann Whitlock <ann@choir.co.uk>"),
    "another host of one company": plain("Reply-To: eve@evil.com.au", sender="Ann Whitlock <ann@choir.com.au>"),
    "a list that the mail names itself": plain(LIST, f"Reply-To: {EVIL}", "To: b@x.example, l@evil.example"),
    "a list with its own sender": plain(LIST, "Sender: eve@other.example", "To: l@evil.example"),
    "the name in X-From": plain("X-From: Ann Whitlock", sender=EVIL),
    "two addresses in one pair of brackets": plain(sender=f"Ann Whitlock <ann@choir.example {EVIL}>"),
    "two mailboxes, the known one last": plain(sender=f"Eve <{EVIL}>, {ANN}"),
    "a comment in the address": plain(sender="ann@choir.example(x)@evil.example"),
    "quotes in the local part": plain(sender='Ann Whitlock <"ann@choir.example"@evil.example>'),
    "a percent": plain(sender="Ann Whitlock <ann%choir.example@evil.example>"),
    "an encoded address": plain(sender=f"=?utf-8?q?Ann_Whitlock_=3Cann=40choir.example=3E?= <{EVIL}>"),
    "a name in small capitals": plain(sender=f"Aɴɴ Whitlock <{EVIL}>"),
    "a name with a Cherokee letter": plain(sender=f"Ꭺnn Whitlock <{EVIL}>"),
    "a name with blanks of other widths": plain(sender=f"Ann\u2009\u00a0Whitlock <{EVIL}>"),
    "a name with a title": plain(sender=f"Dr. Ann Whitlock <{EVIL}>"),
    "a mirrored domain": plain(sender="Ann Whitlock <ann@example.choir>"),
    "a subdomain of another": plain(sender="Ann Whitlock <ann@choir.example.evil.example>"),
    "a server that could not confirm it": plain("Authentication-Results: mx; dkim=fail; dmarc=fail"),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_sender_is_marked(lab: Lab, name: str) -> None:
    lab.read(KNOWN)
    lab.later(days=2)
    lab.read({"forged.eml": FORGED[name]})
    (shown,) = lab.show("forged.eml")
    assert shown.get("warnings"), shown["sender"]


def test_whoever_wrote_first_stays_the_first_when_their_only_mail_is_edited(lab: Lab) -> None:
    lab.read({"first.eml": plain()})
    with lab.open() as pkb:  # a year ago
        ledger = pkb.session.lasting_ledger
        with ledger.transaction():
            ledger.rows.execute("UPDATE provenance SET seen = '2025-01-08T00:00:00+00:00'")
            recount_people(ledger)
    lab.read({"second.eml": plain(sender="Ann Whitlock <ann@evil.example>", body="Pay the rent to another account.")})
    lab.read({"first.eml": plain(body="The boathouse rent is 950 euros.")})
    warned = [lab.show(name)[0]["warnings"] for name in ("first.eml", "second.eml")]
    assert warned == [[], ["the name is that of ann@choir.example"]]


def test_one_domain_of_a_country_is_not_that_of_all_its_companies() -> None:
    assert domain_of("a@mail.choir.co.uk") == "choir.co.uk"
    assert domain_of("a@b.choir.example") == "choir.example"
    assert domain_of("a@list.uni-bonn.de") == "uni-bonn.de"
    assert header_warnings([("Ann", "a@choir.co.uk")], ["b@mail.choir.co.uk"], ["c@lists.choir.co.uk"]) != []
    assert header_warnings([("Ann", "a@choir.co.uk")], [], ["c@lists.choir.co.uk"]) == []


SAME_ID = "Message-ID: <1@choir.example>"
PARTS, FILE = "Content-Type: multipart/mixed; boundary=a", "Content-Disposition: attachment; filename=x.txt"
BY_EVE = f"Eve <{EVIL}>"
TWINS = {
    "the same Message-ID": (plain(SAME_ID), plain(SAME_ID, body="The boathouse rent is 5 euros.", sender=BY_EVE)),
    "the same but for a word": (plain(), plain(body="The boathouse rent is 901 euros.")),
    "the same but for an attachment": (
        plain(),
        plain(PARTS, body=f"--a\n\n{FEE}\n--a\n{FILE}\n\nNo, 5 euros.\n--a--"),
    ),
    "a null that shifts the fields": (mail("b", title="t"), mail("t\0b", title="")),
    "a title in the body": (mail("", title="The rent is 900 euros"), mail("The rent is 900 euros", title="")),
    "the same but for who sent it": (plain(), plain(sender=f"Ann Whitlock <{EVIL}>")),
    "the same but for the second": (plain(), mail(FEE, day="2024-06-05T10:00:01+00:00")),
}


@pytest.mark.parametrize("name", TWINS)
def test_no_mail_takes_the_place_of_another(lab: Lab, name: str) -> None:
    one, other = TWINS[name]
    lab.read({"one.eml": one, "other.eml": other})
    parsed = [read_mail(raw, ParseLimits()).document for raw in (one, other)]
    shown = [lab.show("one.eml")[0], lab.show("other.eml")[0]]
    assert len({document.id for document in parsed if document}) == 2
    assert [row["path"] for row in shown] == [str(lab.mail / "one.eml"), str(lab.mail / "other.eml")]
    assert [row["text"] for row in shown] == [document.text for document in parsed if document]


def test_a_later_mail_with_the_same_message_id_hides_no_earlier_one(lab: Lab) -> None:
    lab.read({"one.eml": plain(SAME_ID)})
    assert "900" in (lab.ask("How much is the boathouse rent?").text or "")
    lab.read({"two.eml": plain(SAME_ID, body="Nothing here.", sender=f"Eve <{EVIL}>")})
    assert "900" in (lab.ask("How much is the boathouse rent?").text or "")
    assert lab.show("one.eml")[0]["text"] == FEE


PAYS = "I will pay the rent of 900 euros."
QUOTED = f"From: {BEN}\nSent: Monday, June 3, 2024 10:00 AM\nTo: Eve\nSubject: Rent\n\n{PAYS}"
ATTACHED = f"From: {BEN}\nDate: Mon, 3 Jun 2024 10:00:00 +0000\nSubject: Rent\n\n{PAYS}"
SPEAKERS = {
    "a turn in a mail": plain(body=f"Minutes:\n\nBen: {PAYS}\n\nAnn: agreed", sender=BY_EVE),
    "a quoted header": plain(body=QUOTED, sender=BY_EVE),
    "an attached message": plain("Content-Type: message/rfc822", body=ATTACHED, sender=BY_EVE),
}


@pytest.mark.parametrize("name", SPEAKERS)
def test_what_a_mail_says_that_others_said_counts_as_its_senders(lab: Lab, name: str) -> None:
    lab.read({"x.eml": SPEAKERS[name]})
    with lab.open() as pkb:
        found = [one for one in pkb.search("pay the rent of 900 euros") if "900" in one.quote]
        mine = pkb.search("pay the rent of 900 euros", sender="ben@choir.example")
    assert found
    assert all(EVIL in one.sender for one in found)
    assert mine == []
