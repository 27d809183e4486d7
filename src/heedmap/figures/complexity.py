"""The picture of time and memory over length, on logarithmic axes: a straight line's slope is the exponent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from heedmap.figures import curves
from heedmap.figures.style import Style, style_for

NAMES = {"eager": "weights kept", "sdpa": "torch’s fused", "native": "heedmap’s sweep", "strips": "the same in torch"}
"""How a method is called in the picture."""
_BYTES = ((1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB"))


def complexity_figure(document: Mapping[str, Any], *, facecolor: str = "white") -> Figure:
    """Draw the document of `heedmap complexity --json`: seconds and peak memory of each method over n.

    Filled points are measured, hollow ones predicted (they were not run). Raises ``InputError`` for a page colour
    that is not a colour.
    """
    style = style_for(facecolor)
    light = curves.is_light(style)
    palette = (style.accent, curves.VIOLET[light], curves.COOL[light], curves.GREEN[light])
    methods = list(document["settings"]["methods"])
    with rc_context({"font.family": ["DejaVu Sans"], "svg.fonttype": "path", "axes.unicode_minus": True}):
        figure = curves.new_figure(style, 11.4, 5.0)
        curves.write(figure, 0.75, 0.42, "What n tokens cost", size=14, color=style.ink)
        curves.write(figure, 0.75, 0.68, _subtitle(document), size=8.5, color=style.muted)
        panels = {
            "seconds": curves.place(figure, 0.75, 1.3, 3.55, 2.95),
            "bytes": curves.place(figure, 6.35, 1.3, 3.55, 2.95),
        }
        for quantity, title in (("seconds", "time of one call"), ("bytes", "peak memory beyond query, key, value")):
            axes = panels[quantity]
            curves.dress(axes, style, title)
            ends = [
                _curve(axes, document, method, quantity, palette[index % len(palette)], style)
                for index, method in enumerate(methods)
            ]
            _finish(axes, document, quantity, style)
            _name_ends(figure, axes, [end for end in ends if end is not None])
    return figure


def _subtitle(document: Mapping[str, Any]) -> str:
    settings, machine = document["settings"], document["machine"]
    heads, threads = _count(settings["heads"], "head"), _count(machine["threads"], "thread")
    how = "filled: measured in a fresh process, hollow: predicted, not run  ·  exponents with 95 % intervals"
    return f"{heads} of {settings['head_dim']} components, float32  ·  {machine['processor']}, {threads}  ·  {how}"


def _curve(
    axes: Axes, document: Mapping[str, Any], method: str, quantity: str, color: str, style: Style
) -> tuple[float, float, str, str] | None:
    """Draw one method; returns where its name belongs, the name and its colour."""
    points = [point for point in document["points"] if point["method"] == method]
    measured = [(p["n"], p[quantity]) for p in points if p[quantity]]
    missing = [p for p in points if not p[quantity] and p["status"] != "unsupported"]
    hollow = [(p["n"], p[f"predicted_{quantity}"]) for p in missing if p[f"predicted_{quantity}"]]
    if not measured:
        return None
    fit = next(
        (e for e in document["exponents"] if e["method"] == method and e["quantity"] == quantity and e["factor"] > 0),
        None,
    )
    name = NAMES.get(method, method)
    if fit is not None:
        along = np.geomspace(min(n for n, _ in measured if n >= document["settings"]["fit_from"]), measured[-1][0], 60)
        axes.plot(
            along, fit["fixed"] + fit["factor"] * along ** fit["exponent"], color=color, linewidth=1.4, alpha=0.75
        )
        half = (fit["high"] - fit["low"]) / 2
        name += f"\n∝ $n^{{{fit['exponent']:.2f}}}$ ± {half:.2f}" if half < 1 else ""
        name += f"\nand {_size(fit['fixed'])} fixed" if quantity == "bytes" and fit["fixed"] > 2**23 else ""
    axes.plot(*zip(*measured, strict=True), "o", markersize=4.4, color=color, markeredgecolor=style.page,
              markeredgewidth=0.6, zorder=3)  # fmt: skip
    if hollow:
        axes.plot(*zip(*hollow, strict=True), "o", markersize=4.4, color=color, markerfacecolor=style.page, zorder=3)
    last = (hollow or measured)[-1]
    return float(last[0]), float(last[1]), name, color


def _name_ends(figure: Figure, axes: Axes, ends: Sequence[tuple[float, float, str, str]]) -> None:
    """Names at the right of the axes, at the height of their last points, moved apart where they would touch."""
    if not ends:
        return
    height = axes.get_position().height * figure.get_size_inches()[1] * 72  # points
    low, high = np.log(axes.get_ylim())
    placed = sorted(((np.log(y) - low) / (high - low) * height, text, color) for _, y, text, color in ends)
    previous = np.inf
    for at, text, color in reversed(placed):  # from the top, so that none leaves the picture
        size = 11.5 * (text.count("\n") + 1)
        at = min(at, previous - size / 2 - 3, height - size / 2 + 6)
        axes.annotate(text, (1, at / height), xycoords="axes fraction", xytext=(9, 0), textcoords="offset points",
                      fontsize=8, color=color, va="center", linespacing=1.25, annotation_clip=False)  # fmt: skip
        previous = at - size / 2


def _finish(axes: Axes, document: Mapping[str, Any], quantity: str, style: Style) -> None:
    axes.set_yscale("log")
    axes.yaxis.set_minor_locator(NullLocator())
    curves.powers_of_two(axes, sorted({point["n"] for point in document["points"]}))
    axes.set_xlabel("n, tokens", fontsize=8, color=style.muted)
    if quantity == "seconds":
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _duration(value)))
        return
    low, high = axes.get_ylim()
    decades = [10.0**power for power in range(3, 15) if low <= 10.0**power <= high * 1.2]
    axes.yaxis.set_major_locator(FixedLocator(decades))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _size(value)))
    limit = document["machine"]["memory_bytes"]
    if limit < high * 4:
        axes.axhline(limit, color=style.muted, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
        axes.annotate(f"this machine’s memory, {_size(limit)}", (0, limit), xycoords=("axes fraction", "data"),
                      xytext=(3, 3), textcoords="offset points", fontsize=7, color=style.muted)  # fmt: skip


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size * 0.999:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"


def _size(count: float) -> str:
    unit, name = next(((size, name) for size, name in reversed(_BYTES) if count >= size), (1.0, "B"))
    return f"{count / unit:.0f} {name}" if count / unit >= 10 else f"{count / unit:.2g} {name}"
