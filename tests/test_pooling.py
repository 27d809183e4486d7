"""Measurements of different texts add up where they are pooled, as if the texts had been pooled at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import heedmap
from heedmap.errors import InputError
from heedmap.measurements import Measurements

HEADS, DIM = 2, 4


def measured(length: int, seed: int, batch: int = 1, **more: Any) -> Measurements:
    generator = torch.Generator().manual_seed(seed)
    query, key = (torch.randn(batch, HEADS, length, DIM, generator=generator) for _ in range(2))
    spans = {"a": torch.arange(length).expand(batch, -1) < 3}
    settings: dict[str, Any] = {"statistics": "all", "mask": heedmap.masks.causal(), "spans": spans}
    return heedmap.measure(query, key, **settings | more)


def test_texts_of_different_lengths_add_up_in_any_order() -> None:
    texts = [measured(length, length) for length in (5, 9, 7)]
    total = texts[0].pooled().merge(texts[1].pooled()).merge(texts[2].pooled())
    assert total["texts"].item() == 3
    for name in ("entropy", "saturation", "previous", "span_mass"):
        rows = np.concatenate([text[name][0] for text in texts], axis=1)
        np.testing.assert_allclose(total[name][0], np.nanmean(rows, axis=1), rtol=1e-6, err_msg=name)
    largest = np.max([text["max_score"].max(-1) for text in texts], axis=0)
    np.testing.assert_array_equal(total["max_score"], largest)
    assert total["distances"].tolist() == list(range(-8, 9))
    assert total["distance_profile"].sum() == pytest.approx(HEADS * (5 + 9 + 7), rel=1e-6)
    assert total["received"][0, 0, 0] == pytest.approx(sum(text["received"][0, 0, 0] for text in texts))
    turned = texts[2].pooled().merge(texts[0].pooled().merge(texts[1].pooled()))
    for name in total:
        np.testing.assert_allclose(turned[name], total[name], rtol=1e-12, err_msg=name)
    assert not {"row_max", "argmax", "map_sum", "top_keys", "row_valid"} & set(total)


def test_a_batch_is_pooled_as_its_texts_one_by_one() -> None:
    generator = torch.Generator().manual_seed(1)
    query, key = (torch.randn(3, HEADS, 6, DIM, generator=generator) for _ in range(2))
    whole = heedmap.measure(query, key).pooled()
    one, *others = [heedmap.measure(query[i : i + 1], key[i : i + 1]).pooled() for i in range(3)]
    for other in others:
        one = one.merge(other)
    assert set(one) == set(whole)
    for name in whole:
        np.testing.assert_allclose(one[name], whole[name], rtol=1e-12, err_msg=name)


def test_pooling_twice_changes_nothing_and_parts_of_a_call_pool_once_merged() -> None:
    whole = measured(6, 1)
    assert whole.pooled().pooled()["texts"].item() == 1
    parts = measured(6, 1, rows=(0, 4)), measured(6, 1, rows=(4, 6))
    np.testing.assert_allclose(parts[0].merge(parts[1]).pooled()["entropy"], whole.pooled()["entropy"], rtol=1e-6)
    with pytest.raises(InputError, match="of all 6 query rows to pool, got rows 0 to 3; merge the parts"):
        parts[0].pooled()


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda: measured(6, 2), "both parts pooled, or none, got one"),
        (lambda: measured(6, 2, statistics="entropy").pooled(), "parts with the same statistics"),
        (
            lambda: measured(6, 2, spans={"b": torch.ones(1, 6, dtype=torch.bool)}).pooled(),
            "span_mass_sum of the same names, got a and b",
        ),
        (
            lambda: heedmap.measure(
                torch.randn(1, 3, 6, DIM), torch.randn(1, 3, 6, DIM), statistics="all", mask=heedmap.masks.causal(),
                spans={"a": torch.ones(1, 6, dtype=torch.bool)},
            ).pooled(),
            "of the same heads, got 2 and 3",
        ),
    ],
    ids=["not pooled", "other statistics", "other spans", "other heads"],
)  # fmt: skip
def test_what_does_not_add_up_is_refused(other, message: str) -> None:
    with pytest.raises(InputError, match=message):
        measured(6, 1).pooled().merge(other())
