from __future__ import annotations

import numpy as np
import pytest

from heedmap.figures.passages import passages_figure
from heedmap.heads.passages import Readings


def readings(rows: int, names: tuple[str, ...] = ("본문", "질문", "rest")) -> Readings:
    mass = np.random.default_rng(0).dirichlet(np.ones(len(names)), (6, rows)).astype(np.float32)
    heads = [("self", layer, head) for layer in (0, 2) for head in range(3)]
    labels = [f"낱말{i}" for i in range(rows)]
    return Readings(names, tuple(3 for _ in names), heads, "all", np.arange(rows), labels, mass)


@pytest.mark.parametrize("facecolor", ["white", "#14161c"])
def test_each_row_has_a_bar_and_each_passage_a_grid_of_heads(facecolor: str) -> None:
    figure = passages_figure(readings(5), "나는 사과를 먹었다", "made", facecolor=facecolor)
    bars, *grids, _bar = figure.axes
    assert len(bars.patches) == 5 * 3
    assert [text.get_text() for text in bars.texts] == [f"낱말{i}" for i in range(5)]
    assert len(grids) == 3
    assert np.isnan(np.asarray(grids[0].images[0].get_array().filled(np.nan))[1]).all(), "layer 1 has no attention"
    figure.canvas.draw()


def test_a_head_has_its_own_bars() -> None:
    given = readings(4)
    figure = passages_figure(given, "t", "s", ("self", 2, 1))
    heights = [patch.get_height() for patch in figure.axes[0].patches[:4]]
    np.testing.assert_allclose(heights, given.of_head(("self", 2, 1))[:, 0], atol=1e-6)


def test_a_long_text_is_drawn_in_a_page_full_of_bars_without_labels() -> None:
    figure = passages_figure(readings(5000), "t", "s")
    assert len(figure.axes[0].patches) == 1200 * 3
    assert not figure.axes[0].texts


def test_a_title_stays_on_the_page_however_wide_its_letters_are() -> None:
    figure = passages_figure(readings(5), "W" * 200, "made")
    (shown,) = (text for text in figure.texts if text.get_text().startswith("WWW"))
    assert shown.get_window_extent().x1 <= figure.bbox.x1
