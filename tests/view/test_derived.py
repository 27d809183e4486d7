from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import numpy as np
from safetensors.numpy import load

from heedmap.runs.reader import Run
from heedmap.view.derived import _shrunk, heads, thumbnails


def test_thumbnails_give_back_the_maps_within_a_step(run: Run) -> None:
    tensors = load(thumbnails(run))
    for layer in (0, 1):
        for head in (0, 1):
            top = tensors[f"self.{layer}.top"][head]
            shown = top * (tensors[f"self.{layer}"][head] / 255.0) ** 2
            np.testing.assert_allclose(shown, run.map(layer, head), atol=top * 2 / 255)


def test_a_larger_map_shrinks_to_means_weighted_by_area() -> None:
    rng = np.random.default_rng(1)
    mean, area = rng.random((100, 130)), rng.integers(1, 5, (100, 130))
    mean[7] = np.nan
    small = _shrunk(mean, area)
    assert small.shape == (64, 64)
    first_rows, first_keys = slice(0, 2), slice(0, 3)  # 100 = 36 × 2 + 28, 130 = 2 × 3 + 62 × 2
    block, weight = mean[first_rows, first_keys], area[first_rows, first_keys]
    assert np.isclose(small[0, 0], (block * weight).sum() / weight.sum())
    total = np.nansum(np.where(np.isnan(mean), 0, mean * area))
    weights = np.where(np.isnan(mean), 0, area)
    rows = [np.array_split(np.arange(100), 64), np.array_split(np.arange(130), 64)]
    counts = np.array([[weights[np.ix_(r, k)].sum() for k in rows[1]] for r in rows[0]])
    assert np.isclose((small * counts).sum(), total)


def test_a_run_without_maps_has_no_thumbnails(made: ModuleType, tmp_path: Path) -> None:
    run = made.make_run(tmp_path / "bare", made.uniform(3)[None, None], statistics=["entropy"])
    assert load(thumbnails(run)) == {}


def test_heads_tell_what_each_does_in_plain_json(run: Run) -> None:
    told = json.loads(heads(run))
    order = run.heads
    assert told["scores"]["previous"][order.index(("self", 0, 1))] == 1.0
    assert told["scores"]["next"][order.index(("self", 1, 1))] == 1.0
    assert tuple(told["show"]) in order
