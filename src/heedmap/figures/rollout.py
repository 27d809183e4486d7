"""The picture of a rollout: the text, each token tinted by what it contributes, and how that builds up by layers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from heedmap.figures.curves import new_figure, place, write
from heedmap.figures.fonts import warn_missing
from heedmap.figures.grid import colour_bar
from heedmap.figures.headmap import fit_line, text_width
from heedmap.figures.labels import shorten, wording
from heedmap.figures.style import Style, style_for
from heedmap.heads.rollout import Rollout

_MARGIN, _WIDE, _LINE, _POINTS = 0.45, 9.4, 0.27, 9.5  # inches, and points of the text
_MOST = 900  # tokens that are drawn; of a longer text the neighbourhoods of those that contribute most
_NEAR = 12  # tokens on either side of one that contributes
_CELLS = 400  # columns of the map of depths
_DEPTHS, _MAP = 0.3, _WIDE - 0.3  # inches of the map's numbers of layers, and of its columns
_NAMED = 40  # tokens of a text whose columns are named
_NAME_POINTS, _NAME_LETTERS = 7, 14


def rollout_figure(found: Rollout, title: str, subtitle: str, *, facecolor: str = "white") -> Figure:
    """Draw the text with each token (or word) on the colour of its contribution, the asked one ringed, and below it the
    contributions after each number of layers. Colour grows with the square root of the contribution.

    Of a text longer than 900 tokens the neighbourhoods of the largest contributions are drawn, and what is left out is
    told with its share. Columns of the map below carry the tokens of a text of up to 40, else positions. Raises
    ``InputError`` for a page colour that is not a colour.
    """
    style = style_for(facecolor)
    shown = list(stretches(found.contributions, found.token))
    places = [index for start, stop in shown for index in range(start, stop)]
    words = wording([found.labels[index] for index in places], title, widest=24, positions=places)
    if words.missing:
        warn_missing(words.missing, "labels show numbers in their place")
    labels = dict(zip(places, words.labels, strict=True))
    top = scale_top(found.contributions)
    norm = PowerNorm(0.5, 0.0, top, clip=True)
    with rc_context({"font.family": list(words.fonts.families), "svg.fonttype": "path"}):
        figure = new_figure(style, _WIDE + 2 * _MARGIN, 4)
        lines = _lay_out(figure, found, shown, labels)
        text_top = 1.1
        map_top = text_top + len(lines) * _LINE + 1.15
        depth = len(found.by_depth)
        map_height = min(max(0.09 * depth, 0.8), 3.2)
        columns = _Columns.of(figure, [labels[index] for index in sorted(labels)])
        figure.set_size_inches(_WIDE + 2 * _MARGIN, map_top + map_height + 0.5 + columns.room)
        write(figure, _MARGIN, 0.46, fit_line(figure, words.title, _WIDE, 13.5), size=13.5, color=style.ink)
        write(figure, _MARGIN, 0.70, subtitle, size=8.5, color=style.muted)
        page = place(figure, _MARGIN, text_top, _WIDE, len(lines) * _LINE)
        _write_text(page, found, lines, norm, style)
        bar = place(figure, _MARGIN, text_top + len(lines) * _LINE + 0.18, 1.9, 0.09)
        colour_bar(bar, style.weight, norm, style)
        off = np.flatnonzero(found.contributions > top)
        beyond = f"; off the scale: {labels[off[0]]} with {found.contributions[off[0]]:.1%}" if len(off) else ""
        bar.annotate(
            f"colour grows with √contribution{beyond}", (1, 0.5), xytext=(8, 0), xycoords="axes fraction",
            textcoords="offset points", fontsize=7, color=style.muted, va="center",
        )  # fmt: skip
        unit = "token" if columns.names else "position in the text"
        write(figure, _MARGIN, map_top - 0.12, f"contributions after each number of layers ↓, by {unit} →",
              size=9.5, color=style.ink)  # fmt: skip
        _draw_depths(place(figure, _MARGIN + _DEPTHS, map_top, _MAP, map_height), found, columns, style)
    return figure


def scale_top(contributions: np.ndarray) -> float:
    """The contribution that the darkest colour stands for: the largest, or where that one outweighs all others (as a
    first token, on which heads rest their attention, does) the next."""
    ranked = np.sort(contributions)[::-1]
    if len(ranked) > 1 and ranked[0] > 0.5 and ranked[1] > 0:
        return float(ranked[1])
    return float(ranked[0]) or 1.0


def stretches(contributions: np.ndarray, token: int, most: int = _MOST) -> Iterator[tuple[int, int]]:
    """The tokens to draw as ascending `[start, stop)`: all, or those around the largest contributions."""
    count = len(contributions)
    chosen = np.zeros(count, dtype=bool)
    for index in [token, *np.argsort(-contributions, kind="stable").tolist()] if count > most else range(count):
        near = slice(max(0, index - _NEAR), index + _NEAR + 1)
        if count > most and chosen.sum() + (~chosen[near]).sum() > most:
            break
        chosen[near] = True
    edges = np.flatnonzero(np.diff(np.concatenate([[False], chosen, [False]]).astype(int)))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def _lay_out(
    figure: Figure, found: Rollout, shown: list[tuple[int, int]], labels: dict[int, str]
) -> list[list[tuple[float, float, str, int | None]]]:
    """Lines of (left, width, text, token), in inches; a gap between stretches has no token."""
    widths: dict[str, float] = {}
    lines: list[list[tuple[float, float, str, int | None]]] = [[]]
    x = 0.0

    def add(text: str, token: int | None) -> None:
        nonlocal x
        if text not in widths:
            widths[text] = text_width(figure, text, _POINTS) + 0.09
        if x + widths[text] > _WIDE and lines[-1]:
            lines.append([])
            x = 0.0
        lines[-1].append((x, widths[text], text, token))
        x += widths[text] + 0.035

    before = 0
    for start, stop in [*shown, (len(found.contributions),) * 2]:
        if start > before:
            share = found.contributions[before:start].sum()
            add(f"… {start - before:,} left out, {share:.1%} …", None)
        for index in range(start, stop):
            add(labels[index], index)
        before = stop
    return lines


def _write_text(
    axes: Axes,
    found: Rollout,
    lines: list[list[tuple[float, float, str, int | None]]],
    norm: PowerNorm,
    style: Style,
) -> None:
    axes.set_xlim(0, _WIDE)
    axes.set_ylim(len(lines) * _LINE, 0)
    axes.axis("off")
    for number, line in enumerate(lines):
        top = number * _LINE
        for left, width, text, token in line:
            ink = style.muted
            if token is not None:
                colour = style.weight(norm(found.contributions[token]))
                ink = style.ink_on(colour)
                axes.add_patch(Rectangle((left, top + 0.02), width, _LINE - 0.045, facecolor=colour, edgecolor="none"))
            if token == found.token:
                axes.add_patch(Rectangle((left, top + 0.02), width, _LINE - 0.045, fill=False, edgecolor=style.accent,
                                         linewidth=1.8, zorder=5, clip_on=False))  # fmt: skip
            points = _POINTS if token is not None else 7.5
            axes.text(left + width / 2, top + _LINE / 2, text, fontsize=points, color=ink, ha="center",
                      va="center_baseline", parse_math=False)  # fmt: skip


@dataclass(frozen=True)
class _Columns:
    """What stands below the columns of the map: names, none for positions; whether upright; inches that they take."""

    names: list[str]
    upright: bool
    room: float

    @classmethod
    def of(cls, figure: Figure, labels: list[str]) -> _Columns:
        if len(labels) > _NAMED:
            return cls([], False, 0.1)
        names = [shorten(label, _NAME_LETTERS) for label in labels]
        widest = max(text_width(figure, name, _NAME_POINTS) for name in names)
        upright = widest + 0.06 > _MAP / len(names)
        return cls(names, upright, widest if upright else 0.1)


def _draw_depths(axes: Axes, found: Rollout, columns: _Columns, style: Style) -> None:
    depths, count = found.by_depth.shape
    table = found.by_depth
    if count > _CELLS:
        edges = np.linspace(0, count, _CELLS + 1).astype(int)[:-1]
        table = np.add.reduceat(table, edges, axis=1)
    axes.set_facecolor(style.page)
    axes.imshow(table, cmap=style.weight, norm=PowerNorm(0.5, 0, 1), aspect="auto", interpolation="nearest",
                extent=(-0.5, count - 0.5, depths - 0.5, -0.5))  # fmt: skip
    step = max(1, math.ceil(depths / 8))
    axes.set_yticks(range(0, depths, step), [str(depth) for depth in range(0, depths, step)])
    axes.tick_params(length=2, width=0.6, pad=2, labelsize=_NAME_POINTS, labelcolor=style.muted, color=style.muted)
    if columns.names:
        axes.set_xticks(range(count), columns.names, rotation=90 if columns.upright else 0, parse_math=False)
        axes.get_xticklabels()[found.token].set_color(style.accent)
    for spine in axes.spines.values():
        spine.set_color(style.faint)
        spine.set_linewidth(0.6)
