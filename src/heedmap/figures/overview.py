"""The overview of a run: all heads as a grid coloured by a statistic, and beside it one head's map."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from heedmap.errors import InputError
from heedmap.figures import grid, headmap
from heedmap.figures.fonts import warn_missing
from heedmap.figures.labels import wording
from heedmap.figures.style import style_for

if TYPE_CHECKING:
    from heedmap.runs.reader import Run

_MARGIN = 0.4  # all lengths in inches
_GAP = 0.65
_TITLE = 0.95
_FOOTER = 0.75  # a colour bar with its numbers
_TITLE_LETTERS = 200
_PANEL_TITLE = 9.5  # points


def overview(
    run: Run,
    statistic: str = "entropy",
    head: tuple[str, int, int] | tuple[int, int] | str | None = None,
    *,
    facecolor: str = "white",
) -> Figure:
    """Draw the grid layers × heads coloured by a statistic, with one head's map beside it.

    ``statistic`` is a column of the run's head table, a mean over the rows of the text. ``head`` is ``"5.11"``,
    ``(layer, head)`` or ``(part, layer, head)``; without it, the head in which the statistic is largest. A map of up
    to about 60 tokens has their labels and, in colour, its exact weights; a longer text is drawn in cells of several
    tokens, each with its largest weight. Ink and colours follow from ``facecolor``, the page's colour, light or dark.

    Returns a matplotlib figure without pyplot's state; ``heedmap.figures.save.save`` writes it. Raises
    ``InputError`` for a statistic or a head that the run does not hold. Letters that no installed font has are
    replaced by token numbers, with a ``MissingGlyphWarning``.
    """
    style = style_for(facecolor)
    values = grid.head_values(run, statistic)
    part, layer, number = find_head(run, head) if head is not None else values.largest()
    head_map = headmap.HeadMap(run, part, layer, number)
    labels, positions = (head_map.texts, head_map.positions) if head_map.labelled else ([], [])
    words = wording(labels, _title(run), positions=positions)
    if head_map.labelled:
        head_map.name_tokens(words.labels)
    if words.missing:
        warn_missing(words.missing, "labels show token numbers in their place")

    with rc_context({"font.family": list(words.fonts.families), "svg.fonttype": "path", "axes.unicode_minus": True}):
        canvas = FigureCanvasAgg(Figure(facecolor=style.page))
        figure = canvas.figure
        above, beside = head_map.label_room(figure)
        map_size = head_map.size()
        grid_size = grid.size(values, beside=above + map_size.height - grid.TICKS)
        name_width = headmap.text_width(figure, head_map.name, _PANEL_TITLE) + 0.12
        top = _TITLE + 0.3  # where the panels begin, below their titles
        left = _MARGIN + grid.TICKS
        grid_width = grid.TICKS + max(grid_size.width, grid.BAR)
        panel = max(grid_width, headmap.text_width(figure, values.title, _PANEL_TITLE))
        map_left = _MARGIN + panel + _GAP + beside
        map_panel = max(
            beside + max(map_size.width, grid.BAR),
            name_width + headmap.text_width(figure, head_map.reading, _PANEL_TITLE),
        )
        width = _MARGIN + panel + _GAP + map_panel + _MARGIN
        grid_bottom, map_bottom = grid.TICKS + grid_size.height, above + map_size.height
        level = abs(grid_bottom - map_bottom) < 0.8  # then both colour bars stand on one line
        grid_bar_top, map_bar_top = (max(grid_bottom, map_bottom) if level else b for b in (grid_bottom, map_bottom))
        height = top + max(grid_bottom, map_bottom) + _FOOTER
        figure.set_size_inches(width, height)

        def axes(x: float, y: float, w: float, h: float) -> Axes:
            """Axes at a place in inches from the upper left corner."""
            return figure.add_axes((x / width, 1 - (y + h) / height, w / width, h / height))

        def write(x: float, y: float, text: str, size: float, color: str) -> None:
            figure.text(x / width, 1 - y / height, text, fontsize=size, color=color, parse_math=False)

        grid_axes = axes(left, top + grid.TICKS, grid_size.width, grid_size.height)
        grid_bar = axes(left, top + grid_bar_top + 0.2, max(min(grid_size.width, 2.6), grid.BAR), 0.09)
        grid.draw(grid_axes, grid_bar, values, grid_size, (part, layer, number), style)
        map_axes = axes(map_left, top + above, map_size.width, map_size.height)
        map_bar = axes(map_left, top + map_bar_top + 0.2, max(min(map_size.width, 2.6), grid.BAR), 0.09)
        head_map.draw(map_axes, map_bar, style)

        write(_MARGIN, 0.46, headmap.fit_line(figure, words.title, width - 2 * _MARGIN, 13.5), 13.5, style.ink)
        write(_MARGIN, 0.70, _subtitle(run, words.missing), 8.5, style.muted)
        write(_MARGIN, top - 0.08, values.title, _PANEL_TITLE, style.ink)
        write(_MARGIN + panel + _GAP, top - 0.08, head_map.name, _PANEL_TITLE, style.accent)
        write(_MARGIN + panel + _GAP + name_width, top - 0.08, head_map.reading, _PANEL_TITLE, style.ink)
    return figure


def find_head(
    run: Run, head: tuple[str, int, int] | tuple[int, int] | str, where: str = "overview"
) -> tuple[str, int, int]:
    """The (part, layer, head) that ``head`` names in this run; ``InputError`` where there is none or two.

    A part is set off as it is written, ``cross.1.0``, or as tables and pictures show it, ``cross 1.0``.
    """
    wanted = head
    if isinstance(head, str):
        pieces = head.replace(" ", ".", 1).split(".")
        wanted = (pieces[0], *pieces[1:]) if len(pieces) == 3 else tuple(pieces)
    key = tuple(str(piece) for piece in wanted)
    found = [
        (p, layer, number)
        for p, layer, number in run.heads
        if key in ((p, str(layer), str(number)), (str(layer), str(number)))
    ]
    if len(found) == 1:
        return found[0]
    layers = sorted({layer for _, layer, _ in run.heads})
    heads = sorted({number for _, _, number in run.heads})
    raise InputError(
        where,
        expected=f"a head of this run as layer.head, layers {_span(layers)}, heads {_span(heads)}",
        got=repr(head) if not found else f"{head!r}, which {len(found)} parts of the model have",
        do=None if not found else f"name the part: {found[0][0]}.{found[0][1]}.{found[0][2]}",
    )


def _span(numbers: list[int]) -> str:
    return f"{numbers[0]}–{numbers[-1]}" if len(numbers) > 1 else str(numbers[0])


def _title(run: Run) -> str:
    """As much of the text as a title may need, and of its pair or of what a decoder read or wrote from it."""
    texts = [run.text[:_TITLE_LETTERS]] + ([] if run.text_pair is None else [run.text_pair[:_TITLE_LETTERS]])
    return ("  →  " if "target_tokens" in run.meta["text"] else "  +  ").join(_line(text) for text in texts)


def _line(text: str) -> str:
    """A text on one line, without the characters that no font draws and those that turn the reading direction."""
    return "".join(letter for letter in " ".join(text.split()) if letter.isprintable() or letter in "\u200c\u200d")


def _subtitle(run: Run, missing: frozenset[str]) -> str:
    heads = sorted({len(info.heads) for info in run.layers})
    of_heads = sorted({info.query_heads for info in run.layers})
    some = "" if heads == of_heads else f" of {_span(of_heads)}"
    counted = _count(heads[0], "head") if len(heads) == 1 else f"{_span(heads)} heads"
    pieces = [
        str(run.meta["model"].get("name", "a model")),
        _tokens(run),
        f"{_count(len(run.layers), 'layer')} × {counted}{some}",
    ]
    if missing:
        pieces.append("#n: token n, whose letters no installed font has")
    return "   ·   ".join(pieces)


def _tokens(run: Run) -> str:
    text = run.meta["text"]
    pieces = _count(run.tokens_of().num_rows - (0 if "target_tokens" in text else text.get("generated", 0)), "token")
    if "target_tokens" in text and not text.get("generated"):
        pieces += f", {text['target_tokens']:,} decoded"
    return pieces + (f", {text['generated']:,} generated" if text.get("generated") else "")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
