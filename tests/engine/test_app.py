"""The Python API, used as a notebook would use it: one folder, bundled mail, no server, answers by quotes."""

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from pathlib import Path

import pytest

from cli.ingest import WatchPrinter
from engine.app import Pkb
from engine.ingest.follow import Followed, Intervals
from engine.ingest.pipeline import Summary
from engine.operations import CacheUse, tidy
from engine.session import session
from store.database import DOUBTFUL
from store.errors import NoStore, PkbError, UsageError
from tests.attack.lab import Lab, mail
from tests.demo import DATA

KEY = "Who has the spare key to the workshop?"


class UntilRead(WatchPrinter):
    """Delivers a mail to a folder when watching begins, and ends the watch when it has been read."""

    def __init__(self, inbox: Path) -> None:
        super().__init__(as_json=True)
        self._inbox = inbox

    def followed(self, one: Followed) -> None:
        (self._inbox / "1.eml").write_bytes(b"From: ann@example.org\n\nThe fair is in June.\n")

    def read(self, path: str, summary: Summary, left: int | None, seconds: float, *, always: bool) -> None:
        if summary.kept:
            raise KeyboardInterrupt


REMOVED = (["home"], ["home", "cache"], ["home/tables", "home/ledger.db"])


@pytest.mark.parametrize("names", REMOVED, ids="+".join)
def test_a_home_that_is_removed_under_an_open_pkb_is_made_anew(tmp_path: Path, names: list[str]) -> None:
    lab, question = Lab(tmp_path), "How much is the rent?"
    lab.read({"one.eml": mail("The rent is 900 euros.")})
    with lab.open() as pkb:
        for _ in range(3):
            assert pkb.ask(question).text == "900 euros"
            assert len(pkb.show(lab.mail / "one.eml")) == 1
            for name in names:
                path = tmp_path / name
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            with pytest.raises(NoStore):
                pkb.ask(question)
            pkb.ingest([lab.mail], embed=False)


def test_what_came_after_an_older_copy_of_the_ledger_is_read_again(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.read({f"{name}.eml": mail(f"The {name} is blue.") for name in ("door", "boat", "shed")})
    ledger = tmp_path / "home" / "ledger.db"
    shutil.copyfile(ledger, tmp_path / "copy")
    (lab.mail / "door.eml").unlink()
    lab.read()
    shutil.copyfile(tmp_path / "copy", ledger)
    (lab.mail / "boat.eml").unlink()
    lab.read({"door.eml": mail("The door is blue.")})
    with lab.open() as pkb:
        found = {name: len(pkb.search(name)) for name in ("door", "boat", "shed")}
    assert found == {"door": 1, "boat": 0, "shed": 1}


@pytest.mark.parametrize("by_idle", [False, True])
def test_what_ledger_and_tables_disagree_on_is_read_again_by_the_next_that_writes(
    tmp_path: Path, by_idle: bool
) -> None:
    lab = Lab(tmp_path)
    lab.read({f"{name}.eml": mail(f"The {name} is blue.") for name in ("door", "boat", "shed")})
    with lab.open() as pkb, session(pkb._session.environ) as opened:
        row = opened.tables.select("chunks", "text LIKE '%boat%'", ["document"])[0]
        opened.tables.delete("chunks", f"document = '{row['document']}'")
        opened.ledger.raise_generation()
        opened.mapped.clear()
        if by_idle:
            tidy(opened)
            assert (opened.ledger.get(DOUBTFUL), opened.mapped.view().count) == (None, opened.ledger.count("chunks"))
            assert opened.mapped._read_list() is not None
    lab.read()
    with lab.open() as pkb:
        assert [len(pkb.search(name)) for name in ("door", "boat", "shed")] == [1, 1, 1]
        assert [one.name for one in pkb.check() if one.wrong and one.name != "privacy"] == []


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home that has indexed the bundled mail and meetings, for keyword search."""
    folder = tmp_path_factory.mktemp("app") / "home"
    with Pkb(folder) as pkb:
        summary = pkb.ingest([DATA / "mail", DATA / "transcripts"], embed=False)
    assert summary.kept > 50
    return folder


@pytest.fixture
def pkb(home: Path) -> Iterator[Pkb]:
    with Pkb(home) as opened:
        yield opened


def test_an_answer_comes_with_the_source_it_rests_on(pkb: Pkb) -> None:
    answer = pkb.ask(KEY, cache="off")
    assert (answer.tier, answer.writer) == ("full", "quote")
    assert "spare key" in answer.sources[0].quote


def test_the_same_question_is_an_exact_hit_until_the_cache_is_refreshed(pkb: Pkb) -> None:
    uses: tuple[CacheUse, ...] = ("refresh", "use", "refresh")
    tiers = [pkb.ask(KEY, cache=use).tier for use in uses]
    assert tiers == ["full", "exact", "full"]


def test_without_the_cache_nothing_is_kept(pkb: Pkb) -> None:
    question = "When is the summer fair?"
    assert [pkb.ask(question, cache="off").tier for _ in range(2)] == ["full", "full"]


def test_filters_limit_what_is_read(pkb: Pkb) -> None:
    found = pkb.search("workshop", since="2024-05", until="2024-05", k=20)
    assert found
    assert {source.date[:7] for source in found if source.date} == {"2024-05"}


def test_a_filter_that_cannot_be_is_an_error_that_says_so(pkb: Pkb) -> None:
    with pytest.raises(UsageError, match="not a day"):
        pkb.search("workshop", since="someday")


def test_a_source_can_be_shown_whole(pkb: Pkb) -> None:
    source = pkb.search("spare key workshop", k=1)[0]
    (document,) = pkb.show(source.path, source.message_id)
    first, last = source.lines
    lines = document["text"].split("\n")[first - document["lines"][0] : last - document["lines"][0] + 1]
    assert any("spare key" in line for line in lines)


def test_an_idle_run_reports_its_jobs_and_shows_its_progress(pkb: Pkb) -> None:
    told = list[str]()
    report = pkb.idle(budget_s=5, on_progress=lambda step, done, total: told.append(step))
    assert {one.job.kind for one in report.results if one.state == "done"} <= set(told)
    assert told


def test_figures_and_checks_are_plain_values(pkb: Pkb) -> None:
    assert pkb.stats()["index"]["documents"] > 50
    assert [one.wrong for one in pkb.check() if one.wrong] == []
    assert {one.state for one in pkb.doctor()} <= {"ok", "note", "bad"}


def test_the_last_answer_can_be_rejected(pkb: Pkb) -> None:
    pkb.ask(KEY, cache="refresh")
    assert pkb.reject().question == KEY
    assert pkb.ask(KEY).tier == "full"


def test_an_empty_home_says_what_to_do(tmp_path: Path) -> None:
    with Pkb(tmp_path / "empty") as empty:
        with pytest.raises(NoStore, match="nothing has been ingested"):
            empty.ask(KEY)
        with pytest.raises(PkbError, match="does not exist"):
            empty.ingest([tmp_path / "nowhere"])


def test_files_written_while_watching_are_readable_by_their_user_alone(tmp_path: Path) -> None:
    home, inbox = tmp_path / "home", tmp_path / "mail"
    inbox.mkdir()
    before = os.umask(0o022)
    try:
        with Pkb(home) as pkb, pytest.raises(KeyboardInterrupt):
            pkb.watch([inbox], UntilRead(inbox), intervals=Intervals(quiet=0.1), embed=False)
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)
    written = [path for path in home.rglob("*") if path.is_file()]
    assert any(path.suffix == ".lance" for path in written)  # by threads of LanceDB
    assert [path for path in written if path.stat().st_mode & 0o077] == []


def test_a_folder_of_its_own_holds_caches_and_settings_too(home: Path) -> None:
    with Pkb(home) as pkb:
        places = (pkb.session.home.data, pkb.session.home.cache, pkb.session.home.config.parent)
    assert {home, home / "cache"} == set(places)


def umask() -> int:
    """Return the umask of this process."""
    found = os.umask(0o022)
    os.umask(found)
    return found


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_objects_closed_in_any_order_leave_the_umask_as_it_was(tmp_path: Path, order: tuple[int, ...]) -> None:
    before = os.umask(0o027)
    try:
        opened = [Pkb(tmp_path / str(number)) for number in range(3)]
        for number in order:
            assert umask() == 0o077
            opened[number].close()
            opened[number].close()
        assert umask() == 0o027
    finally:
        os.umask(before)


def test_objects_opened_and_closed_in_threads_leave_the_umask_as_it_was(tmp_path: Path) -> None:
    before = os.umask(0o022)

    def use(number: int) -> int:
        with Pkb(tmp_path / str(number)):
            return umask_of_a_file(tmp_path / f"{number}.txt")

    try:
        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(use, range(80))) == {0o600}
        assert umask() == 0o022
    finally:
        os.umask(before)


def umask_of_a_file(path: Path) -> int:
    """Return the mode that a new file gets."""
    path.touch()
    return path.stat().st_mode & 0o777
