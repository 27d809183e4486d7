"""The picture of the √d_k experiment: what was measured as points with intervals, what was predicted as lines."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from heedmap.figures import curves
from heedmap.figures.style import Style, style_for

_PANELS = (
    ("spread", "spread of the scores"),
    ("entropy", "entropy of a row (nats)"),
    ("largest", "largest weight of a row"),
    ("jacobian", "norm of the softmax’s Jacobian"),
    ("gradient", "gradient that reaches a query (norm)"),
    ("saturated", "rows with a weight above 0.9"),
)
_BROKEN = (0, (2, 2))
"""The line of what has no prediction."""
_WIDTH, _HEIGHT, _LEFT, _TOP, _ACROSS, _DOWN = 2.6, 1.75, 0.62, 1.25, 3.5, 2.45  # inches


def scaling_figure(document: Mapping[str, Any], *, facecolor: str = "white") -> Figure:
    """Draw the document of `heedmap scaling --json`: six quantities against d_k, raw and scaled.

    Ink and colours follow from ``facecolor``, light or dark. Raises ``InputError`` for what is not a colour.
    """
    style = style_for(facecolor)
    settings = document["settings"]
    dims = list(settings["head_dims"])
    with rc_context({"font.family": ["DejaVu Sans"], "svg.fonttype": "path", "axes.unicode_minus": True}):
        figure = curves.new_figure(style, _LEFT + 3 * _ACROSS - 0.08, _TOP + 2 * _DOWN - 0.12)
        colors = {"raw": style.accent, "scaled": style.cool}
        curves.write(figure, _LEFT, 0.42, "Why attention divides by √dₖ", size=14, color=style.ink)
        curves.write(figure, _LEFT, 0.68, _subtitle(document), size=8.5, color=style.muted)
        for index, (quantity, title) in enumerate(_PANELS):
            row, column = divmod(index, 3)
            axes = curves.place(figure, _LEFT + column * _ACROSS, _TOP + row * _DOWN, _WIDTH, _HEIGHT)
            curves.dress(axes, style, title)
            ends = [
                end for form, color in colors.items() for end in _curve(axes, document, quantity, form, color, style)
            ]
            curves.powers_of_two(axes, dims)
            _finish(axes, quantity, settings, style)
            curves.name_ends(figure, axes, ends)
            if row == 1:
                axes.set_xlabel("dₖ, components of a query and a key", fontsize=8, color=style.muted)
    return figure


def _subtitle(document: Mapping[str, Any]) -> str:
    settings = document["settings"]
    law = {"gaussian": "Gaussian components", "uniform": "uniform components"}.get(
        settings["law"], f"components with correlation {settings['correlation']:g}"
    )
    lines = "lines: the prediction" if document["prediction_exact"] else "lines: prediction for Gaussian scores"
    lines += "  ·  broken: no prediction"
    seeds = "1 seed" if settings["seeds"] == 1 else f"{settings['seeds']} seeds"
    return (
        f"{settings['n']} queries × {settings['n']} keys  ·  {law}  ·  {seeds}  ·  "
        f"points: measured, with 95 % intervals  ·  {lines}"
    )


def _curve(
    axes: Axes, document: Mapping[str, Any], quantity: str, form: str, color: str, style: Style
) -> list[tuple[float, str, str]]:
    """Draw one form, with its median row beside the mean gradient; returns heights, names and colours of the ends."""
    points = _points(document, quantity, form)
    dims = np.array([p["head_dim"] for p in points], dtype=float)
    mean = np.array([p["mean"] for p in points], dtype=float)
    if all(p["predicted"] is not None for p in points):
        axes.plot(dims, [p["predicted"] for p in points], color=color, linewidth=1.4, alpha=0.75, zorder=2)
    else:
        axes.plot(dims, mean, color=color, linewidth=1.0, alpha=0.5, linestyle=_BROKEN, zorder=2)
    bounds = [[mean[i] - _number(p["low"], mean[i]) for i, p in enumerate(points)],
              [_number(p["high"], mean[i]) - mean[i] for i, p in enumerate(points)]]  # fmt: skip
    axes.errorbar(
        dims, mean, yerr=np.maximum(bounds, 0), fmt="o", markersize=3.6, color=color, ecolor=color, elinewidth=1.1,
        markeredgecolor=style.page, markeredgewidth=0.5, zorder=3,
    )  # fmt: skip
    ends = [(float(mean[-1]), form, color)]
    if quantity == "gradient":
        median = [p["mean"] for p in _points(document, "gradient_median", form)]
        if len(median) == len(dims) and min(median) > 0:
            axes.plot(dims, median, color=color, linewidth=1.0, linestyle=_BROKEN, zorder=2)
            ends.append((float(median[-1]), "median", color))
    return ends


def _points(document: Mapping[str, Any], quantity: str, form: str) -> list[Mapping[str, Any]]:
    """One quantity of one form, by d_k."""
    chosen = (p for p in document["points"] if p["quantity"] == quantity and p["form"] == form)
    return sorted(chosen, key=lambda point: point["head_dim"])


def _number(value: float | None, otherwise: float) -> float:
    return otherwise if value is None or not math.isfinite(value) else value


def _finish(axes: Axes, quantity: str, settings: Mapping[str, Any], style: Style) -> None:
    """The scale of one panel, and the line that it is read against."""
    if quantity in ("spread", "gradient"):
        curves.log_values(axes)
    elif quantity == "entropy":
        top = math.log(settings["n"])
        axes.axhline(top, color=style.muted, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
        axes.annotate(
            f"ln {settings['n']} = {top:.2f}, uniform", (min(settings["head_dims"]), top), xytext=(0, 3),
            textcoords="offset points", fontsize=7, color=style.muted,
        )  # fmt: skip
        axes.set_ylim(0, top * 1.12)
    elif quantity == "saturated":
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.set_ylim(-0.03, 1.03)
    elif quantity == "largest":
        axes.set_ylim(0, 1.03)
    else:
        axes.set_ylim(bottom=0)
