from __future__ import annotations

import numpy as np
import pytest

from heedmap.errors import InputError
from heedmap.figures.headtypes import head_types, stripes
from heedmap.heads.types import TYPES, judge

HEADS = [("self", layer, head) for layer in (0, 2) for head in range(3)]


@pytest.fixture
def typing():
    values = {
        "previous": np.array([1, 0, 0, 0, 0, 0.0]),
        "positional": np.array([1, 0, 0, 0, 0, 0.0]),
        "first": np.array([0, 0.9, 0, 0, 0, 0.0]),
        "sink": np.array([0, 0.9, 0.4, 0, 0, 0.0]),
        "induction": np.array([0, 0, 0.6, 0, 0, 0.0]),
    }
    return judge(HEADS, values)


def test_a_cell_leaves_out_what_another_type_of_its_head_implies(typing) -> None:
    assert [stripes(head) for head in typing.heads] == [["previous"], ["first"], ["induction", "sink"], [], [], []]


@pytest.mark.parametrize("facecolor", ["white", "#14161c"])
def test_every_head_is_drawn_and_the_legend_counts_the_types(typing, facecolor: str) -> None:
    figure = head_types(typing, "나는 사과를 $x$ 먹었다", "a model", facecolor=facecolor)
    (axes,) = figure.axes
    assert len(axes.patches) == 7
    assert [label.get_text() for label in axes.get_yticklabels()] == ["0", "1", "2"], (
        "a layer without attention has its row"
    )
    texts = [text.get_text() for text in figure.texts]
    assert texts[texts.index("sink") + 1] == "2"
    assert texts[texts.index("no type") + 1] == "3"
    assert "broad" not in texts, "what was not judged is not in the legend"
    figure.canvas.draw()


def test_every_type_has_a_colour_of_its_own_on_both_pages() -> None:
    from heedmap.figures import headtypes

    for colours in (headtypes._ON_LIGHT, headtypes._ON_DARK):
        assert set(colours) == set(TYPES)
        assert len(set(colours.values())) == len(TYPES)


def test_a_page_colour_that_is_none_is_refused(typing) -> None:
    with pytest.raises(InputError, match="a colour that matplotlib knows"):
        head_types(typing, "t", "s", facecolor="nocolour")


@pytest.mark.parametrize("title", ["WORD " * 40, "W" * 200, "낱말 " * 60, "i" * 400])
def test_a_title_stays_on_the_page_however_wide_its_letters_are(typing, title: str) -> None:
    figure = head_types(typing, title, "a model")
    shown = next(text for text in figure.texts if text.get_text().endswith("…"))
    assert figure.bbox.width * 0.75 < shown.get_window_extent().x1 <= figure.bbox.x1
