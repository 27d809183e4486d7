"""The picture of one sentence: its gold tree above the words, and below them where one head points."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from matplotlib.path import Path

from heedmap.figures.curves import new_figure
from heedmap.figures.fonts import warn_missing
from heedmap.figures.headmap import fit_line, text_width
from heedmap.figures.labels import wording
from heedmap.figures.style import Style, style_for
from heedmap.heads.showing import Shown
from heedmap.heads.syntax import READINGS, Arc

_WORD, _SMALL = 10.5, 7.5  # points
_MARGIN, _GAP, _TOP, _STEP = 0.5, 0.34, 0.95, 0.26  # inches; a step is the height of one more word between two ends
_ASIDE = 0.07  # inches by which an arrow leaves and meets the middle of a word, so that two do not lie on each other


def arrows_figure(shown: Shown, weights: np.ndarray, model: str, *, facecolor: str = "white") -> Figure:
    """Draw the gold tree of a sentence as arcs (arrows run from head to dependent), those of the shown relation in the
    accent colour, and under the words an arrow from each word to where the head points, as thick as its weight.

    Args:
        shown: the sentence, its relation and head.
        weights: of that head, `[units, units]`.

    Raises ``InputError`` for a page colour that is not a colour.
    """
    style = style_for(facecolor)
    words = wording(shown.labels, f"{shown.relation} in {model}, head {shown.head[1]}.{shown.head[2]}", widest=24)
    if words.missing:
        warn_missing(words.missing, "words with them are shown by their number")
    arrows = shown.arrows(weights)
    with rc_context({"font.family": list(words.fonts.families), "svg.fonttype": "path"}):
        figure = new_figure(style, 8, 4)
        widths = [text_width(figure, label, _WORD) for label in words.labels]
        middles = np.cumsum(widths) - np.array(widths) / 2 + _GAP * np.arange(len(widths)) + _MARGIN
        above = _STEP * (1.2 + max([_height(arc.dependent, arc.head) for arc in shown.arcs] or [1]))
        below = _STEP * (1.2 + max([_height(start, end) for start, end, _, _ in arrows] or [1]))
        width = max(float(middles[-1]) + widths[-1] / 2 + _MARGIN, 6.4)
        height = _TOP + above + 0.3 + below + 0.5
        figure.set_size_inches(width, height)
        middles = middles + (width - _MARGIN - float(middles[-1]) - widths[-1] / 2) / 2
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_xlim(0, width)
        axes.set_ylim(height, 0)
        axes.set_axis_off()
        title = fit_line(figure, words.title, width - 2 * _MARGIN, 13.5)
        axes.text(_MARGIN, 0.5, title, fontsize=13.5, color=style.ink, parse_math=False)
        subtitle = f"by {shown.reading}: {shown.accuracy:.0%} of {shown.relation} arcs in odd sentences"
        axes.text(_MARGIN, 0.76, fit_line(figure, subtitle, width - 2 * _MARGIN, 8.5), fontsize=8.5, color=style.muted)
        line = _TOP + above
        for arc in shown.arcs:
            _gold(axes, arc, middles, line, shown.relation, style)
        for number, label in enumerate(words.labels):
            axes.text(middles[number], line + 0.15, label, fontsize=_WORD, color=style.ink, ha="center", va="center",
                      parse_math=False)  # fmt: skip
        for start, end, weight, right in arrows:
            _pointer(axes, middles[start], middles[end], line + 0.3, _height(start, end), weight, right, style)
        asked = (
            "the word that looks most at each" if shown.reading == READINGS[2] else "the word that each looks at most"
        )
        for up, key in ((0.35, "above: gold arcs, head to dependent"),
                        (0.18, f"below: {asked}; solid right, dashed wrong, grey not asked")):  # fmt: skip
            axes.text(_MARGIN, height - up, key, fontsize=_SMALL, color=style.muted)
    return figure


def _height(one: int, other: int) -> float:
    """Words between two ends, in steps; long arcs grow slower."""
    return min(abs(one - other), 4) + 0.25 * max(abs(one - other) - 4, 0)


def _curve(axes: Axes, ends: tuple[float, float], y: float, depth: float, **look: Any) -> None:
    """A curve between two words that leaves the line of words by `depth` inches, downwards where that is positive."""
    side = _ASIDE if ends[0] < ends[1] else -_ASIDE
    start, end = ends[0] + side, ends[1] - side
    lean, control = 0.12 * (end - start), y + depth / 0.75  # a cubic reaches three quarters of its controls
    path = Path([(start, y), (start + lean, control), (end - lean, control), (end, y)], [1, 4, 4, 4])
    axes.add_patch(FancyArrowPatch(path=path, mutation_scale=7, fill=False, **look))


def _gold(axes: Axes, arc: Arc, middles: np.ndarray, line: float, relation: str, style: Style) -> None:
    told = arc.relation == relation
    depth = _STEP * _height(arc.dependent, arc.head)
    ends = (float(middles[arc.head]), float(middles[arc.dependent]))
    color = style.accent if told else style.muted
    _curve(axes, ends, line, -depth, arrowstyle="-|>", color=color, linewidth=1.4 if told else 0.6,
           alpha=1.0 if told else 0.55, zorder=3 if told else 2)  # fmt: skip
    axes.text(
        sum(ends) / 2, line - depth - 0.03, arc.relation, fontsize=_SMALL, ha="center", va="bottom",
        color=color, zorder=4, bbox={"facecolor": style.page, "edgecolor": "none", "pad": 0.6}, parse_math=False,
    )  # fmt: skip


def _pointer(
    axes: Axes, start: float, end: float, line: float, height: float, weight: float, right: bool | None, style: Style
) -> None:
    color = style.muted if right is None else style.accent
    _curve(
        axes, (start, end), line, _STEP * height, arrowstyle="-|>", color=color,
        linewidth=0.4 + 2.4 * min(weight, 1.0), alpha=0.5 if right is None else 1.0,
        linestyle="--" if right is False else "-", zorder=2 if right is None else 3,
    )  # fmt: skip
