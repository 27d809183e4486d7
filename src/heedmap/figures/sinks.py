"""The picture of attention sinks: what each head rests on the first tokens, and by layer their weight and score."""

from __future__ import annotations

import math

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, Normalize
from matplotlib.figure import Figure

from heedmap.figures.curves import new_figure, place, write
from heedmap.figures.fonts import warn_missing
from heedmap.figures.grid import colour_bar, short_number
from heedmap.figures.headmap import fit_line
from heedmap.figures.labels import wording
from heedmap.figures.style import Style, style_for
from heedmap.heads.sinks import THRESHOLD, Sinks

_MARGIN, _TOP, _LABELS = 0.45, 1.35, 0.62  # inches; room above the tables for the names of tokens


def sinks_figure(
    found: Sinks, title: str, subtitle: str, *, threshold: float = THRESHOLD, facecolor: str = "white"
) -> Figure:
    """Draw the grid layers × heads of the largest mean weight (α) on one of the first tokens, and beside it two tables
    layers × first tokens: the mean weight over heads, and the mean score before the softmax. Each says which it is.

    A dot marks heads above the threshold. Raises ``InputError`` for a page colour that is not a colour.
    """
    style = style_for(facecolor)
    words = wording(found.labels, title, positions=found.positions, widest=10)
    if words.missing:
        warn_missing(words.missing, "labels show numbers in their place")
    layers, weight = found.by_layer(found.weight)
    rows = list(range(min(layers), max(layers) + 1))
    columns = max(head for _, _, head in found.heads) + 1
    grid = np.full((len(rows), columns), np.nan)
    for (_, layer, head), value in zip(found.heads, found.largest, strict=True):
        grid[layer - rows[0], head] = value
    scored = bool(np.isfinite(found.score).any())
    cell = min(0.32, 5.0 / columns, 7.0 / len(rows))
    tall = max(cell * len(rows), 1.2)
    cell_wide = 0.52
    table_width = cell_wide * len(found.positions)
    lefts = [_MARGIN + 0.3, _MARGIN + 0.3 + max(cell * columns, 2.6) + 0.75]
    lefts.append(lefts[1] + max(table_width, 2.3) + 0.75)
    with rc_context({"font.family": list(words.fonts.families), "svg.fonttype": "path"}):
        width = lefts[2] + max(table_width, 2.3) + _MARGIN if scored else lefts[2] - 0.3
        top = _TOP + _LABELS
        figure = new_figure(style, width, top + tall + 0.85)
        write(figure, _MARGIN, 0.46, fit_line(figure, words.title, width - 2 * _MARGIN, 13.5), size=13.5,
              color=style.ink)  # fmt: skip
        write(figure, _MARGIN, 0.70, subtitle, size=8.5, color=style.muted)

        def panel(left: float, head: str, wide: float) -> tuple[Axes, Axes]:
            write(figure, left, _TOP - 0.12, head, size=9.5, color=style.ink)
            return place(figure, left, top, wide, tall), place(figure, left, top + tall + 0.22, min(wide, 1.9), 0.09)

        axes, bar = panel(lefts[0], "largest mean weight, layer ↓ head →", cell * columns)
        _draw(axes, bar, grid, rows, [str(head) for head in range(columns)], style.weight, Normalize(0, 1), style)
        marked = np.argwhere(np.nan_to_num(grid) > threshold)
        for row, head in marked if cell >= 0.1 else ():
            ink = style.ink_on(style.weight(float(grid[row, head])))
            axes.plot(head, row, ".", color=ink, markersize=min(4.0, 18 * cell), markeredgewidth=0)
        axes, bar = panel(lefts[1], "mean weight, over heads", table_width)
        norm = Normalize(0, max(float(np.nanmax(weight, initial=0.0)), 1e-9))
        _draw(axes, bar, _all(rows, layers, weight), rows, words.labels, style.weight, norm, style, numbers=cell)
        if scored:
            _, score = found.by_layer(found.score)
            edge = max(float(np.nanmax(np.abs(score), initial=0.0)), 1e-9)
            axes, bar = panel(lefts[2], "mean score (logit), over heads", table_width)
            _draw(axes, bar, _all(rows, layers, score), rows, words.labels, style.signed, Normalize(-edge, edge), style,
                  numbers=cell)  # fmt: skip
    return figure


def _all(rows: list[int], layers: list[int], values: np.ndarray) -> np.ndarray:
    """One row for each layer, NaN where a layer has no attention."""
    table = np.full((len(rows), values.shape[1]), np.nan)
    table[np.array(layers) - rows[0]] = values
    return table


def _draw(
    axes: Axes,
    bar: Axes,
    table: np.ndarray,
    rows: list[int],
    names: list[str],
    colours: Colormap,
    norm: Normalize,
    style: Style,
    *,
    numbers: float = 0.0,
) -> None:
    axes.set_facecolor(style.page)
    axes.imshow(table, cmap=colours, norm=norm, aspect="auto", interpolation="nearest")
    step = next(step for step in (1, 2, 4, 5, 10, 20, 50) if len(rows) / step <= 16 or step == 50)
    axes.set_yticks(range(0, len(rows), step), [str(row) for row in rows[::step]])
    axes.xaxis.tick_top()
    axes.tick_params(length=0, pad=3, labelsize=7, labelcolor=style.muted)
    if numbers:
        axes.set_xticks(range(len(names)), names, rotation=45, ha="left", rotation_mode="anchor", parse_math=False)
        axes.tick_params(axis="x", labelsize=8, labelcolor=style.ink)
    else:
        every = max(1, math.ceil(len(names) / 16))
        axes.set_xticks(range(0, len(names), every), names[::every])
    for spine in axes.spines.values():
        spine.set_visible(False)
    if numbers >= 0.17:
        for (row, column), value in np.ndenumerate(table):
            if np.isfinite(value):
                ink = style.ink_on(colours(norm(value)))
                axes.text(column, row, short_number(value, 1.0), fontsize=6.5, color=ink, ha="center",
                          va="center_baseline")  # fmt: skip
    colour_bar(bar, colours, norm, style)
