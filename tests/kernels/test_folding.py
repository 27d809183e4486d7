"""Texts measured together, as the heads of one, have the numbers that each has alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from heedmap.attention import masks
from heedmap.attention.inputs import AttentionInputs
from heedmap.errors import InputError
from heedmap.kernels import native, strips
from heedmap.kernels.folding import fold
from heedmap.kernels.plan import Task
from heedmap.measure import KERNELS, attend, measure
from heedmap.statistics.base import Grid
from heedmap.statistics.catalogue import choose

NAMES = ["default", "previous", "first_token", "max_score", "top_keys", "value_received"]


def drawn(batch: int = 3, queries: int = 11, keys: int = 11, key_heads: int = 2) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(7)
    return (
        torch.randn(batch, queries, 4, 8).transpose(1, 2),  # as models hand them over: not one after the other
        torch.randn(batch, keys, key_heads, 8).transpose(1, 2),
        torch.randn(batch, keys, key_heads, 6).transpose(1, 2),
    )


@pytest.mark.parametrize("kernel", [kernel.NAME for kernel in KERNELS])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"mask": masks.causal()},
        {"mask": masks.sliding_window(4)},
        {"mask": masks.sliding_window(2, both_sides=True), "softcap": 3.0},
        {"mask": masks.causal(), "sinks": [0.5, -1.0, 2.0, 0.0]},
        {"cross": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("sizes", [{}, {"queries": 5, "key_heads": 4}, {"key_heads": 1, "batch": 2}], ids=str)
def test_every_text_is_as_alone(kernel: str, settings: dict, sizes: dict) -> None:
    query, key, value = drawn(**sizes)
    names = ["default", "max_score", "top_keys"] if "cross" in settings else NAMES
    if kernel not in _taking(query, key, value, names, settings):
        pytest.skip(f"kernel {kernel} does not run here")
    together = attend(query, key, value, statistics=names, kernel=kernel, **settings)
    for item in range(query.shape[0]):
        one = slice(item, item + 1)
        alone = attend(query[one], key[one], value[one], statistics=names, kernel=kernel, **settings)
        torch.testing.assert_close(together.output[one], alone.output, atol=2e-6, rtol=0)
        assert set(together.measurements) == set(alone.measurements)
        for name in alone.measurements:
            mine, theirs = together.measurements[name], alone.measurements[name]
            if name != "distances":
                mine = mine[one]
            assert mine.shape == theirs.shape, name
            assert mine.dtype == theirs.dtype, name
            np.testing.assert_allclose(mine, theirs, atol=3e-6, err_msg=name)


def _taking(query, key, value, names, settings) -> list[str]:
    inputs = AttentionInputs(query, key, value, **settings)
    chosen, _ = choose(names, inputs)
    return [kernel.NAME for kernel in KERNELS if kernel.unsupported(inputs, chosen) is None]


def task(names: Sequence[str] = ("entropy", "received"), **settings: object) -> Task:
    query, key, _ = drawn()
    inputs = AttentionInputs(query, key, **settings)  # type: ignore[arg-type]
    chosen, _ = choose(names, inputs)
    return Task(inputs, chosen, Grid.of(inputs), (0, inputs.query_len), 2**20, with_output=False)


def test_texts_that_differ_in_more_than_numbers_are_not_folded() -> None:
    real = torch.ones(3, 11, dtype=torch.bool)
    real[1, 5:] = False
    assert fold(task(mask=masks.causal()), padded=False) is not None
    assert fold(task(mask=masks.padding(real)), padded=False) is None
    assert fold(task(mask=masks.causal() & masks.padding(real)), padded=False) is None
    assert fold(task(valid_queries=real), padded=False) is None
    assert fold(task(parts=torch.rand(3, 11, 2)), padded=False) is None
    assert fold(task(mask=torch.randn(1, 4, 11, 11) - 5), padded=True) is None
    assert fold(task(mask=masks.causal() | masks.padding(real)), padded=True) is None


def test_parts_that_are_the_same_for_all_texts_are_folded() -> None:
    query, key, value = drawn()
    parts = torch.rand(1, 11, 3)
    assert fold(task(parts=parts), padded=False) is not None
    together = attend(query, key, value, parts=parts, statistics="part_mass")
    for item in range(3):
        one = slice(item, item + 1)
        alone = attend(query[one], key[one], value[one], parts=parts, statistics="part_mass")
        np.testing.assert_allclose(together.measurements["part_mass"][one], alone.measurements["part_mass"], atol=1e-6)
        torch.testing.assert_close(together.output[one], alone.output, atol=2e-6, rtol=0)


def test_a_row_that_is_not_finite_is_named_by_its_text_and_head() -> None:
    query, key, _ = drawn()
    query[2, 1, 6] = torch.nan
    with pytest.raises(InputError, match="at batch 2, head 1, row 6"):
        measure(query, key)


REAL = torch.tensor([[True] * 11, [True] * 4 + [False] * 7, [False] * 2 + [True] * 8 + [False]])
HIDDEN = {
    "padding": masks.padding(REAL),
    "causal": masks.causal() & masks.padding(REAL),
    "window": masks.causal() & masks.sliding_window(4) & masks.padding(REAL),
    "nothing": None,
}
COUNTED = ["entropy", "argmax", "received", "distance_profile", "distance_pairs", "rows_that_may_see", "part_mass"]


@pytest.mark.parametrize("name", HIDDEN)
@pytest.mark.parametrize("more", [{}, {"sinks": [0.5, -1.0, 2.0, 0.0]}, {"softcap": 2.0}], ids=str)
@pytest.mark.parametrize("kernel", [kernel.NAME for kernel in KERNELS])
def test_padded_texts_are_as_alone(name: str, more: dict, kernel: str) -> None:
    query, key, value = drawn()
    settings = {"mask": HIDDEN[name], "valid_queries": REAL, "parts": torch.rand(3, 11, 5), **more}
    if kernel not in _taking(query, key, value, COUNTED, settings):
        pytest.skip(f"kernel {kernel} does not run here")
    together = attend(query, key, value, statistics=COUNTED, kernel=kernel, **settings)
    for item in range(3):
        one = slice(item, item + 1)
        own = {**settings, "valid_queries": REAL[one], "parts": settings["parts"][one]}
        if name != "nothing":
            own["mask"] = masks.from_tensor(_table(HIDDEN[name], item))
        alone = attend(query[one], key[one], value[one], statistics=COUNTED, kernel=kernel, **own)
        torch.testing.assert_close(together.output[one], alone.output, atol=2e-6, rtol=0)
        assert set(together.measurements) == set(alone.measurements)
        for each in COUNTED:
            mine, theirs = together.measurements[each][one], alone.measurements[each]
            assert mine.shape[2:] == theirs.shape[2:], each
            np.testing.assert_allclose(*np.broadcast_arrays(mine, theirs), atol=3e-6, err_msg=each)


def _table(mask: masks.Mask, item: int) -> torch.Tensor:
    at = torch.arange(11)
    return mask.allowed(item, at, at).expand(11, 11)


def test_padded_texts_are_folded_where_every_sum_leaves_out_hidden_keys() -> None:
    settings = {"mask": masks.causal() & masks.padding(REAL), "valid_queries": REAL, "parts": torch.rand(3, 11, 2)}
    asked = task(COUNTED, **settings)
    folded = fold(asked, padded=True)
    assert folded is not None
    assert folded.inputs.batch == 1
    assert fold(asked, padded=False) is None
    can = native.unsupported(asked.inputs, ()) is None
    assert native.folds_padding(asked) == can
    assert not native.folds_padding(task([*COUNTED, "map_mean"], **settings))
    assert not native.folds_padding(task([*COUNTED, "max_score"], **settings))
    assert not strips.folds_padding(asked)
