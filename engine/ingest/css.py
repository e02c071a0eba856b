"""CSS: which elements and which text of a page a mail reader shows. Knows no tree: a parent comes as its style.

The reader is taken to have a wide, light screen and to run no scripts.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from colorsys import hls_to_rgb
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from prompts import prompt

# Lengths.

_WIDTH, _HEIGHT = 1280.0, 800.0  # the screen, in pixels
_UNITS = {
    **{"": 1.0, "px": 1.0, "pt": 4 / 3, "pc": 16.0, "in": 96.0, "cm": 37.8, "mm": 3.78, "q": 0.945, "rem": 16.0},
    **{"vw": _WIDTH / 100, "vh": _HEIGHT / 100, "vmin": _HEIGHT / 100, "vmax": _WIDTH / 100},
}
_SIZES = {
    **{"xx-small": 9.0, "x-small": 10.0, "small": 13.0, "medium": 16.0, "large": 18.0, "x-large": 24.0},
    **{"xx-large": 32.0, "xxx-large": 48.0},
}
_NUMBER = r"[+-]?(?:\d{1,9}(?:\.\d{0,9})?|\.\d{1,9})"
_LENGTH = re.compile(rf"(?:calc\( ?)?({_NUMBER})([a-z]{{0,4}}|%) ?\)?")
_NUMBERS = re.compile(rf"({_NUMBER})([a-z%]?)")


@lru_cache(maxsize=4096)
def pixels(value: str, font: float = 16.0) -> float | None:
    """Return a length in pixels: em are of the font's size, per cent of the screen's width; None for anything else."""
    found = _LENGTH.fullmatch(value)
    if found is None:
        return None
    unit = {"em": font, "ex": font / 2, "ch": font / 2, "%": _WIDTH / 100}.get(found[2]) or _UNITS.get(found[2])
    return None if unit is None else float(found[1]) * unit


def _length(values: Mapping[str, str], name: str, font: float) -> float:
    """Return the length of a property, 0 where it is none."""
    value = values.get(name)
    return pixels(value, font) or 0.0 if value else 0.0


def _font_size(value: str, parent: float) -> float:
    found = _SIZES.get(value) or pixels(value.replace("%", "em"), parent / 100 if "%" in value else parent)
    return parent if found is None else found


# Colours.


class Color(NamedTuple):
    """A colour: its parts from 0 to 255, its alpha from 0 to 1."""

    red: float
    green: float
    blue: float
    alpha: float = 1.0

    def over(self, ground: "Color") -> "Color":
        """Return this colour painted over an opaque one."""
        mixed = [self.alpha * mine + (1 - self.alpha) * below for mine, below in zip(self[:3], ground[:3], strict=True)]
        return Color(*mixed)

    def is_like(self, other: "Color") -> bool:
        """Return whether text in the one is illegible on the other."""
        return all(abs(mine - its) < _ALIKE for mine, its in zip(self[:3], other[:3], strict=True))


_ALIKE = 20  # of 255, in each part
_BLACK, _WHITE, _TRANSPARENT = Color(0, 0, 0), Color(255, 255, 255), Color(0, 0, 0, 0)
_HEX = re.compile(r"#(?:[0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})")
_COLORS = dict(line.split() for line in prompt("colours").splitlines())


@lru_cache(maxsize=1024)
def parse_color(value: str) -> Color | None:
    """Return a colour given by its name, in hex, `rgb()` or `hsl()`; None for anything else."""
    if value == "transparent":
        return _TRANSPARENT
    value = value.replace("grey", "gray")
    value = f"#{_COLORS[value]}" if value in _COLORS else value
    if _HEX.fullmatch(value):
        digits = value[1:] if len(value) > 5 else "".join(2 * digit for digit in value[1:])
        return _from_digits(digits)
    if not value.startswith(("rgb", "hsl")):
        return None
    parts = [*_NUMBERS.findall(value[:100]), ("1", "")]
    if len(parts) not in (4, 5):
        return None
    red, green, blue = (_share(part, 255) for part in parts[:3])
    if value.startswith("hsl"):
        hue, saturation, lightness = float(parts[0][0]) % 360, _share(parts[1], 100), _share(parts[2], 100)
        red, green, blue = (255 * part for part in hls_to_rgb(hue / 360, lightness / 100, saturation / 100))
    return Color(red, green, blue, _share(parts[3], 1))


def _from_digits(digits: str) -> Color:
    red, green, blue, alpha = (int(digits[at : at + 2] or "ff", 16) for at in (0, 2, 4, 6))
    return Color(red, green, blue, alpha / 255)


def _share(part: tuple[str, str], whole: float) -> float:
    """Return a number, or a percentage of `whole`, limited to the range from 0 to `whole`."""
    return min(max(float(part[0]) * (whole / 100 if part[1] == "%" else 1), 0.0), whole)


# Media queries.

_RANGE = re.compile(r"\((?: ?([\d.]+\w*) ?([<>]=?))? ?(width|height) ?(?:([<>]=?|=) ?([\d.]+\w*) ?)?\)")
_CONDITION = re.compile(r"\( ?(?:-webkit-)?(min-|max-)?([\w-]+) ?(?:: ?([^()]*?))? ?\)")
_MEASURES = {"width": _WIDTH, "height": _HEIGHT, "device-width": _WIDTH, "device-height": _HEIGHT}
_FEATURES = {
    **{"orientation": "landscape", "prefers-color-scheme": "light", "prefers-reduced-motion": "no-preference"},
    **{"hover": "hover", "any-hover": "hover", "pointer": "fine", "any-pointer": "fine", "scripting": "none"},
}


def media_apply(queries: str) -> bool:
    """Return whether one of the queries ("screen and (min-width: 600px), print") holds for the reader."""
    plain = " ".join(queries.lower().split())
    return not plain or any(_query_holds(query.strip()) for query in plain.split(","))


def _query_holds(query: str) -> bool:
    positive = query.removeprefix("not ")
    parts = positive.removeprefix("only ").split(" and ")
    return (positive == query) == all(_part_holds(part.strip()) for part in parts)


def _part_holds(part: str) -> bool:
    if limits := _RANGE.fullmatch(part):
        actual = _MEASURES[limits[3]]
        return _holds(pixels(limits[1] or ""), limits[2], actual) and _holds(actual, limits[4], pixels(limits[5] or ""))
    found = _CONDITION.fullmatch(part)
    if found is None:
        return part in ("all", "screen")
    bound, feature, value = found[1], found[2], found[3] or ""
    actual = 1.0 if feature.endswith("pixel-ratio") else _MEASURES.get(feature, 0.0)
    if not actual or pixels(value) is None:
        return feature in _FEATURES and value in ("", _FEATURES[feature])
    return _holds(actual, {"min-": ">=", "max-": "<="}.get(bound, "="), pixels(value))


def _holds(left: float | None, sign: str | None, right: float | None) -> bool:
    if sign is None:
        return True
    if left is None or right is None:
        return False
    return ("=" in sign and left == right) or ("<" in sign and left < right) or (">" in sign and left > right)


# Declarations, in lower case: shorthands as the properties that they set, invalid values left out.

_PIECE = re.compile(
    r"""((?:[^{};"'\\()]++|\\.|"(?:[^"\\\n]|\\.)*+["\n]?|'(?:[^'\\\n]|\\.)*+['\n]?|\([^()]*+\)|[()\\])*+)([{};]|\Z)""",
    re.DOTALL,
)
_COMMENT = re.compile(r"""("(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+')|/\*.*?(?:\*/|\Z)""", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})\s?|(.))", re.DOTALL)
_IMPORTANT = re.compile(r"\s*! *important$")
_SIDES = {"margin": "margin-", "padding": "padding-", "inset": ""}
_COLORED = frozenset(["color", "background-color", "-webkit-text-fill-color"])
_LENGTHS = frozenset(
    ["font-size", "text-indent", "width", "height", "max-width", "max-height", "min-width", "min-height"]
    + [before + side for before in _SIDES.values() for side in ("top", "right", "bottom", "left")]
)
_WORDS = frozenset(
    [
        *("background-image", "clip", "clip-path", "content-visibility", "filter", "mso-hide", "opacity", "overflow-x"),
        *("overflow-y", "position", "scale", "transform", "translate", "visibility"),
    ]
)
_GLOBAL = frozenset(["inherit", "initial", "unset", "revert", "auto", "none", "currentcolor"])
_DISPLAY = re.compile(
    r"(?:none|block|inline|flow|contents|flex|grid|table|list-item|ruby|run-in|-webkit|-ms|inherit|initial|unset)"
    r"[a-z -]{0,40}"
)
_LONGEST_VALUE = 1_000  # characters: what variables may grow to


class Declared(NamedTuple):
    """Values by property, and those declared important."""

    normal: Mapping[str, str]
    important: Mapping[str, str]


@lru_cache(maxsize=1024)
def parse_style(text: str) -> Declared:
    """Return what a `style` attribute declares, as far as it decides what is seen; never fails."""
    return _declared(found[1] for found in _PIECE.finditer(_COMMENT.sub(r"\1", text)))


def _declared(pieces: Iterable[str]) -> Declared:
    normal, important = dict[str, str](), dict[str, str]()
    for piece in pieces:
        name, colon, value = _unescaped(piece).lower().partition(":")
        words = " ".join(value.split()) if colon else ""
        plain = _IMPORTANT.sub("", words)
        if 0 < len(plain) <= _LONGEST_VALUE:
            (normal if plain == words else important).update(_longhands(name.strip(), plain))
    return Declared(normal, important)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(found: re.Match[str]) -> str:
    code = int(found[1] or "0", 16)
    return found[2] or (chr(code) if 0 < code < 0x110000 else "\ufffd")


def _longhands(name: str, value: str) -> Iterator[tuple[str, str]]:
    """Yield the properties that a declaration sets, where their values are valid."""
    if name in _SIDES and len(sides := value.split()) <= 4:
        top, right, bottom, left = (sides * 4)[:4] if len(sides) != 3 else [*sides, sides[1]]
        values = {"top": top, "right": right, "bottom": bottom, "left": left}
        yield from ((_SIDES[name] + side, one) for side, one in values.items() if _is_valid(_SIDES[name] + side, one))
    elif name == "overflow":
        yield from (("overflow-x", value.split()[0]), ("overflow-y", value.split()[-1]))
    elif name == "background":
        colors = [word for word in re.split(r" (?![^(]*\))", value) if parse_color(word)]
        yield from (("background-color", (colors or ["transparent"])[-1]), ("background-image", value))
    elif name == "font":
        sizes = [word.split("/")[0] for word in value.split()]
        yield from (("font-size", size) for size in sizes if size == "0" or (not size.isdecimal() and _is_size(size)))
    elif _is_valid(name, value):
        yield name, value


def _is_size(value: str) -> bool:
    return value in _SIZES or pixels(value) is not None


def _is_valid(name: str, value: str) -> bool:
    if name.startswith("--") or ("var(" in value and (name in _LENGTHS | _COLORED | _WORDS or name == "display")):
        return True
    if name == "display":
        return _DISPLAY.fullmatch(value) is not None
    if name in _LENGTHS:
        return value in _GLOBAL or _is_size(value)
    return name in _WORDS or (name in _COLORED and (value in _GLOBAL or parse_color(value) is not None))


# Sheets: rules in the order in which they apply, the last one wins.

_MOST_SHEET = 300_000  # characters
_LONGEST_SELECTOR = 2_000
_AT_RULE = re.compile(r"@([\w-]+)\s*(.*)", re.DOTALL)
_SELECTOR = re.compile(r"(?:[^,()\[\]]++|\([^()]*+\)|\[[^\[\]]*+\]|[()\[\]])++")
_IN_BRACKETS = re.compile(r"\[[^\]]*+\]?")
_CLASSES = re.compile(r"\.|\[|(?<!:):(?!:|not\b|is\b|where\b)")
_ELEMENTS = re.compile(r"(?<![\w.#:\\-])[a-zA-Z]|::")


class Specificity(NamedTuple):
    """How strong a selector is."""

    ids: int
    classes: int
    elements: int


@dataclass(frozen=True, slots=True)
class StyleRule:
    """One selector and what it declares."""

    selector: str
    specificity: Specificity
    declared: Declared


@dataclass(slots=True)
class _Block:
    """An open brace of a sheet; `selector` is "" outside rules. Mutable while parsing."""

    selector: str
    applies: bool
    pieces: list[str] = field(default_factory=list)


@lru_cache(maxsize=16)
def parse_sheet(text: str) -> tuple[StyleRule, ...]:
    """Return the rules of a sheet that hold for the reader and bear on what is seen, in its order; never fails."""
    rules: list[StyleRule] = []
    for block in _blocks(_COMMENT.sub(r"\1", text[:_MOST_SHEET].replace("<!--", "").replace("-->", ""))):
        declared = _declared(block.pieces)
        if block.applies and block.selector and any(declared):
            selectors = _SELECTOR.findall(block.selector)
            rules += [StyleRule(one.strip(), _specificity(one), declared) for one in selectors]
    return tuple(rules)


def _blocks(sheet: str) -> list[_Block]:
    blocks = [_Block("", True)]
    opened = blocks[:]
    for text, end in _PIECE.findall(sheet):
        if end == "{":
            opened.append(_open_block(text.strip(), opened[-1]))
            blocks.append(opened[-1])
            continue
        opened[-1].pieces.append(text)
        if end == "}" and len(opened) > 1:
            opened.pop()
    return blocks


def _open_block(prelude: str, outer: _Block) -> _Block:
    if found := _AT_RULE.match(prelude):
        return _Block(outer.selector, outer.applies and _at_rule_applies(found[1].lower(), found[2].lower()))
    if (1 + prelude.count("&") + prelude.count(",")) * len(outer.selector) + len(prelude) > _LONGEST_SELECTOR:
        return _Block("", applies=False)
    if outer.selector:
        parent = f":is({outer.selector})"
        nested = (one.replace("&", parent) if "&" in one else f"{parent} {one}" for one in _SELECTOR.findall(prelude))
        prelude = ",".join(nested)
    return _Block(prelude, outer.applies)


def _at_rule_applies(name: str, condition: str) -> bool:
    if name == "media":
        return media_apply(condition)
    return name == "layer" or (name == "supports" and not condition.startswith("not"))


def _specificity(selector: str) -> Specificity:
    classes, elements = _CLASSES.findall(selector), _ELEMENTS.findall(_IN_BRACKETS.sub("", selector))
    return Specificity(selector.count("#"), len(classes), len(elements))


# Styles: what elements inherit, and what they show.

Variables = tuple[tuple[str, str], ...]  # names and values, the last of a name holds

_MOST_VARIABLES = 100
_LEAST_FONT = 3.0  # pixels
_LEAST_ALPHA = 0.1
_OUTSIDE = -500.0  # pixels: an offset or indent beyond the page's edge
_FAR_RIGHT = 3_000.0
_LEAST_SCALE = 0.02
_ZERO_BOX = 1.0
_TABLE_PARTS = frozenset(
    ["table", "tbody", "thead", "tfoot", "tr", "td", "th", "html", "body"]
)  # they grow with content


@dataclass(frozen=True, slots=True)
class Style:
    """What an element hands on to what is in it; `ground` is None if the background is a picture."""

    color: Color = _BLACK
    fill: Color | None = None
    ground: Color | None = _WHITE
    font_size: float = 16.0
    indent: float = 0.0
    is_visible: bool = True
    opacity: float = 1.0
    variables: Variables = ()

    @property
    def shows_text(self) -> bool:
        """Return whether text can be seen."""
        color = self.fill or self.color
        if not self.is_visible or self.font_size < _LEAST_FONT or self.indent <= _OUTSIDE:
            return False
        alpha = color.alpha * self.opacity
        if alpha < _LEAST_ALPHA:
            return False
        return self.ground is None or not color._replace(alpha=alpha).over(self.ground).is_like(self.ground)


def style_element(parent: Style, tag: str, declared: Iterable[Declared], hints: Mapping[str, str]) -> Style | None:
    """Return an element's style, None if neither it nor anything in it is shown.

    `declared` holds what applies to it, weakest first; `hints` the values that its attributes stand for.
    """
    declared = list(declared)
    values = dict(hints)
    for normal, _ in declared:
        values.update(normal)
    for _, important in declared:
        values.update(important)
    own = tuple((name, value) for name, value in values.items() if name.startswith("--"))
    variables = (*parent.variables, *own)[-_MOST_VARIABLES:]
    if own or any("var(" in value for value in values.values()):
        values = _with_variables(values, dict(variables))
    font = _font_size(values.get("font-size", ""), parent.font_size)
    if _is_removed(values) or _has_no_size(tag, values, font):
        return None
    if (_MOVING & values.keys() and _is_outside(values, font)) or _is_clipped(values):
        return None
    return _inherited(parent, values, font, variables)


_VARIABLE = re.compile(r"var\( ?(--[\w-]+) ?(?:, ?([^()]*))?\)")


def _with_variables(values: Mapping[str, str], variables: Mapping[str, str]) -> dict[str, str]:
    """Return the values with variables replaced, those that are invalid then left out."""
    replaced = {name: _replace_variables(value, variables) for name, value in values.items() if name[:2] != "--"}
    return {name: value for name, value in replaced.items() if _is_valid(name, value)}


def _replace_variables(value: str, variables: Mapping[str, str]) -> str:
    for _ in range(5):  # variables may name others
        if "var(" not in value or len(value) > _LONGEST_VALUE:
            break
        value = _VARIABLE.sub(lambda found: variables.get(found[1], found[2] or ""), value).strip()
    return "" if "var(" in value else value


def _inherited(parent: Style, values: Mapping[str, str], font: float, variables: Variables) -> Style:
    visibility = values.get("visibility", "inherit")
    indent = pixels(values.get("text-indent", ""), font)
    return Style(
        color=_color(values.get("color"), parent.color, _BLACK) or _BLACK,
        fill=_color(values.get("-webkit-text-fill-color"), parent.fill, None),
        ground=_ground(parent.ground, values),
        font_size=font,
        indent=parent.indent if indent is None else indent,
        is_visible=parent.is_visible if visibility in ("inherit", "unset") else visibility not in _INVISIBLE,
        opacity=parent.opacity * _opacity(values),
        variables=variables,
    )


_INVISIBLE = ("hidden", "collapse")


def _color(value: str | None, inherited: Color | None, initial: Color | None) -> Color | None:
    if value is None or value in ("inherit", "unset", "revert"):
        return inherited
    return parse_color(value) or (inherited if value == "currentcolor" else initial)


def _ground(below: Color | None, values: Mapping[str, str]) -> Color | None:
    image = values.get("background-image", "")
    if "url(" in image or "gradient(" in image or "image" in image:
        return None
    color = parse_color(values.get("background-color", ""))
    if color is None or not color.alpha:
        return below
    return color.over(below) if below else color if color.alpha == 1 else None


_OPACITY_FILTER = re.compile(rf"opacity(?:\( ?| ?= ?)({_NUMBER})(%?)")


def _opacity(values: Mapping[str, str]) -> float:
    """Return the product of an element's `opacity` and its filters of that name."""
    found = _NUMBERS.match(values.get("opacity", ""))
    opacity = _share((found[1], found[2]), 1.0) if found else 1.0
    if filtered := _OPACITY_FILTER.search(values.get("filter", "")):
        percent = "%" if "alpha" in values["filter"] else filtered[2]
        opacity *= _share((filtered[1], percent), 1.0)
    return opacity


def _is_removed(values: Mapping[str, str]) -> bool:
    return (
        values.get("display") == "none"
        or values.get("mso-hide") == "all"
        or values.get("content-visibility") == "hidden"
        or _opacity(values) < _LEAST_ALPHA
    )


def _has_no_size(tag: str, values: Mapping[str, str], font: float) -> bool:
    """Return whether an element is at most one pixel wide or high and does not grow with its content."""
    if tag in _TABLE_PARTS:
        return False
    clips = tag == "img" or any(values.get(name, "visible") in _CLIPPING for name in ("overflow-x", "overflow-y"))
    return any(
        _is_flat(axis, values, font, clips) for axis in (("height", "top", "bottom"), ("width", "left", "right"))
    )


_CLIPPING = ("hidden", "clip", "scroll", "auto")


def _is_flat(axis: tuple[str, str, str], values: Mapping[str, str], font: float, clips: bool) -> bool:
    size, *sides = axis
    limits = [pixels(values[name], font) for name in (size, f"max-{size}") if name in values]
    known = [limit for limit in limits if limit is not None]
    if not known or min(known) > _ZERO_BOX:
        return False
    if sum(_length(values, name, font) for name in (f"min-{size}", *(f"padding-{side}" for side in sides))) > _ZERO_BOX:
        return False
    return clips or pixels(values.get(f"max-{size}", ""), font) == 0


_MOVING = frozenset(["position", "transform", "translate", "scale", "margin-top", "margin-left"])
_TRANSLATED = re.compile(r"translate(?:x|y|3d)?\(([^()]*)\)")
_SCALED = re.compile(r"scale(?:x|y|3d)?\(([^()]*)\)")
_MATRIX = re.compile(r"matrix\(([^()]*)\)")


def _is_outside(values: Mapping[str, str], font: float) -> bool:
    """Return whether an element is moved out of the page or scaled to nothing."""
    transform = values.get("transform", "")
    moved = ",".join([*_TRANSLATED.findall(transform), values.get("translate", "").replace(" ", ",")])
    offsets = [pixels(one.strip(), font) or 0.0 for one in moved.split(",") if "%" not in one]
    if values.get("position") in ("absolute", "fixed", "relative", "sticky"):
        offsets += [_length(values, side, font) for side in ("top", "right", "bottom", "left")]
        offsets.append(_FAR_RIGHT - _length(values, "left", font))
    offsets += [
        _length(values, f"margin-{side}", font) + _length(values, f"padding-{side}", font) for side in ("top", "left")
    ]
    return min(offsets) <= _OUTSIDE or _is_scaled_away(transform, values.get("scale", ""))


def _is_scaled_away(transform: str, scale: str) -> bool:
    factors = _numbers(" ".join([scale, *_SCALED.findall(transform)]))
    for matrix in map(_numbers, _MATRIX.findall(transform)):
        if len(matrix) == 6:
            factors.append(matrix[0] * matrix[3] - matrix[1] * matrix[2])
    return any(abs(factor) < _LEAST_SCALE for factor in factors)


def _numbers(text: str) -> list[float]:
    return [float(number) for number, _ in _NUMBERS.findall(text)]


_SHAPE = re.compile(r"(rect|inset|circle|ellipse|polygon)\(([^()]*)\)")


def _is_clipped(values: Mapping[str, str]) -> bool:
    """Return whether nothing is left of an element by `clip` or `clip-path`."""
    if "clip" not in values and "clip-path" not in values:
        return False
    for shape, arguments in _SHAPE.findall(f"{values.get('clip', '')} {values.get('clip-path', '')}"):
        numbers = _numbers(arguments)
        if shape == "rect" and len(numbers) == 4 and "auto" not in arguments:
            top, right, bottom, left = numbers
            return bottom - top <= _ZERO_BOX or right - left <= _ZERO_BOX
        if shape == "inset" and "%" in arguments and numbers:
            top, right, bottom, left = (numbers * 4)[:4] if len(numbers) != 3 else [*numbers, numbers[1]]
            return top + bottom >= 100 or right + left >= 100
        if shape == "polygon" and numbers:
            return len(set(numbers[::2])) == 1 or len(set(numbers[1::2])) == 1
        if numbers and shape in ("circle", "ellipse"):
            return numbers[0] == 0
    return False
