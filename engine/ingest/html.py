"""HTML to readable text in linear time: hidden parts go, quotes get `>`, tables stay readable; knows no mail."""

import html
import re
from collections.abc import Iterator

from selectolax.lexbor import LexborHTMLParser, LexborNode

from engine.ingest.charsets import tidy

DEEPEST_QUOTE = 8


class Page:
    """The text written so far (mutable); breaks are kept pending, so that none pile up or end the text."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.current: list[str] = []
        self.breaks, self.quotes, self.preformatted, self.written = 0, 0, 0, 0
        self.gap, self.space = "", False
        self.cells: list[tuple[int, int]] = []  # texts written and lines finished before each open cell
        self.items: list[int] = []  # the number of the last item of each open list, -1 in a bulleted one

    def text(self, text: str) -> None:
        """Write the characters of a text node."""
        if self.preformatted:
            first, *others = text.split("\n")
            self.put(first)
            for other in others:
                self.finish()
                self.put(other)
            return
        words = " ".join(text.split())
        self.space |= text[:1].isspace()
        if words:
            self.put(words)
            self.space = text[-1:].isspace()

    def want(self, breaks: int) -> None:
        """Ask for a line end (1) or an empty line (2) before the next text, unless a table cell has just begun."""
        if not self.gap and not (self.cells and self.cells[-1][0] == self.written):
            self.breaks = max(self.breaks, breaks)

    def finish(self) -> None:
        """End the current line."""
        line = "".join(self.current).rstrip()
        mark = "> " * min(self.quotes, DEEPEST_QUOTE)
        self.lines.append((mark + line).rstrip() if line else "")
        self.current, self.space = [], False

    def settle(self) -> None:
        """Make the breaks that were asked for."""
        if self.breaks and self.current:
            self.finish()
        if self.breaks > 1 and self.lines and self.lines[-1]:
            self.lines.append("")
        self.breaks = 0

    def put(self, text: str) -> None:
        """Write text as it is behind the breaks, the bar or the space that was asked for."""
        if self.breaks:
            self.settle()
        elif self.gap and self.current:
            self.current.append(self.gap)
        elif self.space and self.current:
            self.current.append(" ")
        self.gap, self.space = "", False
        self.current.append(text)
        self.written += bool(text)


MOST_TAGS = 20_000  # the parser takes seconds beyond: nesting costs it quadratic time
LONGEST_TAG = 8_000  # characters, inline images above all
LONGEST_LINK = 100
_DROPPED = frozenset(
    [
        "script",
        "style",
        "head",
        "title",
        "template",
        "noscript",
        "object",
        "svg",
        "math",
        "select",
        "button",
        "iframe",
        "canvas",
    ]
)
_PARAGRAPHS = frozenset(["p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "dl", "table", "blockquote", "pre", "hr"])
_LINES = frozenset(
    [
        "div",
        "tr",
        "li",
        "dt",
        "dd",
        "br",
        "address",
        "article",
        "aside",
        "footer",
        "header",
        "main",
        "nav",
        "section",
        "center",
        "form",
        "caption",
    ]
)
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0(?![.\d])|mso-hide\s*:\s*all", re.I)
_LONG_TAG = re.compile(rf"<([a-zA-Z][a-zA-Z0-9]*+)[^<>]{{{LONGEST_TAG},}}+>")
_UNSEEN = re.compile(r"<(script|style|head|title)\b[^>]*+>.*?(?:</\1\s*>|\Z)|<!--.*?(?:-->|\Z)", re.I | re.DOTALL)
_BREAK = re.compile(r"</?(?:p|div|br|tr|li|h[1-6]|table|ul|ol|blockquote|pre|hr)\b[^<>]*+>", re.I)
_TAG = re.compile(r"</?[a-zA-Z!][^<>]*+>?")
_EMPTY_LINES = re.compile(r"\n\s*\n")


def html_text(source: str) -> str:
    """Return the text a reader of the page sees; never fails."""
    source = _LONG_TAG.sub(r"<\1>", tidy(source))
    if source.count("<") > MOST_TAGS:
        return _stripped(source)
    root = LexborHTMLParser(source).root
    page = Page()
    if root is not None:
        for node, leaving in _walk(root):
            (_leave if leaving else _enter)(page, node)
    page.finish()
    return tidy("\n".join(page.lines)).strip("\n")


def _walk(root: LexborNode) -> Iterator[tuple[LexborNode, bool]]:
    """Visit what is seen in document order, each element on entering and on leaving, without recursion."""
    node: LexborNode | None = root
    depth = 0
    while node is not None:
        seen = not _unseen(node)
        if seen:
            yield node, False
        if seen and node.child is not None:
            node, depth = node.child, depth + 1
            continue
        if seen:
            yield node, True
        while node is not None and node.next is None:
            node, depth = node.parent, depth - 1
            if node is None or depth < 0:
                return
            yield node, True
        node = node.next if node is not None and depth else None


def _unseen(node: LexborNode) -> bool:
    if not node.is_element_node:
        return not node.is_text_node
    if node.tag in _DROPPED:
        return True
    attributes = node.attributes
    return bool(attributes) and ("hidden" in attributes or _HIDDEN.search(attributes.get("style") or "") is not None)


def _enter(page: Page, node: LexborNode) -> None:
    tag = node.tag or ""
    if node.is_text_node:
        page.text(node.text_content or "")
    elif tag == "br":
        page.finish() if page.current and not page.breaks else page.want(2)
    elif tag in ("td", "th"):
        page.settle()
        page.cells.append((page.written, len(page.lines)))
    elif tag in _PARAGRAPHS:
        page.want(1 if tag in ("ul", "ol") and page.items else 2)
    elif tag in _LINES:
        page.want(1)
    _begin(page, tag, node)


def _begin(page: Page, tag: str, node: LexborNode) -> None:
    """Do what some elements need beyond a break."""
    if tag == "blockquote":
        page.finish() if page.current else None
        page.quotes += 1
    elif tag == "pre":
        page.preformatted += 1
    elif tag in ("ul", "ol"):
        page.items.append(0 if tag == "ol" else -1)
    elif tag == "li" and page.items:
        page.items[-1] += page.items[-1] >= 0
        page.put("  " * (len(page.items[:6]) - 1) + (f"{page.items[-1]}. " if page.items[-1] > 0 else "- "))
    elif tag == "img" and (caption := node.attributes.get("alt")):
        page.text(f" {caption[:200]} ")


def _leave(page: Page, node: LexborNode) -> None:
    tag = node.tag or ""
    if tag in ("td", "th") and page.cells:
        _end_cell(page)
    elif tag == "tr":
        page.gap = ""
    elif tag == "blockquote":
        page.finish() if page.current else None
        page.quotes -= 1
    elif tag == "pre":
        page.preformatted -= 1
    elif tag in ("ul", "ol"):
        page.items.pop()
    elif tag == "a":
        _name_link(page, node)
    if tag in _PARAGRAPHS:
        page.want(1 if tag in ("ul", "ol") and page.items else 2)
    elif tag in _LINES and tag != "br":
        page.want(1)


def _end_cell(page: Page) -> None:
    """Part cells of one line by a bar; cells of several lines stand below each other."""
    written, lines = page.cells.pop()
    if page.written == written:
        return
    if len(page.lines) == lines and page.current:
        page.breaks, page.gap = 0, " | "
    else:
        page.want(1)


def _name_link(page: Page, node: LexborNode) -> None:
    target = (node.attributes.get("href") or "").strip().removeprefix("mailto:")
    bare = target.split("://")[-1].rstrip("/")
    if 0 < len(target) <= LONGEST_LINK and ("://" in target or "@" in target) and bare not in node.text(deep=True):
        page.text(f" ({target})")


def _stripped(source: str) -> str:
    """Take the tags out of a page too large or too deep to be parsed."""
    text = _TAG.sub("", _BREAK.sub("\n", _UNSEEN.sub(" ", source)))
    lines = (" ".join(line.split()) for line in html.unescape(text).split("\n"))
    return _EMPTY_LINES.sub("\n\n", tidy("\n".join(lines))).strip("\n")
