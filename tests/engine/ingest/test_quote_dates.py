"""When quoted and forwarded messages were written, by the header lines of mail programs in many languages."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.ingest.headers import date_in_header
from engine.ingest.mail import read_mail
from engine.ingest.quotes import line_roles, origins, passages_of
from engine.ingest.types import ParseLimits
from tests.effort import examples

THERE = timezone(timedelta(hours=2))
SENT = datetime(2025, 6, 7, 9, tzinfo=THERE)
WEST = timezone(timedelta(hours=-7))
LATE = datetime(2025, 6, 3, 22, 10, tzinfo=THERE)
OFFSETS = st.integers(-24, 28).map(lambda halves: timezone(timedelta(minutes=30 * halves)))


@pytest.mark.parametrize(
    "line",
    [
        "On Tue, Jun 3, 2025 at 10:10 PM Ann Lee <ann@x.org> wrote:",
        "On Jun 3, 2025, at 10:10 PM, Ann Lee <ann@x.org> wrote:",
        "On Tue, 3 Jun 2025 at 22:10, Ann wrote:",
        "On 6/3/2025 10:10 PM, Ann wrote:",
        "On 2025-06-03 22:10, Ann wrote:",
        "Am 03.06.2025 um 22:10 schrieb Ann:",
        "Am Di., 3. Juni 2025 um 22:10 Uhr schrieb Ann <ann@x.org>:",
        "Le mar. 3 juin 2025 à 22:10, Ann a écrit :",
        "Le 03/06/2025 à 22h10, Ann a écrit :",
        "El mar, 3 jun 2025 a las 22:10, Ann escribió:",
        "Il giorno mar 3 giu 2025 alle ore 22:10 Ann ha scritto:",
        "Em ter., 3 de jun. de 2025 às 22:10, Ann escreveu:",
        "Op di 3 jun 2025 om 22:10 schreef Ann:",
        "Den tis 3 juni 2025 kl 22:10 skrev Ann:",
        "Den tirs. 3. juni 2025 kl. 22.10 skrev Ann:",
        "wt., 3 cze 2025 o 22:10 Ann napisała:",
        "вт, 3 июн. 2025 г. в 22:10, Ann <ann@x.org>:",
        "2025年6月3日(火) 22:10 Ann <ann@x.org>:",
        "Ann <ann@x.org> 于2025年6月3日周二 下午10:10写道：",
        "Sent: Tuesday, June 3, 2025 10:10 PM",
        "Gesendet: Dienstag, 3. Juni 2025 22:10",
        "Envoyé : mardi 3 juin 2025 22:10",
        "Enviado el: martes, 3 de junio de 2025 22:10",
        "Inviato: martedì 3 giugno 2025 22:10",
        "发送时间: 2025年6月3日 22:10",
    ],
)
def test_a_date_in_the_form_of_a_mail_program_is_read_on_the_clock_of_who_quotes(line: str) -> None:
    assert date_in_header(line, SENT) == LATE


@pytest.mark.parametrize(
    ("line", "author"),
    [
        ("On Tue, Jun 3, 2025 at 10:10 PM Ann Lee <ann@x.org> wrote:", "Ann Lee <ann@x.org>"),
        ("On Jun 3, 2025, at 10:10 PM, Ann Lee <ann2025@x.org> wrote:", "Ann Lee <ann2025@x.org>"),
        ("On Tuesday Ann Lee wrote:", "Ann Lee"),
        ("Ann Lee schrieb am 03.06.2025 um 22:10:", "Ann Lee"),
        ("Am Di., 3. Juni 2025 um 22:10 Uhr schrieb Ann Lee <ann@x.org>:", "Ann Lee <ann@x.org>"),
        ("Le 03/06/2025 à 22h10, Ann Lee a écrit :", "Ann Lee"),
        ("Den tirs. 3. juni 2025 kl. 22.10 skrev Ann Lee:", "Ann Lee"),
        ("вт, 3 июн. 2025 г. в 22:10, Ann Lee <ann@x.org>:", "Ann Lee <ann@x.org>"),
        ("2025年6月3日(火) 22:10 Ann Lee <ann@x.org>:", "Ann Lee <ann@x.org>"),
        ("Ann Lee <ann@x.org> 于2025年6月3日周二 下午10:10写道：", "Ann Lee <ann@x.org>"),
        ("Quoting Ann Lee <ann@x.org>:", "Ann Lee <ann@x.org>"),
        ("W dniu 3 czerwca 2025 22:10 pisarz Ann Lee <ann@x.org> napisał:", "Ann Lee <ann@x.org>"),
        ("On 29/12/24 19:56, François Lee wrote:", "François Lee"),
        ("On 2025-06-03, Ann-Marie Lee wrote:", "Ann-Marie Lee"),
        ("On 3 Jun 2025, at 22:10, ann wrote:", "ann"),
        ("3.6.2025 22:10, ann@x.org kirjoitti:", "ann@x.org"),
        ("Ann the Elder wrote:", "Ann the Elder"),
    ],
)
def test_what_an_attribution_introduces_is_by_whom_it_names(line: str, author: str) -> None:
    *_, quoted = passages_of(f"Yes.\n\n{line}\n> hello", sent=SENT)
    assert (quoted.role, quoted.author) == ("quote", author)


@given(st.text(max_size=120))
def test_any_attribution_has_an_author_or_none(text: str) -> None:
    for passage in passages_of(f"Yes.\n\n{text} wrote:\n> hello", sent=SENT):
        assert "\n" not in passage.author


@pytest.mark.parametrize("zone", ["-0700", "-07:00", "GMT-0700", "PDT", "(PDT)", " (GMT-07:00)", "GMT-7", "UTC-7"])
def test_a_date_with_a_zone_is_read_in_that_zone(zone: str) -> None:
    found = date_in_header(f"Date: Tue, 3 Jun 2025 22:10:00 {zone}", SENT)
    assert found is not None
    assert found.isoformat() == "2025-06-03T22:10:00-07:00"


@pytest.mark.parametrize(
    "line",
    [
        "On Tuesday, Ann wrote:",
        "On Jun 3, Ann wrote:",  # of which year
        "On 3/4/2025 Ann wrote:",  # March or April
        "On 31 Feb 2025 at 10:00, Ann wrote:",
        "On 9 Jun 2025 at 10:00, Ann wrote:",  # after the mail that quotes it
        "Sent: None",
        "Ann <ann2025@x.org> wrote:",
        "",
    ],
)
def test_what_is_not_clear_has_no_date(line: str) -> None:
    assert date_in_header(line, SENT) is None


@pytest.mark.parametrize(
    ("sent", "month"), [(datetime(2025, 3, 6, tzinfo=UTC), 3), (datetime(2025, 4, 4, tzinfo=UTC), 4)]
)
def test_the_order_of_day_and_month_is_told_by_when_it_was_quoted(sent: datetime, month: int) -> None:
    found = date_in_header("On 3/4/2025 10:00, Ann wrote:", sent)
    assert found is not None
    assert found.month == month


@pytest.mark.parametrize(
    "line",
    [
        "tiistaina, 3. kesäkuuta 2025 klo 22.10",
        "2025 m. birželio 3 d. 22:10",
        "Vào 3 thg 6, 2025 vào lúc 22:10",
        "Στις 3 Ιουνίου 2025 10:10 μ.μ.",
        "3 Haz 2025 Sal, 22:10",
        "3. jūnijs 2025 22:10",
        "2025. gada 3. jūnijs 22:10",
    ],
)
def test_a_month_is_read_in_many_languages_and_forms(line: str) -> None:
    assert date_in_header(line, LATE + timedelta(days=90)) == LATE


def test_a_month_that_is_not_known_is_the_one_within_a_week_before_or_none() -> None:
    line = "Am Dra, 3. Quintember 2025 um 22:10"
    assert date_in_header(line, LATE + timedelta(days=6)) == LATE
    for days in (-1, 8, 27, 60):
        assert date_in_header(line, LATE + timedelta(days=days)) is None
    assert date_in_header(line, None) is None


@given(st.datetimes(datetime(2000, 1, 1), datetime(2090, 1, 1)), OFFSETS, OFFSETS)
def test_any_moment_with_its_offset_is_read_as_it_is(clock: datetime, zone: timezone, other: timezone) -> None:
    written = clock.replace(second=0, microsecond=0, tzinfo=zone)
    sent = (written + timedelta(days=1)).astimezone(other)
    lines = (f"{written:%d %b %Y %H:%M %z}", f"{written:%B} {written.day}, {written:%Y at %I:%M %p %z}", str(written))
    assert [str(date_in_header(line, sent)) for line in lines] == [str(written)] * 3


@given(st.text(max_size=120))
@example("On 99/99/9999 99:99:99 +9999")
@example("2025-06-03 22:10 -99:99")
@example("1 Jan 2000 24:00")
@example("٣ Jun 2025")
def test_any_text_has_a_date_or_none(text: str) -> None:
    found = date_in_header(text, SENT)
    assert found is None or found.tzinfo is not None


def dated(text: str) -> dict[str, datetime | None]:
    """Return the date of each line that is one word."""
    lines = text.split("\n")
    dates = [date for date, _ in origins(lines, line_roles(lines), SENT)]
    return {line.strip("> "): date for line, date in zip(lines, dates, strict=True) if line.strip("> ").isalpha()}


def test_each_depth_of_quotation_has_its_own_date() -> None:
    text = (
        "own\n\nOn 5 Jun 2025 at 10:00, Ann wrote:\n> ann\n> On 4 Jun 2025 at 11:00, Bob wrote:\n>> bob\n>\n>> more\n"
        "> again\n\nlast\n\n> below"
    )
    ann, bob = datetime(2025, 6, 5, 10, tzinfo=THERE), datetime(2025, 6, 4, 11, tzinfo=THERE)
    assert dated(text) == {
        "own": None, "ann": ann, "bob": bob, "more": bob, "again": ann, "last": None, "below": ann,
    }  # fmt: skip


def test_a_quote_within_a_dated_quote_that_has_no_date_has_none() -> None:
    assert dated("On 5 Jun 2025 at 10:00, Ann wrote:\n> ann\n>> bob")["bob"] is None


def test_a_quote_without_a_header_has_no_date() -> None:
    assert dated("own\n\n> quoted") == {"own": None, "quoted": None}


FORWARD = (
    "---------- Forwarded message ---------\nFrom: Ann <ann@x.org>\n{}Subject: Lunch\nTo: Bob <bob@x.org>\n\nhello"
)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("Date: Tue, 3 Jun 2025 at 22:10\n", LATE),
        ("Date: Tue, 3 Jun 2025 22:10:00 -0700\n", LATE.replace(tzinfo=WEST)),
        ("", None),
        ("Date: soon\n", None),
    ],
)
def test_a_forwarded_message_has_the_date_of_its_header(header: str, expected: datetime | None) -> None:
    assert dated(FORWARD.format(header))["hello"] == expected


def test_a_table_of_fields_names_the_author_without_its_bars() -> None:
    header = "Subject: | Lunch\nDate: | Tue, 3 Jun 2025 22:10:00 +0200\nFrom: | Ann Lee <ann@x.org>\nTo: | Bob"
    *_, quoted = passages_of(f"own\n\n---------- Forwarded message ---------\n{header}\n\nhello", sent=SENT)
    assert (quoted.author, quoted.written) == ("Ann Lee <ann@x.org>", LATE)


@pytest.mark.parametrize(
    "header",
    [
        "-----Original Message-----\nFrom: Ann\nSent: Tuesday, June 3, 2025 10:10 PM\nTo: Bob\nSubject: A",
        "____________________________\nVon: Ann\nGesendet: Dienstag, 3. Juni 2025 22:10\nAn: Bob\nBetreff: A",
        "Ann Lee\n06/03/2025 10:10 PM\nTo: Bob/HOU\ncc: \nSubject: Lunch",
        "---- Forwarded by Bob on 06/06/2025 09:00 AM ----\n\nAnn Lee\n06/03/2025 10:10 PM\nTo: Bob, Cy\nD, E\nF",
        "--- Forwarded by Bob on 06/06/2025 09:00 AM ---\nFrom: Ann on 06/03/2025 10:10 PM\nTo: Bob\ncc:\nSubject: A",
        "Begin forwarded message:\n\nFrom: Ann <ann@x.org>\nSubject: A\nDate: June 3, 2025 at 10:10:00 PM\nTo: B",
    ],
)
def test_a_header_below_or_above_a_mark_dates_the_message(header: str) -> None:
    assert dated(f"own\n\n{header}\n\nhello")["hello"] == LATE


def test_a_passage_holds_the_text_of_one_message() -> None:
    text = "On 5 Jun 2025 at 10:00, Ann wrote:\n> ann\n>> bob\n> again"
    assert [(one.text.split("\n")[-1], one.written is not None) for one in passages_of(text, sent=SENT)] == [
        ("> ann", True), (">> bob", False), ("> again", True),
    ]  # fmt: skip


_LINES = st.sampled_from(
    ["> text", ">> text", "text", "", "On 5 Jun 2025 at 10:00, Ann wrote:", "> On 4 Jun 2025, Bob wrote:",
     "-----Original Message-----", "From: Ann", "Sent: 3 June 2025", "To: Bob", "Subject: A", "> From: Ann", "-- "]
)  # fmt: skip


@examples(100)
@given(st.lists(_LINES, max_size=30))
def test_only_quoted_lines_have_dates_and_no_line_is_lost(lines: list[str]) -> None:
    roles = line_roles(lines)
    dates = [date for date, _ in origins(lines, roles, SENT)]
    assert [date for role, date in zip(roles, dates, strict=True) if date and role not in ("quote", "forward")] == []
    covered = [n for one in passages_of("\n".join(lines), sent=SENT) for n in range(one.first, one.last + 1)]
    assert covered == [n for n, line in enumerate(lines, 1) if line.strip()]


def test_an_attached_message_keeps_its_date_and_offset() -> None:
    inner = "From: ann@x.org\nDate: Tue, 3 Jun 2025 22:10:00 -0700\nSubject: A\n\nTomorrow then."
    raw = (
        "From: bob@x.org\nDate: Sat, 7 Jun 2025 09:00:00 +0200\nMIME-Version: 1.0\n"
        'Content-Type: multipart/mixed; boundary="b"\n\n--b\nContent-Type: text/plain\n\nSee below.\n'
        f"--b\nContent-Type: message/rfc822\n\n{inner}\n--b--\n"
    )
    document = read_mail(raw.encode(), ParseLimits()).document
    assert document
    assert [one.written for one in document.passages if "Tomorrow" in one.text] == [LATE.replace(tzinfo=WEST)]
