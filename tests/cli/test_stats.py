"""`pkb stats`: what a home shows before and after questions, and how the lines about reuse are worded."""

import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from cli.stats import kv_lines
from store.database import open_ledger
from store.kv_index import KvCounts
from tests.cli.conftest import Pkb
from tests.demo import NANO, environment

NEW = "Who has the spare key to the workshop?"
MB = 1_000_000


def row(**changes: Any) -> dict[str, Any]:
    """Make the figures of a home where a model read ten prompts."""
    usual = {
        "reuse": "prefix", "nodes": 2, "bytes": 3 * MB, "budget": 4000 * MB, "other_bytes": 25 * MB,
        "written_today": MB, "daily_budget": 20_000 * MB, "written_by_day": {"2024-06-19": MB},
        "hits": 0, "partial": 0, "saved_s": 0.0,
        "removed": {}, "refused": {}, "more_would_save_s": 0.0,
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
        pkb("ask", NEW, "--fresh")
    found = pkb("stats", "--json").row
    prompts, kept = found["prompts"], found["kv"]
    assert (prompts["questions"], prompts["with_reuse"], prompts["reused"]) == (2, 1, kept["tokens"])
    assert 0 < prompts["reused"] < prompts["tokens"] / 2
    assert kept["written_by_day"] == dict.fromkeys(kept["written_by_day"], kept["bytes"])


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


def test_what_was_written_stands_beside_what_may_be() -> None:
    assert said("KV cache") == "2 segments, 3.0 MB; 1.0 MB of 20.0 GB written today"


def test_the_tokens_reused_stand_beside_those_asked_for() -> None:
    assert said("reused", saved_s=2.5) == "1,000 of 4,000 tokens (25 %), in 4 of 10 prompts; 2.5 s saved"


def test_evictions_go_with_what_more_room_would_have_saved() -> None:
    lines = [
        text for _, text in kv_lines(row(removed={"truncated": 2, "evicted": 7, "ids": 1}, more_would_save_s=1.26))
    ]
    assert lines[-2:] == [
        "7 for lack of space, 3 with a missing or damaged file",
        "more room would have saved 1.3 s",
    ]


def test_where_the_rest_of_the_cache_fills_it_no_room_is_promised(pkb: Pkb) -> None:
    lines = [text for _, text in kv_lines(row(removed={"evicted": 7}, more_would_save_s=1.25, budget=3 * MB))]
    assert lines[-1] == "7 for lack of space"
    others = pkb("stats", "--json").row["kv"]["other_bytes"]
    with closing(open_ledger(pkb.folder / "home" / "ledger.db")) as ledger:
        KvCounts(ledger).add("ghost", "2", seconds=5.0)
    pkb("config", "set", "kv.bytes", str(others // 3))
    assert pkb("stats", "--json").row["kv"]["more_would_save_s"] == 5.0
    assert "no KV cache is stored: other cache files take" in pkb("stats").out


def test_refusals_are_named() -> None:
    found = said("not stored", refused={"in_progress": 1, "daily_limit": 3, "no_parent": 4, "no_space": 2})
    assert found == (
        "4 without their parent, 3 over the daily write limit, 2 for lack of space, 1 already stored by another process"
    )


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
