"""Plots as SVG by matplotlib (group `bench`): deterministic bytes, one colour per policy."""

import io
from collections.abc import Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tests.bench.page import Bars, Curves, Panel, Picture

# Okabe and Ito's colours, distinct with any colour vision.
COLOURS = {
    "naive": "#000000",
    "ragcache": "#E69F00",
    "meancache": "#56B4E9",
    "sleeptime": "#F0E442",
    "ragcache-meancache": "#009E73",
    "ragcache-sleeptime": "#CC79A7",
    "percache": "#D55E00",
    "pkb": "#0072B2",
    "pkb-blocks": "#999999",
    "pkb in blocks": "#E69F00",
    "as published": "#BBBBBB",
    "with pkb's engine": "#0072B2",
}
# Tol's muted ones, for everything else.
OTHERS = ("#332288", "#88CCEE", "#44AA99", "#DDCC77", "#CC6677", "#AA4499", "#117733", "#999933", "#882255", "#BBBBBB")
MARKS = "osD^vPX*"
STYLE: Any = {
    "svg.hashsalt": "pkb",
    "svg.fonttype": "none",  # text stays text: no outlines, no fonts
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "legend.frameon": False,
    "legend.fontsize": 7,
    "legend.handlelength": 3.0,
}
WIDE, HIGH, A_BAR = 5.6, 3.0, 0.11  # inches: of a panel, at least, and of a bar among others
FIT, LETTERS = 5, 40  # groups, and letters of their names, that fit side by side


def svg(picture: Picture) -> bytes:
    """Draw a picture."""
    file = io.BytesIO()
    with rc_context(STYLE):
        drawn(picture).savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return file.getvalue()


def drawn(picture: Picture) -> Figure:
    """Lay out a picture."""
    columns = min(picture.columns, len(picture.panels))
    rows = -(-len(picture.panels) // columns)
    width = max(map(_width, picture.panels)) * columns
    figure = Figure(figsize=(width, HIGH * rows), layout="constrained")
    for number, panel in enumerate(picture.panels, 1):
        axes = figure.add_subplot(rows, columns, number)
        if isinstance(panel, Bars):
            _bars(axes, panel)
        else:
            _curves(axes, panel)
        axes.set_title(panel.title, fontsize=10, loc="left")
        axes.set_ylabel(panel.axis)
        if not is_signed(panel):
            axes.set_ylim(bottom=0)
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def is_signed(panel: Panel) -> bool:
    """Return whether bars go below 0."""
    return isinstance(panel, Bars) and any((value or 0.0) < 0 for values in panel.series.values() for value in values)


def _width(panel: Panel) -> float:
    if isinstance(panel, Curves) or panel.stacked:
        return WIDE
    return max(WIDE, 2.5 + A_BAR * len(panel.groups) * (len(panel.series) + 2))


def _bars(axes: Axes, panel: Bars) -> None:
    """Draw bars; many names are slanted."""
    places = range(len(panel.groups))
    width = 0.8 / (1 if panel.stacked else max(1, len(panel.series)))
    floor = [0.0] * len(panel.groups)
    for number, (name, values) in enumerate(panel.series.items()):
        heights = [value or 0.0 for value in values]
        shift = 0.0 if panel.stacked else (number - (len(panel.series) - 1) / 2) * width
        colour = COLOURS.get(name) or OTHERS[number % len(OTHERS)]
        at = [place + shift for place in places]
        axes.bar(at, heights, width, floor, label=name, color=colour, edgecolor="white", linewidth=0.4)
        if panel.stacked:
            floor = [below + height for below, height in zip(floor, heights, strict=True)]
        else:
            _spread(axes, at, values, panel.spread.get(name, ()))
    if panel.stacked:
        _spread(axes, list(places), floor, panel.spread.get("", ()))
    if is_signed(panel):
        axes.axhline(0, color="black", linewidth=0.8)
    slanted = len(panel.groups) > FIT or sum(map(len, panel.groups)) > LETTERS
    axes.set_xticks(
        list(places), list(panel.groups), rotation=35 if slanted else 0, ha="right" if slanted else "center"
    )
    axes.grid(visible=False, axis="x")


def _spread(
    axes: Axes, at: Sequence[float], values: Sequence[float | None], ends: Sequence[tuple[float, float] | None]
) -> None:
    """Draw the interval of each bar that has one."""
    shown = [
        (place, value, end) for place, value, end in zip(at, values, ends, strict=False) if end and value is not None
    ]
    if shown:
        below = [max(0.0, value - low) for _, value, (low, _) in shown]
        above = [max(0.0, high - value) for _, value, (_, high) in shown]
        places, tops = [place for place, _, _ in shown], [value for _, value, _ in shown]
        axes.errorbar(places, tops, [below, above], fmt="none", ecolor="black", elinewidth=0.9, capsize=2)


def _curves(axes: Axes, panel: Curves) -> None:
    """Draw curves; marks show single points and tell colours apart."""
    kinds = list(dict.fromkeys(curve.kind for curve in panel.curves))
    for curve in panel.curves:
        number = kinds.index(curve.kind)
        across, up = [point[0] for point in curve.points], [point[1] for point in curve.points]
        axes.plot(
            across,
            up,
            linestyle="--" if curve.dashed else "-",
            marker=MARKS[number % len(MARKS)] if len(curve.points) <= 50 else "",
            markersize=4,
            color=COLOURS.get(curve.kind) or OTHERS[number % len(OTHERS)],
            label=curve.name,
        )
    if not panel.log and all(at == int(at) for curve in panel.curves for at, _ in curve.points):
        axes.locator_params(axis="x", integer=True)
    if panel.log:
        axes.set_xscale("log")
    axes.set_xlabel(panel.across)
