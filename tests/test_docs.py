"""The README against the program: every command in it parses, every command there is is in it, every link leads on."""

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import commands

PROJECT = Path(__file__).parents[1]
README = PROJECT / "README.md"
PAGES = sorted([README, *(PROJECT / "docs").glob("*.md"), *(PROJECT / "tests" / "data").rglob("README.md")])


def typed(page: Path) -> list[str]:
    """Give the pkb commands of a page's code blocks."""
    blocks = re.findall(r"^```(?:sh|console|)\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("pkb ")]


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


def test_every_command_is_in_the_readme() -> None:
    shown = {line.split()[1] for line in typed(README)}
    assert set(commands()) - shown == set()


def test_every_make_target_in_the_documentation_is_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = {name for page in PAGES for name in re.findall(r"^make ([a-z-]+)", page.read_text("utf-8"), re.MULTILINE)}
    assert named - targets == set()


def test_every_link_within_the_project_leads_to_a_file() -> None:
    links = {
        (page, link) for page in PAGES for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
    }
    assert links
    assert [f"{page.name}: {link}" for page, link in links if not (page.parent / link).exists()] == []


def test_every_file_in_the_tree_of_the_readme_is_there() -> None:
    block = re.search(r"^## The code\n+```\n(.*?)^```", README.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert block
    folder, missing = "", []
    for line in block[1].splitlines():
        name = line.split()[0]
        folder = name if not line.startswith(" ") else folder
        path = PROJECT / folder / (name if line.startswith(" ") else "")
        missing += [] if path.exists() else [str(path)]
    assert missing == []
