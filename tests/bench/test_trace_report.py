"""The page of traces shows what made-up traces say, to the digit, and its plots have every interval."""

import gzip
import json
from dataclasses import asdict, replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.bench import trace_report
from tests.bench.curves import Check, Residual
from tests.bench.intervals import Interval
from tests.bench.page import Bars
from tests.bench.prices import FORMS, Curve, Curves
from tests.bench.records import write_file
from tests.bench.report import made
from tests.bench.standings import Side, Standings, common, counts, error, parts, priced
from tests.bench.sums import RIVALS
from tests.bench.test_report import rows as table_rows
from tests.bench.traces import Row, Work

ONE = {"body": Curve((1, 2), (1.0, 2.0), (0.0, 0.0)), "head": Curve((1, 2), (1.0, 2.0), (0.0, 0.0))}
FAST = {**ONE, "decode": Curve((1, 2), (10.0, 11.0), (0.0, 0.0))}
PLAIN = {**FAST, "body": Curve((1, 2), (2.0, 4.0), (0.0, 0.0))}
ENGINE = {corpus: {top: {"made": 5.0, "exact": 1.0} for top in ("2", "5")} for corpus in ("mail", "meetings")}
CURVES = Curves("135M", "wall", FAST, PLAIN, (1.0, 0.0), (0.0, 0.0, 0.0, 0.0), ENGINE)
# Steps of one row for a prompt, by policy: a price is these, 5 for pkb's own time and 20 for two steps of decoding.
PREFILL = dict.fromkeys(RIVALS, 100) | {"ragcache": 80, "percache": 90, "pkb": 40, "pkb-blocks": 20}


def row(policy: str, number: int, corpus: str = "mail", top: int = 5) -> Row:
    """Return a question; the second is an exact hit of MeanCache, and wrong."""
    steps = [["body", 1, PREFILL[policy] * number, 0], ["decode", 1, 2, 0]]
    found = Row(
        corpus, "ann", number, policy, top, "prefix", None, False, 100, 50, 3, 1, 4, 2, (0, 0), [],
        Work(steps, [3, 0], [0, 0], 1000), None,
    )  # fmt: skip
    if policy == "meancache" and number == 2:
        return replace(found, tier="exact", right=False, work=Work([], [0, 0], [0, 0], 0))
    return found


ROWS = [row(name, number, corpus, top) for name in PREFILL for number in (1, 2) for corpus in ENGINE for top in (2, 5)]


@pytest.fixture
def standings() -> Standings:
    """Return the standings of the made-up traces."""
    return priced(ROWS, CURVES)


def test_means_and_changes_are_those_of_the_prices(standings: Standings) -> None:
    assert standings.values(("pkb", 5, "strengthened"), "mail") == [40 + 25, 80 + 25]
    assert standings.values(("ragcache", 5, "published"), "mail") == [160 + 35, 320 + 35]
    assert standings.best(5, "strengthened") == ("ragcache", 5, "strengthened")
    found = standings.against(("pkb", 5, "strengthened"), standings.best(5, "strengthened"))
    assert found.value == pytest.approx(85 / 145 - 1)
    assert found.low <= found.value <= found.high


def test_a_wrong_hit_costs_the_uncached_answer_too(standings: Standings) -> None:
    assert standings.values(("meancache", 5, "strengthened"), "mail") == [100 + 25, 1 + 200 + 25]


def test_only_questions_that_all_were_asked_are_compared() -> None:
    rest = [one for one in ROWS if (one.policy, one.number, one.corpus, one.top) != ("pkb", 2, "mail", 5)]
    assert {(one.corpus, one.number) for one in common(rest)} == {("mail", 1), ("meetings", 1), ("meetings", 2)}


def test_counts_add_up_rows() -> None:
    found = counts(one for one in ROWS if one.policy == "meancache" and one.top == 5)
    assert (found.n, found.hits, found.wrong, found.tiers["exact"]) == (4, 2, 2, 2)
    assert (found.chunks, found.found, found.tokens_reused, found.written) == (16, 8, 0.5, 2000)


def test_the_parts_of_a_price_add_up_to_the_mean(standings: Standings) -> None:
    side: Side = ("meancache", 5, "strengthened")
    found = parts(standings, CURVES, side)
    assert found["asked again"] == pytest.approx((200 + 25) / 2)
    assert sum(found.values()) == pytest.approx(standings.of(side).value)


def test_the_error_of_prices_is_relative_and_has_no_sign() -> None:
    found = error([(110.0, 100.0), (90.0, 100.0)])
    assert (found.n, found.sum) == (2, 0.0)
    assert found.mean.value == pytest.approx(0.1)


def test_an_interval_is_shown_in_brackets() -> None:
    assert trace_report.spread(Interval(-0.5, -0.61, 0.012)) == "-50.0 % [-61.0, +1.2]"
    assert trace_report.spread(Interval(1234.0, 99.0, 2000.0), relative=False) == "1,234 [99.0, 2,000]"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of traces, curves and checks."""
    (tmp_path / "traces").mkdir()
    with gzip.open(tmp_path / "traces" / "mail.ann.jsonl.gz", "wt", encoding="utf-8") as out:
        out.writelines(json.dumps(asdict(one)) + "\n" for one in ROWS)
    write_file(tmp_path / "curves.135M.json", CURVES)
    write_file(tmp_path / "checks.135M.json", [Check(row("pkb", 1), 130.0), Check(row("meancache", 2), 1.0)])
    write_file(tmp_path / "residuals.135M.json", [Residual("body 8 behind 600", 0.05)])
    return tmp_path


def test_the_page_has_ten_figures_and_says_whether_the_aim_was_reached(folder: Path) -> None:
    traces = trace_report.gathered(folder)
    assert traces
    section = trace_report.figures(traces)
    head = "figure [95 % interval]"
    found = [one[head] for one in table_rows(section.text, head)]
    assert [one.split(".")[0] for one in found] == [str(number) for number in range(1, 11)]
    values = {one[head].split(".")[0]: one["135M"] for one in table_rows(section.text, head)}
    assert values["2"].startswith("-41.4 % [")
    assert values["2"].endswith("(RAGCache)")
    assert values["10"] == "50.0 % [50.0, 50.0], n = 1"
    assert "reached" in section.text
    flat = " ".join(section.text.split())
    assert "pkb, 5 sources: reached; behind the best baseline on no corpus (as published)" in flat
    assert "Questions: 4 (mail 2 of 1 user, meetings 2 of 1 user)." in section.text


def test_pkbs_own_time_is_another_shapes_where_it_was_not_measured_beside_one(folder: Path) -> None:
    write_file(folder / "curves.0.5B.json", replace(CURVES, shape="0.5B", engine={"mail": {"2": {"made": 9.0}}}))
    traces = trace_report.gathered(folder)
    assert traces
    assert traces.curves["0.5B"].engine == {"mail": {"2": {"made": 9.0}}, "meetings": ENGINE["meetings"]}


def test_every_bar_has_its_interval(folder: Path) -> None:
    traces = trace_report.gathered(folder)
    assert traces
    for picture in (trace_report.pooled(traces), trace_report.each(traces)):
        for panel in picture.panels:
            assert isinstance(panel, Bars)
            for name, values in panel.series.items():
                ends = panel.spread[name]
                assert [value is None for value in values] == [end is None for end in ends]
                assert len(values) == len(panel.groups)


def test_all_policies_are_shown_and_each_corpus_has_its_best_baselines(folder: Path) -> None:
    traces = trace_report.gathered(folder)
    assert traces
    whole, each = trace_report.by_corpus(traces)
    found = table_rows(whole.text, "policy")
    assert [one["sources"] for one in found] == ["5"] * (len(RIVALS) + 2) + ["2"] * 3
    assert next(one for one in found if one["policy"] == "MeanCache")["wrong hits"] == "2 of 2"
    assert next(one for one in found if one["policy"] == "pkb")[f"135M, {FORMS[0]}, ms"] == ""
    assert [one["corpus"] for one in table_rows(each.text, "corpus")] == ["mail", "meetings"]


def test_all_pages_are_made_and_their_plots_are_xml(folder: Path) -> None:
    pytest.importorskip("matplotlib", reason="the group bench is not installed")
    files = made(folder)
    assert {name for name in files if name.endswith(".md")} == {
        "benchmarks.md", "benchmarks/corpora.md", "benchmarks/prices.md", "benchmarks/apple.md",
    }  # fmt: skip
    plots = [name for name in files if name.endswith(".svg")]
    assert plots == [f"benchmarks/traces-{name}.svg" for name in ("mean", "corpora", "parts")]
    assert {ElementTree.fromstring(files[name]).tag for name in plots} == {"{http://www.w3.org/2000/svg}svg"}
    assert made(folder) == files
