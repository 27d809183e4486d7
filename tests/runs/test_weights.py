"""Any window of any matrix equals the dense table, for every mask that a run can describe and every term it keeps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from heedmap.errors import InputError, RunError, UnsupportedError
from heedmap.runs import formula
from heedmap.runs.reader import open_run

CAUSAL = {"kind": "causal", "offset": 0}
WINDOW = {"kind": "sliding_window", "size": 5, "both_sides": False}
PADDING = {"kind": "padding", "valid": [[0, 4], [6, 21]]}
PACKED = {"kind": "packed", "documents": [[0, 9, 0], [9, 15, 7], [15, 20, 0], [20, 23, -1]]}


def _document(position: int) -> int:
    return 0 if position < 9 or 15 <= position < 20 else 7 if position < 15 else -1


def _real(key: int) -> bool:
    return key < 4 or 6 <= key < 21


MASKS: dict[str, tuple[dict[str, Any], Callable[[int, int], bool]]] = {
    "all": ({"kind": "all"}, lambda q, k: True),
    "causal": (CAUSAL, lambda q, k: k <= q),
    "causal with offset": ({"kind": "causal", "offset": -2}, lambda q, k: k <= q - 2),
    "window": (WINDOW, lambda q, k: 0 <= q - k < 5),
    "window on both sides": (WINDOW | {"both_sides": True}, lambda q, k: abs(q - k) <= 5),
    "chunked": ({"kind": "chunked", "size": 6}, lambda q, k: q // 6 == k // 6),
    "chunked from a start": ({"kind": "chunked", "size": 6, "start": 4}, lambda q, k: (q - 4) // 6 == (k - 4) // 6),
    "prefix": ({"kind": "prefix", "length": 7}, lambda q, k: k < 7),
    "padding": (PADDING, lambda q, k: _real(k)),
    "padding of all": ({"kind": "padding", "valid": []}, lambda q, k: False),
    "packed": (PACKED, lambda q, k: _document(q) == _document(k)),
    "causal and padding": ({"kind": "and", "of": [CAUSAL, PADDING]}, lambda q, k: k <= q and _real(k)),
    "causal or prefix": ({"kind": "or", "of": [CAUSAL, {"kind": "prefix", "length": 7}]}, lambda q, k: k <= q or k < 7),
    "and within or": (
        {"kind": "or", "of": [{"kind": "and", "of": [CAUSAL, WINDOW, PACKED]}, {"kind": "prefix", "length": 2}]},
        lambda q, k: (0 <= q - k < 5 and _document(q) == _document(k)) or k < 2,
    ),
}


@pytest.mark.parametrize("name", MASKS)
def test_windows_equal_the_dense_table_under_every_mask(name: str, dense: ModuleType, tmp_path: Path) -> None:
    mask, may = MASKS[name]
    layer = dense.make_layer(mask, may, query_len=23, key_len=23, query_heads=3, key_heads=3)
    run = open_run(dense.write_run(tmp_path / "run", layer).path)
    for head in range(3):
        np.testing.assert_allclose(run.weights(0, head), layer.weights[head], atol=1e-6)
        np.testing.assert_allclose(run.scores(0, head), layer.scores[head], rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(run.raw_scores(0, head), layer.raw[head], rtol=1e-6, atol=1e-6)
    window = run.weights(0, 2, queries=slice(11, 17), keys=slice(3, 16))
    np.testing.assert_allclose(window, layer.weights[2, 11:17, 3:16], atol=1e-6)


TERMS: dict[str, dict[str, Any]] = {
    "softcap": {"softcap": 1.5},
    "sinks": {"sinks": [0.5, -np.inf, 80.0, -2e4]},
    "huge sinks": {"sinks": [1e5, 3e38, -3e38, 1000.0]},
    "softcap and sinks": {"softcap": 3.0, "sinks": [0.5, 1.0, 2.0, 3.0]},
    "scale": {"scale": 0.7},
    "no grouping": {"key_heads": 4},
    "one key head": {"key_heads": 1},
    "odd sizes": {"query_heads": 3, "key_heads": 1, "head_dim": 5, "query_len": 9, "key_len": 13, "query_offset": 4},
    "bfloat16": {"dtype": "bf16"},
    "bfloat16 with odd bytes": {"dtype": "bf16", "query_heads": 1, "key_heads": 1, "head_dim": 7, "query_len": 11},
    "float16": {"dtype": "float16"},
    "float64": {"dtype": "float64"},
    "float64 far from zero": {"dtype": "float64", "offset": 1000.3},
    "float64 far below zero": {"dtype": "float64", "offset": -1000.3},
}


@pytest.mark.parametrize("name", TERMS)
def test_windows_equal_the_dense_table_with_every_term(name: str, dense: ModuleType, tmp_path: Path) -> None:
    layer = dense.make_layer(CAUSAL, lambda q, k: k <= q, **({"offset": 0.0} | TERMS[name]))
    run = dense.write_run(tmp_path / "run", layer)
    for head in layer.entry["heads"]:
        np.testing.assert_allclose(run.weights(0, head), layer.weights[head], atol=1e-6)
        np.testing.assert_allclose(run.scores(0, head), layer.scores[head], rtol=1e-6, atol=1e-6)
        assert run.weights(0, head).dtype == np.float32


@pytest.mark.parametrize("offset", [-1000.0, 1000.0])
def test_scores_far_from_zero_stay_within_twice_the_plain_error(
    offset: float, dense: ModuleType, tmp_path: Path
) -> None:
    layer = dense.make_layer(offset=offset)
    scores = (np.einsum("hqd,hkd->hqk", layer.query, np.repeat(layer.key, 2, 0)) * np.float32(8**-0.5)).astype(
        np.float32
    )
    plain = np.exp(scores - scores.max(-1, keepdims=True))
    plain /= plain.sum(-1, keepdims=True)
    budget = max(1e-5, 2 * np.abs(plain - layer.weights).max())
    run = dense.write_run(tmp_path / "run", layer)
    assert np.abs(run.weights(0, 1) - layer.weights[1]).max() <= budget


def test_large_windows_are_computed_block_by_block(
    dense: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = dense.make_layer(CAUSAL, lambda q, k: k <= q, query_len=40, key_len=40)
    run = dense.write_run(tmp_path / "run", layer)
    whole = run.weights(0, 1)
    monkeypatch.setattr(formula, "BLOCK_BYTES", 7 * 40 * 8)
    np.testing.assert_allclose(run.weights(0, 1), whole, rtol=1e-6)


def test_rows_that_may_attend_to_nothing_are_zero_and_padding_is_nan(dense: ModuleType, tmp_path: Path) -> None:
    valid = np.arange(12) != 5
    layer = dense.make_layer({"kind": "causal", "offset": -3}, lambda q, k: k <= q - 3, valid=valid)
    run = dense.write_run(tmp_path / "run", layer)
    weights = run.weights(0, 0)
    assert (weights[:3] == 0).all()
    assert np.isneginf(run.scores(0, 0)[:3]).all()
    for values in (weights, run.scores(0, 0), run.raw_scores(0, 0)):
        assert np.isnan(values[5]).all()
        assert not np.isnan(np.delete(values, 5, 0)).any()


def test_what_is_hidden_reaches_nothing(dense: ModuleType, tmp_path: Path) -> None:
    layer = dense.make_layer({"kind": "padding", "valid": [[0, 10]]}, lambda q, k: k < 10)
    layer.key[:, 10] = np.nan
    layer.key[:, 11] = np.inf
    run = dense.write_run(tmp_path / "run", layer)
    np.testing.assert_allclose(run.weights(0, 2), layer.weights[2], atol=1e-6)
    np.testing.assert_allclose(run.scores(0, 2), layer.scores[2], rtol=1e-6, atol=1e-6)


SELECTIONS: dict[str, tuple[Any, Any]] = {
    "all": (None, slice(None)),
    "an integer": (3, [3]),
    "the last": (-1, [-1]),
    "a NumPy integer": (np.int64(4), [4]),
    "a slice": (slice(2, 5), slice(2, 5)),
    "an open slice": (slice(-3, None), slice(-3, None)),
    "a slice beyond the end": (slice(9, 50), slice(9, 50)),
    "a slice with a step": (slice(10, 2, -3), slice(10, 2, -3)),
    "a range": (range(1, 9, 2), [1, 3, 5, 7]),
    "a list": ([7, 0, 7], [7, 0, 7]),
    "an array": (np.array([5, -2]), [5, -2]),
    "booleans": (np.arange(12) % 5 == 0, [0, 5, 10]),
    "nothing": ([], []),
}


@pytest.mark.parametrize("name", SELECTIONS)
def test_positions_are_chosen_as_in_numpy(name: str, dense: ModuleType, tmp_path: Path) -> None:
    asked, same = SELECTIONS[name]
    layer = dense.make_layer()
    run = dense.write_run(tmp_path / "run", layer)
    same = np.array(same, int) if isinstance(same, list) else same
    np.testing.assert_allclose(run.weights(0, 1, queries=asked), layer.weights[1][same], atol=1e-6)
    np.testing.assert_allclose(run.weights(0, 1, 2, asked), layer.weights[1][2:3][:, same], atol=1e-6)


def test_positions_are_positions_in_the_text(dense: ModuleType, tmp_path: Path) -> None:
    layer = dense.make_layer(
        CAUSAL, lambda q, k: k <= q, query_len=3, key_len=9, query_offset=26, key_offset=20, seed=5
    )
    run = dense.write_run(tmp_path / "run", layer)
    np.testing.assert_allclose(run.weights(0, 0, 27, slice(22, 25)), layer.weights[0, 1:2, 2:5], atol=1e-6)
    np.testing.assert_allclose(run.weights(0, 0, [-1], slice(None, 23)), layer.weights[0, 2:, :3], atol=1e-6)
    np.testing.assert_allclose(run.weights(0, 0, slice(26, 29, 2)), layer.weights[0, ::2], atol=1e-6)
    assert run.table("query", layer=0, head=0).column("position").to_pylist() == [26, 27, 28]
    assert run.table("key", layer=0, head=0).column("position").to_pylist() == list(range(20, 29))
    with pytest.raises(InputError, match="expected queries from 26 to 28, got 25"):
        run.weights(0, 0, 25)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (12, "expected keys from 0 to 11, got 12"),
        (-13, "expected keys from 0 to 11, got -13"),
        ([1, 99], "expected keys from 0 to 11, got 99"),
        (range(10, 14), "expected keys from 0 to 11, got 12"),
        (1.5, "expected keys as an integer, a slice, a range or a list of integers, got 1.5"),
        ("a", "expected keys as an integer, a slice, a range or a list of integers, got 'a'"),
        (True, "expected keys as positions, got True"),
        ([[1]], "expected keys as an integer"),
        (np.ones(5, bool), "expected one boolean for each of 12 keys, got [5]"),
        (slice(0, 5, 0), "expected keys as a slice of integers"),
        (slice(0.5, 2), "expected keys as a slice of integers"),
    ],
)
def test_positions_that_are_none_are_refused(asked: Any, message: str, dense: ModuleType, tmp_path: Path) -> None:
    run = dense.write_run(tmp_path / "run", dense.make_layer())
    with pytest.raises(InputError) as caught:
        run.weights(0, 0, keys=asked)
    assert message in str(caught.value)


def test_without_inputs_weights_say_how_to_get_them(dense: ModuleType, tmp_path: Path) -> None:
    run = dense.write_run(tmp_path / "run", dense.make_layer(), keep_inputs=False)
    for call in (run.weights, run.scores, run.raw_scores):
        with pytest.raises(RunError, match="look at the text again without --no-inputs"):
            call(0, 0)


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"mask": {"kind": "opaque", "why": "a tensor given by the caller"}}, "a tensor given by the caller"),
        ({"mask": {"kind": "and", "of": [CAUSAL, {"kind": "opaque", "why": "a function"}]}}, "got a function"),
        ({"mask": {"kind": "spiral", "turns": 3}}, "the mask kind 'spiral' is unknown to this heedmap"),
        ({"requires": ["position_bias"]}, "the formula has position_bias, which this heedmap does not know"),
    ],
)
def test_a_formula_that_is_not_described_turns_windows_off(
    entry: dict[str, Any], why: str, dense: ModuleType, tmp_path: Path
) -> None:
    layer = dense.make_layer()
    run = dense.write_run(tmp_path / "run", type(layer)(**(vars(layer) | {"entry": layer.entry | entry})))
    for call in (run.weights, run.scores):
        with pytest.raises(UnsupportedError) as caught:
            call(0, 0)
        assert why in str(caught.value)
    np.testing.assert_allclose(run.raw_scores(0, 1), layer.raw[1], rtol=1e-6, atol=1e-6)
    assert run.map(0, 0).shape == (5, 5)


def test_a_part_is_found_without_a_name_where_there_is_no_doubt(dense: ModuleType, tmp_path: Path) -> None:
    layers = [dense.make_layer(part=part, seed=seed) for seed, part in enumerate(("encoder", "self", "cross"))]
    run = dense.write_run(tmp_path / "three", *layers)
    np.testing.assert_allclose(run.weights(0, 0), layers[1].weights[0], atol=1e-6)
    np.testing.assert_allclose(run.weights(0, 0, part="cross"), layers[2].weights[0], atol=1e-6)
    run = dense.write_run(tmp_path / "two", layers[0], layers[2])
    with pytest.raises(InputError, match="a part among encoder, cross, got none; give part="):
        run.weights(0, 0)
    run = dense.write_run(tmp_path / "one", layers[2])
    np.testing.assert_allclose(run.weights(0, 0), layers[2].weights[0], atol=1e-6)
