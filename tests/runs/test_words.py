"""Words are tokens taken together as Clark et al. do: columns summed, rows averaged."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pytest

from heedmap.errors import InputError
from heedmap.runs import words as words_module

N = 8
WORDS = [-1, 0, 0, 0, 1, 2, 2, -1]
LABELS = ["[CLS]", "un", "happ", "y", "cats", "sle", "ep", "[SEP]"]


@pytest.fixture(scope="module")
def made() -> ModuleType:
    spec = spec_from_file_location("made_runs", Path(__file__).parents[1] / "made_runs.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def weights() -> np.ndarray:
    return np.random.default_rng(1).dirichlet(np.ones(N), (1, 2, N))


@pytest.fixture
def run(made: ModuleType, weights: np.ndarray, tmp_path: Path):
    text = "unhappy cats sleep"
    places = ([-1, 0, 2, 6, 8, 13, 16, -1], [-1, 2, 6, 7, 12, 16, 18, -1])
    return made.make_run(
        tmp_path / "run", weights, LABELS, words=WORDS, places=places, text=text, special=(0, 7), statistics="all"
    )


def by_hand(weights: np.ndarray) -> np.ndarray:
    groups = [[0], [1, 2, 3], [4], [5, 6], [7]]
    summed = np.stack([weights[:, own].sum(1) for own in groups], axis=1)
    return np.stack([summed[own].mean(0) for own in groups])


def test_words_have_the_text_they_cover_and_special_tokens_stay_by_themselves(run) -> None:
    table = run.words_of().table
    assert table.column("text").to_pylist() == ["[CLS]", "unhappy", "cats", "sleep", "[SEP]"]
    assert table.column("tokens").to_pylist() == [1, 3, 1, 2, 1]
    assert table.column("first").to_pylist() == [0, 1, 4, 5, 7]
    assert table.column("special").to_pylist() == [True, False, False, False, True]
    assert run.words_of().of_token.tolist() == [0, 1, 1, 1, 2, 3, 3, 4]


def test_columns_are_summed_and_rows_averaged(run, weights) -> None:
    found = run.weights(0, 1, level="word")
    np.testing.assert_allclose(found, by_hand(weights[0, 1]), atol=1e-6)
    np.testing.assert_allclose(found.sum(1), 1.0, atol=1e-6)


def test_any_window_of_words_is_that_of_the_whole(run, weights) -> None:
    whole = by_hand(weights[0, 0])
    np.testing.assert_allclose(run.weights(0, 0, [3, 1], slice(2, None), level="word"), whole[[3, 1], 2:], atol=1e-6)
    np.testing.assert_allclose(run.weights(0, 0, -1, 0, level="word"), whole[4:, :1], atol=1e-6)
    with pytest.raises(InputError, match="queries from 0 to 4, got 5"):
        run.weights(0, 0, 5, level="word")


def test_long_texts_go_in_blocks(run, weights, monkeypatch) -> None:
    monkeypatch.setattr("heedmap.runs.words.BLOCK_BYTES", 1)
    np.testing.assert_allclose(run.weights(0, 0, level="word"), by_hand(weights[0, 0]), atol=1e-6)


def test_a_words_values_are_the_means_and_what_it_received_the_sum_of_its_tokens(run) -> None:
    tokens = run.table("query", layer=0, head=1).to_pandas()
    words = run.table("query", level="word", layer=0, head=1).to_pandas()
    assert words["position"].tolist() == [0, 1, 2, 3, 4]
    assert words["entropy"][1] == pytest.approx(tokens["entropy"][1:4].mean(), rel=1e-6)
    assert words["max_score"][3] == pytest.approx(tokens["max_score"][5:7].max())
    assert "argmax" not in words
    assert "row_max" not in words
    key = run.table("key", level="word").to_pandas()
    own = run.table("key").to_pandas()
    assert len(key) == 2 * 5
    received = own[(own["head"] == 1) & own["position"].isin([1, 2, 3])]["received"].sum()
    assert key[(key["head"] == 1) & (key["position"] == 1)]["received"].item() == pytest.approx(received)
    assert run.table("key", level="word", columns=["received"]).column_names == ["received"]


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda run: run.weights(0, 0, level="sentence"), 'level "token" or "word", got \'sentence\''),
        (lambda run: run.table("query", level="words"), 'level "token" or "word"'),
        (lambda run: run.table("head", level="word"), "the query or the key table, got 'head'"),
        (lambda run: run.table("query", level="word", columns=["argmax"]), "a column among part, layer"),
    ],
)
def test_what_has_no_meaning_for_words_is_refused(run, ask, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ask(run)


def test_a_word_without_a_row_is_nan() -> None:
    from heedmap.runs.words import to_words

    found = to_words(np.ones((2, 3)) / 3, np.array([0, 0]), np.array([0, 1, 1]), np.array([0, 2]), np.array([1, 0, 5]))
    np.testing.assert_allclose(found[0], [2 / 3, 1 / 3, 0], atol=1e-6)
    assert np.isnan(found[1]).all()


def test_a_word_that_has_read_nothing_has_no_row_in_weights_as_in_tables(run, weights, monkeypatch) -> None:
    from dataclasses import replace

    info = replace(run.layer(0), query_len=N - 1, key_len=N - 1)  # the last token was generated and has read nothing
    whole = run.weights
    monkeypatch.setattr(type(run), "layer", lambda self, layer, part=None: info)
    monkeypatch.setattr(type(run), "weights", lambda self, layer, head, queries, keys, part: whole(layer, head)[
        np.ix_(queries, keys)])  # fmt: skip
    found = words_module.word_weights(run, "word", 0, 1, None, None, None)
    assert found.shape == (4, 4), "words that have a row"
    np.testing.assert_allclose(found, by_hand(weights[0, 1])[:4, :4], atol=1e-6)
    with pytest.raises(InputError, match="queries from 0 to 3, got 4"):
        words_module.word_weights(run, "word", 0, 1, 4, None, None)


def test_columns_that_a_part_lacks_are_null_at_word_level_too() -> None:
    column = pa.chunked_array([pa.nulls(4, pa.list_(pa.float32(), 3))])
    found = words_module._reduced(column, np.array([0, 0, 1, 2]), np.array([0, 1, 2]), "mean")
    assert found.null_count == 3
    assert found.type == pa.list_(pa.float64(), 3)
    single = words_module._reduced(
        pa.chunked_array([pa.nulls(2, pa.float32())]), np.array([0, 1]), np.array([0, 1]), "max"
    )
    assert single.null_count == 2


def test_only_the_columns_asked_for_are_read(run, monkeypatch) -> None:
    asked: list[list[str]] = []
    table = type(run).table

    def noted(self, name, **given):
        if given.get("level", "token") == "token":
            asked.append(given["columns"])
        return table(self, name, **given)

    monkeypatch.setattr(type(run), "table", noted)
    assert run.table("query", level="word", columns=["entropy", "head"]).column_names == ["entropy", "head"]
    assert asked == [["position", "entropy"]] * 2
