"""The map of heads: those that attend alike stand near each other, coloured by group and named."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

import numpy as np
from matplotlib import rc_context
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from heedmap.figures.curves import new_figure, place, write
from heedmap.figures.headmap import fit_line, text_width
from heedmap.figures.labels import wording
from heedmap.figures.naming import beside
from heedmap.figures.style import style_for, to_oklab

_ON_LIGHT = (
    "#1f6fb4", "#d9480f", "#2a9d8f", "#b5179e", "#c79100", "#5c4db1", "#6b8e17", "#a0522d", "#0b4475", "#e07bc8",
    "#4d4f57", "#128a3e",
)  # fmt: skip
_ON_DARK = (
    "#58a6f0", "#ff8a4c", "#45c4b0", "#ff5fd7", "#ffd43b", "#a99bff", "#b4d455", "#d9966b", "#bcdcff", "#f2b8e4",
    "#b5b9c4", "#5fe08f",
)  # fmt: skip
_MARGIN, _TOP = 0.45, 1.15  # inches
_FEW = 90  # heads up to which names may be larger and the page smaller
_LISTED = 100  # heads without room up to which each is named below


def similar_figure(
    names: Sequence[str],
    places: np.ndarray,
    of: np.ndarray,
    legend: Sequence[str],
    title: str,
    subtitle: str,
    *,
    facecolor: str = "white",
) -> Figure:
    """Draw each head at its place in the plane, in the colour of its group, with its name.

    No name stands over another: one that had to move away has a line to its head, and those without room stand below.

    Args:
        names: of the heads, `5.11`.
        places: `[heads, 2]`.
        of: number of each head's group.
        legend: a line for each group.
        title, subtitle: above the map.
        facecolor: the page's colour.

    Raises ``InputError`` for a page colour that is not a colour.
    """
    style = style_for(facecolor)
    light = float(to_oklab(np.array(to_rgb(style.page)))[0]) >= 0.6
    palette = _ON_LIGHT if light else _ON_DARK
    words = wording([], title)
    few = len(names) <= _FEW
    points, side = (6.5, 6.4) if few else (5.2, 9.0)
    with rc_context({"font.family": list(words.fonts.families), "svg.fonttype": "path"}):
        figure = new_figure(style, 8, 8)
        legend_width = 0.3 + max([text_width(figure, line, 8.5) for line in legend] or [0.0])
        width = _MARGIN + side + 0.35 + legend_width + _MARGIN
        spread = np.ptp(places, axis=0)
        tall = side * float(np.clip(spread[1] / spread[0] if spread[0] > 0 else 1.0, 0.45, 1.0))
        unit = max(float((spread / (side, tall)).max()), 1e-9) * 1.1  # of distance in an inch, the same both ways
        middle = (places.min(0) + places.max(0)) / 2
        corner = middle - unit * np.array((side, tall)) / 2
        sizes = np.array([_size(figure, name, points) for name in names])
        named = beside((places - corner) / unit, sizes, (side, tall))
        left = _listed([name for name, found in zip(names, named, strict=True) if found is None])
        figure.set_size_inches(width, _TOP + max(tall, 0.27 * len(legend)) + 0.75 + 0.17 * len(left))
        write(figure, _MARGIN, 0.46, fit_line(figure, words.title, width - 2 * _MARGIN, 13.5), size=13.5,
              color=style.ink)  # fmt: skip
        write(figure, _MARGIN, 0.70, subtitle, size=8.5, color=style.muted)
        axes = place(figure, _MARGIN, _TOP, side, tall)
        axes.set_facecolor(style.page)
        axes.set_xlim(middle[0] - unit * side / 2, middle[0] + unit * side / 2)
        axes.set_ylim(middle[1] - unit * tall / 2, middle[1] + unit * tall / 2)
        axes.set_xticks([])
        axes.set_yticks([])
        for spine in axes.spines.values():
            spine.set_color(style.faint)
            spine.set_linewidth(0.6)
        colours = [palette[number % len(palette)] for number in of]
        axes.scatter(places[:, 0], places[:, 1], s=16 if few else 9, c=colours, linewidths=0, zorder=3)
        for index, found in enumerate(named):
            if found is None:
                continue
            middle = corner + unit * np.array((found.x, found.y))
            axes.text(
                middle[0],
                middle[1],
                names[index],
                ha="center",
                va="center",
                fontsize=points,
                color=colours[index],
                zorder=4,
            )
            if found.away:
                half = unit * sizes[index] / 2
                end = np.clip(places[index], middle - half, middle + half)
                axes.plot(*zip(places[index], end, strict=True), color=colours[index], linewidth=0.35, alpha=0.7,
                          zorder=2)  # fmt: skip
        for number, line in enumerate(legend):
            y = _TOP + 0.14 + 0.27 * number
            write(figure, _MARGIN + side + 0.35, y, "●", size=9, color=palette[number % len(palette)])
            write(figure, _MARGIN + side + 0.55, y, line, size=8.5, color=style.ink)
        write(figure, _MARGIN, _TOP + tall + 0.24,
              "distance on the page ≈ √(mean Jensen–Shannon divergence); the axes have no meaning of their own",
              size=7.5, color=style.muted)  # fmt: skip
        for number, line in enumerate(left):
            write(figure, _MARGIN, _TOP + tall + 0.41 + 0.17 * number, line, size=7.5, color=style.muted)
    return figure


def _listed(names: Sequence[str]) -> list[str]:
    """The names of heads without room for their names, in lines; of very many, how many they are."""
    if len(names) > _LISTED:
        return [f"{len(names):,} heads stand too close together to be named here"]
    return wrap(f"too close together to be named: {', '.join(names)}", 120) if names else []


def _size(figure: Figure, text: str, points: float) -> tuple[float, float]:
    """Width and height in inches of a name as this figure will draw it."""
    drawn = figure.text(0, 0, text, fontsize=points)
    extent = drawn.get_window_extent()
    drawn.remove()
    return extent.width / figure.dpi, extent.height / figure.dpi
