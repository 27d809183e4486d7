"""Pooled profiles hold what the tables hold, bin by bin."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from safetensors.numpy import load

from heedmap.runs.reader import Run
from heedmap.view.profiles import BINS, profiles

TOKENS = 600


@pytest.fixture(scope="module")
def long(made: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Run:
    rng = np.random.default_rng(4)
    weights = rng.dirichlet(np.full(TOKENS, 0.1), (1, 2, TOKENS))
    return made.make_run(tmp_path_factory.mktemp("runs") / "long", weights)


def column(run: Run, table: str, name: str, head: int = 1) -> np.ndarray:
    return run.table(table, layer=0, head=head).column(name).to_numpy().astype(np.float64)


@pytest.mark.parametrize(
    ("tensor", "table", "name"), [("entropy", "query", "entropy"), ("received", "key", "received_mean")]
)
def test_bins_hold_the_lowest_and_the_highest(long: Run, tensor: str, table: str, name: str) -> None:
    found = load(profiles(long))[f"self.0.{tensor}"]
    assert (found.shape, found.dtype) == ((2, 2, BINS), np.float16)
    parts = np.array_split(column(long, table, name), BINS)
    np.testing.assert_allclose(found[1, 0], [part.min() for part in parts], rtol=1e-3)
    np.testing.assert_allclose(found[1, 1], [part.max() for part in parts], rtol=1e-3)


def test_the_highest_key_of_a_bin_is_named(long: Run) -> None:
    at = load(profiles(long))["self.0.received_at"][1]
    received = column(long, "key", "received_mean")
    starts = np.cumsum([0, *(len(part) for part in np.array_split(received, BINS)[:-1])])
    wanted = [part.argmax() for part in np.array_split(received, BINS)]
    np.testing.assert_array_equal(at, starts + wanted)


def test_distances_keep_their_mass_and_their_pairs(long: Run) -> None:
    held = load(profiles(long))
    first, found = held["distances"], held["self.0.distance"][0]
    distance, mass, pairs = (
        column(long, "distance", name, 0) for name in ("distance", "distance_profile", "distance_pairs")
    )
    assert first[0] == 1
    assert first[-1] >= TOKENS
    for row, sign in enumerate((1, -1)):
        for i, (start, stop) in enumerate(itertools.pairwise(first)):
            some = (sign * distance >= start) & (sign * distance < stop)
            if pairs[some].sum():
                assert found[row, i] == pytest.approx(mass[some].sum() / pairs[some].sum(), rel=1e-5)
            else:
                assert np.isnan(found[row, i])


def test_a_short_text_has_a_bin_for_each_position(run: Run) -> None:
    held = load(profiles(run))
    np.testing.assert_allclose(held["self.0.entropy"][0, 0], column(run, "query", "entropy", 0), rtol=1e-3)
    np.testing.assert_array_equal(held["self.0.entropy"][1, 0], held["self.0.entropy"][1, 1])
    assert held["self.0.received_at"][0].tolist() == list(range(6))


def test_what_was_not_measured_is_absent(made: ModuleType, tmp_path: Path) -> None:
    run = made.make_run(tmp_path / "bare", made.uniform(5)[None, None], statistics=["max_weight"])
    assert set(load(profiles(run))) == {"distances"}


def test_sizes_grow_with_heads_and_not_with_the_text(made: ModuleType, tmp_path: Path) -> None:
    sizes = [
        len(profiles(made.make_run(tmp_path / str(n), made.uniform(n)[None, None], keep_inputs=False)))
        for n in (300, 900)
    ]
    assert sizes[1] < 1.2 * sizes[0]
