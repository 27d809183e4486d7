"""The picture of which passage each token read: a bar for each token, and a grid of all heads for each passage."""

from __future__ import annotations

import itertools
import math

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Normalize, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from heedmap.figures.fonts import warn_missing
from heedmap.figures.grid import colour_bar
from heedmap.figures.headmap import fit_line, text_width
from heedmap.figures.labels import wording
from heedmap.figures.style import Style, style_for, to_oklab
from heedmap.heads.passages import FIRST, REST, Readings

_ON_LIGHT = ("#1f6fb4", "#d9480f", "#2a9d8f", "#b5179e", "#e9b200", "#5c4db1", "#7a9e1e", "#a0522d")
_ON_DARK = ("#58a6f0", "#ff8a4c", "#45c4b0", "#ff5fd7", "#ffd43b", "#a99bff", "#b4d455", "#d9966b")
_MARGIN, _BARS, _WIDE = 0.45, 1.9, 9.4  # inches
_LABELLED = 90  # rows whose tokens are written below their bars
_GRIDS = 6  # grids in a line


def passages_figure(
    readings: Readings,
    title: str,
    subtitle: str,
    head: tuple[str, int, int] | None = None,
    *,
    facecolor: str = "white",
) -> Figure:
    """Draw what each row read, as a bar of its mass on each passage (of one head, else the mean over heads), and below
    it one grid layers × heads for each passage, coloured by the mean mass over these rows.

    Raises ``InputError`` for a page colour that is not a colour.
    """
    style = style_for(facecolor)
    light = float(to_oklab(np.array(to_rgb(style.page)))[0]) >= 0.6
    base = _ON_LIGHT if light else _ON_DARK
    greys = {REST: style.faint, FIRST: style.muted}
    palette = [greys.get(name, base[index % len(base)]) for index, name in enumerate(readings.names)]
    words = wording([*readings.labels, *readings.names], title)
    if words.missing:
        warn_missing(words.missing, "labels show numbers in their place")
    labels, names = words.labels[: len(readings.labels)], words.labels[len(readings.labels) :]
    shares = readings.by_row if head is None else readings.of_head(head)
    rows, columns = _grid_shape(readings)
    in_line = min(_GRIDS, len(names))
    cell = min(0.3, (_WIDE - 0.5 * in_line) / in_line / columns)
    grid_width, grid_height = cell * columns, cell * len(rows)
    lines = math.ceil(len(names) / in_line)

    with rc_context({"font.family": list(words.fonts.families), "svg.fonttype": "path"}):
        figure = FigureCanvasAgg(Figure(facecolor=style.page)).figure
        tall = len(labels) <= _LABELLED
        points = min(8.0, _WIDE / max(len(labels), 1) * 72 * 0.8)
        below = max([text_width(figure, label, points) for label in labels] or [0]) + 0.15 if tall else 0.3
        grids_top = 1.35 + _BARS + below + 0.75
        height = grids_top + lines * (grid_height + 0.7) + 0.2
        width = _WIDE + 2 * _MARGIN + 0.3
        figure.set_size_inches(width, height)

        def axes(x: float, y: float, w: float, h: float) -> Axes:
            return figure.add_axes((x / width, 1 - (y + h) / height, w / width, h / height))

        def write(x: float, y: float, text: str, size: float, color: str) -> None:
            figure.text(x / width, 1 - y / height, text, fontsize=size, color=color, parse_math=False)

        write(_MARGIN, 0.46, fit_line(figure, words.title, _WIDE, 13.5), 13.5, style.ink)
        write(_MARGIN, 0.70, subtitle, 8.5, style.muted)
        x = _MARGIN + 0.3
        for name, colour in zip(names, palette, strict=True):
            figure.add_artist(
                Rectangle((x / width, 1 - 1.13 / height), 0.14 / width, 0.14 / height, facecolor=colour,
                          edgecolor="none", transform=figure.transFigure)
            )  # fmt: skip
            write(x + 0.2, 1.115, name, 8.5, style.ink)
            x += 0.2 + text_width(figure, name, 8.5) + 0.3
        _draw_bars(axes(_MARGIN + 0.3, 1.35, _WIDE, _BARS), shares, labels if tall else None, points, palette, style)
        top = float(np.nanmax(readings.by_head, initial=0.0)) or 1.0
        norm = Normalize(0.0, top)
        named = {"all": "all tokens", "generated": "generated tokens", "target": "the target's tokens"}
        whose = named.get(readings.which, f"the tokens of “{readings.which}”")
        write(
            _MARGIN,
            grids_top - 0.42,
            f"mean weight that {whose} give each passage, by layer ↓ and head →",
            9.5,
            style.ink,
        )
        for index, name in enumerate(names):
            line, place = divmod(index, in_line)
            left = _MARGIN + 0.3 + place * (grid_width + 0.5)
            y = grids_top + line * (grid_height + 0.7)
            write(left, y - 0.08, name, 8.5, palette[index] if readings.names[index] != REST else style.muted)
            table = np.full((len(rows), columns), np.nan)
            for (part, layer, number), value in zip(readings.heads, readings.by_head[:, index], strict=True):
                table[rows.index((part, layer)), number] = value
            _draw_grid(axes(left, y, grid_width, grid_height), table, rows, norm, style)
        bar = axes(_MARGIN + 0.3, grids_top + lines * (grid_height + 0.7) - 0.35, 1.6, 0.08)
        colour_bar(bar, style.weight, norm, style)
    return figure


def _grid_shape(readings: Readings) -> tuple[list[tuple[str, int]], int]:
    rows: list[tuple[str, int]] = []
    for part in dict.fromkeys(part for part, _, _ in readings.heads):
        layers = [layer for name, layer, _ in readings.heads if name == part]
        rows += [(part, layer) for layer in range(min(layers), max(layers) + 1)]
    return rows, max(head for _, _, head in readings.heads) + 1


def _draw_bars(
    axes: Axes, shares: np.ndarray, labels: list[str] | None, points: float, palette: list[str], style: Style
) -> None:
    """One stacked bar a row; rows beyond what a page can show are means of neighbours."""
    rows = len(shares)
    most = 1200
    if rows > most:
        edges = np.linspace(0, rows, most + 1).astype(int)
        shares = np.stack([np.nanmean(shares[a:b], axis=0) for a, b in itertools.pairwise(edges)])
    at = np.arange(len(shares)) * rows / len(shares)
    wide = rows / len(shares) * (0.9 if labels is not None else 1.0)
    base = np.zeros(len(shares))
    for index, colour in enumerate(palette):
        values = np.nan_to_num(shares[:, index])
        axes.bar(at, values, wide, bottom=base, color=colour, align="edge", linewidth=0)
        base += values
    axes.set_xlim(0, rows)
    axes.set_ylim(0, max(1.0, float(base.max(initial=0.0))))
    axes.set_facecolor(style.page)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "left")
        spine.set_color(style.faint)
    axes.set_yticks([0, 0.5, 1])
    axes.tick_params(length=2, width=0.6, pad=2, labelsize=7, labelcolor=style.muted, color=style.muted)
    if labels is None:
        return
    axes.set_xticks([])
    for index, label in enumerate(labels):
        axes.annotate(
            label, (index + 0.45, 0), xytext=(0, -4), textcoords="offset points", rotation=90, ha="center", va="top",
            fontsize=points, color=style.ink, parse_math=False, annotation_clip=False,
        )  # fmt: skip


def _draw_grid(axes: Axes, table: np.ndarray, rows: list[tuple[str, int]], norm: Normalize, style: Style) -> None:
    axes.set_facecolor(style.page)
    axes.imshow(table, cmap=style.weight, norm=norm, aspect="auto", interpolation="nearest")
    several = len({part for part, _ in rows}) > 1
    every = max(1, math.ceil(len(rows) / 12))
    axes.set_yticks(
        range(0, len(rows), every),
        [f"{part} {layer}" if several else str(layer) for part, layer in rows[::every]],
    )
    step = max(1, math.ceil(table.shape[1] / 12))
    axes.set_xticks(range(0, table.shape[1], step), [str(head) for head in range(0, table.shape[1], step)])
    axes.tick_params(length=0, pad=2, labelsize=6.5, labelcolor=style.muted)
    for spine in axes.spines.values():
        spine.set_color(style.faint)
        spine.set_linewidth(0.6)
