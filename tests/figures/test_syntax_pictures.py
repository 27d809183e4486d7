from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.patches import FancyArrowPatch

from heedmap.figures.arrows import arrows_figure
from heedmap.figures.fonts import MissingGlyphWarning
from heedmap.figures.relations import relations_figure
from heedmap.figures.save import save
from heedmap.heads.findings import About
from heedmap.heads.showing import Shown
from heedmap.heads.syntax import READINGS, Arc, Tally
from heedmap.heads.syntax_findings import findings

ARCS = [Arc(0, 1, "det"), Arc(1, 2, "nsubj"), Arc(4, 2, "obj"), Arc(3, 4, "det")]
LABELS = ["The", "cat", "saw", "the", "dog"]


def shown(reading: str = READINGS[0], labels: list[str] | None = None) -> Shown:
    return Shown(0, labels or LABELS, ARCS, "det", reading, ("self", 2, 8), 0.9)


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("page", ["white", "#14161c"])
def test_an_arrow_is_drawn_for_each_arc_and_each_word_that_looks(reading: str, page: str, tmp_path: Path) -> None:
    weights = np.random.default_rng(0).dirichlet(np.ones(5), 5)
    figure = arrows_figure(shown(reading), weights, "minilm", facecolor=page)
    (axes,) = figure.axes
    arrows = [patch for patch in axes.patches if isinstance(patch, FancyArrowPatch)]
    assert len(arrows) == len(ARCS) + 5
    texts = [text.get_text() for text in axes.texts]
    assert {*LABELS, "nsubj", "det in minilm, head 2.8"} <= set(texts)
    assert save(figure, tmp_path / "sentence.svg").stat().st_size > 1000


def test_words_keep_apart_and_within_the_page() -> None:
    labels = ["Donaudampfschifffahrt", "a", "a", "Unabhängigkeitserklärung", "i"]
    figure = arrows_figure(shown(labels=labels), np.eye(5), "m")
    (axes,) = figure.axes
    figure.canvas.draw()
    boxes = sorted(
        (text.get_window_extent().x0, text.get_window_extent().x1) for text in axes.texts if text.get_text() in labels
    )
    assert len(boxes) == 5
    assert all(before[1] < after[0] for before, after in pairwise(boxes))
    assert boxes[0][0] > 0
    assert boxes[-1][1] < figure.bbox.width


def test_a_word_that_no_font_has_is_shown_by_its_number() -> None:
    with pytest.warns(MissingGlyphWarning):
        figure = arrows_figure(shown(labels=["\U00012000", *LABELS[1:]]), np.eye(5), "m")
    assert "#0" in [text.get_text() for text in figure.axes[0].texts]


@pytest.mark.parametrize("page", ["white", "#14161c"])
def test_a_row_for_each_relation_with_baseline_and_interval(page: str, tmp_path: Path) -> None:
    tally = Tally((("self", 0, 0), ("self", 0, 1)))
    for number in range(8):
        weights = np.random.default_rng(number).dirichlet(np.ones(5), (2, 5))
        tally.add(number, ARCS, weights)
    best, by_reading, _ = findings(tally.scores(), About("m", None, "d", 32, 0, "c", "arcs"), causal=False)
    figure = relations_figure(best, by_reading, facecolor=page)
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [row["relation"] for row in best]
    assert any("32 arcs" in text.get_text() for text in figure.texts)
    assert save(figure, tmp_path / "relations.png").stat().st_size > 1000
