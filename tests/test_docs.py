"""The documentation against the program: its commands parse, the guide has all of them, links and pictures exist."""

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.main import get_command

from cli.app import app, current
from tests.cli.conftest import commands
from tests.demo import DATA as DEMO
from tests.demo import environment
from tests.reference import DATA, MANUAL, PAGE, leaves, manual, rows_of, sections
from tests.reference import page as reference

PROJECT = Path(__file__).parents[1]
GUIDE = PROJECT / "docs" / "guide.md"
CONTRIBUTING = PROJECT / "CONTRIBUTING.md"
PAGES = sorted([*PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md"), *PROJECT.glob("tests/data/**/README.md")])
LINK = re.compile(r'(?:\]\(|src="|srcset=")([^)#:"]+)(?=[)#"])')  # to a file of the project


def typed(page: Path) -> list[str]:
    """Return the pkb commands of a page's code blocks."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    shell = [block for language, block in blocks if language in ("sh", "console", "")]
    lines = [line.removeprefix("$ ") for block in shell for line in block.splitlines()]
    return [line for line in lines if line.startswith("pkb ")]


def anchor(heading: str) -> str:
    """Return what a link to a heading is called."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def parse(line: str) -> None:
    """Parse a command as the program would, without running it."""
    words = current(shlex.split(line.split(" <")[0].split(" | ")[0], comments=True)[1:])
    if words[0].startswith("--"):  # of pkb itself: what it does happens while it is parsed
        assert words[0] in [flag for one in get_command(app).params for flag in one.opts]
        return
    command, used = commands()[words[0]], 1
    if inner := getattr(command, "commands", None):
        command, used = inner[words[1]], 2
    with command.make_context("pkb", words[used:]):
        pass


@pytest.mark.parametrize("line", sorted({line for page in PAGES for line in typed(page)}))
def test_every_command_in_the_documentation_parses(line: str) -> None:
    parse(line)


def test_a_command_that_does_not_parse_would_be_noticed() -> None:
    with pytest.raises(Exception, match="No such option"):
        parse("pkb ask --nope x")


def test_the_committed_reference_is_what_make_docs_writes() -> None:
    assert PAGE.read_text("utf-8") == reference()


def test_the_committed_manual_page_is_what_make_docs_writes() -> None:
    assert MANUAL.read_text("utf-8") == manual()


def test_the_manual_page_is_installed() -> None:
    build = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert build["shared-data"] == {MANUAL.relative_to(PROJECT).as_posix(): "share/man/man1/pkb.1"}


def test_the_manual_page_is_sound_roff_and_names_every_command() -> None:
    if groff := shutil.which("groff"):
        done = subprocess.run(
            [groff, "-man", "-ww", "-Tutf8", str(MANUAL)], capture_output=True, text=True, check=True, timeout=60
        )
        assert done.stderr == ""
    lines = MANUAL.read_text("utf-8").splitlines()
    assert {line.split()[0] for line in lines if line.startswith(".")} <= {
        *(".TH", ".SH", ".SS", ".TP", ".PP", ".B"),
        '.\\"',
    }
    headings = [line.removeprefix(".SS ") for line in lines if line.startswith(".SS ")]
    assert [heading.partition(" [")[0] for heading in headings] == [path for path, _ in leaves()]


def test_every_variable_that_pkb_reads_is_in_the_reference() -> None:
    code = [path for package in ("cli", "engine", "store") for path in (PROJECT / package).rglob("*.py")]
    read = {name for path in code for name in re.findall(r"[\"'](PKB_\w+)[\"']", path.read_text("utf-8"))}
    assert {name for name in DATA["environment"] if name.startswith("PKB_")} == read


def test_every_exit_code_of_an_error_is_in_the_reference() -> None:
    raised = re.findall(r"^    code = (\d+)", (PROJECT / "store" / "errors.py").read_text("utf-8"), re.MULTILINE)
    assert raised
    assert set(raised) - set(DATA["exit"]) == set()


def test_the_exit_codes_of_the_guide_are_in_the_reference() -> None:
    codes = re.findall(r"^\| (\d+) \|", GUIDE.read_text("utf-8"), re.MULTILINE)
    assert codes
    assert set(codes) - set(DATA["exit"]) == set()


def test_every_type_in_the_reference_is_one_of_json() -> None:
    known = {"integer", "number", "string", "boolean", "null", "list", "object", *DATA["shape"]}
    known |= {f"list of {name}" for name in DATA["shape"]}
    types = {(name, key, one) for name in sections() for key, kind, _ in rows_of(name)
             for one in re.split(r", | or ", kind)}  # fmt: skip
    assert [where for where in types if where[2] not in known] == []


@pytest.mark.slow
def test_the_python_of_the_guide_runs(tmp_path: Path) -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    for folder, name in (("Mail", "mail/archive.mbox"), ("Meetings", "transcripts/2024-02-27 workshop meeting.vtt")):
        (tmp_path / folder).mkdir()
        shutil.copy(DEMO / name, tmp_path / folder)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", block],
        env={**environment(tmp_path), "HOME": str(tmp_path), "PYTHONPATH": str(PROJECT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "full Gus Tindall: From today I keep the spare key to the workshop."
    assert any(line.endswith("seconds saved") for line in lines)
    assert lines[-2] == "[]"  # nothing is damaged


def test_every_command_is_in_the_guide() -> None:
    shown = {line.split()[1] for line in typed(GUIDE)}
    assert set(commands()) - shown == set()


def test_the_readme_has_at_most_900_words() -> None:
    assert len((PROJECT / "README.md").read_text("utf-8").split()) <= 900


def test_every_make_target_in_the_documentation_is_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = {name for page in PAGES for name in re.findall(r"^make ([a-z-]+)", page.read_text("utf-8"), re.MULTILINE)}
    assert named - targets == set()


def test_every_link_within_the_project_leads_to_a_file() -> None:
    links = {(page, link) for page in PAGES for link in LINK.findall(page.read_text("utf-8"))}
    assert links
    assert [f"{page.name}: {link}" for page, link in sorted(links) if not (page.parent / link).exists()] == []


def test_every_link_to_a_heading_leads_to_one() -> None:
    missing = []
    for page in PAGES:
        for name, link in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text("utf-8")):
            text = (page.parent / name if name else page).read_text("utf-8")
            headings = {anchor(heading) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}
            missing += [] if link in headings else [f"{page.name}: {name}#{link}"]
    assert missing == []


def test_the_glossary_is_in_alphabetical_order() -> None:
    text = (PROJECT / "docs" / "glossary.md").read_text("utf-8")
    terms = [term.lower() for term in re.findall(r"^\*\*(.+?)\.?\*\*", text, re.MULTILINE)]
    assert terms == sorted(terms)


def test_the_classes_that_the_glossary_names_are_in_the_code() -> None:
    named = re.findall(r"Code: `(\w+)`", (PROJECT / "docs" / "glossary.md").read_text("utf-8"))
    code = [path for package in ("cli", "engine", "store") for path in (PROJECT / package).rglob("*.py")]
    classes = {name for path in code for name in re.findall(r"^class (\w+)", path.read_text("utf-8"), re.MULTILINE)}
    assert named
    assert set(named) - classes == set()


def test_every_decision_is_in_the_index() -> None:
    folder = PROJECT / "docs" / "decisions"
    index = (folder / "README.md").read_text("utf-8")
    assert [page.name for page in folder.glob("0*.md") if f"({page.name})" not in index] == []


def test_pictures_fetch_nothing_when_they_are_viewed() -> None:
    pictures = sorted((PROJECT / "docs" / "images").glob("*.svg"))
    assert pictures
    assert [
        p.name for p in pictures if re.search(r"url\([\"']?http|@import|<image|@font-face", p.read_text("utf-8"))
    ] == []


def test_the_tree_of_the_code_names_every_module_and_no_other() -> None:
    block = re.search(r"^## The code\n+```\n(.*?)^```", CONTRIBUTING.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert block
    folder, named = "", set()
    for line in block[1].splitlines():
        folder = folder if line.startswith(" ") else line.split()[0]
        assert (PROJECT / folder).is_dir()
        named |= {f"{folder}{word}" for word in line.split() if line.startswith(" ") and word.endswith(".py")}
    code = [path for package in ("cli", "engine", "store") for path in (PROJECT / package).rglob("*.py")]
    assert named == {path.relative_to(PROJECT).as_posix() for path in code if path.name != "__init__.py"}


# Metaphors that a reader would have to guess. Measurements keep the words of their day.
BANNED = (
    r"nights?|nightly|foresee\w*|foreseen|foresight|owed|owes|owing|lent|lends?|lending|deeds?|vigils?|tidings|oath|"
    r"borne|begets?|anew|thereof|hereby|wherefore|henceforth|read ahead|to the last bit|is given to|are given to|"
    r"what was asked|what is asked|what it rests on"
)
SPOKEN = re.compile(rf"\b(?:{BANNED})\b", re.IGNORECASE)


def spoken(path: Path) -> str:
    """Return the prose of a page: neither code nor links."""
    text = re.sub(r"^```.*?^```$", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`|\]\([^)]*\)", "", text)


def test_pages_use_plain_words() -> None:
    pages = [path for path in (*PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md"), MANUAL)
             if path.parent.name not in ("log", "benchmarks") and path.name != "benchmarks.md"]  # fmt: skip
    found = {(path.name, word) for path in pages for word in SPOKEN.findall(spoken(path))}
    assert sorted(found) == []


def test_a_word_that_is_not_plain_would_be_noticed() -> None:
    assert SPOKEN.findall("The night's questions are owed, and made anew.") == ["night", "owed", "anew"]
