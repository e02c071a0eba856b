"""Roles of passages: the writer's own text, quotes, forwards and signatures."""

from datetime import UTC, datetime, timedelta

import pytest
import quotequail
from hypothesis import given
from hypothesis import strategies as st

from engine.ingest.quotes import IN_FORWARD, IN_NEW_MAIL, IN_REPLY, QuoteRoles, passages_of
from tests.effort import examples

WHO = "Ann Lee <ann@x.org>"
LETTERS = {"body": "b", "quote": "q", "forward": "f", "signature": "s"}


def roles(text: str, quotes: QuoteRoles = IN_REPLY) -> str:
    """Return one letter for each passage."""
    return "".join(LETTERS[passage.role] for passage in passages_of(text, quotes))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Yes.\n\nOn Fri, 3 May 2024 at 10:00, Ann <ann@x.org> wrote:\n> Will you come?", "bq"),
        ("On Fri, 3 May 2024, Ann wrote:\n\n> one\n\nyes\n\n> two\n\nno", "qqbqb"),
        ("Yes.\n\nOn Fri, 3 May 2024 at 10:00, Ann\n<ann@x.org> wrote:\n\nWill you come?", "bqq"),
        ("Ja.\n\nAm 03.05.2024 um 10:00 schrieb Ann:\n> Kommst du?", "bq"),
        ("Oui.\n\nLe 3 mai 2024 à 10:00, Ann a écrit :\n> Tu viens ?", "bq"),
        ("Sí.\n\nEl vie, 3 may 2024 a las 10:00, Ann (<ann@x.org>) escribió:\n\n¿Vienes?", "bqq"),
        ("好。\n\n在 2024年5月3日，Ann <ann@x.org> 写道：\n\n来吗？", "bqq"),
        ("Да.\n\nПт, 3 мая 2024 г. в 10:00, Ann <ann@x.org>:\n> Придёшь?", "bq"),
        ("Ann Lee <ann@x.org> writes:\n> Will you come?\nYes.", "qb"),
        (
            "Yes.\n\n-----Original Message-----\nFrom: Ann\nSent: Friday\nTo: Bob\nSubject: Hm\n\nWill you come?",
            "bqq",
        ),
        ("Yes.\n\n________________________________\nFrom: Ann <ann@x.org>\nDate: Friday\nTo: Bob\n\nCome?", "bqq"),
        ("Ja.\n\nVon: Ann\nGesendet: Freitag\nAn: Bob\nBetreff: Heute\n\nKommst du?", "bqq"),
        ("*From:* Ann\n*Sent:* Friday\n*To:* Bob\n\nCome?", "qq"),
        ("Yes.\n\nAnn Lee\n05/03/2024 10:00 AM\nTo: Bob Ray\ncc:\nSubject: Tonight\n\nWill you come?", "bqq"),
        ("Yes.\n\nAnn Lee\nSent by: Eve\n05/03/2024 10:00 AM\n\nTo: Bob\ncc:\nSubject: Tonight", "bqq"),
        ('Yes.\n\n"Lee, Ann" <ann@x.org> on 05/03/2024 10:00:00 AM\nTo: Bob\ncc:\n\nSubject: Tonight', "bqq"),
    ],
)
def test_answered_messages_are_quotes(text: str, expected: str) -> None:
    assert roles(text) == expected


@pytest.mark.parametrize(
    "header",
    [
        "Feladó: Ann Lee <ann@x.org>\nElküldve: 2025. június 3. 22:10\nCímzett: Bob\nTárgy: Ebéd",
        "De la: Ann Lee <ann@x.org>\nTrimis: marți, 3 iunie 2025 22:10\nCătre: Bob Ray\nSubiect: Prânz",
        "**Відправник:** Ann Lee <ann@x.org>\n**Дата:** 3 червня 2025 р. 22:10\n**Одержувач:** Bob",
        "Avsändare: ann@x.org\nMottagare: bob@x.org\nDag: 2025-06-03 22:10\nÄrende: Lunch",
        "Asia: Lounas\nPäivä: 3.6.2025 klo 22.10\nLähettäjä: Ann Lee <ann@x.org>\nVastaanottaja: Bob <bob@x.org>",
        "-----Eredeti üzenet-----\nFeladó: Ann Lee <ann@x.org>\nDátum: 2025. 06. 03. 22:10\nCímzett: Bob",
    ],
)
def test_a_header_is_known_by_its_shape_in_any_language(header: str) -> None:
    own, *quoted = passages_of(f"Yes.\n\n{header}\n\nWill you come?")
    assert (own.role, {one.role for one in quoted}) == ("body", {"quote"})
    assert quoted[-1].author.startswith(("Ann Lee", "ann@x.org"))


@pytest.mark.parametrize(
    "attribution",
    [
        "Ann Lee <ann@x.org> ezt írta (időpont: 2025. jún. 3., K, 22:10):",
        "În mar., 3 iun. 2025 la 22:10, Ann Lee <ann@x.org> a scris:",
        "Ann Lee <ann@x.org>, 3 Haz 2025 Sal, 22:10 tarihinde şunu yazdı:",
        "Vào Th 3, 3 thg 6, 2025 vào lúc 22:10 Ann Lee <ann@x.org> đã viết:",
        "út 3. 6. 2025 v 22:10 odesílatel Ann Lee <ann@x.org> napsal:",
        "2025-06-03 22:10 GMT+02:00 Ann Lee <ann@x.org>:",
        "---- Am Di, 03 Jun 2025 22:10:00 +0200 Ann Lee <ann@x.org> schrieb ----",
        "بتاريخ الثلاثاء، 3 يونيو 2025 في 22:10 كتب Ann Lee <ann@x.org>:",
        "Pe mar., 3 iun. 2025 la 22:10, Ann Lee\n<ann@x.org> a\nscris:",
    ],
)
@pytest.mark.parametrize("quoted", ["> Will you come?", "Will you come?"])
def test_an_attribution_is_known_by_its_shape_in_any_language(attribution: str, quoted: str) -> None:
    own, *others = passages_of(f"Yes.\n\n{attribution}\n\n{quoted}")
    assert (own.text, own.role) == ("Yes.", "body")
    assert {(one.role, one.author) for one in others} == {("quote", "Ann Lee <ann@x.org>")}


@pytest.mark.parametrize(
    "attribution",
    [
        "2025-06-03 22:10 GMT+02:00 Ann Lee",
        "2025/6/3 Ann Lee <ann@x.org>",
        "Ann Lee <ann@x.org> schrieb am Di., 3.\nJuni 2025 um 22:10 Uhr:",
        'Am 03.06.2025 22:10 schrieb "Ann Lee" <ann@x.org\n>:',
        "On Tue, 3 Jun 2025 at 22:10 Ann Lee\n\n<\nmailto:ann@x.org <ann@x.org>\n> wrote:",
        "---- On Tue, 3 Jun 2025 22:10:00 +0200 Ann Lee&lt;ann@x.org&gt; wrote ----",
        "Ann Lee <ann@x.org> wrote:",
    ],
)
@pytest.mark.parametrize("quoted", ["> Will you come?", "Will you come?"])
def test_an_attribution_is_known_without_a_colon_in_pieces_and_by_its_verb(attribution: str, quoted: str) -> None:
    own, *others = passages_of(f"Yes.\n\n{attribution}\n\n{quoted}")
    assert (own.text, own.role) == ("Yes.", "body")
    assert {(one.role, one.author.partition(" <")[0]) for one in others[1:]} == {("quote", "Ann Lee")}


@pytest.mark.parametrize(
    "line",
    [
        "Forwarded Message ----- From: {who}To: Bob <b@x.org>Sent: Tuesday, June 3, 2025, 10:10:50 PM GMT+2",
        "Message transmis ----- De : {who}À : Bob <b@x.org>Envoyé : mardi 3 juin 2025, 22:10:50 UTC+2Objet : A",
        "Továbbított üzenet ----- Feladó: {who}Címzett: Bob <b@x.org>Elküldve: 2025. június 3., kedd 22:10:50 CEST",
        "İletilmiş Mesaj ----- Kimden: {who}Kime: b@x.orgGönderilen: 3 Haziran 2025 Salı 22:10:50 GMT+2Konu: A",
    ],
)
def test_a_header_on_the_line_of_its_rule_is_one(line: str) -> None:
    text = f"See below.\n\n   ----- {line.format(who=WHO)}\n\nWill you come?"
    own, *quoted = passages_of(text, IN_FORWARD)
    assert (own.role, {(one.role, one.author) for one in quoted}) == ("body", {("forward", WHO)})
    assert {one.written for one in quoted} == {datetime(2025, 6, 3, 20, 10, 50, tzinfo=UTC)}


def test_in_a_reply_a_header_without_a_second_person_has_the_subject() -> None:
    form = "Host: Ann <ann@x.org>\nWhen: 12.05.2024 10:00\nRoom: 4\n\nBring the keys."
    header = "Asia: Venepäivä\nPäivä: 12.5.2024 klo 10.00\nLähettäjä: Lee Ann\nVastaanottaja: Ray Bob\n\nTuletko?"
    assert set(roles(f"Hm.\n\n{form}", QuoteRoles(title="venepäivä"))) == {"b"}
    assert roles(f"Hm.\n\n{header}", QuoteRoles(title="venepäivä")) == "bqq"


@pytest.mark.parametrize(
    "text",
    [
        "When: 3 June 2025 19:00\nWhere: the hall\nContact: ann@x.org",
        "Contact: ann@x.org\nWhen: 3 June 2025 19:00\nWhere: the hall\nBring: a chair",
        "---- Agenda ----\nDate: 3 June 2025, 15:25\nPlace: the hall\nLead: Ann\nNotes: Bob",
        "Minutes of 3 June 2025, 19:00 (by ann@x.org):\n\nAll were there.",
        "On 3 June 2025 at 19:00 we meet here:\n\nTown hall",
        "Write to Ann <ann@x.org>:\n\nMain Street 5",
    ],
)
def test_what_has_only_a_part_of_the_shape_is_the_writers_own(text: str) -> None:
    assert set(roles(text)) == {"b"}


@pytest.mark.parametrize(
    "text",
    [
        "See below.\n\n---------- Forwarded message ---------\nFrom: Ann\nSubject: Tonight\n\nCome.",
        "See below.\n\nBegin forwarded message:\n\nFrom: Ann\n\nCome.",
        "See below.\n\n------- Forwarded by Bob Ray/X on 05/03/2024 10:00 AM ----\n\nAnn Lee\n\nCome.",
        "See below.\n\n-------- Weitergeleitete Nachricht --------\nVon: Ann\n\nKomm.",
    ],
)
def test_forwarded_messages_are_forwards(text: str) -> None:
    assert roles(text)[0] == "b"
    assert set(roles(text)[1:]) == {"f"}


def test_what_a_forwarding_mail_quotes_is_a_forward() -> None:
    assert roles("FYI\n\n-----Original Message-----\nFrom: Ann\n\nCome.\n", IN_FORWARD) == "bff"
    assert roles("FYI\n\n> Come.", IN_FORWARD) == "bf"


def test_a_new_mail_that_only_quotes_is_a_forward() -> None:
    assert roles("-----Original Message-----\nFrom: Ann\n\nCome.", IN_NEW_MAIL) == "ff"
    assert roles("Hm.\n\n-----Original Message-----\nFrom: Ann\n\nCome.", IN_NEW_MAIL) == "bqq"


def test_unattributed_quotes_in_a_new_mail_are_forwards() -> None:
    assert roles("All:\n\n> the hall is free", IN_NEW_MAIL) == "bf"
    assert roles("On 3 May 2024, Ann wrote:\n> the hall is free\n\ngood", IN_NEW_MAIL) == "qb"


@pytest.mark.parametrize(
    "text",
    [
        "Organizer: Ann <ann@x.org>\nWhen: 2026-05-13 10:00\nWhere: Room 4\n\nThe boat costs 900 euros.",
        "A ticket.\n\nRequester: Ann <ann@x.org>\nCreated: 2026-05-03 10:00\nPriority: high\n\nIt prints green.",
        "Hi,\n\nI am here until 12.06.2026 at 18:00 (ann@x.org):\n\nwith the keys of the boat.",
    ],
)
def test_forms_in_a_new_mail_are_the_writers_own(text: str) -> None:
    assert set(roles(text, IN_NEW_MAIL)) == {"b"}
    header = "-----Eredeti üzenet-----\nFeladó: Ann <ann@x.org>\nDátum: 2025. 06. 03. 22:10\nCímzett: Bob\n\nCome?"
    assert roles(f"Hm.\n\n{header}", IN_NEW_MAIL) == "bqq"


def test_times_to_come_in_an_answer_are_those_of_a_meeting() -> None:
    text = "Hm.\n\nHost: Ann <ann@x.org>\nWhen: 12.05.2026 10:00\nRoom: 4\n\nBring the keys."
    sent = datetime(2026, 5, 4, tzinfo=UTC)
    assert {one.role for one in passages_of(text, sent=sent)} == {"body"}
    assert {one.role for one in passages_of(text, sent=sent + timedelta(days=30))} == {"body", "quote"}


def test_an_indented_more_than_sign_is_no_quote() -> None:
    assert roles("load  price\n  >40 MW  250") == "b"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See you.\n\n-- \nAnn Lee\nChoir", "bs"),
        ("See you.\n\nSent from my iPhone", "bs"),
        ("Bis dann.\nVon meinem iPhone gesendet", "bs"),
        ("See you.\n\nGet Outlook for iOS", "bs"),
        ("See you.\n\nGet Outlook for Android<https://x.org/a>", "bs"),
        ("See you.\n\nSent from my Galaxy [https://x.org/a?b=1]", "bs"),
        ("[EXTERNAL] Do not open attachments unless you know the sender.\n\nSee you.", "sb"),
        ("ACHTUNG: Externe E-Mail. Öffnen Sie Links und Anhänge nur, wenn Sie den Absender kennen.\n\nBis dann.", "sb"),
        ("Attention, the attachments are external links.", "b"),
        ("The links are in the attachments.\n\nSee you.", "bb"),
        ("The links and attachments of our organization are here.\n\nSee you.", "bb"),
        ("The warning lights outside need attention.\n\nSee you.", "bb"),
        ("I sent it.\n\nSent from my desk, which is quicker than a phone.", "bb"),
        ("See you.\n\nAnn Lee\nManager\n+1 555 010 2345\nwww.example.org", "bs"),
        ("Call me at +1 555 010 2345 tonight.", "b"),
        ("Hi\n\nThis e-mail is confidential. If you are not the intended recipient, notify the sender.", "bs"),
        ("Hi\n\n_______________________________________________\nchoir mailing list\nchoir@example.org", "bs"),
        ("See you.\n-- \nAnn\n\n> earlier\n\nanswer below", "bsqb"),
    ],
)
def test_signatures_are_separated_from_the_body(text: str, expected: str) -> None:
    assert roles(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "On Friday we sing.\n\nOn Saturday we rest.",
        "To: the choir\n\nDear all, come.",
        "Date: Friday\n\nCome.",
        "one -- two\n\nthree",
        "Menu\n--------------\nSoup",
        "He wrote:\n\nsomething long ago",
    ],
)
def test_ordinary_words_are_the_writers_own(text: str) -> None:
    assert set(roles(text)) == {"b"}


def test_passages_name_their_lines() -> None:
    first, second = passages_of("\none\ntwo\n\n> three\n", first_line=10)
    assert (first.text, first.first, first.last) == ("one\ntwo", 11, 12)
    assert (second.text, second.first, second.last) == ("> three", 14, 14)


def test_a_bare_quote_mark_parts_quoted_paragraphs() -> None:
    assert [passage.text for passage in passages_of("> one\n>\n>\n> two")] == ["> one\n>", ">\n> two"]


@pytest.mark.parametrize(
    "text",
    [
        "Yes.\n\nOn Fri, May 3, 2024 at 10:00 AM, Ann <ann@x.org> wrote:\n\n> Will you come?\n> I hope so.",
        "Ja.\n\nAm 03.05.2024 um 10:00 schrieb Ann <ann@x.org>:\n\n> Kommst du?",
        "See below.\n\n---------- Forwarded message ----------\nFrom: Ann <ann@x.org>\nSubject: Tonight\n\nCome.",
        "See below.\n\nBegin forwarded message:\n\n> From: Ann <ann@x.org>\n> Subject: Tonight\n>\n> Come.",
        "Yes.\n\n-----Original Message-----\nFrom: Ann\nSent: Friday, May 3, 2024\nTo: Bob\nSubject: Tonight\n\nCome?",
        "Nothing is quoted here.\n\nNot a word.",
    ],
)
def test_the_writers_own_words_are_those_another_reader_finds(text: str) -> None:
    ours = "\n\n".join(passage.text for passage in passages_of(text) if passage.role == "body")
    theirs = quotequail.unwrap(text)
    assert ours == (theirs["text_top"] if theirs else text)


LINES = [
    *(
        "",
        "word",
        "> quoted",
        ">",
        "-- ",
        "--",
        "On Fri, 3 May 2024, Ann wrote:",
        "On Friday",
        "wrote:",
        "From: a",
        "To: b",
    ),
    *(
        "Date: c",
        "Subject: d",
        "-----Original Message-----",
        "--- Forwarded by x ---",
        "05/03/2024 10:00 AM",
        "____________________",
    ),
    *("Sent from my phone", "mailing list", "555 010 2345 6", "\t ", "a@x.org:", "confidential and intended for"),
]


@examples(300)
@given(
    st.lists(st.one_of(st.sampled_from(LINES), st.text(max_size=20))),
    st.sampled_from([IN_REPLY, IN_NEW_MAIL, IN_FORWARD]),
)
def test_every_line_is_in_one_passage_that_holds_its_text(lines: list[str], quotes: QuoteRoles) -> None:
    text = "\n".join(lines)
    lines = text.split("\n")
    covered: list[int] = []
    for passage in passages_of(text, quotes):
        assert passage.text == "\n".join(lines[passage.first - 1 : passage.last]).strip()
        covered += range(passage.first, passage.last + 1)
    assert covered == [at for at, line in enumerate(lines, start=1) if line.strip()]


@pytest.mark.parametrize(
    "piece",
    ["-", ">", "> ", "On ", "From: a\n", "wrote:\n", "On a 2024\n", " ", "_", "*", "\t", "a@", "-----\n", "1/1/24 "],
)
def test_hostile_texts_take_linear_time(piece: str) -> None:
    text = piece * 20_000
    assert "".join("".join(one.text for one in passages_of(text)).split()) == "".join(text.split())


ORIGINAL = ["Ursprüngliche Nachricht", "Messaggio originale", "Исходное сообщение", "Original Message"]


@pytest.mark.parametrize("mark", ORIGINAL)
def test_below_the_rule_of_an_original_message_is_a_quote_whatever_its_header(mark: str) -> None:
    assert roles(f"My own words.\n\n-----{mark}-----\n\nTheir words.\n") == "bqq"
