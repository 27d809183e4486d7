"""The lengths of values that every look keeps are those that the model computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from heedmap.capture.look import look

TEXT = "The cat sat on the mat because it was tired"


@pytest.fixture
def llama(family, minilm_tokenizer) -> tuple[Any, Any]:
    """Four query heads that share two key heads."""
    model = family("llama", vocab_size=minilm_tokenizer.vocab_size)
    assert model.config.num_attention_heads > model.config.num_key_value_heads
    return model, minilm_tokenizer


def values_of(model: Any, ids: torch.Tensor, layer: int) -> np.ndarray:
    """‖v‖ `[key_heads, tokens]` from the layer's own projection."""
    seen: list[torch.Tensor] = []
    projection = model.model.layers[layer].self_attn.v_proj
    handle = projection.register_forward_hook(lambda module, given, output: seen.append(output[0]))
    with torch.no_grad():
        model(ids)
    handle.remove()
    heads = model.config.num_key_value_heads
    return seen[0].unflatten(-1, (heads, -1)).norm(dim=-1).T.numpy()


def check(run: Any, model: Any) -> None:
    ids = torch.tensor([run.tokens.column("id").to_pylist()])
    group = model.config.num_attention_heads // model.config.num_key_value_heads
    for _, layer, head in run.heads:
        info = run.layer(layer)
        found = run.value_norms(layer, head)
        np.testing.assert_allclose(found, values_of(model, ids, layer)[head // group, : info.key_len], rtol=1e-4)


def test_a_look_keeps_the_length_of_each_value(llama, tmp_path) -> None:
    check(look(TEXT, *llama, out=tmp_path / "run"), llama[0])


def test_a_look_at_some_heads_keeps_them_too(llama, tmp_path) -> None:
    run = look(TEXT, *llama, out=tmp_path / "run", layers=[1], heads=[3])
    assert run.heads == [("self", 1, 3)]
    check(run, llama[0])


def test_a_look_at_generated_text_keeps_those_of_the_cache(llama, tmp_path) -> None:
    check(look(TEXT, *llama, out=tmp_path / "run", generate=5), llama[0])
