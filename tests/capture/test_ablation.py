from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from heedmap import ablate, watch
from heedmap.errors import InputError, UnsupportedError

# family → the output projection of a layer, whose columns are the heads' slices
PROJECTIONS = {
    "bert": "encoder.layer.{}.attention.output.dense",
    "gpt2": "h.{}.attn.c_proj",
    "llama": "layers.{}.self_attn.o_proj",
    "gemma2": "layers.{}.self_attn.o_proj",
    "gemma3": "layers.{}.self_attn.o_proj",
    "gpt-oss": "layers.{}.self_attn.o_proj",
}
EAGER_ONLY = ("gemma2", "gpt-oss")


def _ids() -> Tensor:
    return torch.randint(3, 100, (2, 12))


def _hidden(model: Any, ids: Tensor) -> Tensor:
    with torch.no_grad():
        output = model(input_ids=ids)
    return output.logits if hasattr(output, "logits") else output.last_hidden_state


def _by_hand(model: nn.Module, name: str, layer: int, heads: list[int]) -> None:
    """Zero the columns of the output projection that read these heads."""
    body = getattr(model, "model", model.base_model)  # transformers 4 knows no base of Gemma 3's text model
    projection = body.get_submodule(PROJECTIONS[name].format(layer))
    weight = projection.weight.data
    if name == "gpt2":  # Conv1D keeps its weight the other way round
        weight = weight.T
    width = weight.shape[1] // model.config.num_attention_heads
    for head in heads:
        weight[:, head * width : (head + 1) * width] = 0


def _checkpoint(layers: Any) -> None:
    """Run these layers again in the backward pass, as gradient checkpointing does."""
    for layer in layers:
        layer.forward = functools.partial(checkpoint, layer.forward, use_reentrant=False)


@pytest.mark.parametrize(
    ("name", "implementation"),
    [(name, "eager") for name in PROJECTIONS] + [(name, "sdpa") for name in PROJECTIONS if name not in EAGER_ONLY],
)
def test_a_silent_head_is_that_heads_columns_of_the_projection_zeroed_by_hand(family, name: str, implementation: str):
    model, ids = family(name), _ids()
    model.set_attn_implementation(implementation)
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    plain = _hidden(model, ids)
    with ablate(model, ["0.1", (0, 3), "1.2"]):
        silent = _hidden(model, ids)
    after = model.state_dict()
    assert all(torch.equal(tensor, after[key]) for key, tensor in before.items())
    assert model.config._attn_implementation == implementation
    assert torch.equal(_hidden(model, ids), plain), "the model is as it was, bit for bit"
    _by_hand(model, name, 0, [1, 3])
    _by_hand(model, name, 1, [2])
    torch.testing.assert_close(silent, _hidden(model, ids), rtol=0, atol=1e-5)
    assert float((silent - plain).abs().max()) > 1e-3


@pytest.mark.parametrize("outer", ["watch", "ablate"])
def test_what_is_measured_is_the_silent_models_and_the_head_itself_is_still_seen(family, outer: str) -> None:
    model, ids = family("llama"), _ids()
    with watch(model) as plain:
        _hidden(model, ids)
    if outer == "ablate":
        with ablate(model, "0.1"), watch(model) as seen:
            silent = _hidden(model, ids)
    else:
        with watch(model) as seen, ablate(model, "0.1"):
            silent = _hidden(model, ids)
    with ablate(model, [(0, 1)]):
        torch.testing.assert_close(silent, _hidden(model, ids), rtol=0, atol=1e-5)
    first, second = ([call.measurements["entropy"] for call in found.calls] for found in (plain, seen))
    np.testing.assert_array_equal(first[0], second[0], "its own layer reads what it read")
    assert np.abs(first[1] - second[1]).max() > 1e-4, "the layer above reads something else"


def test_generate_goes_on_without_the_head(family) -> None:
    model = family("llama")
    ids = _ids()[:1]
    settings = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0}
    with ablate(model, [0, 1]), watch(model) as seen:
        silent = model.generate(ids, **settings)
    assert seen.calls[0].measurements["entropy"].shape[-1] == silent.shape[1] - 1
    assert model.generate.__func__ is type(model).generate
    _by_hand(model, "llama", 0, [0, 1])
    _by_hand(model, "llama", 1, [0, 1])
    assert torch.equal(silent, model.generate(ids, **settings))


@pytest.mark.parametrize("checkpointed", [False, True])
def test_gradients_are_those_of_the_silent_model(family, checkpointed: bool) -> None:
    model, ids = family("llama"), _ids()
    if checkpointed:
        _checkpoint(model.base_model.layers)
        model.train()
    with ablate(model, ["0.1"]):
        model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
    name = "layers.0.self_attn.q_proj.weight"
    found = model.base_model.get_parameter(name).grad.clone()
    assert not found[8:16].any(), "nothing reaches the silent head's query"
    model.zero_grad()
    _by_hand(model, "llama", 0, [1])
    model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
    torch.testing.assert_close(found, model.base_model.get_parameter(name).grad, rtol=1e-4, atol=1e-7)


def test_a_checkpointed_module_of_several_layers_is_refused(family) -> None:
    model, ids = family("albert"), _ids()
    _checkpoint(model.base_model.encoder.albert_layer_groups)
    with pytest.raises(UnsupportedError, match="runs for several layers"), ablate(model, ["0.1"]):
        model(input_ids=ids).last_hidden_state.sum().backward()


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_the_model_is_as_it_was_after_an_error(family, error: type[BaseException]) -> None:
    model, ids = family("llama"), _ids()
    plain = _hidden(model, ids)

    def fail(*_: Any) -> None:
        raise error

    hook = model.base_model.layers[1].register_forward_hook(fail)
    with pytest.raises(error), ablate(model, ["0.0", "1.0"]):
        _hidden(model, ids)
    hook.remove()
    assert torch.equal(_hidden(model, ids), plain)
    assert model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        (["0.4"], "heads 0 to 3 in layer 0, got head 4"),
        (["5.0"], "got layer 5"),
        ([], "at least one head"),
        (["x"], "head numbers from 0"),
    ],
)
def test_heads_that_are_not_there_are_refused(family, heads: list[str], message: str) -> None:
    model = family("llama")
    with pytest.raises(InputError, match=message), ablate(model, heads):
        _hidden(model, _ids())
    assert model.config._attn_implementation == "sdpa"


def test_a_part_is_named_where_several_have_the_layer(family) -> None:
    model = family("t5")
    read = {"input_ids": _ids(), "decoder_input_ids": _ids()}
    with torch.no_grad():
        plain = model(**read)[0]
        with pytest.raises(InputError, match=r'say which: ablate\(model, heads, part="'), ablate(model, "0.1"):
            model(**read)
        with ablate(model, "0.1", part="encoder"):
            silent = model(**read)[0]
        with pytest.raises(InputError, match="a part 'nowhere'"), ablate(model, "0.1", part="nowhere"):
            model(**read)
        assert torch.equal(model(**read)[0], plain)
    assert float((silent - plain).abs().max()) > 1e-6
