"""A text gives the same in a padded batch and in a packed row as it gives alone, in every statistic and kernel."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.laws.cases import random_inputs

from heedmap.attention import AttentionInputs, masks
from heedmap.attention.masks import Mask
from heedmap.measure import KERNELS, sweep
from heedmap.measurements import Measurements

LENGTH, START, STOP = 40, 11, 33
"""Of a row, and where in it the text stands."""


def padded() -> tuple[Mask, torch.Tensor]:
    real = torch.zeros(1, LENGTH, dtype=torch.bool)
    real[:, START:STOP] = True
    return masks.padding(real), real


def packed() -> tuple[Mask, None]:
    document = torch.zeros(1, LENGTH, dtype=torch.int64)
    document[:, START:STOP] = 1
    document[:, STOP:] = 2
    return masks.packed(document), None


def given_whole() -> tuple[Mask, torch.Tensor]:
    mask, real = padded()
    positions = torch.arange(LENGTH)
    whole = mask.allowed(0, positions, positions) & masks.causal().allowed(0, positions, positions)
    return masks.from_tensor(whole[None, None]), real


def in_a_row(mask: Mask, valid: torch.Tensor | None) -> AttentionInputs:
    """A row of which a part is the text; the token before it stands in the text too, once."""
    inputs = random_inputs(query_len=LENGTH, heads=4, key_heads=2, value_dim=5)
    assert inputs.token_ids is not None
    ids = inputs.token_ids.clone()
    ids[:, START - 1], ids[:, START + 6] = 99, 99
    about = {name: getattr(inputs, name) for name in ("query", "key", "value", "spans", "classes", "parts")}
    return AttentionInputs(**about, token_ids=ids, mask=mask, valid_queries=valid)


def alone(inputs: AttentionInputs, mask: Mask) -> AttentionInputs:
    """The text of such a row, at its positions."""
    own = slice(START, STOP)
    assert inputs.token_ids is not None
    assert inputs.parts is not None
    return AttentionInputs(
        inputs.query[:, :, own],
        inputs.key[:, :, own],
        None if inputs.value is None else inputs.value[:, :, own],
        mask=mask,
        query_offset=START,
        key_offset=START,
        token_ids=inputs.token_ids[:, own],
        spans={name: table[:, own] for name, table in inputs.spans.items()},
        classes={name: table[:, own] for name, table in inputs.classes.items()},
        parts=inputs.parts[:, own],
    )


def of_the_text(found: Measurements, name: str) -> np.ndarray | None:
    """What was measured of the text in its row; None for what runs over other rows and cells too, and for the weight on
    the first token, which is that of the row where a mask does not say where its padding ends."""
    quantity = found.quantities[name]
    if quantity.axis == "query":
        return quantity.values[:, :, START:STOP] if name not in ("row_valid", "first_token") else None
    return quantity.values[..., START:STOP] if name in ("received", "rows_that_may_see", "received_max") else None


@pytest.mark.parametrize("kernel", [kernel.NAME for kernel in KERNELS])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("row", [padded, packed, given_whole], ids=lambda row: row.__name__)
def test_a_text_in_a_row_of_others_is_measured_as_alone(row, causal: bool, kernel: str) -> None:
    mask, valid = row()
    shape = masks.causal() if causal or row is given_whole else masks.everything()
    inputs = in_a_row(mask & shape, valid)
    together = sweep(inputs, "all", kernel).measurements
    single = sweep(alone(inputs, shape), "all", kernel).measurements
    compared = set()
    for name, quantity in single.quantities.items():
        own = of_the_text(together, name)
        if own is not None:
            tolerance = 2e-5 * max(1.0, float(np.nanmax(np.abs(quantity.values), initial=0)))
            np.testing.assert_allclose(own, quantity.values, atol=tolerance, rtol=0, err_msg=name)
            compared.add(name)
    assert {"induction", "duplicate", "previous", "span_mass", "argmax", "received"} <= compared
    assert np.isnan(single["induction"][..., 6]).all(), "the only copy of this token stands outside the text"


@pytest.mark.parametrize("kernel", [kernel.NAME for kernel in KERNELS])
def test_a_copy_just_outside_a_window_counts_by_the_token_that_followed_it(kernel: str) -> None:
    whole = random_inputs(query_len=5, mask=masks.sliding_window(4))
    ids = torch.tensor([[5, 1, 2, 3, 5]])
    inputs = AttentionInputs(whole.query, whole.key, mask=whole.mask, token_ids=ids)
    scores = (whole.query[0, :, 4:] @ whole.key[0].transpose(1, 2)).double() * whole.scale
    weights = scores[..., 1:].softmax(-1)[:, 0, 0]  # row 4 sees keys 1 to 4; key 1 follows the copy at 0
    found = sweep(inputs, "induction", kernel).measurements["induction"][0, :, 4]
    np.testing.assert_allclose(found, weights.numpy(), atol=1e-6)
