from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from matplotlib import font_manager
from matplotlib.figure import Figure

from heedmap.errors import InputError
from heedmap.figures.fonts import MissingGlyphWarning
from heedmap.figures.grid import head_values, statistics_of
from heedmap.figures.overview import find_head, overview
from heedmap.figures.save import save

LABELS = ["[CLS]", "the", "cat", "sat", "$5", "_x^2$", "[SEP]"]
N = len(LABELS)


def _run(made: ModuleType, path: Path, **options):
    weights = np.array([[made.shifted(N, 1), made.uniform(N)], [made.on(N, 0), made.shifted(N, -1)]])
    return made.make_run(
        path, options.pop("weights", weights), options.pop("labels", LABELS), special=(0, 6), **options
    )


def _texts(figure: Figure) -> list[str]:
    """Every text that the figure will draw."""
    written = [text.get_text() for text in figure.texts]
    for axes in figure.axes:
        written += [text.get_text() for text in axes.texts]
        written += [label.get_text() for label in (*axes.get_xticklabels(), *axes.get_yticklabels())]
    return [text for text in written if text]


def test_the_grid_names_layers_and_heads_and_the_map_its_tokens(made: ModuleType, tmp_path: Path):
    texts = _texts(overview(_run(made, tmp_path / "run"), head="0.1"))
    assert [text for text in texts if text in LABELS] == LABELS * 2
    assert "head 0.1" in texts
    assert any(text.startswith("mean entropy (nats)") for text in texts)
    assert "made   ·   7 tokens   ·   2 layers × 2 heads" in texts


def test_the_line_below_the_title_counts_what_was_measured(made: ModuleType, tmp_path: Path):
    texts = _texts(overview(_run(made, tmp_path / "run", heads=[1])))
    assert "made   ·   7 tokens   ·   2 layers × 1 head of 2" in texts


def test_the_title_cannot_be_turned_around_or_broken(made: ModuleType, tmp_path: Path):
    texts = _texts(overview(_run(made, tmp_path / "run", text="a\u202eb \x1b[31mred\ntwo")))
    assert "ab [31mred two" in texts


@pytest.mark.parametrize("facecolor", ["white", "#14161c"])
@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_it_is_drawn_on_light_and_dark_pages_without_a_warning(
    made: ModuleType, tmp_path: Path, facecolor: str, suffix: str
):
    figure = overview(_run(made, tmp_path / "run"), facecolor=facecolor)
    assert save(figure, tmp_path / f"a.{suffix}").stat().st_size > 5_000


def test_the_grid_holds_the_runs_own_numbers(made: ModuleType, tmp_path: Path):
    run = _run(made, tmp_path / "run")
    grid = overview(run, "max_weight").axes[0].images[0].get_array()
    assert np.asarray(grid) == pytest.approx(np.array([[1, 1 / N], [1, 1]]), abs=1e-6)


def test_the_map_holds_the_heads_own_weights(made: ModuleType, tmp_path: Path):
    run = _run(made, tmp_path / "run")
    axes = next(axes for axes in overview(run, head="0.0").axes if axes.get_xlim() == (0, N))
    assert np.asarray(axes.images[0].get_array()).reshape(N, N) == pytest.approx(made.shifted(N, 1), abs=1e-6)


def test_without_a_choice_the_head_with_the_largest_value_is_drawn(made: ModuleType, tmp_path: Path):
    assert "head 0.1" in _texts(overview(_run(made, tmp_path / "run"), "entropy"))


def test_a_layer_without_attention_is_a_gap_in_the_grid(made: ModuleType, tmp_path: Path):
    grid = overview(_run(made, tmp_path / "run", layers=[1, 3])).axes[0]
    values = np.ma.filled(grid.images[0].get_array(), np.nan)
    assert np.isfinite(values).all(axis=1).tolist() == [True, False, True]
    assert [label.get_text() for label in grid.get_yticklabels()] == ["1", "2", "3"]


def test_heads_that_were_not_measured_are_gaps(made: ModuleType, tmp_path: Path):
    grid = overview(_run(made, tmp_path / "run", heads=[1])).axes[0]
    assert np.isfinite(np.ma.filled(grid.images[0].get_array(), np.nan)).tolist() == [[False, True], [False, True]]


def test_parts_of_a_model_are_told_apart(made: ModuleType, tmp_path: Path):
    run = _run(made, tmp_path / "run", parts=("decoder", "encoder"))
    figure = overview(run, head="encoder.1.0")
    assert "head encoder 1.0" in _texts(figure)
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()][2] == "encoder 0"


def test_a_long_text_is_drawn_in_cells_and_says_so(made: ModuleType, tmp_path: Path):
    n = 300
    run = made.make_run(tmp_path / "run", made.shifted(n, 1)[None, None])
    texts = _texts(overview(run, head="0.0"))
    assert "largest weight in each cell of 2 × 2 tokens, from row to column" in texts
    assert "token7" not in texts


@pytest.mark.parametrize(("tokens", "labelled"), [(60, True), (90, False)])
def test_labels_are_drawn_where_they_fit(made: ModuleType, tmp_path: Path, tokens: int, labelled: bool):
    run = made.make_run(tmp_path / "run", made.uniform(tokens)[None, None])
    assert ("token7" in _texts(overview(run))) == labelled


def test_two_texts_are_parted_by_a_line(made: ModuleType, tmp_path: Path):
    figure = overview(_run(made, tmp_path / "run", segment=[0, 0, 0, 0, 1, 1, 1]))
    lines = [line.get_xydata() for axes in figure.axes if axes.get_xlim() == (0, N) for line in axes.lines]
    assert sorted(float(line[0][1]) for line in lines if line[0][1] == line[1][1]) == [4.0]
    assert sorted(float(line[0][0]) for line in lines if line[0][0] == line[1][0]) == [4.0]


@pytest.mark.parametrize(
    ("shape", "what"), [((1, 1, 1, 1), "one head of one token"), ((40, 32, 2, 2), "a large model")]
)
def test_every_size_of_model_and_text_is_drawn(made: ModuleType, tmp_path: Path, shape: tuple[int, ...], what: str):
    run = made.make_run(tmp_path / "run", np.full(shape, 1 / shape[-1]))
    save(overview(run), tmp_path / "a.png")


def test_text_stays_on_the_page_and_panels_do_not_overlap(made: ModuleType, tmp_path: Path):
    for name, labels in (("short", ["a"] * N), ("long", ["internationalisation"] * N)):
        figure = overview(_run(made, tmp_path / name, labels=labels, text="WORD " * 200), head="0.0")
        figure.canvas.draw()
        page = figure.bbox
        for axes in figure.axes:
            box = axes.get_tightbbox()
            assert box is not None
            assert box.x0 >= page.x0
            assert box.x1 <= page.x1
            assert box.y0 >= page.y0
            assert box.y1 <= page.y1
        for text in figure.texts:
            assert text.get_window_extent().x1 <= page.x1
        grid, beside = figure.axes[0].get_tightbbox(), figure.axes[2].get_tightbbox()
        assert grid.x1 < beside.x0


def test_letters_without_a_font_warn_with_the_remedy_and_are_never_boxes(
    made: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    own = str(Path(font_manager.__file__).parent)
    monkeypatch.setattr(
        font_manager.fontManager, "ttflist", [e for e in font_manager.fontManager.ttflist if e.fname.startswith(own)]
    )
    monkeypatch.setattr(font_manager, "findSystemFonts", list)
    run = _run(made, tmp_path / "run", labels=["[CLS]", "고양이", "cat", "sat", "$5", "_x^2$", "[SEP]"])
    with pytest.warns(MissingGlyphWarning, match=r"고 \(U\+ACE0\).*Remedy: install a font"):
        figure = overview(run)
    texts = _texts(figure)
    assert texts.count("#1") == 2
    assert any("#n: token n, whose letters no installed font has" in text for text in texts)
    save(figure, tmp_path / "a.png")  # matplotlib would warn of a box


def test_letters_that_are_not_drawn_need_no_font(made: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    own = str(Path(font_manager.__file__).parent)
    monkeypatch.setattr(
        font_manager.fontManager, "ttflist", [e for e in font_manager.fontManager.ttflist if e.fname.startswith(own)]
    )
    monkeypatch.setattr(font_manager, "findSystemFonts", list)
    labels = ["고양이"] * 300
    run = made.make_run(tmp_path / "run", made.uniform(300)[None, None], labels, text="cat " * 300 + "고양이")
    overview(run)


def test_both_texts_of_a_pair_are_in_the_title(made: ModuleType, tmp_path: Path):
    run = _run(made, tmp_path / "run", text="the cat", text_pair="the dog")
    assert "the cat + the dog" in _texts(overview(run))
    run.meta["text"]["target_tokens"] = N  # of an encoder–decoder: one text led to the other
    assert "the cat → the dog" in _texts(overview(run))


def test_a_run_without_maps_is_drawn_from_its_inputs(made: ModuleType, tmp_path: Path):
    run = _run(made, tmp_path / "kept", statistics=["entropy"])
    assert "weight from each token (row) to each token (column)" in _texts(overview(run))
    run = _run(made, tmp_path / "left out", statistics=["entropy"], keep_inputs=False)
    with pytest.raises(InputError, match="expected a run with a map of each head"):
        overview(run)


@pytest.mark.parametrize("head", ["0.1", (0, 1), ("self", 0, 1), "self.0.1", "self 0.1"])
def test_a_head_is_named_in_every_usual_way(made: ModuleType, tmp_path: Path, head):
    assert find_head(_run(made, tmp_path / "run"), head) == ("self", 0, 1)


@pytest.mark.parametrize("head", ["9.0", "0.9", "0", "cat", "0.1.2.3", (0,), "cross.0.1"])
def test_a_head_that_is_not_there_is_an_error_that_names_those_that_are(made: ModuleType, tmp_path: Path, head):
    with pytest.raises(InputError, match=r"expected a head of this run as layer\.head, layers 0–1, heads 0–1, got"):
        overview(_run(made, tmp_path / "run"), head=head)


def test_a_head_that_two_parts_have_must_name_its_part(made: ModuleType, tmp_path: Path):
    with pytest.raises(InputError, match=r"2 parts of the model have; name the part: decoder\.0\.1"):
        overview(_run(made, tmp_path / "run", parts=("decoder", "encoder")), head="0.1")


def test_an_unknown_statistic_is_an_error_that_lists_the_known(made: ModuleType, tmp_path: Path):
    with pytest.raises(InputError, match=r"expected a statistic of this run's heads \(.*entropy.*\), got 'entropie'"):
        overview(_run(made, tmp_path / "run"), "entropie")


def test_pictures_need_neither_torch_nor_pyplot():
    code = (
        "import sys, heedmap.figures.overview, heedmap.figures.save, heedmap.heads.telling, heedmap.heads.pairs; "
        "print([m for m in ('torch', 'transformers', 'matplotlib.pyplot') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_each_kind_of_a_statistic_with_several_values_can_colour_the_grid(made: ModuleType, tmp_path: Path):
    marks = [False, True, True, False, False, False, False]
    spans = {"the cat": marks, "rest": [not mark for mark in marks]}
    run = _run(made, tmp_path / "run", statistics="all", spans=spans)
    names = statistics_of(run)
    assert {"span_mass.the cat", "span_mass.rest", "max_score"} <= set(names)
    assert not [name for name in names if name.startswith("rows") or name == "span_mass"]
    values = head_values(run, "span_mass.the cat")
    assert values.table[0, 1] == pytest.approx(2 / N, abs=1e-6)
    assert values.table[1, 0] == pytest.approx(0, abs=1e-6)
    assert values.title == "mean span mass of the cat (weight) by layer ↓ and head →"
    assert head_values(run, "max_score").title.startswith("largest max score (logit)")
    with pytest.raises(InputError, match=r"span_mass\.the cat"):
        overview(run, "span_mass")
