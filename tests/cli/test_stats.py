"""`pkb stats`: what a home shows before and after questions, how it fits a screen, and how its lines are worded."""

import random
import subprocess
import sys
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cli.stats import kv_lines
from store.answers import AnswerBank, CachedAnswer
from store.database import open_ledger
from store.history import History, HistoryEntry
from store.kv_index import KvIndex
from tests.cli.conftest import Pkb
from tests.cli.test_terminal import terminal
from tests.demo import NANO, NOW, environment

NEW = "Who has the spare key to the workshop?"
MB = 1_000_000


def entry(at: datetime, tier: str, *, model: bool = False, saved_ms: float = 0.0) -> HistoryEntry:
    """Make a question that took as long as its tier usually takes."""
    ms = {"exact": 2.0, "semantic": 35.0, "prefix": 2600.0}.get(tier, 7100.0 if model else 55.0)
    tokens = (1100, 600 if tier == "prefix" else 0) if model else (None, None)
    return HistoryEntry(at.timestamp(), NEW, tier, True, ms, saved_ms, *tokens)


def asked(folder: Path, entries: Iterable[HistoryEntry]) -> None:
    """Add questions to the history of a home."""
    with closing(open_ledger(folder / "home" / "ledger.db")) as ledger, ledger.transaction():
        for one in entries:
            History(ledger).add(one)


def year(folder: Path) -> None:
    """Fill a home with what a year leaves: questions in every tier, idle work, predictions, KV written."""
    draw, end = random.Random(1), datetime.fromisoformat(NOW)
    kinds = [("exact", False), ("semantic", False), ("prefix", True), ("full", True), ("full", False)]
    chosen = [(end - timedelta(days=365 - number / 2), *draw.choice(kinds)) for number in range(720)]
    asked(folder, [entry(at, tier, model=model, saved_ms=5000.0 * (tier != "full")) for at, tier, model in chosen])
    jobs = [(kind, 900, 3600.0 * (number + 1), 40, 5400.0) for number, kind in enumerate(JOBS)]
    with closing(open_ledger(folder / "home" / "ledger.db")) as ledger:
        ledger.rows.executemany("INSERT INTO job_stats VALUES (?, ?, ?, ?, ?)", jobs)
        kept = CachedAnswer(
            "", "{}", "w/5", None, "{}", (), 1, "full", 1.0, 1.0, "answered", "predicted", "history/form"
        )
        for number in range(90):
            AnswerBank(ledger).put(bytes([number]), replace(kept, question=f"Why {number}?"), 1 << 20)
            if number < 13:
                AnswerBank(ledger).record_use(bytes([number]), 1, 2.0)
        for day in range(60):
            KvIndex(ledger).write((day + 1) * MB, end.timestamp() + day * 86_400.0)


JOBS = ("refresh", "verify", "predict", "populate", "standing", "prefetch", "restore", "maintenance")


def row(**changes: Any) -> dict[str, Any]:
    """Make the figures of a home where a model read ten prompts."""
    usual = {
        "reuse": "prefix", "nodes": 2, "bytes": 3 * MB, "budget": 4000 * MB, "other_bytes": 25 * MB,
        "written_today": MB, "daily_budget": 20_000 * MB, "hits": 0, "saved_s": 0.0,
        "fetched_tokens": 0, "fetched_bytes": 0, "fetched_saved_s": 0.0,
    }  # fmt: skip
    return {
        "kv": usual | changes,
        "prompts": {"questions": 10, "with_reuse": 4, "tokens": 4000, "reused": 1000},
    }  # fmt: skip


def said(label: str, **about: Any) -> str:
    """Return what stands beside a label."""
    return dict(kv_lines(row(**about)))[label]


def test_a_home_without_questions_says_what_to_type(pkb: Pkb) -> None:
    ran = pkb("stats")
    assert "59 documents in 52 files, 93 chunks" in ran.out
    assert ran.out.splitlines()[-1] == "asked       nothing yet; try: pkb ask QUESTION"


def test_each_folder_stands_with_its_days_and_when_it_was_read(pkb: Pkb) -> None:
    folders = {Path(row["path"]).name: row for row in pkb("stats", "--json").row["folders"]}
    assert [(name, row["documents"]) for name, row in folders.items()] == [("mail", 51), ("transcripts", 8)]
    assert folders["mail"]["first"].startswith("2024-01-02")
    assert folders["mail"]["read"].startswith("2024-06-19T08:00")
    shown = next(line for line in pkb("stats").out.splitlines() if line.startswith("folders"))
    assert shown.endswith("51 documents, 2024-01-02 to 2024-06-18, read 2024-06-19")


def test_prompts_share_what_the_model_has_read(pkb: Pkb) -> None:
    pkb("config", "set", "model.name", str(NANO))
    for _ in range(2):
        pkb("ask", NEW, "--cache=refresh")
    found = pkb("stats", "--json").row
    prompts, kept = found["prompts"], found["kv"]
    assert (prompts["questions"], prompts["with_reuse"], prompts["reused"]) == (2, 1, kept["tokens"])
    assert 0 < prompts["reused"] < prompts["tokens"] / 2
    assert kept["written_today"] == kept["bytes"]


def test_stats_opens_no_table_and_loads_no_model(pkb: Pkb) -> None:
    pkb("ask", NEW)
    code = "import sys; from cli.app import run; run(['stats', '--json']); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(pkb.folder), capture_output=True, text=True, check=True,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    loaded = {name.split(".")[0] for name in done.stdout.splitlines()[-1].split()}
    assert loaded & {"lancedb", "pyarrow", "mlx", "transformers", "tokenizers", "rank_bm25", "rich"} == set()


def test_all_of_it_fits_one_screen(pkb: Pkb) -> None:
    for question in (NEW, "When is the summer concert?", NEW):
        pkb("ask", question)
    lines = pkb("stats").out.splitlines()
    assert (len(lines) <= 24, [line for line in lines if len(line) > 100]) == (True, [])


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_a_year_of_use_fits_a_terminal_of_80_by_24(pkb: Pkb, columns: int) -> None:
    year(pkb.folder)
    lines = terminal(pkb.folder, "stats", COLUMNS=str(columns), NO_COLOR="1").splitlines()
    assert max(map(len, lines)) <= columns
    assert len(lines) <= (24 if columns >= 80 else 32)
    assert "\x1b" not in "".join(lines)


def test_the_savings_come_first_and_then_the_tiers_from_the_least_work_to_the_most(pkb: Pkb) -> None:
    year(pkb.folder)
    first, _, heading, *rest = pkb("stats").out.splitlines()
    assert first == "saved       35 min in 720 questions since 2023-06-20, 100 % answered"
    assert heading.split() == ["tier", "asked", "share", "p50", "p95", "saved"]
    assert [line[:12].rstrip() for line in rest[:6]] == ["exact", "semantic", "prefix", "full (model)", "full", "all"]


def test_idle_work_stands_against_what_it_saved(pkb: Pkb) -> None:
    year(pkb.folder)
    lines = pkb("stats").out.splitlines()
    found = lines.index("idle work   36 h spent, 12 h saved by 320 cache hits")
    assert lines[found + 1].strip() == "maintenance 8.0 h, restore 7.0 h, prefetch 6.0 h, other jobs 15 h"
    assert lines[found + 2].strip() == "90 predicted questions answered, 13 asked later"


def test_weeks_begin_on_monday_and_those_without_questions_are_counted(pkb: Pkb) -> None:
    sunday, monday = datetime(2024, 5, 5, 23, 59), datetime(2024, 5, 20)
    asked(pkb.folder, [entry(sunday, "full"), entry(monday, "exact", saved_ms=1500.0), entry(monday, "full")])
    weeks = pkb("stats", "--json").row["history"]["weeks"]
    assert weeks == [
        {"start": "2024-04-29", "questions": 1, "tiers": {"full": 1}, "saved_s": 0.0},
        {"start": "2024-05-06", "questions": 0, "tiers": {}, "saved_s": 0.0},
        {"start": "2024-05-13", "questions": 0, "tiers": {}, "saved_s": 0.0},
        {"start": "2024-05-20", "questions": 2, "tiers": {"exact": 1, "full": 1}, "saved_s": 1.5},
    ]


def test_the_last_104_weeks_are_listed(pkb: Pkb) -> None:
    now = datetime.fromisoformat(NOW)
    asked(pkb.folder, [entry(now - timedelta(weeks=age), "full") for age in (200, 60, 0)])
    history = pkb("stats", "--json").row["history"]
    assert (len(history["weeks"]), history["first"]) == (104, "2020-08-19")
    assert sum(week["questions"] for week in history["weeks"]) == 2


def test_questions_of_a_wrong_clock_are_in_no_week(pkb: Pkb) -> None:
    asked(pkb.folder, [entry(datetime(2099, 1, 1), "full")])
    assert pkb("stats", "--json").row["history"]["weeks"] == []
    assert "in 1 question, 100 % answered" in pkb("stats").out


def test_latency_stands_with_p50_and_p95_by_tier_and_model(pkb: Pkb) -> None:
    now = datetime.fromisoformat(NOW)
    asked(pkb.folder, [entry(now, "full", model=model) for model in (True, False, False)])
    tiers = pkb("stats", "--json").row["tiers"]
    assert [(one["by_model"], one["questions"], one["p50_ms"], one["p95_ms"]) for one in tiers] == [
        (False, 2, 55.0, 55.0),
        (True, 1, 7100.0, 7100.0),
    ]


def test_what_was_written_stands_beside_what_may_be() -> None:
    assert said("KV cache") == "2 segments, 3.0 MB; 1.0 MB of 20.0 GB written today"


def test_the_tokens_reused_stand_beside_those_asked_for() -> None:
    assert said("reused", saved_s=2.5) == "1,000 of 4,000 prompt tokens (25 %), 2.5 s saved"


def test_fetched_tokens_are_told() -> None:
    fetched = said("fetched", fetched_tokens=966, fetched_bytes=6 * MB, fetched_saved_s=1.5)
    assert fetched == "966 tokens, 6.0 MB from elsewhere, 1.5 s saved"
    assert "fetched" not in dict(kv_lines(row()))


def test_the_bound_on_wrong_hits_stands_beside_their_count(pkb: Pkb) -> None:
    pkb("ask", NEW)
    assert pkb("stats", "--json").row["answers"]["false_hit_upper"] is None
    with closing(open_ledger(pkb.folder / "home" / "ledger.db")) as ledger:
        (key,) = ledger.rows.execute("SELECT key FROM answers").fetchone()
        rows = [(key, 0.9, number > 0, float(number)) for number in range(60)]
        sql = "INSERT INTO verification_results (matched, similarity, correct, at) VALUES (?, ?, ?, ?)"
        ledger.rows.executemany(sql, rows)
    answers = pkb("stats", "--json").row["answers"]
    assert (answers["verified"], answers["wrong"], answers["false_hit_upper"]) == (60, 1, 0.0766)
    assert "wrong of 60 verified semantic hits: 1, at most 7.7 % (95 %)" in pkb("stats").out
