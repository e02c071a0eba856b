"""`pkb stats --html`: a page that stands alone, whose plots have titles and tables, written whole or not at all."""

import re
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pygal.etree import etree
from selectolax.lexbor import LexborHTMLParser

from cli.stats_page import Plot, ticks, write_page
from tests.cli.conftest import Pkb
from tests.cli.test_stats import NEW, asked, entry, year
from tests.demo import NOW

PLOTS = [
    "Hit rate by week", "Questions by week", "Time saved by week", "Latency by tier", "Bytes against budgets",
    "KV cache written by day", "Idle work", "Predicted questions", "Room for the KV cache",
]  # fmt: skip


@pytest.fixture
def page(pkb: Pkb) -> str:
    """Return the page of a year of use."""
    year(pkb.folder)
    return pkb("stats", "--html", "-").out


def test_the_page_loads_nothing_and_runs_no_script(page: str) -> None:
    tree = LexborHTMLParser(page)
    assert tree.css("script, link, iframe, img, object, [src], [href], [onclick], [onload]") == []
    assert re.findall(r"url\(|@import|@font-face|<\?|<!--", page) == []
    assert set(re.findall(r"https?://[\w./]+", page)) <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    (policy,) = tree.css("meta[http-equiv=Content-Security-Policy]")
    assert str(policy.attributes["content"]).startswith("default-src 'none'")


def test_every_plot_has_a_title_that_screen_readers_find_and_a_table(page: str) -> None:
    figures = LexborHTMLParser(page).css("figure")
    assert [figure.css("h2")[0].text() for figure in figures] == PLOTS
    for figure in figures:
        (svg,) = figure.css("svg[role=img]")
        (title,) = figure.css(f"title#{svg.attributes['aria-labelledby']}")
        assert title.text().startswith(figure.css("h2")[0].text())
        assert len(figure.css("tbody tr")) >= 2


def test_ids_are_unique_and_the_page_is_the_same_each_time(pkb: Pkb, page: str) -> None:
    ids = [node.attributes["id"] for node in LexborHTMLParser(page).css("[id]")]
    assert len(ids) == len(set(ids)) == len(PLOTS)
    assert pkb("stats", "--html", "-").out == page


def test_the_page_is_the_same_whichever_library_writes_the_xml(pkb: Pkb, page: str) -> None:
    uses_lxml = etree.lxml
    etree.to_etree()
    try:
        other = pkb("stats", "--html", "-").out
    finally:
        if uses_lxml:
            etree.to_lxml()
    texts = [[node.text() for node in LexborHTMLParser(one).css("text, title, td")] for one in (page, other)]
    assert texts[0] == texts[1]


def test_a_bar_tells_its_day_and_value_under_the_pointer(page: str) -> None:
    svg = LexborHTMLParser(page).css("svg")[1]
    assert svg.css("g.bar > title")[0].text() == "2023-06-19: 3"


def test_the_table_of_a_plot_has_its_values(page: str) -> None:
    tables = {figure.css("h2")[0].text(): figure.css("tr") for figure in LexborHTMLParser(page).css("figure")}
    rows = [[cell.text() for cell in row.css("th, td")] for row in tables["Idle work"]]
    assert rows[:2] == [["job", "spent", "saved"], ["maintenance", "9.0 h", "1.5 h"]]
    assert rows[-1] == ["refresh", "1.0 h", "1.5 h"]
    assert len(tables["Hit rate by week"]) == 53


def test_the_page_is_light_or_dark_and_fits_a_phone(page: str) -> None:
    assert "@media (prefers-color-scheme: dark)" in page
    assert LexborHTMLParser(page).css("meta[name=viewport]")[0].attributes["content"] == (
        "width=device-width, initial-scale=1"
    )
    assert {svg.attributes.get("width") for svg in LexborHTMLParser(page).css("svg")} == {None}
    assert re.findall(r"(?:fill|stroke):#", page) == []  # each colour is one of the page


def test_no_question_and_no_path_is_on_the_page(pkb: Pkb, page: str) -> None:
    assert NEW not in page
    assert str(pkb.folder) not in page


def titles(pkb: Pkb) -> list[str]:
    """Return the titles of the plots."""
    return [node.text() for node in LexborHTMLParser(pkb("stats", "--html", "-").out).css("h2")]


def test_plots_without_data_are_left_out_and_a_young_home_is_plotted_by_day(pkb: Pkb) -> None:
    assert titles(pkb) == ["Bytes against budgets"]
    asked(pkb.folder, [entry(datetime.fromisoformat(NOW) - timedelta(days=day), "exact") for day in range(3)])
    assert titles(pkb) == ["Hit rate by day", "Questions by day", "Latency by tier", "Bytes against budgets"]


def test_names_are_escaped(pkb: Pkb, capsys: pytest.CaptureFixture[str]) -> None:
    row = pkb("stats", "--json").row | {"model": "<script>alert(1)</script>"}
    write_page(row, datetime.fromisoformat(NOW), "-")
    assert "<dd>&lt;script&gt;alert(1)&lt;/script&gt;</dd>" in capsys.readouterr().out


def test_the_file_is_private_and_takes_the_place_of_another(pkb: Pkb, tmp_path: Path) -> None:
    path = tmp_path / "pages" / "stats.html"
    path.parent.mkdir()
    path.write_text("before")
    path.chmod(0o644)
    ran = pkb("stats", "--html", str(path))
    assert (ran.code, ran.out) == (0, "")
    assert re.fullmatch(rf"pkb: wrote {re.escape(str(path))}, [\d.]+ kB; open it in a browser\n", ran.err)
    assert (path.stat().st_mode & 0o777, path.read_text().startswith("<!doctype html>")) == (0o600, True)
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("name", "reason"), [("none/stats.html", "no such file or directory"), (".", "it is not a file")]
)
def test_a_file_that_cannot_be_written_is_named(pkb: Pkb, tmp_path: Path, name: str, reason: str) -> None:
    ran = pkb("stats", "--html", str(tmp_path / name))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == f"pkb: cannot write {tmp_path / name}: {reason}; try: name another file\n"


def test_a_device_is_not_replaced(pkb: Pkb) -> None:
    assert pkb("stats", "--html", "/dev/null").code == 1
    assert Path("/dev/null").is_char_device()


def test_without_the_library_the_error_says_what_to_type(pkb: Pkb, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygal", None)
    ran = pkb("stats", "--html", "-")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("pkb: plots need pygal, which is not installed; try: ")


def test_json_and_a_page_cannot_be_combined(pkb: Pkb) -> None:
    ran = pkb("stats", "--json", "--html", "-")
    assert (ran.code, ran.row["error"]["message"]) == (2, "--json and --html cannot be combined")


@given(st.floats(1e-3, 1e9), st.booleans())
def test_ticks_are_few_and_round_and_reach_the_highest_value(highest: float, is_time: bool) -> None:
    found = ticks(Plot("", "", "", ["a"], {"x": [highest]}, str, is_time=is_time))
    assert 2 <= len(found) <= 6
    assert found[0] == 0
    assert found[-1] >= highest * (1 - 1e-9)
    assert found[-2] < highest
