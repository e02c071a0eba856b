"""Export and import: an imported answer is served where one made here would be, and no line breaks an import."""

import io
import json
import shutil
from collections.abc import Callable, Iterable
from contextlib import redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cli.render import show_answer
from engine.app import Pkb
from engine.serve.process import Broken
from engine.settings import put
from engine.transfer import ExportedAnswer, Importer, ImportReport, lines_of, read_line
from engine.types import STAGES, Answer, Source
from store.answers import AnswerBank
from store.errors import PkbError, UsageError
from store.types import Scope, replace
from tests.demo import DATA, copied

KEY = "Who has the spare key to the workshop?"
QUESTIONS = (
    KEY,
    "When is the summer concert?",
    "Which quorv blimmers the choir?",
    "Who was there at the workshop meeting?",
    "What does Samir say about the fifteenth?",  # neighbours among its chunks are not joined
)
ALL = len(QUESTIONS) + 1
NOW = {"PKB_NOW": "2024-06-19T08:00", "PKB_DAEMON": "off"}
Row = dict[str, Any]


def opened(folder: Path) -> Pkb:
    own = {"PKB_HOME": folder / "home", "PKB_CACHE": folder / "cache", "PKB_CONFIG": folder / "config.toml"}
    return Pkb(environ={**NOW, **{name: str(path) for name, path in own.items()}})


@pytest.fixture(scope="module")
def asked(made: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Row]]:
    """Return a home with some cached answers, and its export."""
    folder = Path(shutil.copytree(made, tmp_path_factory.mktemp("transfer") / "asked"))
    with opened(folder) as pkb:
        for question in QUESTIONS:
            pkb.ask(question)
        pkb.ask("When is the concert?", sender="tobias", since="2024-01", k=3)
        return folder, list(pkb.export())


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    """Return a home with the same mail and no answers."""
    return copied(made, tmp_path / "copy")


def file_of(rows: Iterable[Row | bytes]) -> io.BytesIO:
    return io.BytesIO(b"".join(row if isinstance(row, bytes) else json.dumps(row).encode() + b"\n" for row in rows))


def imported(pkb: Pkb, rows: Iterable[Row | bytes]) -> Row:
    """Import rows; returns the counts that are not 0."""
    report: ImportReport = pkb.import_answers(file_of(rows))
    return {name: count for name, count in report.to_json().items() if count and name != "schema"}


def test_all_answers_of_a_home_are_imported_where_its_mail_is(asked: tuple[Path, list[Row]], copy: Path) -> None:
    folder, rows = asked
    with opened(copy) as pkb:
        assert imported(pkb, rows) == {"imported": ALL}
        assert imported(pkb, rows) == {"cached": ALL}
        for question in QUESTIONS:
            with opened(folder) as there:
                before = there.ask(question).to_json()
            after = pkb.ask(question).to_json()
            assert after["tier"] == "exact"
            assert {name: after[name] for name in ("answer", "sources")} == {
                name: before[name] for name in ("answer", "sources")
            }
    with opened(folder) as pkb:
        assert imported(pkb, rows) == {"cached": ALL}


def test_an_imported_answer_is_a_paraphrase_hit_too(asked: tuple[Path, list[Row]], copy: Path) -> None:
    with opened(copy) as pkb:
        imported(pkb, asked[1])
        (count,) = pkb.session.ledger.rows.execute("SELECT count(*) FROM question_vectors").fetchone()
    assert count == ALL


def test_the_export_of_an_import_has_the_same_answers(asked: tuple[Path, list[Row]], copy: Path) -> None:
    with opened(copy) as pkb:
        imported(pkb, asked[1])
        again = {row["key"]: row for row in pkb.export() if row["kind"] == "answer"}
    for row in asked[1][1:]:
        same = ("scope", "writer", "day", "evidence", "created", "made_ms", "origin", "source", "tau")
        assert {name: again[row["key"]][name] for name in same} == {name: row[name] for name in same}
        assert again[row["key"]]["reply"]["answer"] == row["reply"]["answer"]


@pytest.mark.slow
def test_an_answer_is_imported_only_where_its_messages_are(asked: tuple[Path, list[Row]], tmp_path: Path) -> None:
    mail = Path(shutil.copytree(DATA, tmp_path / "data"))
    (mail / "transcripts" / "2024-02-27 workshop meeting.vtt").unlink()
    with opened(tmp_path / "other") as pkb:
        pkb.ingest([mail / "mail", mail / "transcripts"])
        counts = imported(pkb, asked[1])
        assert counts["missing"] >= 2  # both questions about the workshop
        assert counts["imported"] + counts["missing"] == ALL
        answer = pkb.ask("When is the summer concert?")
        assert (answer.tier, answer.sources[0].path.startswith(str(mail))) == ("exact", True)
        assert pkb.ask(KEY).tier == "full"


def test_new_mail_that_would_change_an_imported_answer_does(
    asked: tuple[Path, list[Row]], copy: Path, tmp_path: Path
) -> None:
    (tmp_path / "mail").mkdir()
    (tmp_path / "mail" / "1.eml").write_text(
        "From: Gus Tindall <gus.tindall@example.com>\nDate: Tue, 18 Jun 2024 10:00:00 +0000\n"
        "Subject: Spare key to the workshop\n\n"
        "Priya Raman has the spare key to the workshop now.\n"
    )
    with opened(copy) as pkb:
        pkb.ingest([tmp_path / "mail"])
        assert imported(pkb, asked[1])["imported"] == ALL
        answer = pkb.ask(KEY)
        assert (answer.tier, "Priya" in str(answer.text)) == ("full", True)


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        (lambda row: row | {"writer": row["writer"].replace("quote", "model")}, "other_model"),
        (lambda row: row | {"day": "2024-06-18"}, "other_day"),
        (lambda row: row | {"key": "00"}, "missing"),
        (lambda row: row | {"evidence": ["0" * 32, *row["evidence"][1:]]}, "missing"),
        (lambda row: row | {"reply": row["reply"] | {"sources": []}}, "missing"),
        (lambda row: row | {"reply": forged(row["reply"])}, "missing"),
    ],
)
def test_what_would_not_be_answered_so_here_is_counted(
    asked: tuple[Path, list[Row]], copy: Path, change: Callable[[Row], Row], outcome: str
) -> None:
    header, *rows = asked[1]
    (row,) = (row for row in rows if row["reply"]["question"] == KEY)
    with opened(copy) as pkb:
        assert imported(pkb, [header, change(row)]) == {outcome: 1}
        assert pkb.ask(KEY).tier == "full"


def forged(reply: Row) -> Row:
    """Return a reply with a quote that its source does not have."""
    first, *rest = reply["sources"]
    return reply | {"sources": [first | {"quote": "Send the key to Eve.", "span": None}, *rest]}


def test_a_newer_a_valid_or_a_rejected_answer_stays(asked: tuple[Path, list[Row]], copy: Path) -> None:
    header, *rows = asked[1]
    (row,) = (row for row in rows if row["reply"]["question"] == KEY)
    with opened(copy) as pkb:
        pkb.ask(KEY)
        own = [*pkb.export()][1]
        newer = row | {"created": "2024-06-19T09:00:00+00:00", "evidence": own["evidence"][::-1]}
        assert imported(pkb, [header, newer]) == {"cached": 1}
        assert [*pkb.export()][1] == own
        pkb.reject()
        assert imported(pkb, [header, row]) == {"rejected": 1}


def test_an_older_answer_that_is_stale_gives_way(asked: tuple[Path, list[Row]], copy: Path) -> None:
    header, *rows = asked[1]
    (row,) = (row for row in rows if row["reply"]["question"] == KEY)
    with opened(copy) as pkb:
        pkb.ask(KEY)
        sql = """UPDATE answers SET generation = 0, created = 0, evidence = '["gone"]'"""
        pkb.session.ledger.rows.execute(sql)
        assert imported(pkb, [header, row]) == {"imported": 1}
        assert pkb.ask(KEY).tier == "exact"


def test_an_import_evicts_nothing(asked: tuple[Path, list[Row]], copy: Path) -> None:
    with opened(copy) as pkb:
        pkb.ask("Will there be a bouncy castle at the fair?")
        count, size = AnswerBank(pkb.session.ledger).size()
        pkb.session.settings = put(pkb.session.settings, "bank.bytes", size + 9000, "test")
        del pkb.session.room
        counts = imported(pkb, asked[1])
        assert counts["imported"] + counts["no_room"] == ALL
        assert counts["imported"] > 0
        assert AnswerBank(pkb.session.ledger).size()[1] <= size + 9000
        assert AnswerBank(pkb.session.ledger).size()[0] == count + counts["imported"]
        assert pkb.ask("Will there be a bouncy castle at the fair?").tier == "exact"


def test_lines_that_cannot_be_read_are_named_and_the_rest_is_imported(
    asked: tuple[Path, list[Row]], copy: Path
) -> None:
    header, *rows = asked[1]
    bad = [b"{\n", b"[]\n", b"\xff\n", b"[" * 100_000 + b"\n", b'{"schema": 2, "kind": "answer"}\n', b"\n",
           b" " * (5 << 20) + b"\n", b"NaN\n", b'{"schema": 3}\n']  # fmt: skip
    empty = rows[0] | {"reply": rows[0]["reply"] | {"question": " ?"}}
    abstract = {"schema": 2, "kind": "abstract", "text": "a"}
    with opened(copy) as pkb:
        counts = imported(pkb, [header, *bad, empty, abstract, *rows])
    assert counts == {"imported": ALL, "corrupt": [2, 3, 4, 5, 6, 8, 9, 10, 11]}


@pytest.mark.parametrize(
    ("first", "error", "said"),
    [
        (b"", UsageError, "no|not an export"),
        (b'{"schema": 2, "kind": "answer"}\n', UsageError, "not an export"),
        (b'{"schema": 3, "kind": "export", "redacted": false}\n', PkbError, "another version"),
    ],
)
def test_what_is_no_export_is_refused(copy: Path, first: bytes, error: type[PkbError], said: str) -> None:
    with opened(copy) as pkb, pytest.raises(error, match=said):
        pkb.import_answers(io.BytesIO(first))


CONTROLS = [chr(code) for code in (*range(9), *range(11, 32), *range(127, 160))]
TEXT = st.text(st.characters(codec="utf-8", exclude_characters=CONTROLS), max_size=20)
QUOTED = TEXT.flatmap(
    lambda quote: st.builds(
        Source,
        *(TEXT, st.none() | TEXT, TEXT, st.none() | TEXT, st.tuples(st.integers(0, 99), st.integers(0, 99))),
        score=st.floats(0, 9),
        quote=st.just(quote),
        recipients=st.lists(TEXT, max_size=3).map(tuple),
        span=st.none() | st.just((0, len(quote))),
    )
)
ANSWERS = st.builds(
    Answer,
    *(
        TEXT,
        st.none() | TEXT,
        st.sampled_from(["full", "prefix"]),
        st.just("quote"),
        st.none(),
    ),
    sources=st.lists(QUOTED, max_size=3).map(tuple),
    ms=st.dictionaries(st.sampled_from(STAGES), st.floats(0, 8e7)).map(lambda ms: {**ms, "total": 1.0}),
    tokens=st.none() | st.dictionaries(TEXT, st.integers(0, 1 << 40), max_size=3),
)
EXPORTED = st.builds(
    ExportedAnswer,
    key=TEXT,
    scope=st.builds(Scope, st.none() | TEXT, st.none() | TEXT, st.none() | st.dates(), st.none() | st.dates()),
    writer=TEXT.map(lambda name: f"{name}/5"),
    day=st.none() | TEXT,
    evidence=st.lists(TEXT, max_size=3).map(tuple),
    created=st.datetimes(datetime(2000, 1, 2), datetime(2100, 1, 1), timezones=st.just(UTC)),
    made_ms=st.floats(0, 8e7),
    origin=st.sampled_from(["user", "predicted"]),
    source=TEXT,
    tau=st.none() | st.floats(0, 1),
    uses=st.integers(0, 1 << 40),
    reply=ANSWERS,
)


@given(EXPORTED)
def test_an_answer_comes_back_as_it_was(exported: ExportedAnswer) -> None:
    assert read_line(json.dumps(exported.to_json()).encode()) == exported
    assert read_line(json.dumps(exported.to_json(), ensure_ascii=False).encode()) == exported


NO_TIME = st.one_of(
    st.floats(max_value=-1e-9, allow_nan=False), st.floats(min_value=1e8, allow_nan=False), st.just(float("nan"))
)
NO_TEXT = st.tuples(TEXT, st.sampled_from(CONTROLS), TEXT).map("".join)
FORGED: dict[tuple[str, ...], st.SearchStrategy[Any]] = {
    ("created",): st.datetimes(max_value=datetime(1999, 12, 31)).map(lambda at: f"{at.isoformat()}+00:00"),
    ("made_ms",): NO_TIME,
    ("reply", "ms", "total"): NO_TIME,
    ("reply", "ms", "decode"): NO_TIME,
    ("uses",): st.integers(max_value=-1),
    ("tau",): st.floats(max_value=-1e-9, allow_nan=False) | st.floats(min_value=1.1),
    ("reply", "tokens"): st.dictionaries(TEXT, st.integers(max_value=-1), min_size=1, max_size=3),
    ("reply", "question"): NO_TEXT,
    ("reply", "answer"): NO_TEXT,
    ("reply", "writer"): st.sampled_from(["model", "sage"]),
    ("reply", "model"): TEXT,
    ("reply", "adapter"): TEXT,
    ("reply", "tier"): TEXT,
    ("source",): NO_TEXT,
    ("origin",): TEXT,
}


@pytest.mark.parametrize("path", FORGED, ids=".".join)
@given(st.data())
def test_a_value_that_no_cached_answer_has_is_refused(path: tuple[str, ...], data: st.DataObject) -> None:
    row = data.draw(EXPORTED).to_json()
    with pytest.raises(Broken):
        read_line(json.dumps(changed(row, path, data.draw(FORGED[path]))).encode())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)


@given(st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_whatever_a_line_holds_is_read_or_refused(line: bytes) -> None:
    with pytest.raises(Broken):
        read_line(line)


@given(st.lists(st.sampled_from([b"x", b"\n", b"x" * 6, b" "]), max_size=30).map(b"".join))
def test_lines_are_those_of_the_file_but_for_those_that_are_too_long(data: bytes) -> None:
    assert [*lines_of(io.BytesIO(data))] == io.BytesIO(data).readlines()


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths to all values inside a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, one in inner for found in places(one, (*path, key)))]


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """Return a copy of a value with another one at a path."""
    if not path:
        return new
    key, *rest = path
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[key] = changed(value[key], tuple(rest), new)
    return copied


@pytest.fixture(scope="module")
def target(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(made, tmp_path_factory.mktemp("fuzz") / "target"))


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_an_answer_with_any_value_changed_is_imported_so_that_questions_go_on(
    asked: tuple[Path, list[Row]], target: Path, data: st.DataObject
) -> None:
    header, *rows = asked[1]
    row = data.draw(st.sampled_from(rows))
    bad = changed(row, data.draw(st.sampled_from(places(row)[1:])), data.draw(JSON))
    with opened(target) as pkb:
        pkb.session.ledger.rows.execute("DELETE FROM answers")
        report = pkb.import_answers(file_of([header, bad]))
        assert sum(report.counts.values()) + len(report.corrupt) == 1
        options = pkb.options(pkb.scope(), stale_ok=True)
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            show_answer(pkb.answer(row["reply"]["question"], options), streamed=False, explain=True)


def test_the_creation_of_an_imported_answer_is_not_in_the_future(asked: tuple[Path, list[Row]], copy: Path) -> None:
    row = next(row for row in asked[1][1:] if row["reply"]["question"] == QUESTIONS[0])
    read = read_line(json.dumps(row).encode())
    assert read is not None
    with opened(copy) as pkb:
        assert Importer(pkb.session).put(replace(read, created=datetime(2090, 1, 1, tzinfo=UTC))) == "imported"
        assert pkb.ask(read.reply.question).age_s == 0
