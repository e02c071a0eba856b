"""HTML to readable text in linear time: hidden parts removed, quotes marked by `>`, table cells separated by bars."""

import html
import re
from collections.abc import Iterator

from selectolax.lexbor import LexborHTMLParser, LexborNode

from engine.ingest.charsets import tidy

DEEPEST_QUOTE = 8


class TextWriter:
    """The text written so far; mutable. Breaks stay pending until text follows, so that they never pile up."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.current: list[str] = []
        self.breaks, self.quotes, self.preformatted, self.written = 0, 0, 0, 0
        self.gap, self.space = "", False
        self.cells: list[tuple[int, int]] = []  # number of texts and of lines before each open cell
        self.items: list[int] = []  # the number of the last item of each open list, -1 in a bulleted one

    def write_text(self, text: str) -> None:
        """Add the text of a text node."""
        if self.preformatted:
            first, *others = text.split("\n")
            self.write(first)
            for other in others:
                self.end_line()
                self.write(other)
            return
        words = " ".join(text.split())
        self.space |= text[:1].isspace()
        if words:
            self.write(words)
            self.space = text[-1:].isspace()

    def request_break(self, breaks: int) -> None:
        """Request a line end (1) or an empty line (2) before the next text, unless a table cell has just begun."""
        if not self.gap and not (self.cells and self.cells[-1][0] == self.written):
            self.breaks = max(self.breaks, breaks)

    def end_line(self) -> None:
        """End the current line."""
        line = "".join(self.current).rstrip()
        mark = "> " * min(self.quotes, DEEPEST_QUOTE)
        self.lines.append((mark + line).rstrip() if line else "")
        self.current, self.space = [], False

    def write_breaks(self) -> None:
        """Write the pending breaks."""
        if self.breaks and self.current:
            self.end_line()
        if self.breaks > 1 and self.lines and self.lines[-1]:
            self.lines.append("")
        self.breaks = 0

    def write(self, text: str) -> None:
        """Write text unchanged, after the pending breaks, bar or space."""
        if self.breaks:
            self.write_breaks()
        elif self.gap and self.current:
            self.current.append(self.gap)
        elif self.space and self.current:
            self.current.append(" ")
        self.gap, self.space = "", False
        self.current.append(text)
        self.written += bool(text)


# From HTML to the writer.

MOST_TAGS = 20_000  # nesting costs the parser quadratic time: seconds beyond this
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
_INVISIBLE = re.compile(r"<(script|style|head|title)\b[^>]*+>.*?(?:</\1\s*>|\Z)|<!--.*?(?:-->|\Z)", re.I | re.DOTALL)
_BREAK = re.compile(r"</?(?:p|div|br|tr|li|h[1-6]|table|ul|ol|blockquote|pre|hr)\b[^<>]*+>", re.I)
_TAG = re.compile(r"</?[a-zA-Z!][^<>]*+>?")
_EMPTY_LINES = re.compile(r"\n\s*\n")


def html_text(source: str) -> str:
    """Return the visible text of a page; never fails."""
    source = _LONG_TAG.sub(r"<\1>", tidy(source))
    if source.count("<") > MOST_TAGS:
        return _stripped(source)
    root = LexborHTMLParser(source).root
    writer = TextWriter()
    if root is not None:
        for node, leaving in _walk(root):
            (_leave if leaving else _enter)(writer, node)
    writer.end_line()
    return tidy("\n".join(writer.lines)).strip("\n")


def _walk(root: LexborNode) -> Iterator[tuple[LexborNode, bool]]:
    """Yield the visible nodes in document order, elements on entering and on leaving, without recursion."""
    node: LexborNode | None = root
    depth = 0
    while node is not None:
        seen = not _is_hidden(node)
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


def _is_hidden(node: LexborNode) -> bool:
    if not node.is_element_node:
        return not node.is_text_node
    if node.tag in _DROPPED:
        return True
    attributes = node.attributes
    return bool(attributes) and ("hidden" in attributes or _HIDDEN.search(attributes.get("style") or "") is not None)


def _enter(writer: TextWriter, node: LexborNode) -> None:
    tag = node.tag or ""
    if node.is_text_node:
        writer.write_text(node.text_content or "")
    elif tag == "br":
        writer.end_line() if writer.current and not writer.breaks else writer.request_break(2)
    elif tag in ("td", "th"):
        writer.write_breaks()
        writer.cells.append((writer.written, len(writer.lines)))
    elif tag in _PARAGRAPHS:
        writer.request_break(1 if tag in ("ul", "ol") and writer.items else 2)
    elif tag in _LINES:
        writer.request_break(1)
    _open(writer, tag, node)


def _open(writer: TextWriter, tag: str, node: LexborNode) -> None:
    """Apply what some elements need beyond a break."""
    if tag == "blockquote":
        writer.end_line() if writer.current else None
        writer.quotes += 1
    elif tag == "pre":
        writer.preformatted += 1
    elif tag in ("ul", "ol"):
        writer.items.append(0 if tag == "ol" else -1)
    elif tag == "li" and writer.items:
        writer.items[-1] += writer.items[-1] >= 0
        writer.write("  " * (len(writer.items[:6]) - 1) + (f"{writer.items[-1]}. " if writer.items[-1] > 0 else "- "))
    elif tag == "img" and (caption := node.attributes.get("alt")):
        writer.write_text(f" {caption[:200]} ")


def _leave(writer: TextWriter, node: LexborNode) -> None:
    tag = node.tag or ""
    if tag in ("td", "th") and writer.cells:
        _end_cell(writer)
    elif tag == "tr":
        writer.gap = ""
    elif tag == "blockquote":
        writer.end_line() if writer.current else None
        writer.quotes -= 1
    elif tag == "pre":
        writer.preformatted -= 1
    elif tag in ("ul", "ol"):
        writer.items.pop()
    elif tag == "a":
        _add_link_target(writer, node)
    if tag in _PARAGRAPHS:
        writer.request_break(1 if tag in ("ul", "ol") and writer.items else 2)
    elif tag in _LINES and tag != "br":
        writer.request_break(1)


def _end_cell(writer: TextWriter) -> None:
    """End a table cell: a bar after a cell of one line, a line break after one of several."""
    written, lines = writer.cells.pop()
    if writer.written == written:
        return
    if len(writer.lines) == lines and writer.current:
        writer.breaks, writer.gap = 0, " | "
    else:
        writer.request_break(1)


def _add_link_target(writer: TextWriter, node: LexborNode) -> None:
    target = (node.attributes.get("href") or "").strip().removeprefix("mailto:")
    bare = target.split("://")[-1].rstrip("/")
    if 0 < len(target) <= LONGEST_LINK and ("://" in target or "@" in target) and bare not in node.text(deep=True):
        writer.write_text(f" ({target})")


def _stripped(source: str) -> str:
    """Return a page that is too large or too deep to parse with its tags removed."""
    text = _TAG.sub("", _BREAK.sub("\n", _INVISIBLE.sub(" ", source)))
    lines = (" ".join(line.split()) for line in html.unescape(text).split("\n"))
    return _EMPTY_LINES.sub("\n\n", tidy("\n".join(lines))).strip("\n")
