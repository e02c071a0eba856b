"""Who somebody is: what signatures, lines about them and contacts tell, and of whom; questions about it."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from engine.app import Pkb
from engine.ask.contacts import Directory
from engine.ask.keys import understood
from engine.types import Person, Trace
from store.types import Scope

ROB, ANN, KEITH, OTHER = "Rob Cone <rob@oak.example>", "Ann Lee <ann@oak.example>", "k.holt@elm.example", "Keith Marsh"
UMA = "Uma Ford <uma@elm.example>"
LIST, NEWS = "Gil Ray <all@lists.example>", "Una Voss <all@lists.example>"


class Sent(NamedTuple):
    """A mail of the home."""

    sender: str
    to: str
    day: int
    text: str


SIGNED = "Rob Cone\nHead of Parks, North\nOak Services Ltd\n12 Mill Lane\nYork YO1 7HU\n(925) 555-3879\n"
FOOT = (
    "_______________________________\nGardeners mailing list\nList office: 925 555 4000, unsubscribe at lists.example\n"
)
BANK = "USt-IdNr.: DE 123 456 789\nIBAN: DE89 3704 0044 0532 0130 00\nVAT No: 123 456 7890"
MAILS = [
    Sent(ROB, ANN, 1, f"See you there.\n\n{SIGNED}Cell 925 555 1111\nFax (925) 555-3550\nrob@oak.example"),
    Sent(ROB, ANN, 9, f"I agree.\n\n{SIGNED}Cell 925 555 7777\nAssistant: Joan Strand 925 555 2222"),
    Sent(ANN, ROB, 10, "Fine.\n\nAnn\n\n> On 9 June 2024, Rob Cone wrote:\n> I agree.\n>\n> Rob Cone\n> 925 555 9999"),
    Sent(ANN, f"Keith Holt <{KEITH}>", 11, "Please note that Rob Cone can be reached at 925 555 6060.\n\nAnn"),
    Sent(ANN, f"{ROB}, Keith Holt <{KEITH}>", 12, "Keith's cell is 925 555 8888, and Rob's is the old one."),
    Sent(f"{OTHER} <marsh@elm.example>", ROB, 13, "Lost my phone; my wife's cell is 925 555 3333."),
    Sent(f"{OTHER} <marsh@elm.example>", ROB, 14, f"Hello all.\n\nKeith\n\n{FOOT}"),
    Sent(LIST, ROB, 15, "Bring a spade.\n\nGil Ray\n925 555 4444"),
    Sent(NEWS, ROB, 16, "Bring a rake.\n\nUna Voss\n925 555 5555"),
    Sent("R. Cone <rcone@home.example>", ANN, 17, "From home."),
    Sent("Announce <announce@oak.example>", ROB, 18, "The office is shut. Call 925 555 4321."),
    Sent("Desk <desk@elm.example>", ANN, 19, "Uma Ford is away all week, call me at 925 555 0001.\n"),
    Sent("Desk <desk@elm.example>", ANN, 19, "Uma Ford asked for the number of the baker: 925 555 0002."),
    Sent(UMA, ANN, 20, "Let me know when you are there: the inn is 925 555 0003. My old number was 925 555 0004."),
    Sent(UMA, ANN, 21, "Please do not call me at 925 555 0005 any more, my number is 925 555 0006."),
    Sent(UMA, ANN, 22, "My hotel is the Swan, 925 555 0007."),
    *(Sent("Kai Berg <kai@oak.example>", ANN, day, "Fine by me.") for day in range(1, 8)),
    *(Sent("Kai Berg <kai@evil.example>", ANN, day, "Write to me here.") for day in range(20, 25)),
    Sent(UMA, ANN, 23, "Ina Falk or Ola Brink can help: 925 555 0111 and 925 555 0112, respectively."),
    Sent("Liv Moss <liv@oak.example>", ANN, 2, "Here it is.\n\nLiv Moss\nGardener\n925 555 0101"),
    *(Sent("Liv Moss <liv@evil.example>", ROB, day, "Call me.\n\nLiv Moss\n925 555 0102") for day in range(3, 8)),
    Sent(ANN, "Joe Dunn <joe@elm.example>", 9, "Ask Liv Moss, cell 925 555 0103.\n"),
    Sent("Joe Dunn <joe@elm.example>", ANN, 10, "I think that Liv Moss, fax 925 555 0104, knows.\n"),
    Sent("Noa Wren <noa@oak.example>", ANN, 3, "My new address is nwren@elm.example from now on.\n"),
    Sent("Noa Wren <nwren@elm.example>", ANN, 9, "I am there.\n\nNoa Wren\n925 555 0105"),
    Sent("Max Bauer <max@oak.example>", "mbauer@oak.example", 3, "This was for you.\n\nMax Bauer\nCook\n925 555 0201"),
    Sent("Max Bauer <mbauer@oak.example>", ANN, 4, "Fine.\n\nMax Bauer\nBaker\n925 555 0202"),
    Sent("Ida Pool <ida@oak.example>", ANN, 3, "Fine.\n\nIda Pool\n925 555 0106"),
    Sent("Ida Pool <ida@evil.example>", ANN, 9, "My old address was ida@oak.example.\n\nIda Pool\nida@oak.example"),
    Sent("Sol Hart <s.hart@oak.example>", ANN, 3, "Fine by me."),
    Sent("Sol Hart <sol@oak.example>", ANN, 9, "Fine.\n\nSol Hart\n925 555 0107"),
    Sent("Sol Hart <sol2@oak.example>", ANN, 9, "Fine.\n\nSol Hart\n925 555 0108"),
    Sent("Eva Lind <eva@gmail.com>", ANN, 9, "Fine."),
    Sent("Eva Lind <lind@gmail.com>", ANN, 9, "Fine."),
    Sent("Otter Council <office@otter.example>", ANN, 20, "The bridge is shut."),
    Sent("Uwe Kranz <uwe@kranz.example>", ANN, 20, f"Uwe Kranz\nTel.: +49 30 555 1234\n{BANK}"),
    Sent("王芳 <fang@elm.example>", "Fang Wang <fang@elm.example>", 22, "你好"),
]
CARD = "BEGIN:VCARD\nFN:Ben Adler\nTEL;TYPE=WORK,FAX:+49 40 555 1000\nTEL;TYPE=WORK:+49 40 555 1903\nTITLE:Tuner\n"
CARD += "ADR;TYPE=HOME:;;Lindenweg 4;Berlin;;10115;Germany\nBDAY:1984-03-12\nEND:VCARD\n"


@pytest.fixture(name="home", scope="module")
def _home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pkb]:
    folder = tmp_path_factory.mktemp("people")
    (folder / "in").mkdir()
    for number, one in enumerate(MAILS):
        head = f"From: {one.sender}\nTo: {one.to}\nSubject: Note {number}\nMessage-ID: <{number}@x>\n"
        date = f"Date: Sat, {one.day:02} Jun 2024 10:00:00 +0000\n"
        (folder / "in" / f"{number}.eml").write_text(f"{head}{date}\n{one.text}\n")
    (folder / "in" / "own.vcf").write_text(CARD)
    with Pkb(folder / "home", environ={"PKB_NOW": "2024-06-30T09:00:00"}) as pkb:
        pkb.ingest([folder / "in"], embed=False)
        yield pkb


def only(pkb: Pkb, name: str) -> Person:
    (found,) = pkb.people(name)
    return found


def told(person: Person, kind: str) -> list[tuple[str, str, str, bool]]:
    return [(one.value, one.label, one.by, one.older) for one in person.facts if one.kind == kind]


def asked(pkb: Pkb, question: str) -> str | None:
    return pkb.ask(question, cache="off").text


def test_a_signature_tells_what_each_of_its_lines_is(home: Pkb) -> None:
    rob = only(home, "rob cone")
    assert told(rob, "title") == [("Head of Parks, North", "", "", False)]
    assert told(rob, "organisation") == [("Oak Services Ltd", "", "", False)]
    assert told(rob, "address") == [("12 Mill Lane, York YO1 7HU", "", "", False)]
    assert (rob.addresses, rob.wrote, rob.last and rob.last[:10]) == (("rob@oak.example",), 2, "2024-06-18")


def test_the_newest_own_number_comes_first_and_what_others_say_behind(home: Pkb) -> None:
    assert told(only(home, "rob cone"), "phone") == [
        ("(925) 555-3879", "", "", False),
        ("925 555 7777", "mobile", "", False),
        ("925 555 9999", "", "", True),
        ("925 555 1111", "mobile", "", True),
        ("(925) 555-3550", "fax", "", False),
        ("925 555 6060", "", "Ann Lee", True),
    ]


def test_each_fact_has_the_line_that_tells_it_as_its_source(home: Pkb) -> None:
    facts = [fact for name in ("rob cone", "holt", "ben adler") for fact in only(home, name).facts]
    assert facts
    assert all(fact.value.rpartition(", ")[2] in fact.source.quote for fact in facts)


def test_nobody_has_the_number_of_another_that_stands_near(home: Pkb) -> None:
    assert told(only(home, "ann@oak.example"), "phone") == []
    assert told(only(home, "marsh"), "phone") == []
    numbers = {value for value, *_ in told(only(home, "rob cone"), "phone")}
    assert numbers.isdisjoint({"925 555 2222", "925 555 3333", "925 555 4000", "925 555 4321"})


def test_a_first_name_is_that_of_the_only_one_whom_a_mail_names(home: Pkb) -> None:
    assert told(only(home, "holt"), "phone") == [("925 555 8888", "mobile", "Ann Lee", False)]


def test_an_address_from_which_several_write_is_nobodys(home: Pkb) -> None:
    assert told(only(home, "gil ray"), "phone") == [("925 555 4444", "", "", False)]
    assert only(home, "gil ray").addresses == ()


def test_who_may_be_the_same_is_proposed_and_not_joined(home: Pkb) -> None:
    assert only(home, "rob cone").similar == ("r. cone <rcone@home.example>",)
    assert {one.addresses for one in home.people("cone")} == {("rob@oak.example",), ("rcone@home.example",)}


def test_a_contact_tells_by_its_fields(home: Pkb) -> None:
    ben = only(home, "ben")
    assert ben.name == "Ben Adler"
    assert told(ben, "phone") == [("+49 40 555 1000", "fax", "", False), ("+49 40 555 1903", "office", "", False)]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is Rob Cone's cell number?", "925 555 7777 (mobile): Rob Cone <rob@oak.example>"),
        ("What's Rob Cone's fax?", "(925) 555-3550 (fax): Rob Cone <rob@oak.example>"),
        ("email address of Rob Cone", "rob@oak.example: Rob Cone"),
        ("What is Rob Cone's title?", "Head of Parks, North: Rob Cone <rob@oak.example>"),
        ("Who does Rob Cone work for?", "Oak Services Ltd: Rob Cone <rob@oak.example>"),
        ("What is Keith Holt's cell number?", "925 555 8888 (mobile): Keith Holt <k.holt@elm.example>"),
        ("Where does Ben Adler live?", "Lindenweg 4, Berlin, 10115, Germany (home): Ben Adler"),
        ("What is Ben Adler's office number?", "+49 40 555 1903 (office): Ben Adler"),
        ("When is Ben Adler's birthday?", "12 March 1984: Ben Adler"),
        ("What is Rob Cone's pager number?", None),
        ("What is Ann Lee's phone number?", None),
        ("What is Keith Marsh's cell number?", None),
    ],
)
def test_a_question_about_a_person_is_answered_with_whose_it_is(home: Pkb, question: str, answer: str | None) -> None:
    assert asked(home, question) == answer


def test_who_somebody_is_is_told_by_title_organisation_and_mails(home: Pkb) -> None:
    found = home.ask("Who is Rob Cone?", cache="off")
    about = "Head of Parks, North, Oak Services Ltd, wrote 2 documents and received 12, last on 2024-06-18"
    assert (found.text, found.span) == (f"Rob Cone <rob@oak.example>, {about}", "Rob Cone")
    assert [one.quote for one in found.sources] == ["Head of Parks, North", "Oak Services Ltd"]


def test_if_several_people_fit_all_are_named_with_what_is_known_of_each(home: Pkb) -> None:
    head, *rows = (asked(home, "What is Keith's cell number?") or "").split("\n")
    assert head == "The name fits 2 people:"
    assert rows == [
        "Keith Holt <k.holt@elm.example>: 925 555 8888 (mobile)",
        "not found for Keith Marsh <marsh@elm.example>",
    ]


@pytest.mark.parametrize("question", ["Who is coming?", "What is the phone number?", "Who is Zoe Quill?"])
def test_what_names_nobody_is_no_question_about_a_person(home: Pkb, question: str) -> None:
    said = asked(home, question) or ""
    assert "received" not in said
    assert "The name fits" not in said


def test_a_removed_mail_takes_with_it_what_it_told(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number, phone in enumerate(("925 555 1111", "925 555 2222")):
        head = f"From: {ROB}\nTo: {ANN}\nSubject: {number}\nDate: Sat, {number + 1:02} Jun 2024 10:00:00 +0000\n\n"
        (tmp_path / "in" / f"{number}.eml").write_text(f"{head}Yes, {number}.\n\nRob Cone\n{phone}\n")
    with Pkb(tmp_path / "home", environ={"PKB_NOW": "2024-06-30T09:00:00"}) as pkb:
        pkb.ingest([tmp_path / "in"], embed=False)
        assert [value for value, *_ in told(only(pkb, "rob"), "phone")] == ["925 555 2222", "925 555 1111"]
        (tmp_path / "in" / "1.eml").unlink()
        pkb.ingest([tmp_path / "in"], embed=False, prune=True)
        assert [value for value, *_ in told(only(pkb, "rob"), "phone")] == ["925 555 1111"]


def test_a_number_is_a_part_of_a_name_and_an_initial_is_not(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in (2, 7):
        head = (
            f"From: Agent {number} <a{number}@oak.example>\nTo: {ANN}\nDate: Sat, 0{number} Jun 2024 10:00:00 +0000\n\n"
        )
        (tmp_path / "in" / f"{number}.eml").write_text(f"{head}Yes.\n")
    (tmp_path / "in" / "rob.eml").write_text(f"From: {ROB}\nTo: {ANN}\nDate: Sun, 09 Jun 2024 10:00:00 +0000\n\nNo.\n")
    with Pkb(tmp_path / "home", environ={"PKB_NOW": "2024-06-30T09:00:00"}) as pkb:
        pkb.ingest([tmp_path / "in"], embed=False)
        assert (asked(pkb, "what is Agent 7's email?") or "").startswith("a7@oak.example: ")
        assert asked(pkb, "what is Rob J. Cone's email?") == "rob@oak.example: Rob Cone"


def test_a_number_of_something_else_is_nobodys(home: Pkb) -> None:
    assert [value for value, *_ in told(only(home, "uma ford"), "phone")] == ["925 555 0006"]


def test_somebody_whose_name_is_written_in_two_scripts_has_their_address(home: Pkb) -> None:
    assert only(home, "fang wang").addresses == ("fang@elm.example",)


def addresses(pkb: Pkb, name: str) -> list[tuple[str, ...]]:
    return [one.addresses for one in pkb.people(name)]


def test_a_name_with_addresses_at_two_places_is_two_people(home: Pkb) -> None:
    assert addresses(home, "kai berg") == [("kai@oak.example",), ("kai@evil.example",)]
    assert home.people("kai berg")[0].similar == ("kai berg <kai@evil.example>",)


def test_each_of_a_name_has_their_own_number(home: Pkb) -> None:
    assert asked(home, "What is Liv Moss's number?") == (
        "The name fits 2 people:\n"
        "Liv Moss <liv@evil.example>: 925 555 0102\n"
        "Liv Moss <liv@oak.example>: 925 555 0103 (mobile), 925 555 0101"
    )


def test_a_text_with_a_name_is_about_whoever_its_writer_writes_with(home: Pkb) -> None:
    evil, oak, unknown = home.people("liv moss")
    assert (evil.addresses, told(evil, "phone")) == (("liv@evil.example",), [("925 555 0102", "", "", False)])
    assert ("925 555 0103", "mobile", "Ann Lee", False) in told(oak, "phone")
    assert (unknown.addresses, told(unknown, "phone")) == ((), [("925 555 0104", "fax", "Joe Dunn", False)])


def test_of_numbers_of_several_people_in_turn_none_is_told(home: Pkb) -> None:
    assert [home.people(name) for name in ("ina falk", "ola brink")] == [(), ()]


def test_an_address_alone_is_one_of_a_name(home: Pkb) -> None:
    found = [value for value, *_ in told(only(home, "liv@oak.example"), "phone")]
    assert sorted(found) == ["925 555 0101", "925 555 0103"]


def test_the_older_address_tells_the_newer_and_not_the_other_way_round(home: Pkb) -> None:
    assert addresses(home, "noa wren") == [("nwren@elm.example", "noa@oak.example")]
    assert addresses(home, "ida pool") == [("ida@evil.example",), ("ida@oak.example",)]


def test_addresses_of_a_name_at_one_organisation_are_one_persons_but_for_numbered_ones(home: Pkb) -> None:
    assert addresses(home, "sol hart") == [("sol@oak.example", "s.hart@oak.example"), ("sol2@oak.example",)]


def test_two_of_one_name_at_one_organisation_who_write_to_each_other_are_told_apart(home: Pkb) -> None:
    assert sorted(addresses(home, "max bauer")) == [("max@oak.example",), ("mbauer@oak.example",)]
    answer = asked(home, "What is Max Bauer's phone number?") or ""
    assert ("max@oak.example>: 925 555 0201" in answer, "mbauer@oak.example>: 925 555 0202" in answer) == (True, True)


def test_addresses_at_a_provider_are_those_of_several_people(home: Pkb) -> None:
    assert addresses(home, "eva lind") == [("eva@gmail.com",), ("lind@gmail.com",)]


@pytest.mark.parametrize("question", ["What is the council's email address?", "what is the email of the council?"])
def test_a_firm_is_named_without_a_capital(home: Pkb, question: str) -> None:
    assert (asked(home, question) or "").startswith("office@otter.example: Otter Council")


def test_a_domain_is_not_one_person(home: Pkb) -> None:
    assert {"Rob Cone", "Ann Lee"} <= {one.name for one in home.people("@oak.example")}


def test_the_numbers_of_a_bank_or_a_tax_office_are_no_phones(home: Pkb) -> None:
    assert [value for value, *_ in told(only(home, "uwe kranz"), "phone")] == ["+49 30 555 1234"]


def test_tell_me_about_somebody_is_for_a_language_model_to_read_where_there_is_one(home: Pkb) -> None:
    session, trace = home.session, Trace()
    for text, is_left in (("Tell me about Rob Cone", True), ("Who is Rob Cone?", False)):
        question = understood(session.ledger, text, session.now)
        directory = Directory(session.reader, session.catalogue, tuple, Scope(), session.ties)
        found = [directory.find(question, trace, quotes=quotes) for quotes in (True, False)]
        assert [one is None for one in found] == [False, is_left]


def test_a_forgotten_person_is_named_in_no_answer_about_others_of_the_name(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number, sender in enumerate(("Ida Pool <ida@oak.example>", "Ida Pool <pool@elm.example>")):
        head = f"From: {sender}\nTo: {ANN}\nSubject: {number}\nDate: Sat, {number + 1:02} Jun 2024 10:00:00 +0000\n\n"
        (tmp_path / "in" / f"{number}.eml").write_text(head + ("Fine.", "I agreed.\n\nIda Pool\n925 555 0106")[number])
    with Pkb(tmp_path / "home", environ={"PKB_NOW": "2024-06-30T09:00:00"}) as pkb:
        pkb.ingest([tmp_path / "in"], embed=False)
        first = pkb.ask("What is Ida Pool's phone number?")
        assert first.text
        assert first.text.endswith("not found for Ida Pool <ida@oak.example>")
        assert {one.sender for one in first.sources} == {"Ida Pool <ida@oak.example>", "Ida Pool <pool@elm.example>"}
        assert pkb.ask("Who agreed?").sources[0].warnings == ("the name is that of ida@oak.example",)
        assert pkb.forget(pkb.plan_forgetting([], pkb.scope(sender="ida@oak.example"))).questions == 2
    assert not [one for one in (tmp_path / "home").rglob("*") if one.is_file() and b"ida@oak" in one.read_bytes()]
