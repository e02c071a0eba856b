"""The report says what the lines say: its tables, counted anew here; what is left out; and the same bytes again."""

import json
import platform
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median
from xml.etree import ElementTree

import pytest

from tests.bench import lines_kit as kit
from tests.bench.machine import note
from tests.bench.material import gathered
from tests.bench.overall import detail, losses, overall
from tests.bench.page import plain, prose, table, verbatim, weight
from tests.bench.reading import read
from tests.bench.report import sections
from tests.bench.stages import printed, stages
from tests.bench.sums import best, matched, of_policies, summed
from tests.bench.sweeps import ablation, sweep, value_of, varied

Cells = dict[str, str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with all there can be."""
    kit.write_all(tmp_path)
    kit.write_rest(tmp_path)
    return tmp_path


def rows(text: str, first: str) -> list[Cells]:
    """Read the rows of all tables whose first heading is this."""
    found, heads = list[Cells](), list[str]()
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("|") else []
        if not cells or set(cells[0]) <= set("-: |"):
            heads = heads if cells else []
        elif not heads:
            heads = cells
        elif heads[0] == first:
            found.append(dict(zip(heads, cells, strict=True)))
    return found


def times(policy: str, users: tuple[str, ...] = kit.USERS) -> list[float]:
    """Return the latencies of a policy anew."""
    numbers = range(1, kit.QUESTIONS + 1)
    return [kit.line(policy, user, "135M", number)["ms"]["total"] for user in users for number in numbers]


def test_the_table_of_policies_has_what_the_lines_have(folder: Path) -> None:
    one = next(row for row in rows(overall(read(folder)).text, "policy") if row["policy"] == "pkb")
    spent, naive, rival = times("pkb"), fmean(times("naive")), fmean(times("meancache"))
    assert one["mean ms"] == plain(fmean(spent)) == "960"
    assert one["median"] == plain(median(spent))
    assert one["of naive"] == f"{fmean(spent) / naive:.2f}"
    assert one["of the best"] == f"{fmean(spent) / rival:.2f}"
    assert (one["semantic"], one["prefix"], one["full"]) == ("25.0 %", "50.0 %", "25.0 %")
    assert (one["false hits"], one["chunks found"], one["tokens reused"]) == ("0 of 2", "6 of 24", "25.0 %")
    assert (one["GFLOP"], one["idle GFLOP"], one["idle s"]) == ("3.00", "1.50", "9.00")


def test_the_headline_sets_pkb_against_the_best_baseline_of_each_corpus(folder: Path) -> None:
    found = [row for row in rows(overall(read(folder)).text, "writer") if row["writer"] == "0.5B"]
    expected = f"{100 * (fmean(times('pkb', ('ann',))) / fmean(times('meancache', ('ann',))) - 1):+.1f} %"
    assert [(row["corpus"], row["best baseline"], row["pkb"], row["-34.4 %"]) for row in found] == [
        ("invented", "MeanCache", expected, "reached"),
        ("made-up", "MeanCache", expected, "reached"),
        ("mean of 2", "", expected, ""),
    ]
    assert [row["chunks found"] for row in found[:2]] == ["-12.5", "-12.5"]  # what the bank answers, the tree does not


def test_every_user_has_a_row(folder: Path) -> None:
    text = "\n".join(section.text for section in detail(read(folder)))
    found = rows(text, "mean / median ms of")
    assert [row["mean / median ms of"] for row in found] == ["ann", "ann", "bo", "bo"]
    assert found[0]["naive"] == f"{plain(fmean(times('naive', ('ann',))))} / {plain(median(times('naive', ('ann',))))}"


def test_policies_are_compared_over_questions_that_all_were_asked(folder: Path) -> None:
    short = kit.unit("naive", "ann", "135M")[:2]
    kit.write(folder, short)
    groups = matched(of_policies([one for one in read(folder) if one.writer == "135M"], ("naive", "pkb")))
    assert [(name, len(own)) for name, own in groups.items()] == [("naive", 6), ("pkb", 6)]


def test_the_best_baseline_is_never_percache_or_pkb(folder: Path) -> None:
    groups = of_policies(read(folder), tuple(kit.SPEEDS))
    assert best({name: summed(own) for name, own in groups.items()}) == "meancache"


def test_the_ablation_sets_prediction_against_none(folder: Path) -> None:
    pytest.importorskip("sacrebleu", reason="the group bench is not installed")
    text = ablation(read(folder)).text
    found = {row["policy"]: row for row in rows(text, "policy") if row["writer"] == "135M"}
    assert list(found) == ["pkb", "pkb-no-bank", "pkb-no-prediction"]
    assert found["pkb-no-bank"]["of pkb"] == f"{fmean(times('pkb-no-bank')) / fmean(times('pkb')):.2f}"
    assert [row["bank hits"] for row in rows(text, "corpus")] == ["+0.0"] * 4


def test_a_lower_threshold_shows_its_false_hits_and_what_they_cost_in_words(folder: Path) -> None:
    pytest.importorskip("sacrebleu", reason="the group bench is not installed")
    found = {row["policy"]: row for row in rows(sweep(read(folder), "tau").text, "policy") if row["writer"] == "135M"}
    assert list(found) == ["pkb-tau60", "pkb", "percache-tau60", "percache"]
    assert [row["false hits"] for row in found.values()] == ["2 of 2", "0 of 2", "2 of 2", "0 of 2"]
    assert [row["ROUGE-L"] for row in found.values()] == ["0.75", "1.00", "0.75", "1.00"]
    assert [row["BLEU"] for row in found.values()] == ["0.75", "1.00", "0.75", "1.00"]


def test_a_base_gives_way_to_one_that_is_named_for_its_value(folder: Path) -> None:
    lines = [replace(one, policy="pkb-tau85") if one.policy == "pkb-stride3" else one for one in read(folder)]
    assert list(varied(lines, "tau")) == ["pkb-tau60", "pkb-tau85", "percache-tau60", "percache"]


def test_units_may_lie_below_what_else_was_measured(tmp_path: Path) -> None:
    kit.write_all(tmp_path / "lines", {"pkb": 1.0})
    kit.write_rest(tmp_path)
    found = gathered(tmp_path)
    assert (len(found.lines), len(found.peers), len(found.operations)) == (16, 1, 2)


@pytest.mark.parametrize(
    ("policy", "kind", "value"),
    [
        ("pkb-tau60", "tau", 0.6),
        ("percache-tau95", "tau", 0.95),
        ("pkb-stride3", "stride", 3.0),
        ("pkb-kv64MB", "kv", 64.0),
        ("pkb-kv2GB", "kv", 2000.0),
        ("pkb", "stride", 5.0),
        ("pkb-kv64", "kv", None),
        ("pkb-no-bank-tau80", "tau", None),
        ("naive", "tau", None),
    ],
)
def test_a_name_says_what_is_varied(policy: str, kind: str, value: float | None) -> None:
    assert value_of(policy, kind) == (value if value is None else pytest.approx(value))


def test_stages_and_their_rest_add_up_to_the_total(folder: Path) -> None:
    found = next(row for row in rows(stages(read(folder)).text, "policy") if row["policy"] == "Naive")
    whole = fmean(times("naive"))
    assert (found["embed"], found["prefill"], found["total"]) == ("10.0", plain(whole / 2), plain(whole))
    assert found["other"] == plain(whole / 2 - 10)
    assert found["first question, median"] == plain(median([1000.0, 2000.0]))


def test_percache_has_its_own_engine_beside(folder: Path) -> None:
    assert [row["change"] for row in rows(printed(read(folder)).text, "writer")] == ["+100.0 %", "+100.0 %"]


def test_where_pkb_is_behind_is_found_from_the_lines(folder: Path) -> None:
    slow = [one | {"ms": {"total": 5000.0}} for one in kit.unit("pkb", "bo", "0.5B")]
    kit.write(folder, slow)
    text = losses(read(folder)).text
    found = [row for row in rows(text, "corpus") if row["figure"] == "mean ms"]
    assert [(row["corpus"], row["writer"], row["pkb"]) for row in found] == [("made-up", "0.5B", "5,000")]
    assert found[0]["ahead"] == "PerCache as printed, MeanCache, RAGCache"
    assert "missed on: made-up with 0.5B (" in text


def test_where_answers_are_quoted_it_is_said_what_no_hit_can_save(folder: Path) -> None:
    assert "Where answers are quoted" not in losses(read(folder)).text
    for policy in ("naive", "pkb"):
        half = {"embed": 30.0, "retrieve": 20.0, "total": 100.0}
        kit.write(folder, [one | {"writer": "quote", "ms": half} for one in kit.unit(policy, "ann", "135M")])
    assert "Where answers are quoted, 50.0 % of Naive's time goes by" in " ".join(losses(read(folder)).text.split())


def test_what_has_no_lines_is_said_to_be_left_out(tmp_path: Path) -> None:
    parts = sections(gathered(tmp_path))
    left = [section.title for section in parts if "Left out: " not in section.text]
    assert (len(parts), left) == (18, ["Policies", "What others report, and what is here", "What is missing"])
    kit.write_all(tmp_path, {"pkb": 1.0, "naive": 1.0})
    few = {section.title for section in sections(gathered(tmp_path)) if section.text.startswith("Left out: ")}
    assert {"Latency and hits", "Where the time goes"} & few == set()
    assert {"Ablation", "Sensitivity to the stride", "Other programs"} <= few


def test_the_command_writes_the_same_bytes_again_and_plots_are_xml(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the group bench is not installed")
    pytest.importorskip("sacrebleu", reason="the group bench is not installed")
    made = []
    for name in ("one", "two"):
        command = [sys.executable, "-m", "tests.bench.report", str(folder), "--to", str(tmp_path / name)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        files = sorted(path for path in (tmp_path / name).rglob("*") if path.is_file())
        made.append({str(path.relative_to(tmp_path / name)): path.read_bytes() for path in files})
    assert made[0] == made[1]
    plots = {name: content for name, content in made[0].items() if name.endswith(".svg")}
    assert [name.removeprefix("benchmarks/") for name in plots] == [
        *("kv.svg", "latency.svg", "motivation.svg", "stages.svg", "stride.svg", "tau.svg"),
    ]
    assert {ElementTree.fromstring(content).tag for content in plots.values()} == {"{http://www.w3.org/2000/svg}svg"}
    page = made[0]["benchmarks.md"].decode()
    assert all(f"]({name})" in page for name in plots)
    assert "python -m this --that" in page
    assert str(tmp_path) not in page


def test_a_torn_line_ends_the_command_with_its_place(tmp_path: Path) -> None:
    file = kit.write(tmp_path, kit.unit("pkb", "ann", "135M"))
    file.write_bytes(file.read_bytes()[:-5])
    command = [sys.executable, "-m", "tests.bench.report", str(tmp_path), "--to", str(tmp_path / "docs")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, f"report: {file.name}, line 4: torn\n")


def test_the_rest_is_shown_as_it_is(tmp_path: Path) -> None:
    kit.write_rest(tmp_path)
    text = {section.title: section.text for section in sections(gathered(tmp_path))}
    assert "| embed | 1.50 | 1.00 to 2.00 | – | a\\|b |" in text["Operations and items"]
    assert "| 2.05 kB |" in text["Operations and items"]
    assert "| other | a warm prompt | 20.0 | 40.0 | ms | 0.50 |" in text["Other programs"]
    assert text["Other programs"].endswith("\n\nA peer is not here.")
    assert text["Showcases"] == "````text\nuser, writer\n  1 ``` full\n````"
    assert "| How often a chunk is read | invented | 7 | 4.67 | 4.00 | 9.00 |" in "".join(text.values())
    assert "| processor | one of ours |" in text["Machine and commands"]


def test_a_machine_is_noted_once_and_its_commands_in_turn(tmp_path: Path) -> None:
    for command in ("make one", "make two", "make one"):
        note(tmp_path, tmp_path / "cache", command)
    (found,) = gathered(tmp_path).machines
    assert found.commands == ("make one", "make two")
    assert str(tmp_path) not in str(found.facts)
    assert platform.node() not in found.facts.values()
    assert found.facts["Python"] == platform.python_version()


def test_numbers_and_tables_as_text() -> None:
    assert [plain(value) for value in (None, 0, 0.123, 12.34, 1234.5)] == ["–", "0", "0.12", "12.3", "1,234"]
    assert [weight(value) for value in (0, 999, 1500, 2.5e9)] == ["0 B", "999 B", "1.50 kB", "2.50 GB"]
    assert table(("a", "b"), [("x\ny", "1")]) == "| a | b |\n| --- | ---: |\n| x y | 1 |"
    assert verbatim("\n x\n") == "```text\n x\n```"
    assert max(map(len, prose("word " * 100).splitlines())) <= 118


def test_a_file_beside_the_lines_that_is_not_as_agreed_is_named(tmp_path: Path) -> None:
    (tmp_path / "peers.json").write_text(json.dumps({"rows": [{"peer": 3}]}), "utf-8")
    command = [sys.executable, "-m", "tests.bench.report", str(tmp_path), "--to", str(tmp_path / "docs")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("report: peers.json, rows 1: ")
