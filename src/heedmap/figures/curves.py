"""What the pictures of the experiments share: axes that recede, curves that are named where they end."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from heedmap.figures.style import Style

COOL = {True: "#2b6cb0", False: "#63b3ed"}
"""A blue beside the accent, on a light page and on a dark one."""
GREEN = {True: "#2f855a", False: "#68d391"}
VIOLET = {True: "#805ad5", False: "#b794f4"}


def is_light(style: Style) -> bool:
    """Whether the page is light."""
    return style.ink == "#1d2026"


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


def name_end(axes: Axes, x: float, y: float, text: str, color: str, *, above: float = 0.0) -> None:
    """The name of a curve beside its last point, in its colour."""
    axes.annotate(
        text,
        (x, y),
        xytext=(6, above),
        textcoords="offset points",
        fontsize=8,
        color=color,
        va="center",
        annotation_clip=False,
    )
