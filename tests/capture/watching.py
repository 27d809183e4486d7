"""What tests of watch share: inputs, the model's own eager pass, and the statistics of dense weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

TEXT = ("bert", "albert", "modernbert", "gpt2", "llama", "mistral", "qwen3", "gemma2", "gemma3", "gpt-oss", "llama4")


DECODERS = ("gpt2", "llama", "mistral", "gemma3", "gpt-oss", "llama4")


def ids_of(batch: int = 2, length: int = 12) -> Tensor:
    return torch.randint(3, 100, (batch, length))


def padded_inputs(ids: Tensor, side: str | None) -> dict[str, Tensor]:
    if side is None:
        return {"input_ids": ids}
    real = torch.ones_like(ids)
    if side == "right":
        real[1, 8:] = 0
    else:
        real[1, :4] = 0
    return {"input_ids": ids, "attention_mask": real}


def first_output(output: Any) -> Tensor:
    return output.logits if hasattr(output, "logits") else output.last_hidden_state


@torch.no_grad()
def eager_pass(model: Any, inputs: dict[str, Tensor]) -> Any:
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    output = model(**inputs, output_attentions=True)
    model.set_attn_implementation(before)
    return output


def assert_as_dense(call: Any, weights: Tensor) -> None:
    """The statistics of a call are those of its dense weights, over valid rows that may see something."""
    found, dense = call.measurements, weights.double().numpy()
    valid = np.broadcast_to(found["row_valid"][:, None], found["argmax"].shape)
    rows = valid & (found["argmax"] >= 0)
    close = {"rtol": 0, "atol": 2e-5}
    np.testing.assert_allclose(found["row_mass"][rows], dense.sum(-1)[rows], **close)
    np.testing.assert_allclose(found["max_weight"][rows], dense.max(-1)[rows], **close)
    np.testing.assert_allclose(found["concentration"][rows], (dense**2).sum(-1)[rows], **close)
    if call.formula.sinks is None:
        logs = np.log(np.where(dense > 0, dense, 1))
        np.testing.assert_allclose(found["entropy"][rows], -(dense * logs).sum(-1)[rows], **close)
    received = np.where(rows[..., None], dense, 0).sum(-2)[..., : found["received"].shape[-1]]
    np.testing.assert_allclose(found["received"], received, rtol=0, atol=1e-4)
