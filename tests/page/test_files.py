"""The files of the page: small, plain, and of one piece."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.test_architecture import PROJECT

PAGE = PROJECT / "engine" / "page"
FILES = sorted(path for path in PAGE.iterdir() if path.suffix in {".html", ".css", ".js", ".svg"})
SCRIPTS = [path for path in FILES if path.suffix == ".js"]
MOST = 100_000  # bytes
VOID = {"meta", "link", "input", "br", "img", "hr"}
NAMESPACE = "http://www.w3.org/2000/svg"  # a name, not an address
FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|https?://|\bimport\(|DOMParser"
    r"|srcdoc|\.href\s*=|\.src\s*=|setAttribute\(\"(?:href|src|style)\""
)
OF_TEXT = re.compile(r"RegExp|\.(?:match|matchAll)\((?!/)|\.(?:replaceAll|replace|split)\((?![/\"A-Z])")


class Outline(HTMLParser):
    """What is checked of a page: ids, attributes, and whether every element is closed in its turn."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> at {self.getpos()}")


@pytest.fixture(scope="module")
def outline() -> Outline:
    parsed = Outline()
    parsed.feed((PAGE / "index.html").read_text("utf-8"))
    parsed.close()
    return parsed


def test_the_page_is_small() -> None:
    assert sum(path.stat().st_size for path in FILES) < MOST


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_file_makes_html_of_text_runs_text_or_names_another_host(path: Path) -> None:
    assert FORBIDDEN.findall(path.read_text("utf-8").replace(NAMESPACE, "")) == []


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_no_script_makes_a_pattern_of_text(path: Path) -> None:
    assert OF_TEXT.findall(path.read_text("utf-8")) == []


def test_the_html_is_well_formed_and_its_ids_are_unique(outline: Outline) -> None:
    assert (outline.wrong, outline.open) == ([], [])
    assert sorted(set(outline.ids)) == sorted(outline.ids)


def test_the_html_has_no_inline_handler_and_no_inline_style(outline: Outline) -> None:
    assert [name for name, _ in outline.attributes if name.startswith("on") or name == "style"] == []


def test_every_file_and_element_that_the_html_names_is_there(outline: Outline) -> None:
    views = {f"#{name.removeprefix('view-')}" for name in outline.ids if name.startswith("view-")}
    for name, value in outline.attributes:
        if name in {"href", "src"}:
            assert value in views or value == "#main" or (PAGE / value.removeprefix("/")).is_file(), value
        if name in {"aria-labelledby", "for"}:
            assert value in outline.ids


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_every_id_that_a_script_names_is_in_the_html(path: Path, outline: Outline) -> None:
    assert set(re.findall(r"\$\(\"([\w-]+)\"\)", path.read_text("utf-8"))) <= set(outline.ids)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_every_module_is_imported_from_beside_and_has_what_is_imported(path: Path) -> None:
    for names, module in re.findall(r"^import (.+?) from \"(.+?)\";", path.read_text("utf-8"), re.MULTILINE):
        there = (PAGE / module).read_text("utf-8")
        for name in re.findall(r"\w+", names) if names.startswith("{") else []:
            assert re.search(rf"export (?:const|class|function\*?|async function\*?) {name}\b", there), name


def test_every_class_that_a_script_gives_has_a_style() -> None:
    style = (PAGE / "page.css").read_text("utf-8")
    given = re.findall(r"class: \"([\w -]+)\"", "".join(path.read_text("utf-8") for path in SCRIPTS))
    assert {name for name in " ".join(given).split() if f".{name}" not in style} == set()


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_uses_what_it_imports(path: Path) -> None:
    text = path.read_text("utf-8")
    imported = ", ".join(re.findall(r"^import \{ (.+?) \} from", text, re.MULTILINE)).split(", ")
    uses = {name: len(re.findall(rf"(?<![\w$])(?<!\w\.){re.escape(name)}(?!\w)", text)) for name in imported if name}
    assert [name for name, number in uses.items() if number < 2] == []
