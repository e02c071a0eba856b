"""The report matches its lines: figures recomputed here, parts left out with a reason, and deterministic bytes."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median
from xml.etree import ElementTree

import pytest

from tests.bench import lines_kit as kit
from tests.bench.extras import CAPABLE, claims, machine, missing, operations, peers
from tests.bench.overall import by_corpus, losses, overall
from tests.bench.page import plain, prose, table, weight
from tests.bench.plan import WHOLE
from tests.bench.records import Line, Material, Runs, gathered, read
from tests.bench.report import sections
from tests.bench.stages import stages
from tests.bench.sums import matched, of_policies
from tests.bench.sweeps import ablation, sweep, value_of

Cells = dict[str, str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with everything that can be measured."""
    kit.write_all(tmp_path)
    return tmp_path


@pytest.fixture
def lines(folder: Path) -> list[Line]:
    """Return its lines."""
    return read(folder / "lines")


def rows(text: str, first: str) -> list[Cells]:
    """Return the rows of all tables with this first heading."""
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
    """Return the latencies of a policy."""
    numbers = range(1, kit.QUESTIONS + 1)
    return [kit.line(policy, user, "135M", number).ms["total"] for user in users for number in numbers]


def test_the_table_of_policies_has_the_figures_of_the_lines(lines: list[Line]) -> None:
    one = next(row for row in rows(overall(lines).text, "policy") if row["policy"] == "pkb")
    spent, rival = times("pkb"), fmean(times("meancache"))
    assert one["mean ms"] == plain(fmean(spent)) == "960"
    assert one["median"] == plain(median(spent))
    assert one["of the best"] == f"{fmean(spent) / rival:.2f}"
    assert (one["semantic"], one["prefix"], one["full"]) == ("25.0 %", "50.0 %", "25.0 %")
    assert (one["false hits"], one["chunks found"], one["tokens reused"]) == ("0 of 2", "6 of 24", "25.0 %")
    assert (one["GFLOP"], one["idle GFLOP"], one["idle s"]) == ("3.00", "1.50", "9.00")


def test_the_headline_compares_pkb_with_the_best_baseline_of_each_corpus(lines: list[Line]) -> None:
    found = [row for row in rows(overall(lines).text, "writer") if row["writer"] == "0.5B"]
    expected = f"{100 * (fmean(times('pkb', ('ann',))) / fmean(times('meancache', ('ann',))) - 1):+.1f} %"
    assert [(row["corpus"], row["best baseline"], row["pkb"], row["-34.4 %"]) for row in found] == [
        ("invented", "MeanCache", expected, "reached"),
        ("made-up", "MeanCache", expected, "reached"),
        ("mean of 2", "", expected, ""),
    ]


def test_policies_are_shown_by_corpus_where_there_are_several(lines: list[Line]) -> None:
    own = [line for line in lines if line.writer == "135M"]
    found = {row["corpus"]: row["pkb"] for row in rows("\n\n".join(by_corpus(own)), "corpus")}
    assert found == {"invented": "640; 1 (0 of 1)", "made-up": "1,280; 1 (0 of 1)"}
    assert by_corpus([line for line in own if line.corpus == "invented"]) == []


def test_policies_are_compared_over_questions_that_all_were_asked(folder: Path) -> None:
    kit.write(folder, kit.unit("naive", "ann", "135M")[:2])
    own = [one for one in read(folder / "lines") if one.writer == "135M"]
    groups = matched(of_policies(own, ("naive", "pkb")))
    assert [(name, len(group)) for name, group in groups.items()] == [("naive", 6), ("pkb", 6)]


def test_the_ablation_and_the_sweeps_have_a_row_for_each_variant(lines: list[Line]) -> None:
    found = {row["policy"]: row for row in rows(ablation(lines).text, "policy") if row["writer"] == "135M"}
    assert list(found) == ["pkb", "pkb-no-bank", "pkb-no-prediction"]
    assert found["pkb-no-bank"]["of pkb"] == f"{fmean(times('pkb-no-bank')) / fmean(times('pkb')):.2f}"
    found = {row["policy"]: row for row in rows(sweep(lines, "tau").text, "policy") if row["writer"] == "135M"}
    assert list(found) == ["pkb-tau60", "pkb", "percache-tau60", "percache"]
    assert [row["false hits"] for row in found.values()] == ["2 of 2", "0 of 2", "2 of 2", "0 of 2"]
    assert [row["ROUGE-L"] for row in found.values()] == ["0.75", "1.00", "0.75", "1.00"]


@pytest.mark.parametrize(
    ("policy", "kind", "value"),
    [
        ("pkb-tau60", "tau", 0.6),
        ("pkb-stride3", "stride", 3.0),
        ("pkb-kv64MB", "kv", 64.0),
        ("pkb-kv2GB", "kv", 2000.0),
        ("pkb", "stride", 5.0),
        ("pkb-kv64", "kv", None),
        ("pkb-no-bank-tau80", "tau", None),
        ("naive", "tau", None),
    ],
)
def test_the_name_of_a_policy_says_what_is_varied(policy: str, kind: str, value: float | None) -> None:
    assert value_of(policy, kind) == (value if value is None else pytest.approx(value))


def test_stages_and_their_rest_add_up_to_the_total(lines: list[Line]) -> None:
    found = next(row for row in rows(stages(lines).text, "policy") if row["policy"] == "Naive")
    whole = fmean(times("naive"))
    assert (found["embed"], found["prefill"], found["total"]) == ("10.0", plain(whole / 2), plain(whole))
    assert found["other"] == plain(whole / 2 - 10)


def test_figures_in_which_pkb_is_behind_are_listed(folder: Path) -> None:
    kit.write(folder, [replace(one, ms={"total": 5000.0}) for one in kit.unit("pkb", "bo", "0.5B")])
    text = losses(read(folder / "lines")).text
    (row,) = (row for row in rows(text, "corpus") if row["figure"] == "mean ms")
    assert (row["corpus"], row["writer"], row["pkb"]) == ("made-up", "0.5B", "5,000")
    assert row["ahead, the furthest first"] == "PerCache as published, MeanCache, RAGCache"
    assert "missed on: made-up with 0.5B (" in text


def test_parts_without_measurements_are_left_out(tmp_path: Path) -> None:
    assert [section.title for section in sections(gathered(tmp_path))] == ["Policies"]
    kit.write(tmp_path, kit.unit("pkb", "ann", "135M"))
    titles = [section.title for section in sections(gathered(tmp_path))]
    assert titles == ["Machine and commands", "Policies", "Where the time goes", "Not measured"]


def test_every_experiment_without_lines_is_named_by_its_reason() -> None:
    line = kit.line("pkb", "ann", "135M", 1)
    every = [
        replace(line, corpus=corpus, policy=policy.name, writer=one.writer)
        for one in WHOLE
        for corpus in one.corpora
        for policy in one.policies
    ]
    assert missing(Material(tuple(every))).text == prose(CAPABLE)
    some = tuple(one for one in every if one.policy != "pkb-no-bank" and one.corpus != "qmsum")
    why = Runs(missing={"parts synthetic": "it failed", "operations": "time was up"})
    text = missing(Material(some, why)).text
    assert "- it failed: hits, ablation, by quote (synthetic without pkb-no-bank)\n" in text
    assert "- it was not run: hits, public sets, by quote (qmsum)\n" in text
    assert "- time was up: operations\n" in text


def test_figures_of_the_papers_are_beside_those_of_the_lines(folder: Path) -> None:
    found = {row["figure"]: row["here"] for row in rows(claims(gathered(folder)).text, "figure")}
    gain = found["mean latency of pkb against the best baseline"]
    assert gain.startswith("0.5B: -55.6 %, -55.6 % to -55.6 % on 2 corpora")
    assert found["first token behind 180 cached tokens (prefix-caching article)"] == "5.00 times"


def test_runs_peers_and_operations_are_shown(folder: Path) -> None:
    material = gathered(folder)
    text = "\n".join(part(material).text for part in (machine, operations, peers))
    assert [(row["run"], row["at a time"], row["minutes"]) for row in rows(machine(material).text, "run")] == [
        ("make one", "2", "2.00"),
        ("make two", "2", "2.00"),
    ]
    assert text.count("processor: one of ours.") == 1
    assert "| embed | 1.50 | a\\|b |" in text
    assert "| an entry | 2.05 kB |" in text
    assert [row["other"] for row in rows(peers(material).text, "ms") if row["ms"] == "a warm prompt"] == ["40.0"]


@pytest.mark.slow
def test_the_command_writes_the_same_bytes_again_and_plots_are_xml(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the group bench is not installed")
    made = []
    for name in ("one", "two"):
        command = [sys.executable, "-m", "tests.bench.report", str(folder), "--to", str(tmp_path / name)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        files = sorted(path for path in (tmp_path / name).rglob("*") if path.is_file())
        made.append({str(path.relative_to(tmp_path / name)): path.read_bytes() for path in files})
    assert made[0] == made[1]
    plots = [name for name in made[0] if name.endswith(".svg")]
    assert plots == [f"benchmarks/{name}.svg" for name in ("latency", "stages", "stride", "tau")]
    assert {ElementTree.fromstring(made[0][name]).tag for name in plots} == {"{http://www.w3.org/2000/svg}svg"}
    page = made[0]["benchmarks/real-time.md"].decode()
    assert all(f"]({Path(name).name})" in page for name in plots)
    assert str(tmp_path) not in page


def test_a_torn_line_ends_the_command_with_its_place(tmp_path: Path) -> None:
    file = kit.write(tmp_path, kit.unit("pkb", "ann", "135M"))
    file.write_bytes(file.read_bytes()[:-5])
    command = [sys.executable, "-m", "tests.bench.report", str(tmp_path), "--to", str(tmp_path / "docs")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, f"report: {file.name}, line 4: torn or missing\n")


def test_numbers_and_tables_as_text() -> None:
    assert [plain(value) for value in (None, 0, 0.123, 12.34, 1234.5)] == ["–", "0", "0.12", "12.3", "1,234"]
    assert [weight(value) for value in (0, 999, 1500, 2.5e9)] == ["0 B", "999 B", "1.50 kB", "2.50 GB"]
    assert table(("a", "b"), [("x\ny", "1")]) == "| a | b |\n| --- | ---: |\n| x y | 1 |"
    assert max(map(len, prose("word " * 100).splitlines())) <= 118
