"""The picture of time and memory over length, on logarithmic axes: a straight line's slope is the exponent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from heedmap.figures import curves
from heedmap.figures.style import Style, style_for

NAMES = {"eager": "weights kept", "sdpa": "torch’s fused", "native": "heedmap’s sweep", "strips": "the same in torch"}
"""How a method is called in the picture."""
_BYTES = ((1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB"))


def complexity_figure(document: Mapping[str, Any], *, facecolor: str = "white") -> Figure:
    """Draw the document of `heedmap complexity --json`: seconds and peak memory of each method over n.

    Filled points are measured, hollow ones predicted (they were not run). A dashed line is what the operations would
    take at the speed of torch's fastest matrix product; what lies below is faster than that. Raises ``InputError`` for
    a page colour that is not a colour.
    """
    style = style_for(facecolor)
    palette = (style.accent, style.violet, style.cool, style.green)
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
            if quantity == "seconds":
                ends.append(_yardstick(axes, document, style))
            _finish(axes, document, quantity, style)
            curves.name_ends(figure, axes, [end for end in ends if end is not None])
    return figure


def _subtitle(document: Mapping[str, Any]) -> str:
    settings, machine = document["settings"], document["machine"]
    heads, threads = _count(settings["heads"], "head"), _count(machine["threads"], "thread")
    how = "filled: measured in a fresh process, hollow: predicted, not run  ·  exponents with 95 % intervals"
    return f"{heads} of {settings['head_dim']} components, float32  ·  {machine['processor']}, {threads}  ·  {how}"


def _curve(
    axes: Axes, document: Mapping[str, Any], method: str, quantity: str, color: str, style: Style
) -> tuple[float, str, str] | None:
    """Draw one method; returns the height at which its name belongs, the name and its colour."""
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
        if fit["high"] - fit["low"] < 2:
            name += f"\n∝ $n^{{{fit['exponent']:.2f}}}$ ({fit['low']:.2f} to {fit['high']:.2f})"
        name += f"\nand {_size(fit['fixed'])} fixed" if quantity == "bytes" and fit["fixed"] > 2**23 else ""
    axes.plot(*zip(*measured, strict=True), "o", markersize=4.4, color=color, markeredgecolor=style.page,
              markeredgewidth=0.6, zorder=3)  # fmt: skip
    if hollow:
        axes.plot(*zip(*hollow, strict=True), "o", markersize=4.4, color=color, markerfacecolor=style.page, zorder=3)
    last = (hollow or measured)[-1]
    return float(last[1]), name, color


def _yardstick(axes: Axes, document: Mapping[str, Any], style: Style) -> tuple[float, str, str]:
    """What the two products would take as one matrix product of torch's; returns its name as `_curve` does."""
    rate = document["product_operations_per_second"]
    points = sorted({(point["n"], point["product_operations"] / rate) for point in document["points"]})
    n, seconds = zip(*points, strict=True)
    axes.plot(n, seconds, color=style.muted, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
    return seconds[-1], f"as a matrix product of\ntorch’s, {rate / 1e9:,.0f} GFLOP/s", style.muted


def _finish(axes: Axes, document: Mapping[str, Any], quantity: str, style: Style) -> None:
    curves.powers_of_two(axes, sorted({point["n"] for point in document["points"]}))
    axes.set_xlabel("n, tokens", fontsize=8, color=style.muted)
    curves.log_values(axes, _duration if quantity == "seconds" else _size)
    if quantity == "seconds":
        return
    _, high = axes.get_ylim()
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
