"""What the pictures of the experiments share: axes that recede, curves that are named where they end."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from heedmap.figures.style import Style


def new_figure(style: Style, width: float, height: float) -> Figure:
    """An empty figure in inches, without pyplot's state."""
    figure = FigureCanvasAgg(Figure(facecolor=style.page)).figure
    figure.set_size_inches(width, height)
    return figure


def place(figure: Figure, x: float, y: float, width: float, height: float) -> Axes:
    """Axes at a place in inches from the upper left corner."""
    across, down = figure.get_size_inches()
    return figure.add_axes((x / across, 1 - (y + height) / down, width / across, height / down))


def write(figure: Figure, x: float, y: float, text: str, *, size: float, color: str, weight: str = "normal") -> None:
    """A line of text at a place in inches from the upper left corner."""
    across, down = figure.get_size_inches()
    figure.text(x / across, 1 - y / down, text, fontsize=size, color=color, fontweight=weight)


def dress(axes: Axes, style: Style, title: str, *, title_color: str | None = None) -> None:
    """Two quiet spines, a faint grid, and a title at the left that says what is up."""
    axes.set_facecolor("none")
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(style.faint)
    axes.tick_params(colors=style.muted, labelsize=7.5, length=2.5, color=style.faint)
    axes.grid(True, which="major", color=style.faint, linewidth=0.5, alpha=0.7)
    axes.set_axisbelow(True)
    axes.set_title(title, loc="left", fontsize=9, color=title_color or style.ink, pad=7)


def powers_of_two(axes: Axes, values: Sequence[int], *, most: int = 6) -> None:
    """Ticks at some of the values themselves on a logarithmic axis x, `1,024` and not `10³`."""
    step = -(-len(values) // most)
    ticks = sorted(values)[::-1][::step]
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())


def log_values(axes: Axes, words: Callable[[float], str] = "{:g}".format) -> None:
    """A logarithmic axis y with a number at every decade, and between them where decades are few; call it last."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(FixedLocator(log_ticks(low, high)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: words(value)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylim(low, high)


def log_ticks(low: float, high: float) -> list[float]:
    """Values from `low` to `high` to mark on a logarithmic axis: powers of ten, and some between if these are few."""
    decades = math.log10(high / low)
    steps = (1,) if decades > 3 else (1, 2, 5) if decades > 1 else (1, 1.5, 2, 3, 4, 5, 6, 8)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [float(f"{step}e{power}") for power in powers for step in steps if low <= float(f"{step}e{power}") <= high]


def name_ends(figure: Figure, axes: Axes, ends: Sequence[tuple[float, str, str]]) -> None:
    """Names of curves at the right of their axes, at the heights of their last points, moved apart where they would
    touch; each is a height in data, a text and a colour. Call it last, when the axes have their limits."""
    height = axes.get_position().height * figure.get_size_inches()[1] * 72  # points
    placed: list[tuple[float, str, str]] = []
    for y, text, color in ends:
        _, at = axes.transAxes.inverted().transform(axes.transData.transform((axes.get_xlim()[1], y)))
        placed.append((float(at) * height, text, color))
    previous = math.inf
    for at, text, color in sorted(placed, reverse=True):  # from the top, so that none leaves the picture
        size = 11.5 * (text.count("\n") + 1)
        at = min(at, previous - size / 2 - (3 if size > 12 else -1), height - size / 2 + 6)
        axes.annotate(text, (1, at / height), xycoords="axes fraction", xytext=(7, 0), textcoords="offset points",
                      fontsize=8, color=color, va="center", linespacing=1.25, annotation_clip=False)  # fmt: skip
        previous = at - size / 2
