"""The picture of a syntax table: for each relation its best head with interval, beside the best fixed offset."""

from __future__ import annotations

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from heedmap.figures.curves import new_figure, place
from heedmap.figures.fonts import BASE
from heedmap.figures.headmap import fit_line
from heedmap.figures.style import Style, style_for
from heedmap.heads.findings import Cell, Findings
from heedmap.heads.syntax import READINGS

_ROW, _TOP, _LEFT, _PLOT, _RIGHT = 0.27, 1.35, 1.25, 4.4, 2.1  # inches
_MARKS: dict[str, str] = dict(zip(READINGS, ("o", "s", "D"), strict=True))


def relations_figure(best: Findings, by_reading: Findings, *, facecolor: str = "white") -> Figure:
    """Draw the tables of `heedmap.heads.syntax_findings.findings`: a row a relation, in the order of the table.

    The large mark is the best head, with its 95 % interval; small ones are the best heads of the other readings; the
    line across is the best fixed offset. Raises ``InputError`` for a page colour that is not a colour.
    """
    style = style_for(facecolor)
    rows = list(best)
    with rc_context({"font.family": [BASE], "svg.fonttype": "path"}):
        width, height = _LEFT + _PLOT + _RIGHT, _TOP + _ROW * len(rows) + 0.75
        figure = new_figure(style, width, height)
        axes = place(figure, _LEFT, _TOP, _PLOT, _ROW * len(rows))
        _dress(axes, rows, style)
        for index, row in enumerate(rows):
            others = [one for one in by_reading if one["relation"] == row["relation"]]
            _row(axes, index, row, others, style)
        title = fit_line(figure, best.title, width - 0.9, 13.5)
        figure.text(0.45 / width, 1 - 0.5 / height, title, fontsize=13.5, color=style.ink, parse_math=False)
        about = best.about.entries()
        line = fit_line(figure, f"{about['items']}   ·   {about['data']}", width - 0.9, 8.5)
        figure.text(0.45 / width, 1 - 0.75 / height, line, fontsize=8.5, color=style.muted, parse_math=False)
        _legend(figure, style, width, height)
        figure.text(_LEFT / width, 0.32 / height, "accuracy on odd sentences; head and offset chosen on even ones",
                    fontsize=8, color=style.muted)  # fmt: skip
    return figure


def _number(value: Cell) -> float:
    return float("nan") if value is None else float(value)


def _dress(axes: Axes, rows: list, style: Style) -> None:
    axes.set_facecolor("none")
    axes.set_xlim(0, 1)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100 %"])
    axes.set_yticks(range(len(rows)), [str(row["relation"]) for row in rows])
    axes.tick_params(axis="x", colors=style.muted, labelsize=7.5, length=0)
    axes.tick_params(axis="y", colors=style.ink, labelsize=8.5, length=0)
    axes.grid(True, axis="x", color=style.faint, linewidth=0.6)
    axes.set_axisbelow(True)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _row(axes: Axes, index: int, row: object, others: list, style: Style) -> None:
    assert isinstance(row, dict)
    accuracy, baseline = _number(row["accuracy"]), _number(row["baseline"])
    told = bool(row["beats_offset"])
    color = style.accent if told else style.muted
    axes.plot([baseline, accuracy], [index, index], color=color, linewidth=0.8, alpha=0.5, zorder=2)
    axes.plot([baseline, baseline], [index - 0.32, index + 0.32], color=style.ink, linewidth=1.4, zorder=3)
    for other in others:
        if other["reading"] != row["reading"]:
            axes.plot(_number(other["accuracy"]), index, _MARKS[str(other["reading"])], markersize=3.2,
                      color=style.muted, alpha=0.7, markeredgewidth=0, zorder=3)  # fmt: skip
    axes.plot([_number(row["low"]), _number(row["high"])], [index, index], color=color, linewidth=2.4, zorder=4)
    axes.plot(accuracy, index, _MARKS[str(row["reading"])], markersize=6, color=color, markeredgecolor=style.page,
              markeredgewidth=0.8, zorder=5)  # fmt: skip
    text = f"{row['head']}   {100 * accuracy:.1f}   ({100 * _number(row['gain']):+.1f})"
    axes.text(1.03, index, text, fontsize=8, va="center", color=style.ink if told else style.muted,
              transform=axes.get_yaxis_transform(), parse_math=False)  # fmt: skip


def _legend(figure: Figure, style: Style, width: float, height: float) -> None:
    look = {"linestyle": "none", "markeredgewidth": 0}
    handles = [
        *(Line2D([], [], marker=mark, color=style.accent, markersize=5, label=name, **look)
          for name, mark in _MARKS.items()),
        Line2D([], [], marker="|", color=style.ink, markersize=8, markeredgewidth=1.4, linestyle="none",
               label="best fixed offset"),
    ]  # fmt: skip
    figure.legend(
        handles=handles, loc="upper left", bbox_to_anchor=(0.36 / width, 1 - 0.86 / height), ncols=4, frameon=False,
        fontsize=7.5, labelcolor=style.muted, handletextpad=0.2, columnspacing=1.2,
    )  # fmt: skip
