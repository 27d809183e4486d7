"""The grid of all heads, layers down and heads across, coloured by one statistic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, Normalize
from matplotlib.patches import Rectangle

from heedmap.errors import InputError
from heedmap.figures.style import Style

if TYPE_CHECKING:
    from heedmap.runs.reader import Run

TICKS = 0.3  # inches for the numbers of layers and heads
BAR = 1.6  # inches of the shortest colour bar
_WIDEST, _TALLEST = 4.8, 5.6
_KEYS = ("part", "layer", "head")
_COUNTS = ("rows", "rows_empty", "rows_not_finite")


@dataclass(frozen=True)
class Size:
    """Width and height in inches."""

    width: float
    height: float


@dataclass(frozen=True)
class HeadValues:
    """One value per head, ``table[row, head]`` with NaN where the run holds no such head.

    ``rows`` names each row's (part, layer); a layer without attention between two others has a row of NaN.
    """

    name: str
    unit: str
    rows: list[tuple[str, int]]
    table: np.ndarray
    over_rows: str = "mean"
    """How the rows of a head became its value: their mean, or the largest of them (`max`)."""

    @property
    def title(self) -> str:
        unit = f" ({self.unit})" if self.unit and self.unit not in self.name else ""
        how = {"mean": "" if self.name.startswith("mean") else "mean ", "max": "largest "}[self.over_rows]
        name, _, label = self.name.partition(".")
        return f"{how}{name.replace('_', ' ')}{f' of {label}' if label else ''}{unit} by layer ↓ and head →"

    @property
    def signed(self) -> bool:
        return bool(np.nanmin(self.table) < 0)

    def largest(self) -> tuple[str, int, int]:
        """The (part, layer, head) with the largest value."""
        row, head = np.unravel_index(np.nanargmax(self.table), self.table.shape)
        return (*self.rows[int(row)], int(head))


def statistics_of(run: Run) -> list[str]:
    """The statistics of a run that have one value per head, and so can colour the grid.

    One that has several, the mass on each kind of token, is there once for each: ``class_mass.punctuation``.
    """
    table, described = run.table("head"), run.meta["statistics"]
    names: list[str] = []
    for column in table.schema:
        if column.name in _KEYS or column.name in _COUNTS or column.name.startswith("rows_"):
            continue
        if hasattr(column.type, "list_size"):
            labels = described.get(column.name, {}).get("labels", map(str, range(column.type.list_size)))
            names += [f"{column.name}.{label}" for label in labels]
        else:
            names.append(column.name)
    return names


def head_values(run: Run, statistic: str) -> HeadValues:
    """Read a column of the run's head table; ``InputError`` names the columns there are."""
    heads = run.table("head")
    columns = statistics_of(run)
    if statistic not in columns:
        raise InputError(
            "overview", expected=f"a statistic of this run's heads ({', '.join(columns)})", got=repr(statistic)
        )
    keys = list(zip(*(heads.column(name).to_pylist() for name in _KEYS), strict=True))
    name, _, label = statistic.partition(".")
    values = heads.column(name).to_numpy(zero_copy_only=False)
    described = run.meta["statistics"].get(name, {})
    if label:
        which = columns.index(statistic) - next(i for i, c in enumerate(columns) if c.startswith(f"{name}."))
        values = np.array([np.nan if own is None else own[which] for own in values])
    values = values.astype(np.float64)
    values[~np.isfinite(values)] = np.nan
    if not np.isfinite(values).any():
        raise InputError("overview", expected=f"a finite {statistic} in some head", got="none in this run")
    rows: list[tuple[str, int]] = []
    for part in dict.fromkeys(part for part, _, _ in keys):
        layers = [layer for name, layer, _ in keys if name == part]
        rows += [(part, layer) for layer in range(min(layers), max(layers) + 1)]
    table = np.full((len(rows), max(head for _, _, head in keys) + 1), np.nan)
    place = {row: index for index, row in enumerate(rows)}
    for (part, layer, head), value in zip(keys, values, strict=True):
        table[place[part, layer], head] = value
    return HeadValues(statistic, described.get("unit", ""), rows, table, described.get("over_rows", "mean"))


def size(values: HeadValues, beside: float) -> Size:
    """Cells are as wide as the page allows, up to a comfortable width; the grid ends level with the map ``beside`` it
    where its cells then stay between square and twice as tall as wide."""
    rows, heads = values.table.shape
    width = min(0.42, _WIDEST / heads, 1.6 * _TALLEST / rows)
    height = min(max(beside / rows, min(width, _TALLEST / rows)), 2.25 * width)
    return Size(width * heads, height * rows)


def draw(axes: Axes, bar: Axes, values: HeadValues, room: Size, chosen: tuple[str, int, int], style: Style) -> None:
    """Draw the grid with its colour bar and a ring round the chosen head."""
    rows, heads = values.table.shape
    finite = values.table[np.isfinite(values.table)]
    edge = float(np.abs(finite).max()) or 1.0
    norm = Normalize(-edge if values.signed else 0.0, edge)
    colours = style.signed if values.signed else style.value
    axes.set_facecolor(style.page)
    axes.imshow(values.table, cmap=colours, norm=norm, aspect="auto", interpolation="nearest")
    axes.set_xticks(_every(heads), [str(head) for head in _every(heads)])
    several = len({part for part, _ in values.rows}) > 1
    names = [f"{part} {layer}" if several else str(layer) for part, layer in values.rows]
    axes.set_yticks(_every(rows), [names[row] for row in _every(rows)])
    axes.xaxis.tick_top()
    axes.tick_params(length=0, pad=3, labelsize=7, labelcolor=style.muted)
    axes.set_xticks(np.arange(heads + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(rows + 1) - 0.5, minor=True)
    line = min(1.2, 12 / max(rows, heads))
    axes.grid(which="minor", color=style.page, linewidth=line)
    axes.tick_params(which="minor", length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    row = values.rows.index(chosen[:2])
    axes.add_patch(
        Rectangle(
            (chosen[2] - 0.5, row - 0.5),
            1,
            1,
            fill=False,
            edgecolor=style.accent,
            linewidth=1.8,
            clip_on=False,
            zorder=5,
        )
    )
    if room.width / heads >= 0.32 and room.height / rows >= 0.22:
        for (row, head), value in np.ndenumerate(values.table):
            if np.isfinite(value):
                color = style.ink_on(colours(norm(value)))
                axes.text(
                    head, row, short_number(value, edge), color=color, fontsize=6.5, ha="center", va="center_baseline"
                )
    colour_bar(bar, colours, norm, style)


def colour_bar(axes: Axes, colours: Colormap, norm: Normalize, style: Style) -> None:
    """A thin horizontal colour bar with numbers below it."""
    low, high = float(norm.vmin or 0.0), float(norm.vmax or 1.0)
    edges = norm.inverse(np.linspace(0.0, 1.0, 257))
    axes.pcolorfast(
        np.linspace(0.0, 1.0, 257), [0.0, 1.0], np.asarray(norm(edges[:-1]))[None], cmap=colours, vmin=0, vmax=1
    )
    ticks = _ticks(low, high) if type(norm) is Normalize else _spaced_ticks(norm, high)
    axes.set_xticks([float(norm(tick)) for tick in ticks], [_tick_label(tick, high) for tick in ticks])
    axes.set_yticks([])
    axes.tick_params(length=2, width=0.6, pad=2, labelsize=7, labelcolor=style.muted, color=style.muted)
    for spine in axes.spines.values():
        spine.set_visible(False)


def short_number(value: float, largest: float) -> str:
    """A number with the decimals that its scale needs: 0.68, 3.1, 412."""
    if value == 0:
        return "0"
    decimals = 2 if largest < 2 else 1 if largest < 100 else 0
    if 0 < largest < 0.02:
        return f"{value:.1g}"
    return f"{value:.{decimals}f}".replace("-", "−")


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers inside the range, both ends of a share included."""
    step = 10 ** np.floor(np.log10((high - low) / 2))
    while (high - low) / step > 5:
        step *= 2 if round(step / 10 ** np.floor(np.log10(step))) in (1, 5) else 2.5
    first = np.ceil(low / step - 1e-9)
    return [float(step * k) + 0.0 for k in np.arange(first, np.floor(high / step + 1e-9) + 1)]


def _spaced_ticks(norm: Normalize, high: float) -> list[float]:
    """Numbers of the form 1, 2, 5 × 10ⁿ and 0, kept where they stand far enough apart on an uneven scale."""
    decade = np.floor(np.log10(high))
    ticks: list[float] = [0.0]
    for tick in (digit * 10.0**power for power in np.arange(decade - 4, decade + 1) for digit in (1, 2, 5)):
        if tick <= high and float(norm(tick)) - float(norm(ticks[-1])) >= 0.15:
            ticks.append(tick)
    return ticks


def _tick_label(tick: float, high: float) -> str:
    return f"{tick:g}".replace("-", "−") if high < 10_000 else f"{tick:,.0f}".replace("-", "−")


def _every(count: int) -> list[int]:
    """Which rows or columns have their number: all of up to 16, else every second, fifth, tenth …"""
    step = next(step for step in (1, 2, 4, 5, 8, 10, 16, 20, 50, 100, 200, 500, 1000) if count / step <= 16)
    return list(range(0, count, step))
