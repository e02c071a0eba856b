"""CSS: which elements and which text of a page a mail reader shows. Knows no tree: a parent comes as its style.

The reader is taken to have a wide, light screen and to run no scripts. tinycss2 parses sheets, values and colours.
"""

import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from math import inf, prod
from typing import Any, NamedTuple

import tinycss2
from msgspec import Struct
from tinycss2 import color4

# Values: in lower case, looked into by their tokens.

_WIDTH, _HEIGHT = 1280.0, 800.0  # the screen, in pixels
_UNITS = {
    **{"px": 1.0, "pt": 4 / 3, "pc": 16.0, "in": 96.0, "cm": 37.8, "mm": 3.78, "q": 0.945, "rem": 16.0},
    **{"%": _WIDTH / 100, "vw": _WIDTH / 100, "vh": _HEIGHT / 100, "vmin": _HEIGHT / 100, "vmax": _WIDTH / 100},
}
_SIZES = {
    **{"xx-small": 9.0, "x-small": 10.0, "small": 13.0, "medium": 16.0, "large": 18.0, "x-large": 24.0},
    **{"xx-large": 32.0, "xxx-large": 48.0},
}
_NUMERIC = ("number", "percentage", "dimension")
_LONGEST_VALUE = 1_000  # characters: what variables may grow to
_LONG_NUMBER = re.compile(r"\d{30,}")  # int() refuses those of thousands of digits


def _text(nodes: Iterable[Any]) -> str:
    with suppress(RecursionError):  # hundreds of open brackets
        return str(tinycss2.serialize(nodes))
    return ""


@lru_cache(maxsize=4096)
def _tokens(value: str) -> Sequence[Any]:
    found = tinycss2.parse_component_value_list(_LONG_NUMBER.sub("9", value), skip_comments=True)
    return [one for one in found if one.type != "whitespace"]


@lru_cache(maxsize=1024)
def _calls(value: str) -> Sequence[tuple[str, Sequence[Any]]]:
    """Return the functions of a value, and the numbers among their arguments."""
    found = (one for one in _tokens(value) if one.type == "function")
    return [(one.lower_name, [part for part in one.arguments if part.type in _NUMERIC]) for one in found]


@lru_cache(maxsize=4096)
def pixels(value: str, font: float = 16.0) -> float | None:
    """Return a length or a font's size in pixels, per cent being of the screen's width; None for anything else."""
    found = _tokens(value)
    if calls := _calls(value):
        found = calls[0][1] if calls[0][0] == "calc" else []
    return _size(found[0], font) if len(found) == 1 and found[0].type in _NUMERIC else _SIZES.get(value)


def _size(number: Any, font: float) -> float | None:
    name = "%" if number.type == "percentage" else getattr(number, "lower_unit", "px")
    unit = {"em": font, "ex": font / 2, "ch": font / 2}.get(name) or _UNITS.get(name)
    return None if unit is None else float(number.value * unit)


def _length(values: Mapping[str, str], name: str, font: float) -> float:
    return pixels(values.get(name, ""), font) or 0.0


Color = tuple[float, float, float, float]  # red, green and blue from 0 to 255, alpha from 0 to 1

_ALIKE = 20  # of 255, in each part
_BLACK, _WHITE = (0.0, 0.0, 0.0, 1.0), (255.0, 255.0, 255.0, 1.0)


@lru_cache(maxsize=1024)
def parse_color(value: str) -> Color | None:
    """Return a colour given by its name, in hex, `rgb()`, `hsl()` or `hwb()`; None for anything else."""
    try:
        *parts, alpha = color4.parse_color(value).to("srgb")
    except (AttributeError, AssertionError, ValueError, NotImplementedError):  # the library's ways to say no
        return None
    red, green, blue = (255 * min(max(part, 0.0), 1.0) for part in parts)
    return red, green, blue, alpha


def _over(color: Color, ground: Color, opacity: float = 1.0) -> Color:
    alpha = color[3] * opacity
    red, green, blue = (alpha * mine + (1 - alpha) * below for mine, below in zip(color[:3], ground[:3], strict=True))
    return red, green, blue, 1.0


# Media queries.

_QUERY_PART = re.compile(r"\([^()]*\)|[^\s()]+")
_CONDITION = re.compile(r"\((?:-webkit-)?(min-|max-)?([a-z-]+):([^()]*)\)")
_BOUNDS = {"min-": ">=", "max-": "<="}
_SIGNS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq}
_MEASURES = {"width": _WIDTH, "height": _HEIGHT, "device-width": _WIDTH, "device-pixel-ratio": 1.0}
_FEATURES = {
    **{"orientation": "landscape", "prefers-color-scheme": "light", "prefers-reduced-motion": "no-preference"},
    **{"hover": "hover", "any-hover": "hover", "pointer": "fine", "any-pointer": "fine", "scripting": "none"},
}


def media_apply(queries: str) -> bool:
    """Return whether one of the queries ("screen and (min-width: 600px), print") holds for the reader."""
    for query in queries.lower().split(","):
        parts = ["".join(part.split()) for part in _QUERY_PART.findall(query)]
        if ("not" in parts) != all(_part_holds(part) for part in parts if part not in ("not", "only", "and")):
            return True
    return False


def _part_holds(part: str) -> bool:
    if not part.startswith("("):
        return part in ("all", "screen")
    found = _CONDITION.fullmatch(part)
    sides = [found[2], _BOUNDS.get(found[1], "="), found[3]] if found else re.split(r"([<>]=?|=)", part[1:-1])
    if sides[0] in _FEATURES:
        return sides[2:] in ([], [_FEATURES[sides[0]]])
    lengths = [_MEASURES.get(side) or pixels(side) for side in sides[::2]]
    known = [length for length in lengths if length is not None]
    signs = zip(known, sides[1::2], known[1:], strict=False)
    return known == lengths and all(_SIGNS[sign](left, right) for left, sign, right in signs)


# Declarations: shorthands as the properties that they set, invalid values left out.

_SIDES = {"margin": "margin-", "padding": "padding-", "inset": ""}
_COLORED = ("color", "background-color", "-webkit-text-fill-color")
_LENGTHS = re.compile(
    r"font-size|text-indent|(?:m(?:ax|in)-)?(?:width|height)|(?:margin-|padding-)?(?:top|right|bottom|left)"
)
_WORDS = re.compile(
    r"--.*|background-image|clip(?:-path)?|content-visibility|filter|mso-hide|opacity|overflow-[xy]|position|scale"
    r"|transform|translate|visibility"
)
_GLOBAL = frozenset(["inherit", "initial", "unset", "revert", "auto", "none", "currentcolor"])
_DISPLAY = re.compile(
    r"(?:none|block|inline|flow|contents|flex|grid|table|list-item|ruby|run-in|-webkit|-ms|inherit|initial|unset)"
    r"[a-z -]{0,40}"
)


class Declared(NamedTuple):
    """Values by property, and those declared important."""

    normal: dict[str, str]
    important: dict[str, str]


@lru_cache(maxsize=1024)
def parse_style(text: str) -> Declared:
    """Return the declarations of a `style` attribute that affect visibility; never fails."""
    return _declared(tinycss2.parse_blocks_contents(_LONG_NUMBER.sub("9", text), skip_comments=True))


def _declared(nodes: Iterable[Any]) -> Declared:
    declared = Declared({}, {})
    for node in nodes:
        if node.type == "declaration":
            value = " ".join(_text(node.value).lower().split())
            if 0 < len(value) <= _LONGEST_VALUE:
                declared[node.important].update(_longhands(node.lower_name, value))
    return declared


def _longhands(name: str, value: str) -> dict[str, str]:
    """Return the properties that a declaration sets, where their values are valid."""
    found = {name: value}
    if name in (*_SIDES, "overflow", "background", "font"):
        words = [_text([token]) for token in _tokens(value)] or [value]
        if name in _SIDES and len(words) <= 4:
            sides = zip(("top", "right", "bottom", "left"), _four(words), strict=True)
            found = {_SIDES[name] + side: one for side, one in sides}
        elif name == "overflow":
            found = {"overflow-x": words[0], "overflow-y": words[-1]}
        elif name == "background":
            colors = [word for word in words if parse_color(word)]
            found = {"background-color": (colors or ["transparent"])[-1], "background-image": value}
        elif name == "font":
            sizes = (word for word in words if word == "0" or (pixels(word) is not None and not word.isdecimal()))
            found = {"font-size": next(sizes, "")}
    return {name: one for name, one in found.items() if _is_valid(name, one)}


def _four(sides: list[Any]) -> list[Any]:
    return (sides * 4)[:4] if len(sides) != 3 else [*sides, sides[1]]


def _is_valid(name: str, value: str) -> bool:
    if _WORDS.fullmatch(name) or "var(" in value:
        return True
    if name == "display":
        return _DISPLAY.fullmatch(value) is not None
    if name in _COLORED:
        return value in _GLOBAL or parse_color(value) is not None
    is_length = pixels(value) is not None and (name == "font-size" or value not in _SIZES)
    return _LENGTHS.fullmatch(name) is not None and (value in _GLOBAL or is_length)


# Sheets: rules in the order in which they apply, the last one wins.

_LONGEST_SELECTOR = 2_000
_IN_BRACKETS = re.compile(r"\[[^\]]*+\]?")
_CLASSES = re.compile(r"\.|\[|(?<!:):(?!:|not\b|is\b|where\b)")
_ELEMENTS = re.compile(r"(?<![\w.#:\\-])[a-zA-Z]|::")


# A selector, how strong it is (its ids, classes, elements), and what it declares.
StyleRule = tuple[str, tuple[int, int, int], Declared]


@lru_cache(maxsize=16)
def parse_sheet(text: str) -> Sequence[StyleRule]:
    """Return the rules of a sheet that hold for the reader and bear on what is seen, in its order; never fails."""
    rules: list[StyleRule] = []
    nodes = tinycss2.parse_stylesheet(_LONG_NUMBER.sub("9", text), skip_comments=True)
    opened: list[tuple[Any, list[str]]] = [(one, []) for one in reversed(nodes)]
    while opened:  # nested rules, without recursion
        node, outer = opened.pop()
        applies = False
        if node.type == "qualified-rule":
            outer = _selectors(node.prelude, outer)
            applies = bool(outer)
        elif node.type == "at-rule" and node.content is not None:
            name, condition = node.lower_at_keyword, _text(node.prelude).strip().lower()
            supported = name == "layer" or (name == "supports" and not condition.startswith("not"))
            applies = media_apply(condition) if name == "media" else supported
        if not applies:
            continue
        inner = (tinycss2.parse_blocks_contents if outer else tinycss2.parse_rule_list)(node.content)
        if any(declared := _declared(inner)):
            for one in outer:
                classes, elements = _CLASSES.findall(one), _ELEMENTS.findall(_IN_BRACKETS.sub("", one))
                rules.append((one, (one.count("#"), len(classes), len(elements)), declared))
        opened += [(one, outer) for one in reversed(inner)]
    return rules


def _selectors(prelude: Iterable[Any], outer: list[str]) -> list[str]:
    """Return the selectors of a rule within others, none if they grow too long."""
    parts: list[list[Any]] = [[]]
    for token in prelude:
        parts.append([]) if token == "," else parts[-1].append(token)
    found, around = [_text(part).strip() for part in parts], f":is({','.join(outer)})"
    if sum((1 + one.count("&")) * len(around) + len(one) for one in found) > _LONGEST_SELECTOR:
        return []
    return [one.replace("&", around) if "&" in one else f"{around} {one}" for one in found] if outer else found


# Styles: what elements inherit, and what they show.

_MOST_VARIABLES = 100
_VARIABLE = re.compile(r"var\( ?(--[\w-]+) ?(?:, ?([^()]*))?\)")
_LEAST_FONT = 3.0  # pixels
_LEAST_ALPHA = 0.1
_OUTSIDE = -500.0  # pixels: an offset or indent beyond the page's edge
_FAR_RIGHT = 3_000.0
_LEAST_SCALE = 0.02
_ZERO_BOX = 1.0
_INHERITED = ("inherit", "unset", "revert")
_CLIPPING = ("hidden", "clip", "scroll", "auto")
_GROWING = ("table", "tbody", "thead", "tfoot", "tr", "td", "th", "html", "body")  # with their content


class Style(Struct, frozen=True):
    """What an element hands on to what is in it; `ground` is None if the background is a picture."""

    color: Color = _BLACK
    fill: Color | None = None
    ground: Color | None = _WHITE
    font_size: float = 16.0
    indent: float = 0.0
    is_visible: bool = True
    opacity: float = 1.0
    variables: tuple[tuple[str, str], ...] = ()  # names and values, the last of a name holds

    @property
    def shows_text(self) -> bool:
        """Return whether text can be seen."""
        color = self.fill or self.color
        if not self.is_visible or self.font_size < _LEAST_FONT or self.indent <= _OUTSIDE:
            return False
        if color[3] * self.opacity < _LEAST_ALPHA:
            return False
        seen = _over(color, self.ground, self.opacity) if self.ground else color
        return self.ground is None or any(abs(a - b) >= _ALIKE for a, b in zip(seen, self.ground, strict=True))


def style_element(
    parent: Style, tag: str, declared: Iterable[Declared], inline: str, hints: Mapping[str, str]
) -> Style | None:
    """Return an element's style, None if neither it nor anything in it is shown.

    `declared` holds what sheets say of it, weakest first; `hints` the values that its other attributes stand for.
    """
    values = dict(hints)
    for part in zip(*declared, parse_style(inline), strict=True):
        for some in part:
            values.update(some)
    own = tuple((name, value) for name, value in values.items() if name.startswith("--"))
    variables = (*parent.variables, *own)[-_MOST_VARIABLES:]
    if own or any("var(" in value for value in values.values()):
        replaced = {name: _with_variables(value, dict(variables)) for name, value in values.items()}
        values = {name: value for name, value in replaced.items() if _is_valid(name, value)}
    size = values.get("font-size", "")
    found = pixels(size.replace("%", "em"), parent.font_size / (100 if "%" in size else 1))
    font = parent.font_size if found is None else found
    opacity = _opacity(values)
    if opacity < _LEAST_ALPHA or _is_removed(values) or _is_outside(values, font) or _has_no_size(tag, values, font):
        return None
    visibility, indent = values.get("visibility", "inherit"), pixels(values.get("text-indent", ""), font)
    return Style(
        color=_color(values.get("color"), parent.color, _BLACK) or _BLACK,
        fill=_color(values.get("-webkit-text-fill-color"), parent.fill, None),
        ground=_ground(parent.ground, values),
        font_size=font,
        indent=parent.indent if indent is None else indent,
        is_visible=parent.is_visible if visibility in _INHERITED else visibility not in ("hidden", "collapse"),
        opacity=parent.opacity * opacity,
        variables=variables,
    )


def _with_variables(value: str, variables: Mapping[str, str]) -> str:
    for _ in range(5):  # variables may name others
        if "var(" not in value or len(value) > _LONGEST_VALUE:
            break
        value = _VARIABLE.sub(lambda found: variables.get(found[1], found[2] or ""), value).strip()
    return "" if "var(" in value else value


def _color(value: str | None, inherited: Color | None, initial: Color | None) -> Color | None:
    if value is None or value in (*_INHERITED, "currentcolor"):
        return inherited
    return parse_color(value) or initial


def _ground(below: Color | None, values: Mapping[str, str]) -> Color | None:
    if re.search(r"url\(|gradient\(|image", values.get("background-image", "")):
        return None
    color = parse_color(values.get("background-color", ""))
    if color is None or not color[3]:
        return below
    return _over(color, below) if below else color if color[3] == 1 else None


def _opacity(values: Mapping[str, str]) -> float:
    """Return the product of an element's `opacity` and its filters of that name."""
    calls = (*_calls(f"opacity({values.get('opacity', '')})"), *_calls(values.get("filter", "")))
    found = ((name, one) for name, numbers in calls for one in numbers[:1] if name in ("opacity", "alpha"))
    whole = {"alpha": 100, "opacity": 1}
    shares = (one.value / (100 if one.type == "percentage" else whole[name]) for name, one in found)
    return prod(min(max(share, 0.0), 1.0) for share in shares)


def _is_removed(values: Mapping[str, str]) -> bool:
    """Return whether an element has no box, or nothing is left of it by `clip` or `clip-path`."""
    for shape, numbers in _calls(f"{values.get('clip', '')} {values.get('clip-path', '')}"):
        found, flat = [one.value for one in numbers], False
        if shape == "rect" and len(found) == 4:
            flat = found[2] - found[0] <= _ZERO_BOX or found[1] - found[3] <= _ZERO_BOX
        elif shape == "inset" and any(one.type == "percentage" for one in numbers):
            top, right, bottom, left = _four(found)
            flat = top + bottom >= 100 or right + left >= 100
        elif shape == "polygon":
            flat = 1 in (len(set(found[::2])), len(set(found[1::2])))
        if flat or (shape in ("circle", "ellipse") and found[:1] == [0]):
            return True
    removing = (("display", "none"), ("mso-hide", "all"), ("content-visibility", "hidden"))
    return any(values.get(name) == value for name, value in removing)


def _has_no_size(tag: str, values: Mapping[str, str], font: float) -> bool:
    """Return whether an element is at most one pixel wide or high and does not grow with its content."""
    clips = tag == "img" or any(values.get(name) in _CLIPPING for name in ("overflow-x", "overflow-y"))
    for size, *sides in (("height", "top", "bottom"), ("width", "left", "right")):
        most = pixels(values.get(f"max-{size}", ""), font)
        limits = [limit for limit in (pixels(values.get(size, ""), font), most) if limit is not None]
        least = sum(_length(values, name, font) for name in (f"min-{size}", *(f"padding-{side}" for side in sides)))
        if (clips or most == 0) and least <= _ZERO_BOX and min(limits, default=inf) <= _ZERO_BOX:
            return tag not in _GROWING
    return False


def _is_outside(values: Mapping[str, str], font: float) -> bool:
    """Return whether an element is moved out of the page or scaled to nothing."""
    offsets = [sum(_length(values, f"{one}-{side}", font) for one in ("margin", "padding")) for side in ("top", "left")]
    if values.get("position") in ("absolute", "fixed", "relative", "sticky"):
        offsets += [_length(values, side, font) for side in ("top", "right", "bottom", "left")]
        offsets.append(_FAR_RIGHT - _length(values, "left", font))
    factors = [one.value for one in _tokens(values.get("scale", "")) if one.type in _NUMERIC]
    for name, numbers in _calls(f"translate({values.get('translate', '')}) {values.get('transform', '')}"):
        if name.startswith("translate"):
            offsets += [_size(one, font) or 0.0 for one in numbers if one.type != "percentage"]
        elif name.startswith("scale"):
            factors += [one.value for one in numbers]
        elif name == "matrix" and len(numbers) == 6:
            factors.append(numbers[0].value * numbers[3].value - numbers[1].value * numbers[2].value)
    return min(offsets) <= _OUTSIDE or any(abs(factor) < _LEAST_SCALE for factor in factors)
