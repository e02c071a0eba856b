"""What is searched: filters from any value, odd words, commits of other processes, tidying beside readers."""

import subprocess
import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st

from engine.text.words import words
from store.errors import DamagedTable, Locked
from store.locks import Locks
from store.tables import Tables
from store.types import Hit, Scope, names_person, replace
from tests.effort import examples
from tests.store.conftest import Open
from tests.store.kit import HashEmbedder, Opened, entry, home_in

_NOW = datetime(2024, 5, 3, 12, tzinfo=UTC)


def ids(hits: list[Hit]) -> list[str]:
    return [hit.chunk.id for hit in hits]


def found(opened: Opened, *searched: str, **scope: Any) -> set[str]:
    return set(ids(opened.reader.by_words(searched, Scope(**scope), 100)))


def test_an_empty_home_has_no_hits(opened: Opened) -> None:
    vector = HashEmbedder().embed(["red"])[0]
    assert (found(opened, "red"), opened.reader.by_vector(vector, Scope(), 5)) == (set(), [])


def test_words_are_found_before_the_index_is_made(opened: Opened) -> None:
    opened.keep(entry("a", "red fish"), entry("b", "blue"))
    assert found(opened, "red") == {"a/0"}


def test_words_kept_after_the_index_was_made_are_found(opened: Opened) -> None:
    opened.keep(entry("a", "red"))
    opened.knowledge.compact()
    opened.keep(entry("b", "red"))
    assert found(opened, "red") == {"a/0", "b/0"}


def test_a_removed_chunk_is_not_found_by_its_words(opened: Opened) -> None:
    opened.keep(entry("a", "red"), entry("b", "red"))
    opened.knowledge.compact()
    opened.keep(removes=["a"])
    assert found(opened, "red") == {"b/0"}


def test_any_of_the_words_is_enough(opened: Opened) -> None:
    opened.keep(entry("a", "red"), entry("b", "blue"), entry("c", "green"))
    assert found(opened, "red", "blue") == {"a/0", "b/0"}


def test_common_english_words_are_words(opened: Opened) -> None:
    opened.keep(entry("a", "to be or not to be"), entry("b", "it who"))
    opened.knowledge.compact()
    assert (found(opened, "not"), found(opened, "it"), found(opened, "who")) == ({"a/0"}, {"b/0"}, {"b/0"})


@pytest.mark.parametrize("text", ["会议改到星期五", "ประชุมวันศุกร์", "встреча в пятницу", "가나다 회의", "ραντεβού"])
def test_words_of_any_script_are_found(opened: Opened, text: str) -> None:
    opened.keep(entry("a", " ".join(words(text))), entry("b", "red"))
    opened.knowledge.compact()
    assert found(opened, *words(text)[:1]) == {"a/0"}


@pytest.mark.parametrize(
    "odd", ["", " ", "'", '"', "\\", "*", "+(", "AND", "a:b", "^2", "~", "\0", "x" * 70_000, "%", "_", "\n"]
)
def test_an_odd_word_finds_nothing_and_breaks_nothing(opened: Opened, odd: str) -> None:
    opened.keep(entry("a", "red fish"))
    opened.knowledge.compact()
    assert found(opened, odd) == set()


def test_a_long_list_of_words_is_searched(opened: Opened) -> None:
    opened.keep(entry("a", "red"))
    opened.knowledge.compact()
    assert found(opened, *(f"w{n}" for n in range(3000)), "red") == {"a/0"}


_ODD = ["O'Lee", "100%", "a_b", 'say "x"', "a\nb", "--", "\\", "ß", "\0", "İ"]
_VALUES = st.text(max_size=12) | st.sampled_from(_ODD)
_SENDERS = ["Ann O'Lee <ann@x.org>", "100% Bob", "a_b", 'C "x"', "new\nline", "back\\slash", "Straße", "會議", "", "İZ"]


@examples(60, suppress_health_check=list(HealthCheck))
@given(_VALUES)
@example("ß")
@example("'")
@example("\ud800")
@example("\n")
def test_any_sender_filters_as_a_naive_search_does(people: Opened, value: str) -> None:
    naive = {f"p{n}/0" for n, sender in enumerate(_SENDERS) if _names(sender.split("\n"), value)}
    assert found(people, "word", sender=value) == (naive if value else {f"p{n}/0" for n in range(len(_SENDERS))})


@examples(30, suppress_health_check=list(HealthCheck))
@given(_VALUES)
@example("\n")
def test_any_recipient_filters_as_a_naive_search_does(people: Opened, value: str) -> None:
    naive = {f"p{n}/0" for n in range(len(_SENDERS)) if not value or _names(_recipients(n), value)}
    assert found(people, "word", recipient=value) == naive


@examples(30, suppress_health_check=list(HealthCheck))
@given(_VALUES)
def test_any_collection_filters_by_its_whole_name(people: Opened, value: str) -> None:
    naive = {f"p{n}/0" for n, name in enumerate(_SENDERS) if value in (name, "all", "")}
    assert found(people, "word", collection=value) == naive


_MOMENTS = st.datetimes(datetime(2024, 5, 1), datetime(2024, 5, 6))
_OFFSETS = st.integers(-24, 28).map(lambda halves: timezone(timedelta(minutes=30 * halves)))


@examples(20, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(_MOMENTS, _OFFSETS), min_size=1, max_size=8), st.integers(1, 6), st.integers(1, 6))
def test_any_span_of_days_filters_each_document_by_its_local_day(
    opened: Opened, sent: list[tuple[datetime, timezone]], since: int, until: int
) -> None:
    dates = {f"d{n}": moment.replace(tzinfo=zone) for n, (moment, zone) in enumerate(sent)}
    opened.keep(*(entry(name, "word", date=date) for name, date in dates.items()), removes=sorted(opened.documents()))
    expected = {f"{name}/0" for name, moment in dates.items() if since <= moment.day < until}
    assert found(opened, "word", since=date(2024, 5, since), until=date(2024, 5, until)) == expected


@examples(20, suppress_health_check=list(HealthCheck))
@given(_MOMENTS, _OFFSETS)
def test_a_date_is_found_with_its_offset(opened: Opened, clock: datetime, zone: timezone) -> None:
    sent = clock.replace(tzinfo=zone)
    opened.keep(entry("a", "word", date=sent))
    hit, row = opened.reader.by_words(["word"], Scope(), 1)[0], opened.reader.documents(["a"])["a"]
    assert [one and one.isoformat() for one in (hit.date, hit.written, row["date"])] == [sent.isoformat()] * 3


def test_a_quoted_text_has_a_day_of_its_own_or_none(opened: Opened) -> None:
    written = datetime(2024, 4, 30, 23, 30, tzinfo=timezone(timedelta(hours=-7)))
    whole = entry("a", "own", "quoted", "undated")
    own, quoted, undated = whole.chunks
    chunks = (own, replace(quoted, role="forward", written=written), replace(undated, role="quote"))
    opened.keep(replace(whole, chunks=chunks))
    dates = [opened.reader.by_words([word], Scope(), 1)[0].written for word in ("own", "quoted", "undated")]
    assert dates == [datetime(2024, 5, 3, tzinfo=UTC), written, None]


def test_a_filter_applies_before_the_limit(people: Opened) -> None:
    assert ids(people.reader.by_words(["word"], Scope(sender="會"), 1)) == ["p7/0"]


def test_a_filter_on_vectors_applies_before_the_limit(people: Opened) -> None:
    vector = HashEmbedder().embed(["word"])[0]
    assert ids(people.reader.by_vector(vector, Scope(sender="會"), 1)) == ["p7/0"]


def test_the_nearest_vector_comes_first_with_its_own_row(people: Opened) -> None:
    row = HashEmbedder().embed(["\nword number3"])[0]
    best = people.reader.by_vector(row, Scope(), 3)[0]
    assert best.vector is not None
    assert (best.chunk.id, bool(np.allclose(best.vector, row))) == ("p3/0", True)


def test_more_rows_than_any_default_limit_are_selected(opened: Opened) -> None:
    opened.keep(entry("a", *(f"w{n}" for n in range(3000))))
    assert len(opened.chunks()) == 3000


def test_totals_count_what_has_a_vector(people: Opened) -> None:
    totals = people.reader.totals()
    assert (totals.chunks, totals.embedded, totals.mean_words) == (10, 10, 2.0)


_READ = """
import sys
from pathlib import Path
from store.types import Scope
from tests.store.kit import Opened, home_in
opened = Opened(home_in(Path(sys.argv[1])))
print("open", flush=True)
for line in sys.stdin:
    hits = opened.reader.by_words(line.split(), Scope(), 10)
    print(*sorted(hit.chunk.id for hit in hits), len(opened.reader.frequencies(line.split())), flush=True)
"""


@pytest.mark.slow
def test_another_process_sees_a_commit_at_once(open_home: Open, tmp_path: Path) -> None:
    opened = open_home()
    opened.keep(entry("a", "red"))
    words_ = [sys.executable, "-c", _READ, str(tmp_path)]
    with subprocess.Popen(words_, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdin
        assert reader.stdout
        lines = [reader.stdout.readline()]
        for kept, removed in (([], []), ([entry("b", "red")], []), ([], ["a"])):
            opened.keep(*kept, removes=removed)
            reader.stdin.write("red\n")
            reader.stdin.flush()
            lines.append(reader.stdout.readline())
        reader.stdin.close()
    assert lines == ["open\n", "a/0 1\n", "a/0 b/0 1\n", "b/0 1\n"]


_SEARCH = """
import sys
from pathlib import Path
from store.types import Scope
from tests.store.kit import HashEmbedder, Opened, home_in
opened = Opened(home_in(Path(sys.argv[1])))
vector = HashEmbedder().embed(["red"])[0]
for _ in range(30):
    with opened.locks.reader():
        assert opened.reader.by_words(["red"], Scope(), 10)
        assert opened.reader.by_vector(vector, Scope(), 10)
print("done")
"""


@pytest.mark.slow
def test_tidying_never_breaks_a_reader(open_home: Open, tmp_path: Path) -> None:
    opened = open_home()
    opened.vectors.use("hash-1")
    _grow(opened, 0)
    words_ = [sys.executable, "-c", _SEARCH, str(tmp_path)]
    with subprocess.Popen(words_, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as reader:
        number = 0
        while reader.poll() is None:
            number += 1
            _grow(opened, number)
            with opened.locks.rewriter():
                opened.knowledge.compact(opened.locks.alone)
        assert reader.communicate() == ("done\n", "")


def test_a_question_waits_for_the_removal_of_replaced_files_alone(opened: Opened) -> None:
    opened.vectors.use("hash-1")
    _grow(opened, 0)
    _grow(opened, 1)
    before = opened.tables.stored()

    def alone() -> AbstractContextManager[None]:
        with Locks(opened.home.locks).reader():  # while new files are there, beside the old ones
            assert opened.tables.files.unlisted()
            assert len(opened.chunks()) == 4
        return opened.locks.alone()

    with opened.locks.rewriter():
        opened.knowledge.compact(alone)
    assert (len(opened.chunks()), before & opened.tables.stored(), opened.wrong()) == (4, set(), [])


def test_tables_stay_as_they_are_where_somebody_reads_for_too_long(opened: Opened) -> None:
    opened.vectors.use("hash-1")
    _grow(opened, 0)
    before = opened.tables.stored()
    with Locks(opened.home.locks).reader(), pytest.raises(Locked), opened.locks.rewriter():
        opened.knowledge.compact(lambda: opened.locks.alone(0.0, 2))
    assert (len(opened.chunks()), before <= opened.tables.stored()) == (2, True)
    with opened.locks.rewriter():
        opened.knowledge.compact(opened.locks.alone)
    assert (len(opened.chunks()), before & opened.tables.stored(), opened.wrong()) == (2, set(), [])


class LateTables(Tables):
    """Has LanceDB find a version gone that it has just seen, as some readers beside a change that is undone do."""

    times = 1

    def _connected(self) -> Any:
        if not self.times:
            return super()._connected()

        def open_table(name: str) -> Any:
            self.times -= 1
            raise ValueError(f"lance error: Not found: {name}.lance/_versions/18446744073709551600.manifest")

        return SimpleNamespace(open_table=open_table)


def test_a_reader_sees_no_damage_where_a_newer_version_vanishes(opened: Opened) -> None:
    opened.vectors.use("hash-1")
    _grow(opened, 0)
    tables = LateTables(opened.home.tables, opened.ledger)
    assert tables.count("chunks") == 2
    tables.times = 2
    with pytest.raises(DamagedTable):
        tables.count("chunks")


def _grow(opened: Opened, number: int) -> None:
    opened.keep(entry(f"n{number}", "red fish", "blue"))
    rows = opened.vectors.wanted(10)
    opened.vectors.put([row["id"] for row in rows], HashEmbedder().embed([row["text"] for row in rows]))


def _names(people: Iterable[str], wanted: str) -> bool:
    return any(names_person(one, wanted) for one in people)


def _recipients(number: int) -> tuple[str, ...]:
    return (_SENDERS[number - 1], "All <all@x.org>")


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Any:
    opened = Opened(home_in(tmp_path_factory.mktemp("people")))
    dates = [None, *(_NOW + timedelta(hours=n) for n in range(1, len(_SENDERS)))]
    kept = [
        entry(f"p{n}", f"word number{n}", sender=sender, recipients=_recipients(n), date=dates[n],
              collections=(sender, "all"))
        for n, sender in enumerate(_SENDERS)
    ]  # fmt: skip
    opened.keep(*kept)
    opened.vectors.use("hash-1")
    rows = opened.vectors.wanted(100)
    opened.vectors.put([r["id"] for r in rows], HashEmbedder().embed([f"{r['header']}\n{r['text']}" for r in rows]))
    opened.knowledge.compact()
    yield opened
    opened.ledger.close()
