"""The documentation against the program: its commands parse, the guide has all of them, links and pictures exist."""

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import commands

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
    words = shlex.split(line.split(" <")[0].split(" | ")[0], comments=True)[1:]
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


def test_every_file_in_the_tree_of_the_code_is_there() -> None:
    block = re.search(r"^## The code\n+```\n(.*?)^```", CONTRIBUTING.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert block
    folder, missing = "", []
    for line in block[1].splitlines():
        name = line.split()[0]
        folder = name if not line.startswith(" ") else folder
        path = PROJECT / folder / (name if line.startswith(" ") else "")
        missing += [] if path.exists() else [str(path)]
    assert missing == []
