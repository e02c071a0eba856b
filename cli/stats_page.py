"""The figures of `pkb stats --html`: one HTML page with plots, which loads nothing and runs no script.

Knows pygal, which draws the plots as SVG, and none of the sources of the figures.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from itertools import count as numbers
from math import ceil, floor, log10
from typing import Any

from cli import output
from cli.render import from_home
from cli.stats import TIERS, periods, place, tier_name
from engine.text.terminal import duration, line, size
from store.errors import PkbError

_WIDTH, _HEIGHT, _ROW = 480, 260, 28  # of a plot, in its own units; of a row of bars
_LABELS = 5  # days below a plot
_COLOURS = 5
_FONT = 13


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot and its table: series of values by label, their unit, and what it shows in a sentence.

    `bars` lie, one for each label and series; else they stand, stacked, one for each day. `highest` fixes the
    scale; `is_time`: values are seconds.
    """

    title: str
    text: str
    heading: str
    labels: Sequence[str]
    series: Mapping[str, Sequence[float]]
    shown: Callable[[float], str]
    bars: bool = False
    logarithmic: bool = False
    is_time: bool = False
    highest: float | None = None


def write_page(row: dict[str, Any], now: datetime, target: str) -> None:
    """Write the page of some statistics to a file, or to standard output for "-"; PkbError without pygal."""
    page = _page(row, now)
    output.write_file(target, page)
    if target != "-":
        output.say(f"pkb: wrote {target}, {size(len(page))}; open it in a browser")


def _page(row: dict[str, Any], now: datetime) -> str:
    """Return the page, in ASCII."""
    pygal = _pygal()
    from jinja2 import Environment

    drawn = [
        (plot, *_drawn(pygal, plot, f"plot-{number}")) for number, plot in zip(numbers(1), plots(row), strict=False)
    ]
    sheet = max((sheet for *_, sheet in drawn), key=len, default="")  # of the most colours; else they are the same
    template = files("cli").joinpath("stats_page.html").read_text("utf-8")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    shown = [(plot, svg, [plot.heading, *plot.series], _rows(plot)) for plot, svg, _ in drawn]
    page = environment.from_string(template).render(
        day=now.date().isoformat(), sheet=sheet, figures=list(_figures(row)), plots=shown
    )
    return page.encode("ascii", "xmlcharrefreplace").decode("ascii")


def _figures(row: dict[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield the key figures with their names."""
    asked = sum(tier["questions"] for tier in row["tiers"])
    hits = sum(tier["questions"] for tier in row["tiers"] if tier["tier"] != "full")
    idle, answers = row["idle"], row["answers"]
    spent, saved = (duration(sum(one[key] for one in idle["so_far"])) for key in ("seconds", "saved_s"))
    yield "saved by caches", duration(row["saved_s"])
    yield "questions", f"{asked:,}" + (f" since {row['history']['first']}" if row["history"]["first"] else "")
    yield "cache hits", _percent(hits / asked) if asked else "none"
    yield "spent on idle work", f"{spent}, which saved {saved}"
    yield "predicted questions", f"{idle['predicted']:,}, {idle['asked_later']:,g} asked later"
    yield "more room for KV", f"would have saved {duration(row['kv']['more_would_save_s'])}"
    if answers["verified"]:
        most = f"at most {answers['false_hit_upper'] * 100:.1f} %"
        yield "wrong paraphrase hits", f"{answers['wrong']:,} of {answers['verified']:,} verified, {most} (95 %)"
    if row["model"]:
        yield "language model", from_home(line(row["model"]))


def plots(row: dict[str, Any]) -> list[Plot]:
    """Return the plots of some statistics; those without data are left out."""
    made = [*_over_time(row["history"]), _latency(row["history"]["latency"]), _budgets(row), _written(row["kv"])]
    made += [_idle(row["idle"]), _predictions(row["idle"]), _room(row["kv"])]
    return [plot for plot in made if any(any(values) for values in plot.series.values())]


def _over_time(history: dict[str, Any]) -> list[Plot]:
    """Return the plots by week, or by day for a short history."""
    of, found = periods(history)
    starts, asked = [one["start"] for one in found], [one["questions"] for one in found]
    tiers = [tier for tier in TIERS if any(tier in one["tiers"] for one in found)]
    counts = {tier: [one["tiers"].get(tier, 0) for one in found] for tier in tiers}
    shares = {
        tier: [100 * number / max(1, most) for number, most in zip(counts[tier], asked, strict=True)]
        for tier in tiers
        if tier != "full"
    }
    saved = {"saved": [max(0.0, one["saved_s"]) for one in found]}
    text = f"Questions of each {of}, by the tier that answered."
    return [
        Plot(f"Hit rate by {of}", f"Share of each {of}'s questions that hit a cache, by tier.", of, starts, shares,
             lambda value: f"{value:.0f} %", highest=100),
        Plot(f"Questions by {of}", text, of, starts, counts, lambda value: f"{value:,.0f}"),
        Plot(f"Time saved by {of}", "Time that caches saved, against computing each answer.", of, starts, saved,
             duration, is_time=True),
    ]  # fmt: skip


def _latency(found: list[dict[str, Any]]) -> Plot:
    tiers = sorted(found, key=place, reverse=True)
    values = {name: [max(one[key], 0.001) for one in tiers] for name, key in (("p50", "p50_ms"), ("p95", "p95_ms"))}
    text = "Half of a tier's answers took at most p50, 95 % at most p95. The scale is logarithmic."
    names = [tier_name(tier) for tier in tiers]
    return Plot("Latency by tier", text, "tier", names, values, _milliseconds, bars=True, logarithmic=True)


def _milliseconds(value: float) -> str:
    return f"{value:.3g} ms" if value < 1000 else f"{value / 1000:.3g} s"


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _budgets(row: dict[str, Any]) -> Plot:
    kv, answers = row["kv"], row["answers"]
    used = {
        "KV written today": (kv["written_today"], kv["daily_budget"]),
        "cache folder": (row["bytes"]["cache"], kv["budget"]),
        "answers": (answers["bytes"], answers["budget"]),
    }
    shares = {"used": [100 * part / max(1, budget) for part, budget in used.values()]}
    parts = [f"{name} {size(part)} of {size(budget)}" for name, (part, budget) in reversed(used.items())]
    return Plot("Bytes against budgets", f"Used: {', '.join(parts)}.", "budget", list(used), shares,
                lambda value: f"{value:.3g} %", bars=True, highest=max(100.0, *shares["used"]))  # fmt: skip


def _written(kv: dict[str, Any]) -> Plot:
    days = kv["written_by_day"]
    text = f"Bytes of KV cache written per day (UTC); the budget is {size(kv['daily_budget'])} a day."
    return Plot("KV cache written by day", text, "day", list(days), {"written": list(days.values())}, size)


def _idle(idle: dict[str, Any]) -> Plot:
    done = sorted((one for one in idle["so_far"] if one["units"]), key=lambda one: float(one["seconds"]))
    values = {"spent": [one["seconds"] for one in done], "saved": [max(0.0, one["saved_s"]) for one in done]}
    text = "Time that idle jobs took, and time that cache hits on their results saved, by kind of job."
    return Plot("Idle work", text, "job", [one["job"] for one in done], values, duration, bars=True, is_time=True)


def _predictions(idle: dict[str, Any]) -> Plot:
    values = {"questions": [idle["asked_later"], float(idle["predicted"])]}
    text = "Questions that idle runs predicted, and those of them that were asked later."
    return Plot("Predicted questions", text, "questions", ["asked later", "predicted"], values,
                lambda value: f"{value:,g}", bars=True)  # fmt: skip


def _room(kv: dict[str, Any]) -> Plot:
    values = {"time": [kv["more_would_save_s"], max(0.0, kv["saved_s"])]}
    text = "Time that the KV cache saved, and the most that a larger budget (kv.bytes) would have saved besides."
    return Plot(
        "Room for the KV cache", text, "budget", ["more room", "as it is"], values, duration, bars=True, is_time=True
    )


def _rows(plot: Plot) -> list[list[str]]:
    """Return the rows of a plot's table."""
    rows = [
        [label, *map(plot.shown, values)] for label, *values in zip(plot.labels, *plot.series.values(), strict=True)
    ]
    return rows[::-1] if plot.bars else rows  # pygal draws bars from below


def _drawn(pygal: Any, plot: Plot, name: str) -> tuple[str, str]:
    """Return a plot as SVG, and the style sheet that it needs."""
    kind = pygal.HorizontalBar if plot.bars else pygal.StackedBar
    chart, sheets = kind(**_settings(plot)), list[str]()
    chart.x_labels = plot.labels
    if not plot.bars:
        chart.x_labels_major = plot.labels[:: max(1, ceil(len(plot.labels) / _LABELS))]
    for series, values in plot.series.items():
        chart.add(series, values)
    chart.add_xml_filter(lambda root: _cleaned(root, plot, name, sheets))
    svg = chart.render()
    return svg, sheets[0].replace(f"#chart-{chart.uuid}", ".pygal-chart")


def _pygal() -> Any:
    try:
        import pygal
    except ImportError:
        from engine.models.runtime import install_command

        raise PkbError("plots need pygal, which is not installed", install_command("plots")) from None
    return pygal


def _settings(plot: Plot) -> dict[str, Any]:
    """Return how pygal draws a plot: its colours are those of the page, in light or dark."""
    from pygal.style import Style

    style = Style(
        background="transparent", plot_background="transparent", foreground="var(--text)",
        foreground_strong="var(--text)", foreground_subtle="var(--rule)", font_family="inherit",
        guide_stroke_color="var(--rule)", major_guide_stroke_color="var(--rule)", major_guide_stroke_dasharray="4,4",
        colors=tuple(f"var(--series-{number})" for number in range(_COLOURS)), opacity="1", opacity_hover="1",
        label_font_size=_FONT, major_label_font_size=_FONT, legend_font_size=_FONT,
    )  # fmt: skip
    rows = len(plot.labels) * (len(plot.series) + 1) // 2
    chosen: dict[str, Any] = {
        "style": style, "js": (), "disable_xml_declaration": True, "value_formatter": plot.shown, "margin": 6,
        "margin_right": 32, "width": _WIDTH, "height": 90 + _ROW * rows if plot.bars else _HEIGHT,
        "truncate_label": -1, "truncate_legend": -1, "show_legend": len(plot.series) > 1, "legend_at_bottom": True,
        "legend_at_bottom_columns": len(plot.series), "show_minor_x_labels": plot.bars, "logarithmic": plot.logarithmic,
    }  # fmt: skip
    steps = _decades(plot) if plot.logarithmic else ticks(plot)
    return chosen | {"y_labels": steps, "range": (steps[0], steps[-1]), "zero": steps[0]}


def _decades(plot: Plot) -> list[float]:
    """Return the powers of ten around the values of a plot."""
    values = [value for series in plot.series.values() for value in series]
    return [10.0**power for power in range(floor(log10(min(values)) - 0.01), ceil(log10(max(values)) + 0.01) + 1)]


def ticks(plot: Plot) -> list[float]:
    """Return up to six round values from 0 to at least the highest of a plot."""
    columns = plot.series.values() if plot.bars else [[sum(day) for day in zip(*plot.series.values(), strict=True)]]
    highest = plot.highest or max(map(max, columns))
    unit = next((length for length in (3600, 60) if plot.is_time and highest >= 2 * length), 1)
    step = 10.0 ** floor(log10(highest / unit / 4))
    step *= unit * next(times for times in (1, 2, 2.5, 5, 10) if step * unit * times * 5 >= highest)
    return [step * number for number in range(ceil(highest / step) + 1)]


def _cleaned(root: Any, plot: Plot, name: str, sheets: list[str]) -> Any:
    """Return pygal's SVG with a title that screen readers find, without scripts and what only those need."""
    sheets.append(next(root.iter("style")).text)
    for parent in list(root.iter()):
        parent.attrib.pop("id", None)  # the same in each plot
        if described := {node.get("class", "").split(" ")[0]: node.text for node in parent if node.tag == "desc"}:
            _titled(parent, described)
        for node in list(parent):
            if not isinstance(node.tag, str) or node.tag in ("script", "style", "desc"):  # not text: a comment
                parent.remove(node)
    title = root.find("title")
    title.text = f"{plot.title}. {plot.text}"
    title.set("id", name)
    root.set("role", "img")
    root.set("aria-labelledby", name)
    return root


def _titled(bar: Any, described: dict[str, str | None]) -> None:
    """Give a bar the title that a browser shows under the pointer."""
    title = bar.makeelement("title", {})
    title.text = ": ".join(filter(None, (described.get("x_label"), described.get("value"))))
    bar.insert(0, title)
