"""What a plot shows, as plain values: bars by group, curves, and pictures made of them. Knows no way to draw."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars in groups, one of each series in a group, or one on the other; a missing value is None."""

    title: str
    axis: str
    groups: Sequence[str]
    series: Mapping[str, Sequence[float | None]]
    stacked: bool = False

    def __post_init__(self) -> None:
        """Hold every series to the groups."""
        assert all(len(values) == len(self.groups) for values in self.series.values()), "one value for each group"


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
