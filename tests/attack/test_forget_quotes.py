"""Attacks on `pkb forget`: text that stays behind in a quote that nobody recognises, or goes with a forged message."""

import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.app import Pkb
from engine.forget import Related
from store.types import Scope

WAITS = "The Zebulonite shipment waits in locker Brambleweir until the customs officer from Tallinn has counted it."
PAYS = "Please do not tell Ottoline that her cousin pays eighteen thousand crowns for the crates."
BRING = "Bring the green ledger, two padlocks and the letter of Doctor Quillfeather."
TEXT = f"Dear Ruth,\n\n{WAITS} {PAYS}\n{BRING}\n\nThanks, see you tomorrow.\nQuillon"
NAMED = "hidden@example.org"


def mail(text: str, number: str, title: str = "Re: papers", who: str = "ruth", day: int = 10, extra: str = "") -> str:
    return (
        f"From: {who} <{who}@example.org>\nTo: Bo <bo@example.org>\nMessage-ID: <{number}@example.org>\n"
        f"Date: {day:02} Mar 2024 10:00:00 +0000\nSubject: {title}\n{extra}\n{text}\n"
    )


def marked(text: str, mark: str = "> ") -> str:
    return "\n".join(mark + line for line in text.split("\n"))


HTML = "Content-Type: text/html; charset=utf-8\n"
UTF8 = "Content-Type: text/plain; charset=utf-8\n"
PARTS = "Content-Type: multipart/mixed; boundary=x\n"
NOTE = f"--x\n\nSee below.\n--x\nContent-Disposition: attachment; filename=a.txt\n\n{PAYS}\n--x--"
SOFT = marked(PAYS.replace(" crowns", " \ncrowns"))
OF_A_DIGEST = (
    f"{'-' * 70}\n\nMessage: 1\nFrom: Quillon\n\n{TEXT}\n\n{'-' * 30}\n\nMessage: 2\nFrom: Bo\n\nWho has the kettle?"
)
QUOTES = {
    "whole": mail(f"Done.\n\nOn 9 Mar 2024, Quillon wrote:\n{marked(TEXT)}", "w1"),
    "interleaved": mail(f"{marked(WAITS)}\n\nYes, I know.\n\n{marked(PAYS)}\n\nI will not.", "w2"),
    "one sentence": mail(f"> {BRING}\n\nI have only one of those.", "w3"),
    "end cut off": mail(f"> {WAITS[:70]}\n\nSince when?", "w4"),
    "pasted": mail(f"Quillon says this:\n\n{WAITS} {PAYS}\n\nOdd, is it not?", "w5", "News", "ann"),
    "other marks": mail(f"He wrote “{WAITS.replace(',', ' –')[:-1]}…”, no more", "w6", "Customs", "ann", extra=UTF8),
    "wrapped": mail(f"{marked(textwrap.fill(TEXT, 38), '> > ')}\n\nOK", "w7"),
    "original message": mail(f"Fine.\n\n-----Original Message-----\nFrom: Quillon\nTo: Ruth\n\n{TEXT}", "w8"),
    "forwarded": mail(f"FYI\n\n---------- Forwarded message ----------\nFrom: Quillon\n\n{TEXT}", "w9", "Fwd: papers"),
    "blockquote": mail(f"<p>I see.</p><blockquote>{WAITS}<br>{BRING}</blockquote>", "w10", extra=HTML),
    "tags in words": mail(f"<p>You said: {WAITS.replace('locker', '<b>lo</b>cker')}</p>", "w11", "So", extra=HTML),
    "translated header": mail(f"Gut.\n\nVon: Quillon\nGesendet: 9. März 2024\nAn: Ruth\n\n{TEXT}", "w12", extra=UTF8),
    "elisions": mail(f"> {WAITS[:51]} [...]\n> ... her cousin pays eighteen thousand crowns ...\n\nReally?", "w13"),
    "capitals": mail(f"HE WROTE: {WAITS.upper()}", "w14", "LOUD", "ann"),
    "digest": mail(OF_A_DIGEST, "w15", "Papers Digest, Vol 3", "list", 11),
    "attachment": mail(NOTE, "w16", "Minutes", "ann", extra=PARTS),
    "initials": mail("\n".join(f"QF> {line}" for line in textwrap.wrap(WAITS, 60)), "w17"),
    "soft line ends": mail(f"Hm.\n\n{SOFT}", "w18"),
    "names and marks": mail("\n".join(f"Quillon> {line}" for line in textwrap.wrap(PAYS, 24)), "w20"),
    "hyphens": mail(
        WAITS.replace("Zebu", "Zebu-\n").replace("Bramble", "Bramble-\n").replace("Tal", "Tal-\n"), "w21", "So"
    ),
    "hyphens behind marks": mail(marked(PAYS.replace("Otto", "Otto-\n").replace("cro", "cro-\n")), "w22", "So"),
    "numbers": mail("\n".join(f"{at} {one}" for at, one in enumerate(textwrap.wrap(PAYS, 24), 1)), "w23", "So"),
    "numbers and signs": mail("\n".join(f"{at:03}: {one}" for at, one in enumerate(textwrap.wrap(PAYS, 24))), "w24"),
    "no width": mail(
        WAITS.replace("bu", "b\u200bu").replace("am", "a\u00adm").replace("ff", "f\u2060f"), "w25", extra=UTF8
    ),
    "cut by answers": mail(
        "> The Zebulonite shipment waits\n\nwhat?\n\n> in locker Brambleweir until\n\nno!\n\n> the customs officer",
        "w26",
    ),
    "cut by deep answers": mail(
        ">> The Zebulonite shipment waits\n> hm\n>> in locker Brambleweir\nno!\n> > until the customs", "w27"
    ),
    "in a subject": mail("Is that so?", "w28", WAITS),
    "a log of a chat": mail(
        "[10:01] Bo: The Zebulonite shipment waits\n[10:02] Ann: yes\n[10:03] Bo: in locker Brambleweir until",
        "w29",
        "Log",
    ),
    "to somebody else": mail(f'What does "{WAITS[52:]}" mean?', "w19", "Tallinn", "bo"),
}
OTHERS = {
    "thanks": mail("Hello,\n\nlunch at one.\n\nThanks, see you tomorrow.\nRuth", "i1", "lunch"),
    "only thanks": mail("Thanks, see you tomorrow.", "i2", "tea", "ann"),
    "reply without a quote": mail("Will do.", "i3"),
    "its words in another order": mail("The crates of Ottoline wait. The officer from Tallinn pays the cousin.", "i4"),
    "not a word": mail("The kettle is in the green cupboard.", "i5", "tea"),
}
MEETING = """WEBVTT

00:00:01.000 --> 00:00:09.000
<v Ruth>Quillon wrote me the Zebulonite shipment waits in locker

00:00:09.000 --> 00:00:12.000
<v Ruth>Brambleweir until the customs officer from Tallinn has counted it
"""
TURNS = """Meeting: papers
Date: 2024-03-12

Bo: She told me the Zebulonite shipment waits in.
Ann: Locker Brambleweir.
Bo: Until the customs officer from Tallinn has counted it, yes.
"""
FOOTER = f"{TEXT}\n{'_' * 47}\nPapers mailing list\nhttps://lists.example.org/papers"
BANNER = f"CAUTION: this mail came from outside.\n\n{TEXT}"
PLAIN_SPAM = "Your parcel could not be delivered. Pay the fee of two euro at the link below."
FORGED = {
    "another text": PLAIN_SPAM,
    "its beginning": f"{TEXT[:120]}\n\n{PLAIN_SPAM}",
    "one word changed": TEXT.replace("Brambleweir", "Lockdown"),
    "all of it and a link": f"{TEXT}\n\n{PLAIN_SPAM}",
}


@pytest.fixture(scope="module")
def pkb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pkb]:
    """Return a home with a message, all its quotes, and messages that do not quote it."""
    folder = tmp_path_factory.mktemp("quotes")
    (folder / "hidden.eml").write_text(mail(TEXT, "hidden", "papers", "quillon", 9))
    for name, text in {**QUOTES, **OTHERS}.items():
        (folder / f"{name}.eml").write_text(text)
    (folder / "meeting.vtt").write_text(MEETING)
    (folder / "turns.txt").write_text(TURNS)
    with Pkb(folder / "home") as opened:
        opened.ingest([folder])
        yield opened


def named(pkb: Pkb, related: tuple[Related, ...]) -> set[str]:
    return {Path(place.path).stem for one in related for place in pkb.session.catalogue.places(one.row["id"])}


def test_every_quote_is_named_before_anything_is_done_and_nothing_else(pkb: Pkb) -> None:
    planned = pkb.plan_forgetting([NAMED], Scope())
    assert (len(planned.documents), planned.quoted_by) == (1, len(QUOTES) + 2)
    assert named(pkb, planned.related) == {*QUOTES, "meeting", "turns"}


def test_quoting_takes_all_that_were_named(pkb: Pkb) -> None:
    planned = pkb.plan_forgetting([NAMED], Scope(), quoting=True)
    assert (len(planned.documents), planned.quoted_by) == (len(QUOTES) + 3, 0)


def test_the_reason_says_how_much_is_quoted(pkb: Pkb) -> None:
    planned = pkb.plan_forgetting([NAMED], Scope())
    reasons = {path: one.reason for one in planned.related for path in named(pkb, (one,))}
    assert (reasons["interleaved"], reasons["pasted"]) == ("replies, quotes 2 sentences", "quotes 2 sentences")


def test_a_message_does_not_quote_what_was_written_after_it(pkb: Pkb) -> None:
    planned = pkb.plan_forgetting(["w15@example.org"], Scope(), quoting=True)
    assert {one.stays for one in planned.related if named(pkb, (one,)) == {"hidden"}} == {"older"}


def test_what_many_write_is_nobodys_sentence(tmp_path: Path) -> None:
    notice = "This message is meant for its addressee alone and may hold privileged information of Quillon and sons."
    for number in range(9):
        text = f"Item {number} is done.\n\n{notice}"
        (tmp_path / f"{number}.eml").write_text(mail(text, f"n{number}", f"Item {number}", f"w{number}", number + 1))
    with Pkb(tmp_path / "home") as pkb:
        pkb.ingest([tmp_path])
        assert pkb.plan_forgetting(["n7@example.org"], Scope()).related == ()


@pytest.mark.parametrize("forged", FORGED)
def test_a_forged_copy_does_not_take_the_message_with_it_nor_keep_it_out(tmp_path: Path, forged: str) -> None:
    (tmp_path / "spam.eml").write_text(mail(FORGED[forged], "hidden", "papers", "quillon", 9))
    (tmp_path / "real.eml").write_text(mail(TEXT, "hidden", "papers", "quillon", 9))
    with Pkb(tmp_path / "home") as pkb:
        pkb.ingest([tmp_path])
        planned = pkb.plan_forgetting([str(tmp_path / "spam.eml")], Scope())
        assert [one.stays for one in planned.related] == ["same Message-ID, another text"]
        assert pkb.forget(planned).documents == 1
        (tmp_path / "real.eml").rename(tmp_path / "moved.eml")
        (tmp_path / "list.eml").write_text(mail(FOOTER, "hidden", "[papers] papers", "quillon", 9))
        assert pkb.ingest([tmp_path]).kept == 1
        assert pkb.session.catalogue.counts()["documents"] == 2


REAL = "Hi Ben,\n\nthe boathouse rent is eight hundred crowns a month, and the key hangs behind the green door."
SHORT = "Yes, fine with me."
BORROWED = {  # the real text, what the forged message says, its subject, and whose it claims to be
    "a greeting": (REAL, "Hi Ben,", "Rent", "eve"),
    "a greeting, sender and all": (REAL, "Hi Ben,", "Rent", "ann"),
    "a first part": (REAL, REAL[:70], "Rent", "ann"),
    "a last part": (REAL, REAL[60:], "Rent", "eve"),
    "all but the end": (REAL, REAL[:-12], "Rent", "ann"),
    "all of it by somebody else": (REAL, REAL, "Rent", "eve"),
    "more in front": (REAL, f"Buy pills at pills dot example.\n\n{REAL}", "Rent", "ann"),
    "more behind a line": (REAL, f"{REAL}\n\n{'_' * 47}\nBuy pills at pills dot example.", "Pills", "ann"),
    "more behind a line, its subject": (REAL, f"{REAL}\n\n{'_' * 47}\nBuy pills at pills dot example.", "Rent", "ann"),
    "nothing": (SHORT, "", "Rent", "ann"),
    "a word of a short one": (SHORT, "fine", "Yes", "ann"),
    "a short one, by somebody else": (SHORT, SHORT, "Rent", "eve"),
    "a subject": (SHORT, SHORT, "Pills", "ann"),
}


@pytest.mark.parametrize("forged", BORROWED)
def test_a_forged_message_takes_no_other_with_it_and_keeps_none_out(tmp_path: Path, forged: str) -> None:
    real, text, title, who = BORROWED[forged]
    (tmp_path / "spam.eml").write_text(mail(text, "same", title, who, 9))
    (tmp_path / "real.eml").write_text(mail(real, "same", "Rent", "ann", 9))
    with Pkb(tmp_path / "home") as pkb:
        pkb.ingest([tmp_path])
        planned = pkb.plan_forgetting([str(tmp_path / "spam.eml")], Scope())
        assert [one.stays for one in planned.related] == ["same Message-ID, another text"]
        pkb.forget(planned)
        (tmp_path / "real.eml").unlink()
        pkb.ingest([tmp_path])
        (tmp_path / "again.eml").write_text(f"X-Seen: yes\n{mail(real, 'same', 'Rent', 'ann', 9)}")
        assert (pkb.ingest([tmp_path]).forgotten, pkb.session.catalogue.counts()["documents"]) == (0, 1)


@pytest.mark.parametrize("first", [True, False])
def test_true_copies_go_with_a_message_and_are_kept_out_later(tmp_path: Path, first: bool) -> None:
    copies = {
        "list": mail(FOOTER, "hidden", "[papers] papers", "papers", 9).replace("To: Bo <bo@", "To: Papers <papers@"),
        "banner": mail(BANNER, "hidden", "papers", "quillon", 9),
        "encoded": mail(f"<p>{TEXT.replace(chr(10), '<br>')}</p>", "hidden", "papers", "quillon", 10, HTML),
    }
    (tmp_path / "real.eml").write_text(mail(TEXT, "hidden", "papers", "quillon", 9))
    with Pkb(tmp_path / "home") as pkb:
        if first:
            _ = [(tmp_path / f"{name}.eml").write_text(text) for name, text in copies.items()]
        pkb.ingest([tmp_path])
        planned = pkb.plan_forgetting([str(tmp_path / "real.eml")], Scope())
        assert len(planned.documents) == (4 if first else 1)
        pkb.forget(planned)
        for name in ("list", "encoded"):
            (tmp_path / f"{name}2.eml").write_text(f"X-Seen: yes\n{copies[name]}")
        assert (pkb.ingest([tmp_path]).forgotten, pkb.session.catalogue.counts()["documents"]) == (2, 0)


def test_a_source_is_forgotten_by_its_number_and_not_the_message_whose_id_it_forged(tmp_path: Path) -> None:
    spam = mail("The lockbox code of Brambleweir is 4711, says the spam.", "hidden", "papers", "quillon", 9)
    messages = [mail(TEXT, "hidden", "papers", "quillon", 9), spam]
    (tmp_path / "all.mbox").write_text("".join(f"From x@y Sat Mar  9 10:00:00 2024\n{one}\n" for one in messages))
    with Pkb(tmp_path / "home") as pkb:
        pkb.ingest([tmp_path])
        pkb.ask("What is the lockbox code of Brambleweir?")
        planned = pkb.plan_forgetting(["1"], Scope())
        assert (len(planned.documents), len(planned.related)) == (1, 1)
