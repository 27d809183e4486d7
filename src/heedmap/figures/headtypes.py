"""The picture of head types: all heads as a grid, each cell in the colours of what the head does."""

from __future__ import annotations

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from heedmap.figures.fonts import warn_missing
from heedmap.figures.headmap import fit_line, text_width
from heedmap.figures.labels import wording
from heedmap.figures.style import Style, style_for, to_oklab
from heedmap.heads.types import TYPES, TypedHead, Typing

_ON_LIGHT = {
    "induction": "#b5179e", "duplicate": "#e07bc8", "previous": "#1f6fb4", "next": "#5fb0e6", "positional": "#0b4475",
    "self": "#2a9d8f", "local": "#9bd1c4", "first": "#d9480f", "sink": "#f6b26b", "separator": "#e9b200",
    "punctuation": "#a67c00", "broad": "#8a8f98",
}  # fmt: skip
_ON_DARK = {
    "induction": "#ff5fd7", "duplicate": "#b06aa5", "previous": "#58a6f0", "next": "#2b6fa3", "positional": "#bcdcff",
    "self": "#45c4b0", "local": "#28675d", "first": "#ff8a4c", "sink": "#8f5526", "separator": "#ffd43b",
    "punctuation": "#b8973a", "broad": "#a3a9b5",
}  # fmt: skip
_IMPLIED = {
    "sink": {"first", "separator"},
    "positional": {"previous", "next"},
    "local": {"previous", "next", "positional", "self"},
}
"""Type → types that say it already: its stripe is left out beside theirs."""
_MOST = 3  # stripes in a cell
_MARGIN, _TOP, _TICKS = 0.45, 1.0, 0.3  # inches


def head_types(typing: Typing, title: str, subtitle: str, *, facecolor: str = "white") -> Figure:
    """Draw every head as a cell with a stripe for each of its types (at most three), and a legend with their counts.

    A type that another one of the head implies has no stripe; a head without a type is an empty cell, a head that was
    not looked at has none. Raises ``InputError`` for a page colour that is not a colour.
    """
    style = style_for(facecolor)
    colours = _ON_LIGHT if _lightness(style) >= 0.6 else _ON_DARK
    words = wording([], title)
    if words.missing:
        warn_missing(words.missing, "the title shows � in their place")
    rows = _rows(typing)
    columns = max(head.head for head in typing.heads) + 1
    cell = min(0.46, 5.2 / columns, 8.0 / len(rows))
    with rc_context({"font.family": list(words.fonts.families), "svg.fonttype": "path"}):
        figure = FigureCanvasAgg(Figure(facecolor=style.page)).figure
        names = [f"{part} {layer}" if len({p for p, _ in rows}) > 1 else str(layer) for part, layer in rows]
        left = _MARGIN + max(text_width(figure, name, 7) for name in names) + 0.1
        grid_width, grid_height = cell * columns, cell * len(rows)
        legend_left = left + grid_width + 0.45
        shown = [name for name in TYPES if name not in typing.unjudged]
        lines = [f"{TYPES[name].says}" for name in shown]
        legend_width = 1.55 + max([text_width(figure, line, 8.5) for line in lines] or [0])
        width = max(legend_left + legend_width + 0.2, 5.0)
        height = _TOP + _TICKS + max(grid_height, 0.27 * (len(shown) + 2)) + 0.4
        figure.set_size_inches(width, height)

        def write(x: float, y: float, text: str, size: float, color: str, ha: str = "left") -> None:
            figure.text(x / width, 1 - y / height, text, fontsize=size, color=color, ha=ha, parse_math=False)

        write(_MARGIN, 0.46, fit_line(figure, words.title, width - 2 * _MARGIN, 13.5), 13.5, style.ink)
        write(_MARGIN, 0.70, f"{subtitle}   ·   layer ↓ and head →", 8.5, style.muted)
        axes = figure.add_axes(
            (left / width, 1 - (_TOP + _TICKS + grid_height) / height, grid_width / width, grid_height / height)
        )
        _draw(axes, typing, rows, names, columns, cell, colours, style)
        for index, name in enumerate(shown):
            y = _TOP + _TICKS + 0.14 + 0.27 * index
            count = len(typing.of_type(name))
            figure.add_artist(
                Rectangle((legend_left / width, 1 - (y + 0.035) / height), 0.16 / width, 0.16 / height,
                          transform=figure.transFigure, facecolor=colours[name], edgecolor="none")
            )  # fmt: skip
            ink = style.ink if count else style.muted
            write(legend_left + 0.28, y, name, 8.5, ink)
            write(legend_left + 1.32, y, str(count), 8.5, ink, ha="right")
            write(legend_left + 1.5, y, lines[index], 8.5, style.muted)
        y = _TOP + _TICKS + 0.14 + 0.27 * (len(shown) + 0.4)
        write(legend_left + 0.28, y, "no type", 8.5, style.ink)
        write(legend_left + 1.32, y, str(len(typing.none)), 8.5, style.ink, ha="right")
    return figure


def _lightness(style: Style) -> float:
    """Lightness of the page, 0 to 1."""
    return float(to_oklab(np.array(to_rgb(style.page)))[0])


def stripes(head: TypedHead) -> list[str]:
    """The types of a head that its cell shows, at most three."""
    own = set(head.types)
    return [name for name in head.types if not _IMPLIED.get(name, set()) & own][:_MOST]


def _rows(typing: Typing) -> list[tuple[str, int]]:
    """(part, layer) of each row of the grid; a layer without attention between two others has an empty row."""
    rows: list[tuple[str, int]] = []
    for part in dict.fromkeys(head.part for head in typing.heads):
        layers = [head.layer for head in typing.heads if head.part == part]
        rows += [(part, layer) for layer in range(min(layers), max(layers) + 1)]
    return rows


def _draw(
    axes: Axes,
    typing: Typing,
    rows: list[tuple[str, int]],
    names: list[str],
    columns: int,
    cell: float,
    colours: dict[str, str],
    style: Style,
) -> None:
    axes.set_xlim(-0.5, columns - 0.5)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_facecolor(style.page)
    for spine in axes.spines.values():
        spine.set_visible(False)
    gap = 0.06 if cell > 0.25 else 0.09
    for head in typing.heads:
        x, y = head.head - 0.5 + gap, rows.index((head.part, head.layer)) - 0.5 + gap
        side = 1 - 2 * gap
        shown = stripes(head)
        if not shown:
            axes.add_patch(Rectangle((x, y), side, side, facecolor="none", edgecolor=style.faint, linewidth=0.7))
        for index, name in enumerate(shown):
            part = side / len(shown)
            axes.add_patch(Rectangle((x + index * part, y), part, side, facecolor=colours[name], edgecolor="none"))
    axes.xaxis.tick_top()
    axes.set_xticks(range(columns), [str(head) for head in range(columns)])
    axes.set_yticks(range(len(rows)), names)
    axes.tick_params(length=0, pad=3, labelsize=7, labelcolor=style.muted)
