from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from heedmap.errors import InputError, RunError, UnsupportedError
from heedmap.heads.sinks import find_sinks

CAUSAL = {"kind": "causal", "offset": 0}
FORMULAS: dict[str, dict[str, Any]] = {
    "full": {},
    "causal": {"mask": CAUSAL, "may": lambda q, k: k <= q},
    "window": {
        "mask": {"kind": "and", "of": [CAUSAL, {"kind": "sliding_window", "size": 3}]},
        "may": lambda q, k: 0 <= q - k < 3,
    },
    "sinks and softcap": {"softcap": 1.5, "sinks": [0.5, -1.0, 3.0, 0.0], "key_heads": 1},
}


def _oracle(layers: list[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """α, mean score and rows of the first four tokens from the dense tables."""
    weights = np.concatenate([layer.weights for layer in layers])[..., :4]
    scores = np.concatenate([layer.scores for layer in layers])[..., :4]
    seen = np.isfinite(scores)
    rows = seen.sum(1)
    return np.where(seen, weights, 0).sum(1) / rows, np.where(seen, scores, 0).sum(1) / rows, rows


@pytest.mark.parametrize("tables", [True, False])
@pytest.mark.parametrize("name", FORMULAS)
def test_weights_and_scores_are_means_over_the_rows_that_may_see(
    dense: ModuleType, tmp_path: Path, name: str, tables: bool
) -> None:
    layers = [dense.make_layer(layer=layer, seed=layer, **FORMULAS[name]) for layer in range(2)]
    run = dense.write_run(tmp_path / "run", *layers)
    if not tables:
        del run.meta["statistics"]["received"]
    weight, score, rows = _oracle(layers)
    found = find_sinks(run)
    np.testing.assert_allclose(found.weight, weight, rtol=0, atol=1e-6)
    np.testing.assert_allclose(found.score, score, rtol=0, atol=1e-5)
    np.testing.assert_array_equal(found.rows, rows)
    assert found.labels == ["[0]", "token1", "token2", "token3"]
    assert found.why_no_score == ""


def test_planted_sinks_are_counted(made: ModuleType, tmp_path: Path) -> None:
    n = 20
    weights = np.array([[made.on(n, 0), made.on(n, 2), made.shifted(n, 1), made.uniform(n)]])
    found = find_sinks(made.make_run(tmp_path / "run", weights))
    np.testing.assert_allclose(found.rate(), [0.25, 0, 0.25, 0])
    assert found.rate_of_any() == 0.5
    np.testing.assert_allclose(found.largest, [1, 1, 2 / n, 1 / n], atol=1e-6)
    assert find_sinks(made.make_run(tmp_path / "other", weights), first=2).rate_of_any() == 0.25
    layers, means = found.by_layer(found.weight)
    assert layers == [0]
    np.testing.assert_allclose(means[0], found.weight.mean(0))


def test_the_first_tokens_are_none_of_padding(dense: ModuleType, tmp_path: Path) -> None:
    valid = np.arange(12) >= 3
    layer = dense.make_layer({"kind": "padding", "valid": [[3, 12]]}, lambda q, k: k >= 3, valid=valid)
    found = find_sinks(dense.write_run(tmp_path / "run", layer), first=2)
    assert found.positions == [3, 4]
    np.testing.assert_array_equal(found.rows, 9)
    np.testing.assert_allclose(found.weight, layer.weights[:, 3:, 3:5].mean(1), atol=1e-6)


def test_weights_remain_where_scores_cannot_be_had(dense: ModuleType, tmp_path: Path) -> None:
    layer = dense.make_layer()
    found = find_sinks(dense.write_run(tmp_path / "run", layer, keep_inputs=False))
    np.testing.assert_allclose(found.weight, layer.weights[..., :4].mean(1), atol=1e-6)
    assert np.isnan(found.score).all()
    assert found.why_no_score == "the run was written without its inputs"


def test_what_cannot_be_told_is_refused(dense: ModuleType, tmp_path: Path) -> None:
    run = dense.write_run(tmp_path / "run", dense.make_layer())
    for first in (0, 13):
        with pytest.raises(InputError, match=f"from 1 to 12 first tokens of this text, got {first}"):
            find_sinks(run, first=first)
    bare = dense.write_run(tmp_path / "bare", dense.make_layer(), keep_inputs=False)
    del bare.meta["statistics"]["received"]
    with pytest.raises(RunError, match="a run with its inputs"):
        find_sinks(bare)
    opaque = dense.write_run(tmp_path / "opaque", dense.make_layer({"kind": "opaque", "why": "its own function"}))
    del opaque.meta["statistics"]["received"]
    with pytest.raises(UnsupportedError, match="its own function"):
        find_sinks(opaque)
    with pytest.raises(InputError, match="which reads another text"):
        find_sinks(dense.write_run(tmp_path / "cross", dense.make_layer(part="cross", cross=True)), part="cross")
