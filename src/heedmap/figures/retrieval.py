"""The picture of a needle in a haystack: what was answered by depth and length, and the heads that fetched it."""

from __future__ import annotations

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from heedmap.figures.curves import dress, new_figure, place, write
from heedmap.figures.grid import colour_bar, short_number
from heedmap.figures.headmap import fit_line
from heedmap.figures.labels import wording
from heedmap.figures.style import Style, style_for
from heedmap.heads.retrieval import BAR

_MARGIN, _TOP = 0.45, 1.55  # inches
_RANKED = 15


def retrieval_figure(
    lengths: list[int],
    depths: list[float],
    recall: np.ndarray,
    heads: list[tuple[str, int, int]],
    scores: np.ndarray,
    title: str,
    subtitle: str,
    *,
    facecolor: str = "white",
) -> Figure:
    """Draw the recall of the answer by depth ↓ and length →, the score of every head as a grid, and the strongest heads
    with the bar above which one is a retrieval head.

    Args:
        lengths, depths: of the cells; depths as shares.
        recall: mean over needles, `[depths, lengths]`; NaN for a cell that was not tried.
        heads, scores: (part, layer, head) of each head, and its mean score.
        title, subtitle: above the picture.
        facecolor: the page's colour.

    Raises ``InputError`` for a page colour that is not a colour.
    """
    style = style_for(facecolor)
    layers = sorted({layer for _, layer, _ in heads})
    rows, columns = list(range(layers[0], layers[-1] + 1)), max(head for _, _, head in heads) + 1
    cell = min(0.28, 3.6 / columns, 5.0 / len(rows))
    wide = min(0.75 * len(lengths), 4.2)
    tall = max(0.42 * len(depths), cell * len(rows), 2.6)
    lefts = [_MARGIN + 0.5]
    lefts.append(lefts[0] + max(wide, 2.6) + 0.8)
    lefts.append(lefts[1] + max(cell * columns, 2.3) + 0.9)
    words = wording([], title)
    with rc_context({"font.family": list(words.fonts.families), "svg.fonttype": "path"}):
        width = lefts[2] + 3.0 + _MARGIN
        figure = new_figure(style, width, _TOP + tall + 0.75)
        write(figure, _MARGIN, 0.46, fit_line(figure, words.title, width - 2 * _MARGIN, 13.5), size=13.5,
              color=style.ink)  # fmt: skip
        write(figure, _MARGIN, 0.70, fit_line(figure, subtitle, width - 2 * _MARGIN, 8.5), size=8.5, color=style.muted)
        names = ("recall, by depth ↓ and length →", "score, by layer ↓ and head →", "strongest heads")
        for left, name in zip(lefts, names, strict=True):
            write(figure, left, _TOP - 0.35, name, size=9.5, color=style.ink)
        norm = Normalize(0, 1)
        axes = place(figure, lefts[0], _TOP, wide, 0.42 * len(depths))
        _table(axes, recall, [f"{depth:.0%}" for depth in depths], [f"{length:,}" for length in lengths], style, norm)
        for (row, column), value in np.ndenumerate(recall):
            if np.isfinite(value):
                ink = style.ink_on(style.value(norm(value)))
                axes.text(column, row, short_number(float(value), 1.0), fontsize=7.5, color=ink, ha="center",
                          va="center_baseline")  # fmt: skip
        colour_bar(place(figure, lefts[0], _TOP + 0.42 * len(depths) + 0.2, 1.6, 0.09), style.value, norm, style)
        grid = np.full((len(rows), columns), np.nan)
        for (_, layer, head), score in zip(heads, scores, strict=True):
            grid[layer - rows[0], head] = score
        axes = place(figure, lefts[1], _TOP, cell * columns, cell * len(rows))
        _table(axes, grid, [str(row) for row in rows], [str(head) for head in range(columns)], style, norm)
        colour_bar(place(figure, lefts[1], _TOP + cell * len(rows) + 0.2, 1.6, 0.09), style.value, norm, style)
        _bars(place(figure, lefts[2] + 0.3, _TOP, 2.7, min(tall, 0.24 * _RANKED)), heads, scores, style)
    return figure


def _table(axes: Axes, table: np.ndarray, names: list[str], across: list[str], style: Style, norm: Normalize) -> None:
    axes.set_facecolor(style.page)
    axes.imshow(table, cmap=style.value, norm=norm, aspect="auto", interpolation="nearest")
    step, over = -(-len(names) // 16), -(-len(across) // 12)
    axes.set_yticks(range(0, len(names), step), names[::step])
    axes.set_xticks(range(0, len(across), over), across[::over])
    axes.xaxis.tick_top()
    axes.tick_params(length=0, pad=3, labelsize=7, labelcolor=style.muted)
    for spine in axes.spines.values():
        spine.set_color(style.faint)
        spine.set_linewidth(0.6)


def _bars(axes: Axes, heads: list[tuple[str, int, int]], scores: np.ndarray, style: Style) -> None:
    order = np.argsort(-scores, kind="stable")[:_RANKED]
    dress(axes, style, "")
    axes.grid(False, axis="y")
    colours = [style.accent if scores[index] > BAR else style.muted for index in order]
    axes.barh(range(len(order)), scores[order], 0.66, color=colours)
    axes.axvline(BAR, color=style.ink, linewidth=0.8, linestyle=(0, (3, 2)))
    axes.set_yticks(range(len(order)), [f"{heads[index][1]}.{heads[index][2]}" for index in order])
    axes.tick_params(axis="y", labelsize=7.5, labelcolor=style.ink, length=0)
    axes.set_ylim(len(order) - 0.5, -0.5)
    axes.set_xlim(0, max(0.2, float(scores.max()) * 1.08))
