"""The pictures of rollout, sinks, similar heads, induction and retrieval: what stands on them, on both pages."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from heedmap.errors import InputError
from heedmap.figures.induction import induction_figure
from heedmap.figures.retrieval import retrieval_figure
from heedmap.figures.rollout import rollout_figure, scale_top, stretches
from heedmap.figures.similar import similar_figure
from heedmap.figures.sinks import sinks_figure
from heedmap.heads.rollout import Rollout
from heedmap.heads.sinks import Sinks

PAGES = ["white", "#14161c"]
HEADS = [("self", layer, head) for layer in (0, 2) for head in range(3)]


def _texts(figure) -> list[str]:
    figure.canvas.draw()
    return [text.get_text() for holder in (figure, *figure.axes) for text in holder.texts]


def _rollout(count: int, token: int) -> Rollout:
    random = np.random.default_rng(0)
    table = random.dirichlet(np.ones(count) / 20, 4)
    return Rollout("self", [0, 1, 2], token, 0.5, table, [f"w{index}" for index in range(count)])


@pytest.mark.parametrize("facecolor", PAGES)
def test_a_rollout_shows_every_token_and_rings_the_one_asked(facecolor: str) -> None:
    figure = rollout_figure(_rollout(30, 7), "What reaches “w7” $x$", "a model", facecolor=facecolor)
    texts = _texts(figure)
    assert [text for text in texts if text.startswith("w")] == [f"w{index}" for index in range(30)]
    patches = figure.axes[0].patches
    assert len(patches) == 31
    assert sum(not patch.get_fill() for patch in patches) == 1


def test_a_long_rollout_shows_what_contributes_most_and_says_what_is_left_out() -> None:
    found = _rollout(5000, 4000)
    shown = list(stretches(found.contributions, found.token))
    inside = np.zeros(5000, dtype=bool)
    for start, stop in shown:
        assert not inside[start:stop].any()
        inside[start:stop] = True
    assert inside.sum() <= 900
    assert inside[4000]
    assert inside[np.argsort(-found.contributions)[:10]].all()
    gaps = [text for text in _texts(rollout_figure(found, "t", "s")) if "left out" in text]
    left_out = sum(int(text.split()[1].replace(",", "")) for text in gaps)
    assert left_out == (~inside).sum()


@pytest.mark.parametrize("count", [4, 40])
def test_a_short_rollout_names_the_columns_of_its_map_by_their_tokens(count: int) -> None:
    found = _rollout(count, 2)
    found.labels[1] = "$a$ long–one$x$"
    figure = rollout_figure(found, "t", "s")
    figure.canvas.draw()
    below = figure.axes[-1].get_xticklabels()
    assert [label.get_text() for label in below] == ["w0", "$a$ long–one$…", *(f"w{i}" for i in range(2, count))]
    boxes = [label.get_window_extent() for label in below]
    assert all(box.y0 >= 0 and box.x1 <= figure.bbox.x1 for box in boxes), "on the page"
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes)), "and apart"
    assert [index for index, label in enumerate(below) if label.get_color() != below[0].get_color()] == [2]


def test_the_map_of_a_longer_rollout_has_positions() -> None:
    figure = rollout_figure(_rollout(41, 2), "t", "s")
    figure.canvas.draw()
    assert all(label.get_text().isdigit() or label.get_text().startswith("−")
               for label in figure.axes[-1].get_xticklabels())  # fmt: skip


def test_one_token_that_outweighs_all_does_not_bleach_the_others() -> None:
    assert scale_top(np.array([0.9, 0.06, 0.04])) == 0.06
    assert scale_top(np.array([0.4, 0.35, 0.25])) == 0.4
    assert scale_top(np.array([1.0])) == 1.0
    table = np.array([[0.9, 0.06, 0.04]] * 2)
    texts = _texts(rollout_figure(Rollout("self", [0], 1, 0.5, table, ["a", "b", "c"]), "t", "s"))
    assert any("off the scale: a with 90.0%" in text for text in texts)


@pytest.mark.parametrize("scores", [True, False])
@pytest.mark.parametrize("facecolor", PAGES)
def test_sinks_show_weight_and_score_apart(facecolor: str, scores: bool) -> None:
    weight = np.tile([0.8, 0.1, 0.0, 0.0], (6, 1))
    score = np.tile([5.0, -1.0, -2.0, 0.0], (6, 1)) if scores else np.full((6, 4), np.nan)
    found = Sinks("self", HEADS, [0, 1, 2, 3], ["<s>", "The", "$x$", "on"], weight, score, np.full((6, 4), 9), "")
    figure = sinks_figure(found, "The first 4 tokens", "a model", facecolor=facecolor)
    texts = _texts(figure)
    assert ("mean score (logit), over heads" in texts) is scores
    assert "mean weight, over heads" in texts
    assert texts.count("0.80") == 2, "two layers with attention; the one between has none"
    assert len(figure.axes[0].lines) == 6, "a dot for each head above the threshold"


@pytest.mark.parametrize("facecolor", PAGES)
def test_similar_heads_are_named_and_stay_on_the_page(facecolor: str) -> None:
    places = np.random.default_rng(1).standard_normal((40, 2))
    names = [f"{index // 8}.{index % 8}" for index in range(40)]
    figure = similar_figure(names, places, np.arange(40) % 14, [f"group {i}" for i in range(14)], "t", "s",
                            facecolor=facecolor)  # fmt: skip
    texts = _texts(figure)
    assert set(names) <= set(texts)
    assert "group 13" in texts
    box = figure.axes[0].get_window_extent()
    assert box.x0 >= 0
    assert figure.bbox.x1 >= box.x1
    inside = figure.axes[0].transData.transform(places)
    assert (inside >= [box.x0, box.y0]).all()
    assert (inside <= [box.x1, box.y1]).all()


def test_distances_are_the_same_both_ways_on_the_page() -> None:
    places = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 1.0]])
    figure = similar_figure(["0.0", "0.1", "0.2"], places, np.zeros(3, dtype=int), ["all"], "t", "s")
    figure.canvas.draw()
    here = figure.axes[0].transData.transform(places)
    assert (here[1] - here[0])[0] == pytest.approx(4 * (here[2] - here[0])[1], rel=1e-6)


def test_of_very_many_heads_some_are_named() -> None:
    places = np.random.default_rng(1).standard_normal((1200, 2))
    names = [str(index) for index in range(1200)]
    figure = similar_figure(names, places, np.zeros(1200, dtype=int), ["all"], "t", "s")
    texts = _texts(figure)
    assert 50 < len(set(names) & set(texts)) < 1200
    missing = 1200 - len(set(names) & set(texts))
    assert any(f"{missing:,} heads stand too close together to be named" in text for text in texts)


@pytest.mark.parametrize("spread", [0.0, 0.02, 0.3, 3.0])
@pytest.mark.parametrize("count", [2, 72, 270])
def test_no_name_of_a_head_stands_over_another_and_none_is_lost(count: int, spread: float) -> None:
    random = np.random.default_rng(2)
    places = random.standard_normal((8, 2))[np.arange(count) % 8] + spread * random.standard_normal((count, 2))
    names = [f"{index // 9}.{index % 9}" for index in range(count)]
    figure = similar_figure(names, places, np.arange(count) % 8, [f"group {i}" for i in range(8)], "t", "s")
    texts = _texts(figure)
    below = " ".join(text for text in texts if text not in names)
    shown = [text for text in figure.axes[0].texts if text.get_text() in names]
    said = {text.get_text() for text in shown} | set(below.replace(",", " ").split())
    lost = count - len(said & set(names))
    assert lost == 0 or f"{lost:,} heads stand too close together" in below
    boxes = np.array([text.get_window_extent().extents for text in shown])
    over = ((boxes[:, None, :2] < boxes[None, :, 2:]) & (boxes[None, :, :2] < boxes[:, None, 2:])).all(-1)
    assert over.sum() == len(shown), "each lies over itself alone"
    page = figure.axes[0].get_window_extent()
    assert (boxes >= [page.x0, page.y0, 0, 0]).all()
    assert (boxes[:, 2:] <= [page.x1, page.y1]).all()


@pytest.mark.parametrize("facecolor", PAGES)
def test_induction_shows_scores_losses_and_drops(facecolor: str) -> None:
    losses = {"the model as it is": np.linspace(9, 1, 16), "without 2 heads": np.linspace(9, 5, 16)}
    drops = [("as it is", 8.0, 0.5, False), ("without 0.1", 6.0, np.nan, False), ("without 1 other", 8.0, 0.4, True)]
    figure = induction_figure(HEADS, np.linspace(0, 1, 6), "Heads that copy", "random tokens", losses=losses,
                              drops=drops, marked=[(0, 1)], facecolor=facecolor)  # fmt: skip
    figure.canvas.draw()
    grid, _, curves, bars = figure.axes
    assert len(grid.patches) == 1
    assert len(curves.lines) == 3
    assert [label.get_text() for label in bars.get_yticklabels()] == [name for name, *_ in drops]
    alone = induction_figure(HEADS, np.linspace(0, 1, 6), "t", "s", facecolor=facecolor)
    alone.canvas.draw()
    assert len(alone.axes) == 2


@pytest.mark.parametrize("facecolor", PAGES)
def test_retrieval_shows_recall_and_the_bar(facecolor: str) -> None:
    recall = np.array([[1.0, 0.5], [0.25, np.nan]])
    figure = retrieval_figure([512, 8192], [0.0, 1.0], recall, HEADS, np.linspace(0, 0.6, 6), "t", "s",
                              facecolor=facecolor)  # fmt: skip
    texts = _texts(figure)
    assert texts.count("1.00") == 1
    assert texts.count("0.25") == 1
    bars = figure.axes[-1]
    assert bars.get_yticklabels()[0].get_text() == "2.2"
    assert bars.lines[0].get_xdata()[0] == 0.1
    assert len({patch.get_facecolor() for patch in bars.patches}) == 2, "heads above the bar stand out"


@pytest.mark.parametrize("make", [
    lambda page: rollout_figure(_rollout(4, 1), "t", "s", facecolor=page),
    lambda page: induction_figure(HEADS, np.zeros(6), "t", "s", facecolor=page),
    lambda page: retrieval_figure([9], [0.0], np.ones((1, 1)), HEADS, np.zeros(6), "t", "s", facecolor=page),
    lambda page: similar_figure(["0.0"], np.zeros((1, 2)), np.zeros(1, int), ["all"], "t", "s", facecolor=page),
])  # fmt: skip
def test_a_page_colour_that_is_none_is_refused(make) -> None:
    make("white").canvas.draw()
    with pytest.raises(InputError, match="a colour that matplotlib knows"):
        make("nocolour")
