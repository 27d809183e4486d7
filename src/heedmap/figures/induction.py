"""The picture of copying heads: their induction scores, the loss of a text read twice, what is lost without them."""

from __future__ import annotations

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from heedmap.figures.curves import dress, new_figure, place, write
from heedmap.figures.grid import colour_bar
from heedmap.figures.headmap import fit_line, text_width
from heedmap.figures.labels import wording
from heedmap.figures.style import Style, style_for

_MARGIN, _TOP = 0.45, 1.35  # inches


def induction_figure(
    heads: list[tuple[str, int, int]],
    scores: np.ndarray,
    title: str,
    subtitle: str,
    *,
    losses: dict[str, np.ndarray] | None = None,
    drops: list[tuple[str, float, float, bool]] | None = None,
    marked: list[tuple[int, int]] | None = None,
    facecolor: str = "white",
) -> Figure:
    """Draw the induction score of every head as a grid, layers down and heads across; the loss of each token of the
    sequences (nats, the mean over draws), read whole and with heads silent; and the loss drop of each such model.

    Args:
        heads, scores: (part, layer, head) of each head, and its score.
        title, subtitle: above the picture.
        losses: name of a curve → `[2 · length]`, the first one of the model as it is.
        drops: name, loss drop, half its interval, and whether it is one to compare with, of each model.
        marked: heads to ring, as (layer, head).
        facecolor: the page's colour.

    Raises ``InputError`` for a page colour that is not a colour.
    """
    style = style_for(facecolor)
    layers = sorted({layer for _, layer, _ in heads})
    rows, columns = list(range(layers[0], layers[-1] + 1)), max(head for _, _, head in heads) + 1
    cell = min(0.32, 4.2 / columns, 6.0 / len(rows))
    words = wording([], title)
    with rc_context({"font.family": list(words.fonts.families), "svg.fonttype": "path"}):
        figure = new_figure(style, 8, 8)
        names = max([text_width(figure, name, 8) for name, *_ in drops or []] or [0.0])
        left = _MARGIN + 0.35 + max(cell * columns, 2.5) + 0.9
        tall = max(cell * len(rows), (4.3 if drops else 2.4) if losses else 0.0)
        width = left + (4.8 if losses else -0.4) + _MARGIN
        figure.set_size_inches(width, _TOP + 0.3 + tall + 0.75)
        write(figure, _MARGIN, 0.46, fit_line(figure, words.title, width - 2 * _MARGIN, 13.5), size=13.5,
              color=style.ink)  # fmt: skip
        write(figure, _MARGIN, 0.70, fit_line(figure, subtitle, width - 2 * _MARGIN, 8.5), size=8.5, color=style.muted)
        write(figure, _MARGIN, _TOP - 0.1, "induction score, by layer ↓ and head →", size=9.5, color=style.ink)
        top = _TOP + 0.3
        grid = place(figure, _MARGIN + 0.35, top, cell * columns, cell * len(rows))
        bar = place(figure, _MARGIN + 0.35, top + cell * len(rows) + 0.2, min(max(cell * columns, 1.6), 1.9), 0.09)
        _grid(grid, bar, heads, scores, rows, columns, marked or [], style)
        if losses:
            height = 1.9 if drops else min(tall, 3.2)
            _curves(place(figure, left, top, 4.8, height), losses, style)
            if drops:
                _bars(place(figure, left + names + 0.1, top + height + 0.95, 4.8 - names - 0.1, tall - height - 0.95),
                      drops, style)  # fmt: skip
    return figure


def _grid(
    axes: Axes,
    bar: Axes,
    heads: list[tuple[str, int, int]],
    scores: np.ndarray,
    rows: list[int],
    columns: int,
    marked: list[tuple[int, int]],
    style: Style,
) -> None:
    table = np.full((len(rows), columns), np.nan)
    for (_, layer, head), score in zip(heads, scores, strict=True):
        table[layer - rows[0], head] = score
    axes.set_facecolor(style.page)
    norm = Normalize(0, 1)
    axes.imshow(table, cmap=style.weight, norm=norm, aspect="auto", interpolation="nearest")
    step = next(step for step in (1, 2, 4, 5, 10, 20, 50) if len(rows) / step <= 16 or step == 50)
    axes.set_yticks(range(0, len(rows), step), [str(row) for row in rows[::step]])
    across = max(1, -(-columns // 16))
    axes.set_xticks(range(0, columns, across), [str(head) for head in range(0, columns, across)])
    axes.xaxis.tick_top()
    axes.tick_params(length=0, pad=3, labelsize=7, labelcolor=style.muted)
    for spine in axes.spines.values():
        spine.set_color(style.faint)
        spine.set_linewidth(0.6)
    for layer, head in marked:
        axes.add_patch(Rectangle((head - 0.5, layer - rows[0] - 0.5), 1, 1, fill=False, edgecolor=style.accent,
                                 linewidth=1.5, clip_on=False, zorder=5))  # fmt: skip
    colour_bar(bar, style.weight, norm, style)


def _curves(axes: Axes, losses: dict[str, np.ndarray], style: Style) -> None:
    dress(axes, style, "loss of each token, nats: random tokens, then the same again")
    colours = [style.ink, style.accent, style.muted]
    for (name, values), colour in zip(losses.items(), colours, strict=False):
        axes.plot(np.arange(len(values)), values, color=colour, linewidth=1.0, label=name)
    half = len(next(iter(losses.values()))) / 2
    axes.axvline(half - 0.5, color=style.faint, linewidth=1)
    axes.set_xlim(0, 2 * half - 1)
    axes.set_ylim(bottom=0)
    legend = axes.legend(loc="lower left", fontsize=7.5, frameon=False, labelcolor="linecolor", handlelength=1.2)
    legend.set_zorder(5)


def _bars(axes: Axes, drops: list[tuple[str, float, float, bool]], style: Style) -> None:
    dress(axes, style, "loss drop from first to second copy, nats")
    axes.grid(False, axis="y")
    at = np.arange(len(drops))
    colours = [style.ink, *(style.muted if control else style.accent for *_, control in drops[1:])]
    axes.barh(at, [drop for _, drop, *_ in drops], min(0.62, 0.12 * len(drops)), color=colours)
    known = [(place, drop, half) for place, (_, drop, half, _) in enumerate(drops) if np.isfinite(half)]
    if known:
        places, middle, half = (np.array(column) for column in zip(*known, strict=True))
        axes.errorbar(middle, places, xerr=half, fmt="none", ecolor=style.muted, elinewidth=1.0, capsize=2)
    axes.set_yticks(at, [name for name, *_ in drops])
    axes.tick_params(axis="y", labelsize=8, labelcolor=style.ink, length=0)
    axes.set_ylim(len(drops) - 0.5, -0.5)
    axes.set_xlim(left=min(0.0, *(drop for _, drop, *_ in drops)))
