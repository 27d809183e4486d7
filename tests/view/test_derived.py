from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import numpy as np
from safetensors.numpy import load

from heedmap.runs.reader import Run
from heedmap.view.derived import _shrunk, heads, thumbnails, types


def test_thumbnails_give_back_the_maps_within_a_step(run: Run) -> None:
    tensors = load(thumbnails(run))
    for layer in (0, 1):
        for head in (0, 1):
            top = tensors[f"self.{layer}.top"][head]
            shown = top * (tensors[f"self.{layer}"][head] / 255.0) ** 2
            np.testing.assert_allclose(shown, run.map(layer, head), atol=top * 2 / 255)


def test_a_larger_map_shrinks_to_means_over_equal_stretches() -> None:
    """Against the weights themselves, where the new cells' edges are edges of the map's cells."""
    rng = np.random.default_rng(1)
    weights = rng.random((128, 320))
    rows = [np.arange(128)[i : i + 1] for i in range(128)]
    keys = np.array_split(np.arange(320), 256)  # the first 64 hold two keys
    mean = np.array([[weights[np.ix_(r, k)].mean() for k in keys] for r in rows])
    area = np.array([[len(r) * len(k) for k in keys] for r in rows])
    small = _shrunk(mean, area, (128, 320))
    assert small.shape == (64, 64)
    np.testing.assert_allclose(small[:, :25], weights.reshape(64, 2, 64, 5).mean(axis=(1, 3))[:, :25], atol=0.12)
    np.testing.assert_allclose(small[:, 26:], weights.reshape(64, 2, 64, 5).mean(axis=(1, 3))[:, 26:], atol=1e-12)


def test_a_diagonal_stays_straight() -> None:
    n = 300  # the run's first 44 cells hold two tokens, the others one
    sizes = np.array([len(part) for part in np.array_split(np.arange(n), 256)])
    small = _shrunk(np.diag(1.0 / sizes), np.outer(sizes, sizes), (n, n))
    assert (small.argmax(axis=1) == np.arange(64)).all()


def test_rows_that_were_left_out_count_for_nothing() -> None:
    mean = np.full((4, 4), 0.25)
    mean[0] = np.nan
    area = np.ones((4, 4))
    area[0] = 0
    assert _shrunk(mean, area, (4, 4)).tolist() == [[0.0] * 4, *[[0.25] * 4] * 3]


def test_a_run_without_maps_has_no_thumbnails(made: ModuleType, tmp_path: Path) -> None:
    run = made.make_run(tmp_path / "bare", made.uniform(3)[None, None], statistics=["entropy"])
    assert load(thumbnails(run)) == {}


def test_heads_tell_what_each_does_in_plain_json(run: Run) -> None:
    told = json.loads(heads(run))
    order = run.heads
    assert told["scores"]["previous"][order.index(("self", 0, 1))] == 1.0
    assert told["scores"]["next"][order.index(("self", 1, 1))] == 1.0
    assert tuple(told["show"]) in order


def test_types_are_those_of_the_heads_room(run: Run) -> None:
    told = json.loads(types(run))
    order = run.heads
    assert told["types"][order.index(("self", 0, 1))][0] == "previous"
    assert "first" in told["types"][order.index(("self", 1, 0))]
    assert told["says"]["previous"] == "the token before"
    assert len(told["types"]) == len(order)
    assert all(len(values) == len(order) for values in told["values"].values())
