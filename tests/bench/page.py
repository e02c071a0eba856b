"""Markdown pages: numbers as text, tables, sections, and the values of plots (bars, curves)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import fill


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars in groups, one of each series in a group, side by side or stacked; a missing value is None.

    `spread` has the ends of each bar's interval, by series; of stacked bars those of their sum, under "".
    """

    title: str
    axis: str
    groups: Sequence[str]
    series: Mapping[str, Sequence[float | None]]
    stacked: bool = False
    spread: Mapping[str, Sequence[tuple[float, float] | None]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Curve:
    """Points joined in order; `kind` chooses the colour."""

    name: str
    kind: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Curves:
    """Curves over one axis."""

    title: str
    across: str
    axis: str
    curves: Sequence[Curve]
    log: bool = False  # across


Panel = Bars | Curves


@dataclass(frozen=True, slots=True)
class Picture:
    """Panels, so many in a row; the name is the file's."""

    name: str
    title: str
    panels: tuple[Panel, ...]
    columns: int = 2


NONE = "–"
LINE = 118  # characters


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page: Markdown below a heading, and the plots that follow."""

    title: str
    text: str
    pictures: tuple[Picture, ...] = ()


def page(title: str, opening: str, sections: Iterable[Section], folder: str = "") -> str:
    """Join sections to one page; its plots are in a folder."""
    parts = [f"# {title}", opening]
    for section in sections:
        shown = [f"![{picture.title}]({folder}{picture.name}.svg)" for picture in section.pictures]
        parts += [f"## {section.title}", section.text, *shown]
    return "\n\n".join(part for part in parts if part) + "\n"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Return a table; the first columns are texts, the others numbers."""
    rule = ["---" if number < left else "---:" for number in range(len(heads))]
    return "\n".join(f"| {' | '.join(map(_cell, row))} |" for row in (heads, rule, *rows))


def prose(text: str, indent: str = "") -> str:
    """Wrap a text, indenting all lines but the first."""
    return fill(text, LINE, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def plain(value: float | None) -> str:
    """Show a number with three significant digits, or all before the point."""
    if value is None:
        return NONE
    size = abs(value)
    return f"{value:,.{0 if size >= 100 or size == 0 else 1 if size >= 10 else 2}f}"


def percent(share: float | None) -> str:
    """Show a share in per cent."""
    return NONE if share is None else f"{100 * share:.1f} %"


def change(share: float | None) -> str:
    """Show a share in per cent, signed."""
    return NONE if share is None else f"{100 * share:+.1f} %"


def points(difference: float | None) -> str:
    """Show a difference of shares, in points."""
    return NONE if difference is None else f"{100 * difference:+.1f}"


def ratio(one: float, other: float) -> str:
    """Show one as a multiple of another."""
    return f"{one / other:.2f}" if other else NONE


def weight(count: float | None) -> str:
    """Show bytes."""
    if count is None:
        return NONE
    power = next(power for power in range(4) if count < 1000 ** (power + 1) or power == 3)
    return f"{plain(count / 1000**power)} {('B', 'kB', 'MB', 'GB')[power]}"


def of(part: int, whole: int, unknown: int = 0) -> str:
    """Show a count of a count, and of how many more nothing is known."""
    said = [f"{part} of {whole}"] * (whole > 0) + [f"{unknown} unknown"] * (unknown > 0)
    return ", ".join(said) or NONE


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
