"""Contact lists: rows of tables in mail and attachments, and attached contacts, tell of whom they name alone."""

from email.message import EmailMessage
from pathlib import Path

import pytest

from engine.app import Pkb
from tests.engine.ingest.office_files import xlsx

Rows = list[tuple[str, ...]]
ENGLISH: Rows = [
    ("Name", "Phone", "Cell", "Email"),
    ("Keith Holt", "925 555 0101", "925 555 0202", "k.holt@elm.example"),
    ("Uma Ford", "925 555 0303", "", "uma@elm.example"),
    ("Kai Berg", "", "925 555 0606", "kai@elm.example"),
]
GERMAN: Rows = [
    ("Handy", "Fax", "Name", "E-Mail"),
    ("925 555 0202", "925 555 0102", "Keith Holt", "k.holt@elm.example"),
    ("", "925 555 0303", "Uma Ford", "uma@elm.example"),
    ("925 555 0606", "", "Kai Berg", "kai@elm.example"),
]
APART: Rows = [
    ("Surname", "First name", "Fax", "Cell phone"),
    ("Holt", "Keith", "925 555 0102", "925 555 0202"),
    ("Ford", "Uma", "925 555 0303", ""),
    ("Berg", "Kai", "", "925 555 0606"),
]


def page(rows: Rows) -> str:
    lines = ("".join(f"<td>{cell or '–'}</td>" for cell in row) for row in rows)
    return f"<p>The list.</p><table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def cards(rows: Rows) -> str:
    kinds = {"Phone": "TEL;TYPE=WORK", "Cell": "TEL;TYPE=CELL", "Name": "FN", "Email": "EMAIL"}
    fields = (((kinds[kind], cell) for kind, cell in zip(rows[0], row, strict=True) if cell) for row in rows[1:])
    text = "".join(
        "BEGIN:VCARD\n" + "".join(f"{kind}:{cell}\n" for kind, cell in own) + "END:VCARD\n" for own in fields
    )
    return text.replace("BEGIN:VCARD", "BEGIN:VCARD\nVERSION:3.0")


def home_with(folder: Path, form: str, rows: Rows) -> Pkb:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = (
        "Joe Dunn <joe@oak.example>",
        "Ben Oak <ben@oak.example>",
        "List",
    )
    message["Message-ID"], message["Date"] = "<1@x>", "Fri, 03 May 2024 10:00:00 +0000"
    if form == "html":
        message.set_content(page(rows), subtype="html")
    else:
        message.set_content("The list is attached.")
        text = (
            cards(rows)
            if form == "vcf"
            else "\n".join((";" if form == "semicolons" else ",").join(one) for one in rows)
        )
        data = xlsx({"People": rows}) if form == "xlsx" else text.encode()
        name = "list.csv" if form == "semicolons" else f"list.{form}"
        message.add_attachment(data, maintype="application", subtype="octet-stream", filename=name)
    (folder / "in").mkdir()
    (folder / "in/1.eml").write_bytes(message.as_bytes())
    pkb = Pkb(folder / "home", environ={"PKB_NOW": "2024-06-30T09:00:00"})
    pkb.ingest([folder / "in"], embed=False)
    return pkb


def cell_of(pkb: Pkb, name: str) -> tuple[str | None, str]:
    found = pkb.ask(f"what is {name}'s cell number?", cache="off")
    return found.text, found.sources[0].quote if found.text else ""


@pytest.mark.parametrize(
    ("form", "rows"),
    [
        *((form, rows) for form in ("html", "csv", "xlsx", "semicolons") for rows in (ENGLISH, GERMAN, APART)),
        ("vcf", ENGLISH),
    ],
)
def test_a_row_tells_the_number_of_its_person_and_is_the_source(tmp_path: Path, form: str, rows: Rows) -> None:
    with home_with(tmp_path, form, rows) as pkb:
        for name, number in (("Keith Holt", "925 555 0202"), ("Kai Berg", "925 555 0606")):
            text, quote = cell_of(pkb, name)
            assert text == f"{number} (mobile): {name}"
            assert number in quote
            assert form == "vcf" or name.split()[0] in quote
        assert cell_of(pkb, "Uma Ford")[0] is None  # not that of a neighbour, and not the fax
        facts = (fact for person in pkb.people("Uma Ford") for fact in person.facts)
        assert {fact.value for fact in facts if fact.kind == "phone"} <= {"925 555 0303"}


@pytest.mark.parametrize("form", ["html", "csv", "xlsx", "vcf"])
def test_a_first_name_is_enough_if_one_row_has_it_and_several_are_told_apart(tmp_path: Path, form: str) -> None:
    rows = [*ENGLISH, ("Keith Marsh", "925 555 0707", "925 555 0808", "marsh@elm.example")]
    with home_with(tmp_path, form, rows) as pkb:
        assert cell_of(pkb, "Kai")[0] == "925 555 0606 (mobile): Kai Berg"
        text, _ = cell_of(pkb, "Keith")
        numbers = ["Keith Holt: 925 555 0202 (mobile)", "Keith Marsh: 925 555 0808 (mobile)"]
        assert sorted(str(text).split("\n")[1:]) == numbers


@pytest.mark.parametrize("form", ["csv", "html"])
def test_a_long_list_has_its_labels_in_another_chunk(tmp_path: Path, form: str) -> None:
    others = [(f"Mary{'x' * n} Stone", f"925 556 {n:04}", f"925 557 {n:04}", "x@elm.example") for n in range(40)]
    with home_with(tmp_path, form, [ENGLISH[0], *others, *ENGLISH[1:]]) as pkb:
        assert cell_of(pkb, "Kai Berg")[0] == "925 555 0606 (mobile): Kai Berg"
        assert cell_of(pkb, "Uma Ford")[0] is None
