"""Rows in the columns that EnronQA publishes become mailboxes, and questions a stream with rephrasings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ingest.files import read
from engine.ingest.types import ParseLimits
from tests.bench import enronqa
from tests.bench.corpus import Query, same
from tests.bench.enronqa import LATER

TEXT = (
    "Subject: Tide\nSender: ida@example.org\nRecipients: ['bo@example.org']\n\nDear Bo,\nthe tide turns at nine.\nIda\n"
)
LISTS = ("questions", "rephrased_questions", "gold_answers")


def row(path: str, *asked: str, user: str = "falk-i", text: str = TEXT, gold: str = "At nine.") -> dict[str, Any]:
    """Make a row; each question's rephrasing is the question in other words."""
    again = [f"Tell me: {one}" for one in asked]
    kept = {"email": text, "user": user, "path": path, "questions_count": len(asked), "alternate_answers": [[gold]]}
    return {**kept, **dict(zip(LISTS, (list(asked), again, [gold] * len(asked)), strict=True))}


def put(file: Path, *rows: Mapping[str, Any]) -> None:
    """Write a file of the set."""
    file.parent.mkdir(parents=True, exist_ok=True)
    lists = pa.list_(pa.string())
    fields = [("email", pa.string()), ("user", pa.string()), ("path", pa.string()), ("questions_count", pa.int64())]
    parquet.write_table(
        pa.Table.from_pylist(list(rows), pa.schema([*fields, *((name, lists) for name in LISTS)])), file
    )


def test_a_mailbox_is_a_user_and_a_mail_in_two_splits_is_one_file(tmp_path: Path) -> None:
    put(tmp_path / "in/data/dev-0.parquet", row("falk-i/sent/4.", "When?"), row("bo-b/in/1.", "Who?", user="bo-b"))
    put(tmp_path / "in/data/test-0.parquet", row("falk-i/sent/4.", "At what time?"), row("falk-i/sent/5."))
    one, other = enronqa.users(tmp_path / "in", tmp_path / "out")
    assert (one.name, other.name) == ("bo-b", "falk-i")
    assert len(list(other.folders[0].iterdir())) == 2
    assert [query.text for query in other.queries] == [
        *("When?", "At what time?", "Tell me: When?", "Tell me: At what time?"),
    ]
    (document,) = {path for query in other.queries for path in query.documents}
    assert (other.folders[0].parent / document).read_bytes() == TEXT.encode()
    assert same(other.queries[0], other.queries[2])


def test_a_mail_is_ingested_as_it_stands(tmp_path: Path) -> None:
    put(tmp_path / "in/test.parquet", row("falk-i/sent/4.", "When?"))
    (user,) = enronqa.users(tmp_path / "in", tmp_path / "out")
    (reading,) = read(next(user.folders[0].iterdir()), None, ParseLimits())
    assert reading.problem is None
    assert reading.document is not None
    assert (reading.document.kind, reading.document.title) == ("mail", "Tide")
    assert "the tide turns at nine." in reading.document.text


def test_a_rephrasing_comes_some_questions_later() -> None:
    asked = [Query(f"q{number}", "", frozenset()) for number in range(LATER + 2)]
    again = [Query(f"r{number}", "", frozenset()) for number in range(LATER + 2)]
    texts = [query.text for query in enronqa.interleaved(asked, again)]
    assert texts[: LATER + 3] == [*(f"q{number}" for number in range(LATER + 1)), "r0", f"q{LATER + 1}"]
    assert sorted(texts) == sorted(query.text for query in asked + again)


def test_two_paths_never_share_a_file() -> None:
    names = {enronqa.mail(row(path, "When?")).file for path in ("a/b 1.", "a/b_1.", "a/b/1.", "../a/b_1.")}
    assert len(names) == 4
    assert all(name.count("/") == 1 and name.startswith("mail/") for name in names)


def test_a_bad_row_is_named_and_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "in/test.parquet"
    short = row("falk-i/sent/1.", "When?") | {"gold_answers": []}
    put(file, short, row("falk-i/sent/2.", "Who?", text=" "), row("falk-i/sent/3.", "What?"), {})
    (user,) = enronqa.users(tmp_path / "in", tmp_path / "out")
    assert [query.text for query in user.queries] == ["What?", "Tell me: What?"]
    assert capsys.readouterr().err.splitlines() == [
        f"{file}, row 1: skipped: questions without answers",
        f"{file}, row 2: skipped: no text in email",
        f"{file}, row 4: skipped: no text in user",
    ]


def test_a_question_without_a_rephrasing_is_asked_once() -> None:
    mail = enronqa.mail(row("a/1.", "When?") | {"rephrased_questions": [None]})
    assert mail.again == mail.asked


def test_a_file_without_the_columns_is_an_error_that_names_it(tmp_path: Path) -> None:
    file = tmp_path / "in/other.parquet"
    file.parent.mkdir()
    parquet.write_table(pa.table({"email": ["Hello"], "user": ["a"]}), file)
    with pytest.raises(ValueError, match=r"other\.parquet: not a file of EnronQA: no column path, questions"):
        enronqa.users(tmp_path / "in", tmp_path / "out")


def test_without_files_there_is_no_user(tmp_path: Path) -> None:
    assert enronqa.users(tmp_path / "nowhere", tmp_path / "out") == []


@given(st.binary(max_size=200))
def test_a_file_of_another_kind_is_an_error_that_names_it(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    file = tmp_path_factory.getbasetemp() / "junk.parquet"
    file.write_bytes(data)
    with pytest.raises(ValueError, match=r"junk\.parquet: not a file of EnronQA"):
        list(enronqa.rows(file))


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9), lambda inner: st.lists(inner, max_size=3)
)


@given(JUNK | st.dictionaries(st.sampled_from(enronqa.COLUMNS), JUNK | st.lists(st.text(max_size=3), max_size=2)))
def test_whatever_a_row_holds_it_is_a_mail_or_a_value_error(made: object) -> None:
    try:
        found = enronqa.mail(made)
    except ValueError:
        return
    assert len(found.asked) == len(found.again)
    assert found.file.count("/") == 1
