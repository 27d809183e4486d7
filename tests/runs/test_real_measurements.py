"""A run written from a real sweep gives back the weights of the textbook form, and rows that sum to their mass."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from heedmap.attention import masks, scaled_dot_product_attention
from heedmap.attention.inputs import AttentionInputs
from heedmap.measure import measure
from heedmap.runs.writer import RunWriter

CALLS: dict[str, dict[str, Any]] = {
    "full": {},
    "causal": {"mask": masks.causal()},
    "window": {"mask": masks.causal() & masks.sliding_window(7)},
    "left padding": {
        "mask": masks.causal() & masks.padding(torch.arange(40) >= 9),
        "valid_queries": torch.arange(40)[None] >= 9,
    },
    "softcap and sinks": {"softcap": 2.0, "sinks": [0.0, 90.0, -1e4, 1.0], "mask": masks.causal()},
    "rows without a key": {"mask": masks.causal(-5)},
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("name", CALLS)
def test_weights_are_those_of_the_textbook(name: str, dtype: torch.dtype, dense: ModuleType, tmp_path: Path) -> None:
    torch.manual_seed(0)
    query, key = torch.randn(1, 4, 40, 16).to(dtype) * 2, torch.randn(1, 2, 40, 16).to(dtype)
    call = CALLS[name]
    inputs = AttentionInputs(query, key, **call)
    at = torch.arange(40)
    may = torch.ones(40, 40, dtype=torch.bool) if inputs.mask is None else inputs.mask.allowed(0, at, at).expand(40, 40)
    _, weights = scaled_dot_product_attention(
        query.double(),
        key.double().repeat_interleave(2, 1),
        torch.zeros(1, 4, 40, 1, dtype=torch.float64),
        may,
        softcap=inputs.softcap,
        sinks=None if inputs.sinks is None else inputs.sinks.double(),
    )
    description = {"kind": "all"} if inputs.mask is None else inputs.mask.describe(0)
    sinks = None if inputs.sinks is None else inputs.sinks.tolist()
    entry = dense.make_layer(description, query_len=40, key_len=40, head_dim=16).entry
    entry |= {"softcap": inputs.softcap, "sinks": sinks}
    bits = dtype == torch.bfloat16
    arrays = [(part[0].view(torch.int16) if bits else part[0]).numpy() for part in (query, key)]
    arrays = [part.view(np.uint16) for part in arrays] if bits else arrays
    with RunWriter(tmp_path / "run") as writer:
        writer.source("text")
        writer.tokens(dense.token_columns(40))
        measured = measure(query, key, **call)
        writer.layer(entry, measured, *arrays, dtype="bf16" if bits else None)
        run = writer.finish({})
    expected = weights[0].numpy()
    valid = measured["row_valid"][0]
    for head in range(4):
        found = run.weights(0, head)
        assert np.isnan(found[~valid]).all()
        np.testing.assert_allclose(found[valid], expected[head][valid], atol=1e-5)
        mass = run.table("query", layer=0, head=head).column("row_mass").to_numpy()
        np.testing.assert_allclose(found[valid].sum(-1), mass, atol=1e-5)
        np.testing.assert_array_equal(run.map(0, head), measured["map_mean"][0, head].astype(np.float32))
