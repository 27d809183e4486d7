"""The picture of the scale on real heads: variances of components, spreads of scores, entropies with and without it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from heedmap.figures import curves
from heedmap.figures.style import Style, style_for

_NAMED = 8
"""As many scales are named beside their panel."""


def scaling_heads_figure(document: Mapping[str, Any], *, facecolor: str = "white") -> Figure:
    """Draw the document of `heedmap scaling --model M --json`, one point a head, layers from left to right.

    Raises ``InputError`` for a page colour that is not a colour.
    """
    style = style_for(facecolor)
    heads = document["heads"]
    with rc_context({"font.family": ["DejaVu Sans"], "svg.fonttype": "path", "axes.unicode_minus": True}):
        figure = curves.new_figure(style, 11.9, 4.0)
        curves.write(figure, 0.62, 0.42, f"The scale on the heads of {document['model']}", size=14, color=style.ink)
        claim = document["claim"]
        curves.write(
            figure, 0.62, 0.68,
            f"{document['tokens']:,} tokens  ·  {claim['heads']} heads, one point each  ·  components of mean 0 and "
            f"variance 1: {claim['kept']} of {claim['heads']}",
            size=8.5, color=style.muted,
        )  # fmt: skip
        panels = [curves.place(figure, 0.62 + 3.55 * column, 1.25, 2.75, 2.05) for column in range(3)]
        _variances(panels[0], heads, {"queries": style.accent, "keys": style.cool}, style)
        _spreads(panels[1], heads, style.cool, style)
        _entropies(panels[2], document, style)
    return figure


def _across(heads: Sequence[Mapping[str, Any]], shift: float = 0.0) -> np.ndarray:
    """Layers, with the heads of one layer side by side."""
    count = max(head["head"] for head in heads) + 1
    return np.array([head["layer"] + 0.6 * ((head["head"] + 0.5) / count - 0.5) + shift for head in heads])


def _dots(axes: Axes, x: Sequence[float] | np.ndarray, y: Sequence[float], color: Any, style: Style) -> None:
    axes.plot(x, y, "o", markersize=3.2, color=color, markeredgecolor=style.page, markeredgewidth=0.3, alpha=0.85)


def _level(axes: Axes, y: float, text: str, style: Style) -> None:
    axes.axhline(y, color=style.muted, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
    axes.annotate(text, (1.0, y), xycoords=("axes fraction", "data"), xytext=(4, 0), textcoords="offset points",
                  fontsize=7, color=style.muted, va="center")  # fmt: skip


def _variances(axes: Axes, heads: Sequence[Mapping[str, Any]], colors: Mapping[str, str], style: Style) -> None:
    curves.dress(axes, style, "variance of components")
    for side, name in (("query", "queries"), ("key", "keys")):
        _dots(axes, _across(heads), [head[f"{side}_variance"] for head in heads], colors[name], style)
    for place, (name, color) in enumerate(colors.items()):
        axes.text(0.7 + 0.18 * place, 1.05, name, transform=axes.transAxes, fontsize=8, color=color)
    _level(axes, 1.0, "the claim", style)
    curves.log_values(axes)
    _layers(axes, style)


def _spreads(axes: Axes, heads: Sequence[Mapping[str, Any]], color: str, style: Style) -> None:
    curves.dress(axes, style, "spread of scaled scores in a row")
    _dots(axes, _across(heads), [head["row_spread"] * head["scale"] for head in heads], color, style)
    _level(axes, 1.0, "the claim", style)
    curves.log_values(axes)
    _layers(axes, style)


def _entropies(axes: Axes, document: Mapping[str, Any], style: Style) -> None:
    """Entropy of each head under other scales, against that under the model's own."""
    heads = document["heads"]
    temperatures = sorted(document["temperatures"])
    curves.dress(axes, style, "entropy (nats) under another scale")
    x = [head["as_is_entropy"] for head in heads]
    shades = style.value(np.linspace(0.5, 0.8, len(temperatures)))
    others = [("unscaled", "no scale", style.accent)]
    others += [(f"temperature_{t:g}", f"T = {t:g}", color) for t, color in zip(temperatures, shades, strict=True)]
    drawn: list[float] = [*x, 0.1]
    for name, _, color in others:
        y = [head[f"{name}_entropy"] for head in heads]
        _dots(axes, x, y, color, style)
        drawn += y
    top = math.ceil(max(drawn) * 2) / 2
    axes.plot([0, top], [0, top], color=style.muted, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
    axes.annotate("as it is", (top, top), xytext=(4, 0), textcoords="offset points", fontsize=7, color=style.muted,
                  va="center", annotation_clip=False)  # fmt: skip
    for place, (_, text, color) in enumerate(others[:_NAMED]):
        axes.text(1.04, 0.86 - 0.095 * place, text, transform=axes.transAxes, fontsize=8, color=color)
    if len(others) > _NAMED:
        last = f"… T = {temperatures[-1]:g}"
        axes.text(1.04, 0.86 - 0.095 * _NAMED, last, transform=axes.transAxes, fontsize=8, color=others[-1][2])
    axes.set_xlim(-0.03 * top, top * 1.03)
    axes.set_ylim(-0.03 * top, top * 1.03)
    axes.set_xlabel("entropy under the model’s own scale", fontsize=8, color=style.muted)


def _layers(axes: Axes, style: Style) -> None:
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("layer", fontsize=8, color=style.muted)
