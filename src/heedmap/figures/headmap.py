"""One head's map: rows are the tokens that look, columns the tokens they look at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, PowerNorm
from matplotlib.figure import Figure

from heedmap.errors import InputError
from heedmap.figures.grid import Size, colour_bar
from heedmap.figures.labels import display_width, shorten
from heedmap.figures.style import Style

if TYPE_CHECKING:
    from heedmap.runs.manifest import LayerInfo
    from heedmap.runs.reader import Run

_SIDE = 5.4  # inches of the longer side; a map with many labels grows to _LARGEST
_LARGEST = 6.6
_MOST_CELLS = 256  # along each side of a map
_SMALLEST_LABEL = 5.2  # points
_POSITION_TICKS = 0.42  # inches for numbers where labels do not fit


class HeadMap:
    """The map of one head of a run, ready to be measured and drawn.

    Cells are single tokens where the run's map has one cell per token, then labels fit for up to about 60 tokens;
    else each cell covers several tokens and shows the largest weight among them.
    """

    def __init__(self, run: Run, part: str, layer: int, head: int) -> None:
        info = next(entry for entry in run.layers if (entry.part, entry.layer) == (part, layer))
        several_parts = len({entry.part for entry in run.layers}) > 1
        self.name = f"head {part + ' ' if several_parts else ''}{layer}.{head}"
        self.kind, self.values = _cells(run, info, head)
        self.lengths = (info.query_len, info.key_len)
        self.first = (info.query_offset, info.key_offset)
        self.exact = self.values.shape == self.lengths
        tokens = [run.tokens_of(sequence) for sequence in (info.query_sequence, info.key_sequence)]
        self._spans = [range(start, start + length) for start, length in zip(self.first, self.lengths, strict=True)]
        self._named = all(s.stop <= side.num_rows for s, side in zip(self._spans, tokens, strict=True))
        self._texts, self._special, self._borders = (
            [self._of_axis(side.column(name).to_pylist(), axis) for axis, side in enumerate(tokens)]
            for name in ("text", "special", "segment")
        )
        self._borders = [_changes(segment) for segment in self._borders]
        self._labels: list[list[str]] = [[], []]

    def _of_axis(self, column: list[Any], axis: int) -> list[Any]:
        """The entries of a token column along the rows (0) or the columns (1) of the map."""
        return [column[position] for position in self._spans[axis]] if self._named else []

    @property
    def texts(self) -> list[str]:
        """The tokens' own labels, of the rows and then of the columns."""
        return [*self._texts[0], *self._texts[1]]

    @property
    def positions(self) -> list[int]:
        """The positions of the tokens of `texts`."""
        return [*self._spans[0], *self._spans[1]]

    def name_tokens(self, labels: list[str]) -> None:
        """Give the map labels that can be drawn, in the order of `texts`."""
        self._labels = [labels[: self.lengths[0]], labels[self.lengths[0] :]]

    @property
    def reading(self) -> str:
        """How to read the map, in a few words."""
        if self.exact:
            return "weight from each token (row) to each token (column)"
        rows, columns = (-(-length // cells) for length, cells in zip(self.lengths, self.values.shape, strict=True))
        return f"{self.kind} weight in each cell of {rows} × {columns} tokens, from row to column"

    @property
    def labelled(self) -> bool:
        """Whether every token has room for its label beside the map."""
        return self._named and self.exact and self._label_points() >= _SMALLEST_LABEL

    def size(self) -> Size:
        """Width and height in inches; cells are square."""
        rows, columns = self.lengths
        longest = max(rows, columns)
        side = min(max(_SIDE, longest * 0.105), _LARGEST) if self.exact else _SIDE
        side = min(side, longest * 0.42 if longest > 8 else 0.36 + longest * 0.4)
        return Size(max(side * columns / longest, 0.3), max(side * rows / longest, 0.3))

    def label_room(self, figure: Figure) -> tuple[float, float]:
        """Inches that labels or positions take above the map and left of it."""
        if not self.labelled:
            return _POSITION_TICKS, _POSITION_TICKS
        points = self._label_points()
        left, above = (max(text_width(figure, label, points) for label in labels) for labels in self._labels)
        return above + 0.12, left + 0.14

    def draw(self, axes: Axes, bar: Axes, style: Style) -> None:
        """Draw the map, its labels or positions, and its colour bar."""
        rows, columns = self.lengths
        high = float(np.nanmax(self.values, initial=0.0)) or 1.0
        short = self.exact and max(rows, columns) <= 64
        norm = Normalize(0.0, high) if short else PowerNorm(0.5, 0.0, high)
        axes.set_facecolor(style.page)
        axes.pcolorfast(
            _edges(columns, self.values.shape[1]),
            _edges(rows, self.values.shape[0]),
            self.values,
            cmap=style.weight,
            norm=norm,
        )
        axes.set_xlim(0, columns)
        axes.set_ylim(rows, 0)
        for spine in axes.spines.values():
            spine.set_color(style.faint)
            spine.set_linewidth(0.6)
        axes.tick_params(length=0)
        if self.labelled:
            self._write_labels(axes, style)
        else:
            self._write_positions(axes, style)
        if self.exact and self.size().height / rows >= 0.29:
            self._write_weights(axes, norm, style)
        for border in self._borders[0]:
            axes.axhline(border, color=style.accent, linewidth=0.8)
        for border in self._borders[1]:
            axes.axvline(border, color=style.accent, linewidth=0.8)
        colour_bar(bar, style.weight, norm, style)
        if not isinstance(norm, PowerNorm):
            return
        bar.annotate(
            "colour grows with √weight",
            (1, 0.5),
            xytext=(8, 0),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=7,
            color=style.muted,
            va="center",
        )

    def _label_points(self) -> float:
        size = self.size()
        cell = min(size.height / self.lengths[0], size.width / self.lengths[1])
        return min(cell * 72 * 0.72, 9.5)

    def _write_labels(self, axes: Axes, style: Style) -> None:
        axes.set_xticks([])
        axes.set_yticks([])
        points = self._label_points()
        for axis, labels in enumerate(self._labels):
            for index, label in enumerate(labels):
                color = style.muted if self._special[axis][index] else style.ink
                place = (0, index + 0.5) if axis == 0 else (index + 0.5, 0)
                axes.annotate(
                    label, place, xytext=(-4, 0) if axis == 0 else (0, 4), textcoords="offset points",
                    ha="right" if axis == 0 else "left", va="center_baseline",
                    rotation=0 if axis == 0 else 90, rotation_mode="anchor",
                    fontsize=points, color=color, parse_math=False, annotation_clip=False,
                )  # fmt: skip

    def _write_positions(self, axes: Axes, style: Style) -> None:
        axes.xaxis.tick_top()
        axes.tick_params(length=2, width=0.6, pad=2, labelsize=7, labelcolor=style.muted, color=style.muted)
        for axis, (set_ticks, length) in enumerate(zip((axes.set_yticks, axes.set_xticks), self.lengths, strict=True)):
            step = _round_step(length)
            first = self.first[axis]
            positions = range(-(-first // step) * step, first + length, step)
            set_ticks([position - first + 0.5 for position in positions], [f"{position:,}" for position in positions])

    def _write_weights(self, axes: Axes, norm: Normalize, style: Style) -> None:
        for (row, column), weight in np.ndenumerate(self.values):
            if weight >= 0.05:
                text = f"{weight:.2f}".removeprefix("0")
                color = style.ink_on(style.weight(norm(weight)))
                axes.text(column + 0.5, row + 0.5, text, fontsize=7, color=color, ha="center", va="center_baseline")


def _cells(run: Run, info: LayerInfo, head: int) -> tuple[str, np.ndarray]:
    """The head's map and whether its cells hold the ``largest`` or the ``mean`` weight.

    Raises ``InputError`` where the run has neither a map nor, for a text short enough, the inputs to make one from.
    """
    for kind, words in (("max", "largest"), ("mean", "mean")):
        if f"map_{kind}" in run.meta["statistics"]:
            return words, run.map(info.layer, head, kind, part=info.part).astype(np.float64)
    if info.inputs and max(info.query_len, info.key_len) <= _MOST_CELLS:
        return "largest", run.weights(info.layer, head, part=info.part).astype(np.float64)
    raise InputError(
        "overview",
        expected="a run with a map of each head (map_max or map_mean)",
        got=f"{run.path} without",
        do="look at the text again with --statistics default",
    )


def text_width(figure: Figure, text: str, points: float) -> float:
    """Width in inches of a text as this figure will draw it."""
    drawn = figure.text(0, 0, text, fontsize=points, parse_math=False)
    extent = drawn.get_window_extent()
    drawn.remove()
    return extent.width / figure.dpi


def fit_line(figure: Figure, text: str, inches: float, points: float) -> str:
    """The text, cut with an ellipsis where this figure would draw it wider than that."""
    if text_width(figure, text, points) <= inches:
        return text
    fits, too_wide = 1, display_width(text)
    while too_wide - fits > 1:
        middle = (fits + too_wide) // 2
        if text_width(figure, shorten(text, middle), points) <= inches:
            fits = middle
        else:
            too_wide = middle
    return shorten(text, fits)


def _edges(length: int, cells: int) -> np.ndarray:
    """Where the cells of a pooled axis begin and end: the first ``length mod cells`` of them hold one token more."""
    small, larger = divmod(length, cells)
    return np.concatenate([[0], np.cumsum([small + 1] * larger + [small] * (cells - larger))])


def _changes(segment: list[int]) -> list[int]:
    return [i for i in range(1, len(segment)) if segment[i] != segment[i - 1]]


def _round_step(length: int) -> int:
    """A round distance between numbers, for at most nine of them."""
    step = 1
    while length / step > 9:
        step *= 2 if str(step)[0] in "15" else 5 / 2
        step = int(step)
    return step
