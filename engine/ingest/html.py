"""HTML to readable text in linear time: hidden parts removed, quotes marked by `>`, table cells separated by bars.

What is hidden is decided by css.py.
"""

import html
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from math import comb
from operator import itemgetter

from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from engine.ingest.css import Declared, Style, StyleRule, media_apply, parse_color, parse_sheet, style_element
from engine.ingest.headers import tidy
from prompts import word_patterns


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
            for number, line in enumerate(text.split("\n")):
                if number:
                    self.end_line()
                self.write(line)
            return
        self.space |= text[:1].isspace()
        if words := " ".join(text.split()):
            self.write(words)
            self.space = text[-1:].isspace()

    def request_break(self, breaks: int) -> None:
        """Request a line end (1) or an empty line (2) before the next text, unless a table cell has just begun."""
        if not self.gap and not (self.cells and self.cells[-1][0] == self.written):
            self.breaks = max(self.breaks, breaks)

    def end_line(self) -> None:
        """End the current line."""
        line = "".join(self.current).rstrip()
        mark = "> " * min(self.quotes, 8)
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


MOST_TAGS = 20_000  # nesting costs the parser quadratic time: seconds beyond this
LONGEST_TAG = 8_000  # characters, inline images above all
LONGEST_LINK = 100
MOST_CSS = 500_000  # characters of sheets and attributes: up to 2 s
_MOST_STEPS = 20_000_000  # of matching a page's selectors, at worst: about .2 s
_ELEMENTS = word_patterns("mail_programs")
_DROPPED, _PARAGRAPHS, _LINES = (
    frozenset(_ELEMENTS[f"{kind} element"].split("|")) for kind in ("dropped", "paragraph", "line")
)
_LONG_TAG = re.compile(rf"<[a-zA-Z][^<>]{{{LONGEST_TAG},}}+>")
_LONG_VALUE = re.compile(r"""(?<!style)=(?:"[^"]{1000,}+"|'[^']{1000,}+'|[^\s"'>]{1000,}+)""", re.I)
_NAME = re.compile(r"[.#][\w-]+(?![\w\\-])")
_IN_PARENTHESES = re.compile(r"[(\[].*", re.DOTALL)
_COMBINATOR = re.compile(r"\s*([>+~,])\s*|\s+")
_LAST_PART = re.compile(r"(?:(?<=[\s>+~])|\A)[\w-]*([.#][\w-]+)[^\s>+~,()]*\Z")
_LINK = re.compile(r":(?:any-)?link\b")
_INVISIBLE = re.compile(r"<(script|style|head|title)\b[^>]*+>.*?(?:</\1\s*>|\Z)|<!--.*?(?:-->|\Z)", re.I | re.DOTALL)
_BREAK = re.compile(r"</?(?:p|div|br|tr|li|h[1-6]|table|ul|ol|blockquote|pre|hr)\b[^<>]*+>", re.I)
_TAG = re.compile(r"</?[a-zA-Z!][^<>]*+>?")
_EMPTY_LINES = re.compile(r"\n\s*\n")
_PAGE = re.compile(r"\s*(?:<\?xml[^<>]*>\s*|<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body|meta)\b", re.I | re.S)
_TAGGED = re.compile(
    r"</?(?:a|b|body|br|center|dd|div|dl|dt|em|font|h[1-6]|head|hr|html|i|img|li|meta|ol|p|pre|span|strong|style|table|tbody"
    r"|td|th|title|tr|u|ul)(?:\s[^<>]{0,1000})?\s?/?>",
    re.IGNORECASE,
)
_BROKEN = re.compile(r"<(?:br\s?/?|/(?:p|div|tr|li|h[1-6]))\s*>", re.IGNORECASE)
_START = 20_000  # characters of a text in which tags are looked for


def is_page(text: str) -> bool:
    """Return whether a text is HTML that does not say so: a page, or lines with tags from the first one on."""
    if "<" not in (start := text[:_START]):
        return False
    if _PAGE.match(start) and len(_TAGGED.findall(start)) > 1:
        return True
    lines = [line for line in start.split("\n") if line.strip()]
    tagged = [line for line in lines if _TAGGED.search(line)]
    # Of mail that only quotes some tags, the first line has none, or no line ends by one.
    return bool(tagged) and tagged[0] is lines[0] and 2 * len(tagged) >= len(lines) and len(_BROKEN.findall(start)) > 1


def html_text(source: str) -> str:
    """Return the visible text of a page; never fails."""
    source = _LONG_TAG.sub(lambda tag: _LONG_VALUE.sub("=''", tag[0]), tidy(source))
    if source.count("<") > MOST_TAGS:
        text = _TAG.sub("", _BREAK.sub("\n", _INVISIBLE.sub(" ", source)))
        lines = (" ".join(line.split()) for line in html.unescape(text).split("\n"))
        return _EMPTY_LINES.sub("\n\n", tidy("\n".join(lines))).strip("\n")
    writer, todo = TextWriter(), list[tuple[LexborNode, Style, bool]]()
    if (root := LexborHTMLParser(source).root) is not None:
        page = _Styles(root, source.count("<"))
        todo.append((root, Style(), False))
    while todo:  # visible nodes in document order, on entering and on leaving; without recursion: pages may be deep
        node, style, leaving = todo.pop()
        if leaving:
            _leave(writer, node, style)
            continue
        if node.next is not None:
            todo.append((node.next, style, False))
        if shown := page.of(node, style):
            _enter(writer, node, shown)
            todo.append((node, shown, True))
            todo += [(node.child, shown, False)] if node.child is not None else []
    writer.end_line()
    return tidy("\n".join(writer.lines)).strip("\n")


class _Styles:
    """The styles of a page's elements; mutable: it remembers what it has computed."""

    def __init__(self, root: LexborNode, tags: int) -> None:
        self._declared: dict[int, list[Declared]] = {}  # by the sheets, weakest first; by the node's `mem_id`
        self._computed: dict[tuple[object, ...], Style | None] = {}
        self._left = MOST_CSS
        sheets = [sheet for sheet in root.css("style") if media_apply(sheet.attributes.get("media") or "")]
        rules = [rule for sheet in sheets for rule in parse_sheet(self._within(sheet.text(deep=True)))]
        for node, some in _matched(root, tags, sorted(rules, key=itemgetter(1))) if rules else ():
            self._declared.setdefault(node.mem_id, []).append(some)

    def of(self, node: LexborNode, parent: Style) -> Style | None:
        """Return a node's style, None if neither it nor anything in it is shown."""
        if not node.is_element_node:
            return parent if node.is_text_node else None
        tag = node.tag or ""
        declared, attributes = self._declared.get(node.mem_id, []), node.attributes
        if tag in _DROPPED or attributes.get("aria-hidden") == "true":
            return None
        if not attributes and not declared:
            return None if tag == "dialog" else parent
        hints = tuple(_hints(tag, attributes))
        inline = attributes.get("style") or ""
        key = (parent, tag, hints, inline, *map(id, declared))  # objects that live as long as this one
        if key not in self._computed:
            self._computed[key] = style_element(parent, tag, declared, self._within(inline), dict(hints))
        return self._computed[key]

    def _within(self, css: str) -> str:
        """Return as much of a sheet or attribute as there is time for."""
        css = css[: self._left]
        self._left -= len(css)
        return css


def _matched(root: LexborNode, tags: int, rules: Sequence[StyleRule]) -> Iterator[tuple[LexborNode, Declared]]:
    """Yield the nodes that rules match, with what these declare; rules that are invalid or cost too much match none."""
    counts, depths, tags, left = Counter[str](), {root.mem_id: 0}, max(tags, 1), _MOST_STEPS
    for node in root.css("*"):
        parent, attributes = node.parent.mem_id if node.parent is not None else root.mem_id, node.attributes
        depths[node.mem_id] = depths.get(parent, 0) + 1
        counts.update({f".{name}" for name in (attributes.get("class") or "").split()} | {f"#{attributes.get('id')}"})
    depth = max(depths.values())
    for selector, _, some in rules:
        if any(name not in counts for name in _NAME.findall(_IN_PARENTHESES.sub("", selector))):
            continue
        joints = [found[1] for found in _COMBINATOR.finditer(selector.strip())]
        last = _LAST_PART.search(selector.strip())
        deep, wide = joints.count(None), joints.count("~")
        named = counts[last[1]] if last and last[1] else tags
        # Ten a tag, and at worst each combinator is tried everywhere; `:has` takes the library quadratic time.
        steps = 10 * tags + named * comb(max(depth, deep), deep) * comb(max(tags, wide), wide)
        if steps > left or ":has" in selector:
            continue
        left -= steps
        with suppress(SelectolaxError):  # a selector of other clients, or none at all
            yield from ((node, some) for node in root.css(_LINK.sub("[href]", selector)))


def _hints(tag: str, attributes: Mapping[str, str | None]) -> Iterator[tuple[str, str]]:
    if "hidden" in attributes or (tag == "dialog" and "open" not in attributes):
        yield "display", "none"
    if tag == "a" and "href" in attributes:
        yield "color", "#0000ee"
    if tag == "img":
        yield from ((name, value.strip()) for name in ("width", "height") if (value := attributes.get(name)))
    if attributes.get("background"):
        yield "background-image", "url()"
    for name, property_name in (("bgcolor", "background-color"), ("color", "color"), ("text", "color")):
        if value := (attributes.get(name) or "").strip().lower():
            yield property_name, value if parse_color(value) else f"#{value}"


def _enter(writer: TextWriter, node: LexborNode, style: Style) -> None:
    tag = node.tag or ""
    if node.is_text_node:
        writer.write_text((node.text_content or "") if style.shows_text else " ")
    elif tag == "br":
        writer.end_line() if writer.current and not writer.breaks else writer.request_break(2)
    elif tag in ("td", "th"):
        writer.write_breaks()
        writer.cells.append((writer.written, len(writer.lines)))
    else:
        _break(writer, tag)
    if tag == "blockquote":
        writer.end_line() if writer.current else None
        writer.quotes += _quotes(node)
    elif tag == "pre":
        writer.preformatted += 1
    elif tag in ("ul", "ol"):
        writer.items.append(0 if tag == "ol" else -1)
    elif tag == "li" and writer.items and style.shows_text:
        writer.items[-1] += writer.items[-1] >= 0
        writer.write("  " * (len(writer.items[:6]) - 1) + (f"{writer.items[-1]}. " if writer.items[-1] > 0 else "- "))
    elif tag == "img" and style.is_visible and (caption := node.attributes.get("alt")):
        writer.write_text(f" {caption[:200]} ")


def _leave(writer: TextWriter, node: LexborNode, style: Style) -> None:
    tag = node.tag or ""
    if tag in ("td", "th") and writer.cells:
        written, lines = writer.cells.pop()
        if writer.written > written and len(writer.lines) == lines and writer.current:  # a cell of one line
            writer.breaks, writer.gap = 0, " | "
        elif writer.written > written:
            writer.request_break(1)
    elif tag == "tr":
        writer.gap = ""
    elif tag == "blockquote":
        writer.end_line() if writer.current else None
        writer.quotes -= _quotes(node)
    elif tag == "pre":
        writer.preformatted -= 1
    elif tag in ("ul", "ol"):
        writer.items.pop()
    elif tag == "a" and style.shows_text:
        target = (node.attributes.get("href") or "").strip().removeprefix("mailto:")
        bare = target.split("://")[-1].rstrip("/")
        if 0 < len(target) <= LONGEST_LINK and ("://" in target or "@" in target) and bare not in node.text(deep=True):
            writer.write_text(f" ({target})")
    if tag != "br":
        _break(writer, tag)


def _break(writer: TextWriter, tag: str) -> None:
    if tag in _PARAGRAPHS:
        writer.request_break(1 if tag in ("ul", "ol") and writer.items else 2)
    elif tag in _LINES:
        writer.request_break(1)


def _quotes(node: LexborNode) -> bool:
    """Return whether a blockquote is a quote; one with only a margin, no border, class or source, is indented text."""
    found = node.attributes
    style = (found.get("style") or "").lower()
    bare = {"cite", "type", "class", "id"}.isdisjoint(found) and re.sub(r"border[a-z-]*:\s*(?:none|0)", "", style)
    return not bare or "border" in bare or not ("margin" in bare or "padding" in bare)
