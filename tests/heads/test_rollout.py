from __future__ import annotations

import tracemalloc
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from heedmap.errors import InputError, RunError, UnsupportedError
from heedmap.heads.rollout import rollout

WINDOW = {"kind": "and", "of": [{"kind": "causal", "offset": 0}, {"kind": "sliding_window", "size": 4}]}
CAUSAL = {"kind": "causal", "offset": 0}
FORMULAS: dict[str, dict[str, Any]] = {
    "full": {},
    "causal": {"mask": CAUSAL, "may": lambda q, k: k <= q},
    "window": {"mask": WINDOW, "may": lambda q, k: 0 <= q - k < 4},
    "softcap": {"softcap": 1.5},
    "sinks": {"mask": CAUSAL, "may": lambda q, k: k <= q, "sinks": [0.5, -1.0, 3.0, 0.0]},
    "one key head": {"key_heads": 1, "dtype": "bf16"},
    "steep": {"offset": 60.0, "scale": 3.0},
}


def _layers(dense: ModuleType, formula: dict[str, Any], count: int = 3, **more: Any) -> list[Any]:
    return [dense.make_layer(layer=layer, seed=layer, **(formula | more)) for layer in range(count)]


def _meta(dense: ModuleType, layers: int) -> dict[str, Any]:
    return dense.META | {"model": dense.META["model"] | {"layers": layers}}


def _oracle(layers: list[Any], residual: float) -> list[np.ndarray]:
    """The dense product, as published."""
    count = layers[0].weights.shape[1]
    through, found = np.eye(count), [np.eye(count)]
    for layer in layers:
        mixed = residual * np.eye(count) + (1 - residual) * np.nan_to_num(layer.weights).mean(0)
        through = mixed / mixed.sum(1, keepdims=True) @ through
        found.append(through)
    return found


@pytest.mark.parametrize("residual", [0.5, 0.0, 0.9])
@pytest.mark.parametrize("name", FORMULAS)
def test_it_is_the_row_of_the_dense_product(dense: ModuleType, tmp_path: Path, name: str, residual: float) -> None:
    layers = _layers(dense, FORMULAS[name])
    run = dense.write_run(tmp_path / "run", *layers, meta=_meta(dense, 3))
    wanted = _oracle(layers, residual)
    for token in (0, 5, 11, -1):
        found = rollout(run, token, residual=residual)
        for depth, table in enumerate(wanted):
            np.testing.assert_allclose(found.by_depth[depth], table[token], rtol=0, atol=1e-6)
        np.testing.assert_allclose(found.by_depth.sum(1), 1, atol=1e-6)
    assert found.token == 11
    assert found.layers == [0, 1, 2]


def test_many_strips_give_what_one_gives(dense: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = dense.write_run(tmp_path / "run", *_layers(dense, FORMULAS["causal"]), meta=_meta(dense, 3))
    whole = rollout(run, 11).by_depth
    monkeypatch.setattr("heedmap.heads.strips.STRIP", 12)  # a row at a time
    np.testing.assert_allclose(rollout(run, 11).by_depth, whole, rtol=0, atol=1e-12)


def test_a_causal_token_gets_nothing_from_later_ones(dense: ModuleType, tmp_path: Path) -> None:
    run = dense.write_run(tmp_path / "run", *_layers(dense, FORMULAS["causal"]), meta=_meta(dense, 3))
    found = rollout(run, 6)
    assert not found.contributions[7:].any()
    assert (found.contributions[:7] > 0).all()


def test_planted_paths_are_found(made: ModuleType, tmp_path: Path) -> None:
    """Every token reads the one before it, in two layers: a binomial over two steps."""
    weights = np.array([[made.shifted(8, 1)]] * 2)
    found = rollout(made.make_run(tmp_path / "run", weights), 5)
    np.testing.assert_allclose(found.contributions[3:6], [0.25, 0.5, 0.25], atol=1e-6)
    alone = rollout(made.make_run(tmp_path / "other", weights), 5, residual=0.0)
    np.testing.assert_allclose(alone.contributions[3], 1, atol=1e-6)


def test_padding_passes_nothing_on(dense: ModuleType, tmp_path: Path) -> None:
    valid = np.ones(12, dtype=bool)
    valid[9:] = False
    padding = {"kind": "padding", "valid": [[0, 9]]}
    layers = _layers(dense, {"mask": padding, "may": lambda q, k: k < 9, "valid": valid})
    run = dense.write_run(tmp_path / "run", *layers, meta=_meta(dense, 3))
    found = rollout(run, 4)
    np.testing.assert_allclose(found.contributions, _oracle(layers, 0.5)[-1][4], rtol=0, atol=1e-6)
    assert not found.contributions[9:].any()


def test_words_get_the_sum_of_their_tokens(made: ModuleType, tmp_path: Path) -> None:
    run = made.make_run(tmp_path / "run", np.array([[made.uniform(4)]] * 2), words=[-1, 0, 0, 1])
    found = rollout(run, 2)
    words = run.words_of()
    by_word = found.by_word(words.of_token, words.table.column("text").to_pylist())
    np.testing.assert_allclose(
        by_word.contributions, [found.contributions[0], found.contributions[1:3].sum(), found.contributions[3]]
    )
    assert by_word.token == 1


def test_memory_grows_with_the_length_alone(long_run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedmap.heads.strips.STRIP", 2**14)
    monkeypatch.setattr("heedmap.runs.formula.BLOCK_BYTES", 2**17)
    peaks = []
    for count in (512, 2048):
        run = long_run(tmp_path / str(count), count)
        tracemalloc.start()
        rollout(run, count - 1)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 5 * peaks[0]
    assert peaks[1] < 2048 * 2048 * 8 / 4


def test_what_cannot_be_told_is_refused(dense: ModuleType, tmp_path: Path) -> None:
    layers = _layers(dense, {})
    run = dense.write_run(tmp_path / "run", *layers, meta=_meta(dense, 3))
    for token in (12, -13):
        with pytest.raises(InputError, match=f"a token from 0 to 11, got {token}"):
            rollout(run, token)
    for share in (1.0, -0.1, float("nan")):
        with pytest.raises(InputError, match="a residual share from 0 to below 1"):
            rollout(run, 3, residual=share)
    with pytest.raises(InputError, match="a part among self, got 'decoder', which is not there"):
        rollout(run, 3, part="decoder")
    bare = dense.write_run(tmp_path / "bare", *layers, meta=_meta(dense, 3), keep_inputs=False)
    with pytest.raises(RunError, match="a run with its inputs"):
        rollout(bare, 3)
    few = dense.write_run(tmp_path / "few", *layers[1:], meta=_meta(dense, 3))
    with pytest.raises(InputError, match="a run of all 3 layers, got one without attention of layer 0"):
        rollout(few, 3)
    some = dense.write_run(tmp_path / "some", *_layers(dense, {"heads": [0, 2]}), meta=_meta(dense, 3))
    with pytest.raises(InputError, match="all 4 heads of layer 0, got 2"):
        rollout(some, 3)
    opaque = _layers(dense, {"mask": {"kind": "opaque", "why": "the mask is the user's own function"}})
    with pytest.raises(UnsupportedError, match="the user's own function"):
        rollout(dense.write_run(tmp_path / "opaque", *opaque, meta=_meta(dense, 3)), 3)
    cross = dense.make_layer(part="cross", cross=True)
    both = dense.write_run(tmp_path / "both", *layers, cross, meta=_meta(dense, 3))
    with pytest.raises(InputError, match="whose tokens read another text too"):
        rollout(both, 3)
