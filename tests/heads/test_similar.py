from __future__ import annotations

import math
import sys
import tracemalloc
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from heedmap.errors import InputError, RunError, UnsupportedError
from heedmap.heads.similar import distances, embed, group, silhouette

CAUSAL = {"kind": "causal", "offset": 0}
FORMULAS: dict[str, dict[str, Any]] = {
    "full": {},
    "causal": {"mask": CAUSAL, "may": lambda q, k: k <= q},
    "sinks": {"mask": CAUSAL, "may": lambda q, k: k <= q, "sinks": [0.5, -1.0, 3.0, 0.0]},
    "softcap": {"softcap": 1.5, "key_heads": 1},
}


def _entropy(weights: np.ndarray) -> np.ndarray:
    return -np.where(weights > 0, weights * np.log(np.where(weights > 0, weights, 1)), 0).sum(-1)


def _oracle(layers: list[Any]) -> np.ndarray:
    """Every two heads, from their dense weights; a sink is one more column."""
    tables = np.concatenate([layer.weights for layer in layers])
    tables = np.concatenate([tables, 1 - tables.sum(-1, keepdims=True).clip(0, 1)], -1)
    return np.array(
        [[(_entropy((a + b) / 2) - (_entropy(a) + _entropy(b)) / 2).mean() for a in tables] for b in tables]
    )


@pytest.mark.parametrize("name", FORMULAS)
def test_distances_are_those_of_the_dense_weights(dense: ModuleType, tmp_path: Path, name: str, monkeypatch) -> None:
    layers = [dense.make_layer(layer=layer, seed=layer, **FORMULAS[name]) for layer in range(2)]
    run = dense.write_run(tmp_path / "run", *layers)
    found = distances(run)
    np.testing.assert_allclose(found.matrix, _oracle(layers), rtol=0, atol=1e-6)
    assert found.heads == [("self", layer, head) for layer in range(2) for head in range(4)]
    assert (found.rows, found.of_rows) == (12, 12)
    assert not np.diag(found.matrix).any()
    assert found.matrix.max() <= math.log(2)
    monkeypatch.setattr("heedmap.heads.similar._WEIGHTS", 40)  # one row and five keys at a time
    np.testing.assert_allclose(distances(run).matrix, found.matrix, rtol=0, atol=1e-12)


def test_heads_that_see_nothing_in_common_are_ln_2_apart(made: ModuleType, tmp_path: Path) -> None:
    weights = np.array([[made.on(6, 1), made.on(6, 2), made.on(6, 1), (made.on(6, 1) + made.on(6, 2)) / 2]])
    found = distances(made.make_run(tmp_path / "run", weights)).matrix
    half = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25)) - math.log(2) / 2
    wanted = np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]) * math.log(2)
    wanted[3, :3] = wanted[:3, 3] = half
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_rows_of_padding_are_left_out(dense: ModuleType, tmp_path: Path) -> None:
    valid = np.ones(12, dtype=bool)
    valid[9:] = False
    layer = dense.make_layer({"kind": "padding", "valid": [[0, 9]]}, lambda q, k: k < 9, valid=valid)
    found = distances(dense.write_run(tmp_path / "run", layer))
    assert (found.rows, found.of_rows) == (9, 12)
    kept = type(layer)(**{**layer.__dict__, "weights": layer.weights[:, :9]})
    np.testing.assert_allclose(found.matrix, _oracle([kept]), rtol=0, atol=1e-6)


def test_some_rows_are_spaced_evenly(dense: ModuleType, tmp_path: Path) -> None:
    layer = dense.make_layer()
    found = distances(dense.write_run(tmp_path / "run", layer), rows=3)
    kept = type(layer)(**{**layer.__dict__, "weights": layer.weights[:, [0, 5, 11]]})
    np.testing.assert_allclose(found.matrix, _oracle([kept]), rtol=0, atol=1e-6)
    assert (found.rows, found.of_rows) == (3, 12)


def test_memory_does_not_grow_with_the_square_of_the_length(long_run, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("heedmap.heads.similar._WEIGHTS", 2**14)
    monkeypatch.setattr("heedmap.runs.formula.BLOCK_BYTES", 2**17)
    peaks = []
    for count in (512, 2048):
        run = long_run(tmp_path / str(count), count)
        tracemalloc.start()
        distances(run, rows=64)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 5 * peaks[0]
    assert peaks[1] < 2048 * 2048 * 8 / 4


def test_the_plane_keeps_the_distances_of_a_plane() -> None:
    points = np.random.default_rng(0).standard_normal((20, 2))
    squared = ((points[:, None] - points[None]) ** 2).sum(-1)
    places, share = embed(squared)
    np.testing.assert_allclose(((places[:, None] - places[None]) ** 2).sum(-1), squared, atol=1e-9)
    assert share == pytest.approx(1)
    np.testing.assert_array_equal(embed(squared)[0], places)


def test_divergences_embed_without_loss(dense: ModuleType, tmp_path: Path) -> None:
    """√JS is Hilbertian: no eigenvalue is negative."""
    layers = [dense.make_layer(layer=layer, seed=layer) for layer in range(2)]
    matrix = distances(dense.write_run(tmp_path / "run", *layers)).matrix
    centre = np.eye(8) - 1 / 8
    assert np.linalg.eigvalsh(-0.5 * centre @ matrix @ centre).min() > -1e-9


def test_heads_that_are_the_same_stand_in_one_place() -> None:
    places, share = embed(np.zeros((3, 3)))
    assert not places.any()
    assert share == 1


def test_planted_groups_are_found_and_the_largest_comes_first(made: ModuleType, tmp_path: Path) -> None:
    random, n = np.random.default_rng(1), 10
    kinds = [made.on(n, 3)] * 2 + [made.shifted(n, 1)] * 4 + [made.uniform(n)] * 3
    weights = np.array([[0.9 * kind + 0.1 * random.dirichlet(np.ones(n), n) for kind in kinds]])
    found = distances(made.make_run(tmp_path / "run", weights))
    of, score = group(found.matrix)
    assert of.tolist() == [2, 2, 0, 0, 0, 0, 1, 1, 1]
    assert 0.5 < score <= 1
    assert len(np.unique(group(found.matrix, 2)[0])) == 2
    assert group(found.matrix, 1) == (pytest.approx(np.zeros(9)), 0.0)


def test_the_silhouette_is_the_textbooks() -> None:
    apart = np.array([[0, 1, 4, 5], [1, 0, 3, 5], [4, 3, 0, 2], [5, 5, 2, 0]], dtype=float)
    wanted = np.mean([(4.5 - 1) / 4.5, (4 - 1) / 4, (3.5 - 2) / 3.5, (5 - 2) / 5])
    assert silhouette(apart, np.array([0, 0, 1, 1])) == pytest.approx(wanted)
    assert silhouette(apart, np.array([0, 0, 0, 0])) == 0
    with_one_alone = np.mean([(5 - 2.5) / 5, (5 - 2) / 5, (2 - 3.5) / 3.5, 0])
    assert silhouette(apart, np.array([0, 0, 0, 1])) == pytest.approx(with_one_alone)


def test_what_cannot_be_compared_is_refused(dense: ModuleType, tmp_path: Path, monkeypatch) -> None:
    run = dense.write_run(tmp_path / "run", dense.make_layer())
    for number in (0, -2):
        with pytest.raises(InputError, match="one row or more"):
            distances(run, rows=number)
    with pytest.raises(InputError, match="from 1 to 4 groups, got 5"):
        group(distances(run).matrix, 5)
    with pytest.raises(InputError, match="two heads or more, got one"):
        distances(dense.write_run(tmp_path / "one", dense.make_layer(heads=[1])))
    with pytest.raises(RunError, match="a run with its inputs"):
        distances(dense.write_run(tmp_path / "bare", dense.make_layer(), keep_inputs=False))
    parts = [dense.make_layer(part=part) for part in ("encoder", "decoder")]
    with pytest.raises(InputError, match="got encoder, decoder; name one with --part"):
        distances(dense.write_run(tmp_path / "parts", *parts))
    assert distances(dense.write_run(tmp_path / "parts2", *parts), part="decoder").part == "decoder"
    monkeypatch.setitem(sys.modules, "scipy.cluster", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'heedmap\[similar\]'"):
        group(distances(run).matrix)
