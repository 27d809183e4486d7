from __future__ import annotations

import copy
import gc
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from heedmap.capture.watch import watch
from heedmap.errors import InputError, ModelError, UnsupportedError

TEXT = ("bert", "albert", "modernbert", "gpt2", "llama", "mistral", "qwen3", "gemma2", "gemma3", "gpt-oss", "llama4")
DECODERS = ("gpt2", "llama", "mistral", "gemma3", "gpt-oss", "llama4")


def _ids(batch: int = 2, length: int = 12) -> Tensor:
    return torch.randint(3, 100, (batch, length))


def _padded(ids: Tensor, side: str | None) -> dict[str, Tensor]:
    if side is None:
        return {"input_ids": ids}
    real = torch.ones_like(ids)
    if side == "right":
        real[1, 8:] = 0
    else:
        real[1, :4] = 0
    return {"input_ids": ids, "attention_mask": real}


def _first(output: Any) -> Tensor:
    return output.logits if hasattr(output, "logits") else output.last_hidden_state


@torch.no_grad()
def _eager(model: Any, inputs: dict[str, Tensor]) -> Any:
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    output = model(**inputs, output_attentions=True)
    model.set_attn_implementation(before)
    return output


def _assert_as_dense(call: Any, weights: Tensor) -> None:
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


# --- what is measured is what the model computes -------------------------------------------------------------------


@pytest.mark.parametrize("side", [None, "right", "left"])
@pytest.mark.parametrize("name", TEXT)
def test_output_is_eagers_within_twice_sdpas_own_difference_and_statistics_are_the_dense_ones(family, name, side):
    model, inputs = family(name), _padded(_ids(), side)
    eager = _eager(model, inputs)
    with torch.no_grad():
        own = _first(model(**inputs))
        with watch(model) as seen:
            watched = _first(model(**inputs))
    real = inputs.get("attention_mask", torch.ones(2, 12)).bool()
    budget = max(2 * float((own - _first(eager)).abs()[real].max()), 4e-6)
    assert float((watched - _first(eager)).abs()[real].max()) <= budget
    assert [call.layer for call in seen.calls] == [0, 1]
    for call, weights in zip(seen.calls, eager.attentions, strict=True):
        np.testing.assert_array_equal(call.measurements["row_valid"], real.numpy())
        _assert_as_dense(call, weights)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("bert", {"kind": "all"}),
        ("gpt2", {"kind": "causal", "offset": 0}),
        ("mistral", {"kind": "sliding_window", "size": 5, "both_sides": False}),
        ("modernbert", {"kind": "sliding_window", "size": 4, "both_sides": True}),
        ("llama4", {"kind": "and", "of": [{"kind": "chunked", "size": 4}, {"kind": "causal", "offset": 0}]}),
    ],
)
def test_masks_of_transformers_are_recognised_and_described(family, name, kind):
    model = family(name)
    with torch.no_grad(), watch(model) as seen:
        model(input_ids=_ids(1))
    assert seen.calls[-1].formula.mask == kind


def test_softcap_and_sinks_are_part_of_the_formula(family):
    with torch.no_grad():
        with watch(gemma := family("gemma2")) as seen:
            gemma(input_ids=_ids())
        assert seen.calls[0].formula.softcap == 2.0
        with watch(oss := family("gpt-oss")) as seen:
            oss(input_ids=_ids())
    sinks = oss.model.layers[1].self_attn.sinks
    assert seen.calls[1].formula.sinks == tuple(sinks.tolist())
    assert float(seen.calls[1].measurements["row_mass"].max()) < 1


@pytest.mark.parametrize("name", ["bert", "llama", "mistral", "llama4"])
def test_a_padded_batch_gives_each_text_its_own_results(family, name):
    model, ids = family(name), _ids()
    inputs = _padded(ids, "right" if name == "bert" else "left")
    real = inputs["attention_mask"].bool()
    if name != "bert":
        inputs["position_ids"] = (inputs["attention_mask"].cumsum(-1) - 1).clamp(min=0)
    with torch.no_grad():
        with watch(model) as together:
            model(**inputs)
        for item in (0, 1):
            with watch(model) as alone:
                model(input_ids=ids[item : item + 1, real[item]])
            for one, all_ in zip(alone.calls, together.calls, strict=True):
                start = int(real[item].nonzero()[0])
                for statistic in ("entropy", "max_weight", "mean_distance", "logsumexp", "concentration"):
                    values = all_.measurements[statistic][item][:, real[item].numpy()]
                    np.testing.assert_allclose(values, one.measurements[statistic][0], rtol=0, atol=2e-6)
                argmax = all_.measurements["argmax"][item][:, real[item].numpy()]
                np.testing.assert_array_equal(argmax - start, one.measurements["argmax"][0])
                received = all_.measurements["received"][item][:, real[item].numpy()]
                np.testing.assert_allclose(received, one.measurements["received"][0], rtol=0, atol=2e-6)


def test_vision_models_attend_to_everything_and_are_numbered_by_name(family):
    vit = family("vit")
    with torch.no_grad(), watch(vit) as seen:
        vit(pixel_values=torch.randn(2, 3, 16, 16))
    assert [(call.part, call.layer, call.formula.mask) for call in seen.calls] == [
        ("self", 0, {"kind": "all"}),
        ("self", 1, {"kind": "all"}),
    ]


def test_two_towers_are_told_apart(family):
    clip = family("clip")
    with torch.no_grad(), watch(clip) as seen:
        clip(pixel_values=torch.randn(2, 3, 16, 16), **_padded(_ids(2, 12), "right"))
    assert [(call.part, call.layer) for call in seen.calls] == [("vision", 0), ("vision", 1), ("text", 0), ("text", 1)]
    assert set(seen.modules) >= {"text_model.encoder.layers.0.self_attn", "vision_model.encoder.layers.1.self_attn"}


def test_stages_of_a_vision_model_are_numbered_in_order_and_their_bias_is_part_of_the_scores(family):
    swin, images = family("swin"), torch.randn(1, 3, 16, 16)
    eager = _eager(swin, {"pixel_values": images})
    with torch.no_grad(), watch(swin) as seen:
        swin(pixel_values=images)
    assert [call.layer for call in seen.calls] == [0, 1, 2, 3]
    assert seen.calls[0].formula.mask["kind"] == "opaque"
    for call, weights in zip((seen.calls[1], seen.calls[3]), eager.attentions, strict=True):  # of each stage's last
        _assert_as_dense(call, weights)


@pytest.mark.parametrize("name", ["t5", "bart", "whisper"])
def test_encoder_decoder_and_cross_attention_are_told_apart_at_equal_lengths(family, name):
    model = family(name)
    inputs = _padded(_ids(2, 10), "right")
    if name == "whisper":
        inputs = {"input_features": torch.randn(2, 8, 40)}
    decoded = torch.ones(2, 10, dtype=torch.long)
    decoded[0, 6:] = 0
    inputs |= {"decoder_input_ids": _ids(2, 10), "decoder_attention_mask": decoded}
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    with torch.no_grad():
        eager = model(**inputs, output_attentions=True)
        model.set_attn_implementation(before)
        with watch(model) as seen:
            model(**inputs)
    parts = [(call.part, call.layer) for call in seen.calls]
    assert parts == [("encoder", 0), ("encoder", 1), ("decoder", 0), ("cross", 0), ("decoder", 1), ("cross", 1)]
    cross = seen.call(1, "cross")
    assert cross.formula.cross
    assert "distance_profile" not in cross.measurements
    np.testing.assert_array_equal(cross.measurements["row_valid"], decoded.bool().numpy())
    _assert_as_dense(cross, eager.cross_attentions[1])
    _assert_as_dense(seen.call(1, "decoder"), eager.decoder_attentions[1])
    _assert_as_dense(seen.call(1, "encoder"), eager.encoder_attentions[1])


def test_packed_documents_do_not_see_one_another(family):
    model = family("llama")
    packed: dict[str, Any] = {
        "input_ids": _ids(1),
        "position_ids": torch.tensor([[0, 1, 2, 3, 4, 0, 1, 2, 3, 0, 1, 2]]),
        "use_cache": False,  # with a cache transformers looks for no packing
    }
    eager = _eager(model, packed)
    with torch.no_grad(), watch(model) as seen:
        model(**packed)
    assert {"kind": "packed", "documents": [[0, 5, 0], [5, 9, 1], [9, 12, 2]]} in seen.calls[0].formula.mask["of"]
    _assert_as_dense(seen.calls[1], eager.attentions[1])


@pytest.mark.parametrize("kind", ["bool", "additive", "zeros and ones", "nothing"])
def test_a_mask_tensor_of_the_user_is_used_as_it_is(family, kind):
    model, ids = family("llama"), _ids()
    lower = torch.ones(12, 12).tril().bool()[None, None].expand(2, 1, 12, 12)
    hidden = torch.zeros(lower.shape).masked_fill(~lower, torch.finfo(torch.float32).min)
    mask = {
        "bool": lower,
        "additive": hidden + 0.5 * torch.randn(2, 1, 12, 12),
        "zeros and ones": torch.ones(2, 1, 12, 12).tril(),
        "nothing": torch.zeros(2, 1, 12, 12),
    }[kind]
    dense = _eager(model, {"input_ids": ids, "attention_mask": hidden if kind == "bool" else mask})
    with torch.no_grad(), watch(model) as seen:
        model(input_ids=ids, attention_mask=mask)
    for call, weights in zip(seen.calls, dense.attentions, strict=True):
        _assert_as_dense(call, weights)


def test_models_in_half_precision_are_measured_on_their_own_rounded_inputs(family):
    model, ids = family("llama").to(torch.bfloat16), _ids()
    with torch.no_grad(), watch(model, keep_inputs=True) as seen:
        output = model(input_ids=ids).logits
    call = seen.call(0)
    assert output.dtype == torch.bfloat16
    assert call.inputs is not None
    query, key = call.inputs.query.double(), call.inputs.key.double().repeat_interleave(2, 1)
    scores = (query @ key.mT * call.formula.scale).masked_fill(~torch.ones(12, 12).tril().bool(), -torch.inf)
    _assert_as_dense(call, scores.softmax(-1))


def test_under_autocast_attention_runs_in_autocasts_dtype(family):
    model, ids = family("llama"), _ids()
    with torch.no_grad():
        exact = model(input_ids=ids).logits
        with torch.autocast("cpu", dtype=torch.bfloat16):
            plain = model(input_ids=ids).logits
            with watch(model, keep_inputs=True) as seen:
                output = model(input_ids=ids).logits
    inputs = seen.call(0).inputs
    assert inputs is not None
    assert inputs.query.dtype == inputs.key.dtype == torch.bfloat16
    assert (output - exact).abs().max() <= 2 * (plain - exact).abs().max()


def test_kept_inputs_give_the_weights_again(family):
    model, ids = family("gemma2"), _ids()
    eager = _eager(model, {"input_ids": ids})
    with torch.no_grad(), watch(model, keep_inputs=True) as seen:
        model(input_ids=ids)
    call = seen.call(1)
    assert call.inputs is not None
    query, key = call.inputs.query, call.inputs.key.repeat_interleave(2, 1)
    scores = 2.0 * torch.tanh(query @ key.mT * call.inputs.scale / 2.0)
    weights = scores.masked_fill(~torch.ones(12, 12).tril().bool(), -torch.inf).softmax(-1)
    torch.testing.assert_close(weights, eager.attentions[1], rtol=0, atol=1e-5)
    with torch.no_grad(), watch(model) as seen:
        model(input_ids=ids)
    assert seen.call(1).inputs is None


# --- generation: calls apart, at the right positions ---------------------------------------------------------------


@pytest.mark.parametrize("cache", [None, "static"])
@pytest.mark.parametrize("name", DECODERS)
def test_decoded_rows_stand_where_they_stand_in_the_final_text(family, name, cache):
    model, ids = family(name), _ids(2, 6)
    real = torch.ones_like(ids)
    real[1, :2] = 0
    settings: dict[str, Any] = {"max_new_tokens": 7, "min_new_tokens": 7, "do_sample": False, "pad_token_id": 0}
    if cache:
        settings["cache_implementation"] = cache
    expected = model.generate(input_ids=ids, attention_mask=real, **settings)
    with watch(model, keep_inputs=True, passes="apart") as seen:
        generated = model.generate(input_ids=ids, attention_mask=real, **settings)
    assert torch.equal(generated, expected)
    text = generated[:, :-1]
    whole_real = torch.cat([real, torch.ones(2, 6, dtype=torch.long)], 1)
    positions = (whole_real.cumsum(-1) - 1).clamp(min=0)
    with torch.no_grad(), watch(model) as whole:
        model(input_ids=text, attention_mask=whole_real, position_ids=positions)
    for layer in (0, 1):
        calls = [call for call in seen.calls if call.layer == layer]
        assert [call.forward for call in calls] == list(range(7))
        assert [call.formula.query_offset for call in calls] == [0, *range(6, 12)]
        assert [call.formula.key_offset + call.formula.key_len for call in calls] == list(range(6, 13))
        for statistic in ("entropy", "max_weight", "argmax", "mean_distance"):
            rows = np.concatenate([call.measurements[statistic] for call in calls], axis=-1)
            np.testing.assert_allclose(rows, whole.call(layer).measurements[statistic], rtol=0, atol=1e-5)


def test_kept_keys_of_a_static_cache_are_those_of_their_own_step(family):
    model, ids = family("llama"), _ids(1, 4)
    with watch(model, keep_inputs=True, passes="apart") as seen:
        model.generate(input_ids=ids, max_new_tokens=3, do_sample=False, pad_token_id=0, cache_implementation="static")
    first, last = seen.calls[0].inputs, seen.calls[-2].inputs
    assert first is not None
    assert last is not None
    assert first.key.shape[2] == 4
    torch.testing.assert_close(first.key, last.key[:, :, :4])


# --- the model is as before ---------------------------------------------------------------------------------------


def test_every_sub_configuration_is_set_back_also_after_an_exception(family):
    clip = family("clip")
    clip.set_attn_implementation({"text_config": "eager", "vision_config": "sdpa"})
    configs = (clip.config, clip.text_model.config, clip.vision_model.config)
    before = [config._attn_implementation for config in configs]
    assert len(set(before)) == 2
    hooks = [len(module._forward_pre_hooks) + len(module._forward_hooks) for module in clip.modules()]
    inside: list[str] = []

    def fail() -> None:
        with watch(clip):
            inside.extend(config._attn_implementation for config in configs)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert set(inside) == {"heedmap"}
    with pytest.raises(ValueError, match="unpack"), watch(clip):
        clip(pixel_values=torch.randn(2, 3, 15, 15, 1), input_ids=_ids())
    assert [config._attn_implementation for config in configs] == before
    assert hooks == [len(module._forward_pre_hooks) + len(module._forward_hooks) for module in clip.modules()]


def test_nested_watches_both_see_every_call_whichever_ends_first(family):
    model, ids = family("llama"), _ids()
    outer, inner = watch(model), watch(model, layers=[1])
    with torch.no_grad():
        seen_outer, seen_inner = outer.__enter__(), inner.__enter__()
        model(input_ids=ids)
        outer.__exit__(None, None, None)
        assert model.config._attn_implementation == "heedmap"
        model(input_ids=ids)
        inner.__exit__(None, None, None)
    assert [call.layer for call in seen_outer.calls] == [0, 1]
    assert [call.layer for call in seen_inner.calls] == [1, 1]
    assert [call.forward for call in seen_inner.calls] == [0, 1]
    assert model.config._attn_implementation == "sdpa"


def test_a_watch_repeats_and_changes_no_bit(family):
    model, ids = family("bert"), _ids()
    results = []
    for _ in range(2):
        with torch.no_grad(), watch(model) as seen:
            model(input_ids=ids)
        results.append(seen.calls)
    for one, other in zip(*results, strict=True):
        assert all(
            np.array_equal(one.measurements[name], other.measurements[name], equal_nan=True)
            for name in one.measurements
        )


def test_a_copy_made_inside_watch_says_how_to_set_it_back(family):
    model, ids = family("bert"), _ids()
    with torch.no_grad(), watch(model):
        model(input_ids=ids)
        twin = copy.deepcopy(model)
    with pytest.raises(ModelError, match="copied inside watch"), torch.no_grad():
        twin(input_ids=ids)
    twin.set_attn_implementation("sdpa")
    with torch.no_grad():
        twin(input_ids=ids)


def test_nothing_keeps_the_model_alive_after_watch(family):
    import weakref

    model = family("bert")
    with torch.no_grad(), watch(model) as seen:
        model(input_ids=_ids())
    alive = weakref.ref(model)
    del model
    gc.collect()
    assert alive() is None
    assert len(seen.calls) == 2


# --- training -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bert", "llama", "gemma2", "gpt-oss"])
def test_gradients_are_those_of_the_models_own_implementation_to_the_last_bit(family, name):
    ids = _ids()

    def gradients(watched: bool) -> list[Tensor]:
        model = family(name).train()
        torch.manual_seed(3)
        if watched:
            with watch(model) as seen:
                _first(model(input_ids=ids)).square().mean().backward()
            assert [call.layer for call in seen.calls] == [0, 1]
        else:
            _first(model(input_ids=ids)).square().mean().backward()
        return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]

    for with_, without in zip(gradients(True), gradients(False), strict=True):
        assert torch.equal(with_, without)


def test_weights_in_training_are_measured_before_dropout_and_the_formula_says_so(family):
    model, ids = family("bert", attention_probs_dropout_prob=0.5, hidden_dropout_prob=0.0).train(), _ids()
    with watch(model) as seen:
        model(input_ids=ids)
    assert seen.calls[0].formula.dropout == 0.5
    np.testing.assert_allclose(seen.calls[0].measurements["row_mass"], 1, atol=1e-5)


@pytest.mark.parametrize("reentrant", [True, False])
def test_gradient_checkpointing_counts_a_pass_once(family, reentrant):
    model, ids = family("llama").train(), _ids()
    enable = getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)
    enable({"use_reentrant": reentrant})
    model.enable_input_require_grads()
    with watch(model) as seen:
        model(input_ids=ids, use_cache=False).logits.square().mean().backward()
        model(input_ids=ids, use_cache=False).logits.square().mean().backward()
    assert [(call.layer, call.forward, call.part) for call in seen.calls] == [
        (0, 0, "self"),
        (1, 0, "self"),
        (0, 1, "self"),
        (1, 1, "self"),
    ]


# --- layers and heads -----------------------------------------------------------------------------------------------


def test_a_module_that_runs_once_a_layer_counts_its_layers(family):
    albert = family("albert", num_hidden_layers=3)
    with torch.no_grad(), watch(albert) as seen:
        albert(input_ids=_ids())
        albert(input_ids=_ids())
    assert [(call.layer, call.forward) for call in seen.calls] == [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)]


def test_a_module_that_attends_twice_in_one_run_has_two_parts(family):
    model = family("diffllama")
    with torch.no_grad(), watch(model) as seen:
        model(input_ids=_ids())
    assert [(call.part, call.layer) for call in seen.calls] == [("self", 0), ("self.2", 0), ("self", 1), ("self.2", 1)]


def test_layers_of_a_hybrid_keep_their_numbers(family):
    model = family("lfm2")
    with torch.no_grad(), watch(model) as seen:
        model(input_ids=_ids())
    assert [call.layer for call in seen.calls] == [1]
    with pytest.raises(InputError, match=r"layers with attention \(1\), got layer 0"), watch(model, layers=0):
        pass


@pytest.mark.parametrize("name", ["llama", "gemma2", "mistral", "t5-encoder"])
def test_only_the_layers_and_heads_asked_for_are_measured_and_outputs_stay(family, name):
    model, inputs = family(name), _padded(_ids(), "right")
    with torch.no_grad():
        with watch(model) as every:
            expected = _first(model(**inputs))
        with watch(model, layers=[1], heads=[3, 0]) as some:
            output = _first(model(**inputs))
        with watch(model, heads=["0.2", (1, 1)]) as pairs:
            model(**inputs)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-5)
    assert [(call.layer, call.heads) for call in some.calls] == [(1, [0, 3])]
    assert [(call.layer, call.heads) for call in pairs.calls] == [(0, [2]), (1, [1])]
    for statistic in ("entropy", "received"):
        np.testing.assert_allclose(
            some.calls[0].measurements[statistic], every.calls[1].measurements[statistic][:, [0, 3]], atol=1e-5
        )


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"layers": [7]}, r"layers with attention \(0-1\), got layer 7"),
        ({"layers": [-1]}, "layer numbers from 0, got -1"),
        ({"layers": []}, "at least one layer"),
        ({"heads": [9]}, "heads 0 to 3 in layer 0, got head 9"),
        ({"heads": ["last"]}, "head numbers from 0, got 'last'"),
        ({"layers": [0], "heads": ["1.2"]}, r"heads of the layers asked for \(0\), got a head of layer 1"),
        ({"statistics": ["entropi"]}, "entropi"),
    ],
)
def test_what_a_model_does_not_have_is_a_clear_error(family, asked, message):
    model = family("bert")
    with pytest.raises(InputError, match=message), torch.no_grad(), watch(model, **asked):
        model(input_ids=_ids())
    assert model.config._attn_implementation == "sdpa"


def test_seen_call_asks_for_a_part_where_there_are_several(family):
    model = family("bart")
    with torch.no_grad(), watch(model) as seen:
        model(input_ids=_ids())
    with pytest.raises(InputError, match="3 calls in encoder, decoder, cross"):
        seen.call(0)
    assert seen.call(0, "cross").part == "cross"


# --- refusals -------------------------------------------------------------------------------------------------------


def test_a_model_with_attention_code_of_its_own_is_refused_by_name(family):
    model = family("falcon")
    with pytest.raises(UnsupportedError, match="FalconModel"), watch(model):
        model(input_ids=_ids())
    assert model.config._attn_implementation == "sdpa"


def test_a_model_that_did_not_run_is_named(family):
    with (
        pytest.raises(UnsupportedError, match="BertModel to run inside watch, got no call of it; call the"),
        watch(family("bert")),
    ):
        pass


@pytest.mark.parametrize(("name", "asks"), [("doge", "Doge, which asks"), ("deepseek-v3.2", "a slice of the mask")])
def test_a_model_that_works_on_its_mask_is_refused_and_set_back(family, name, asks):
    model = family(name)
    before = model.config._attn_implementation
    with pytest.raises(UnsupportedError, match=asks), torch.no_grad(), watch(model):
        model(input_ids=_ids())
    assert model.config._attn_implementation == before


@pytest.mark.parametrize("argument", ["indices", "block_indices"])
def test_an_argument_that_changes_the_formula_is_refused_by_name(family, argument):
    model = family("llama")
    with pytest.raises(UnsupportedError, match=f"{argument} .* LlamaAttention"), torch.no_grad(), watch(model):
        model(input_ids=_ids(), **{argument: torch.zeros(1)})
    assert model.config._attn_implementation == "sdpa"


def test_an_argument_that_no_formula_reads_is_let_through(family):
    model = family("llama")
    with torch.no_grad(), watch(model) as seen:
        model(input_ids=_ids(), anything=torch.zeros(1))
    assert len(seen.calls) == 2


class _Around(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.inside = nn.ModuleList([model])

    def forward(self, ids: Tensor) -> Tensor:
        return self.inside[0](input_ids=ids).last_hidden_state


def test_wrappers_are_unwrapped_or_refused_by_name(family):
    model, ids = family("bert"), _ids()
    around = _Around(model)
    with torch.no_grad(), watch(around) as seen:
        around(ids)
    assert seen.calls[0].module == "encoder.layer.0.attention.self"
    with pytest.raises(UnsupportedError, match="DataParallel"), watch(nn.DataParallel(model)):
        pass
    compiled = nn.Module()
    compiled._orig_mod = model
    with pytest.raises(UnsupportedError, match="compiled code"), watch(compiled):
        pass
    with pytest.raises(UnsupportedError, match="Linear, which holds no transformers model"), watch(nn.Linear(2, 2)):
        pass
    with pytest.raises(InputError, match="a transformers model, got str"), watch("bert"):
        pass


# --- a trained model -------------------------------------------------------------------------------------------------


def test_minilms_known_heads_come_out_of_watch(minilm, minilm_tokenizer):
    inputs = minilm_tokenizer("The cat sat on the mat because it was tired", return_tensors="pt")
    with torch.no_grad(), watch(minilm, keep_inputs=True) as seen:
        minilm(**inputs)
    words = minilm_tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])
    it, cat = words.index("it"), words.index("cat")

    def weights(layer: int, head: int) -> np.ndarray:
        call = seen.call(layer)
        assert call.inputs is not None
        scores = call.inputs.query[0, head].double() @ call.inputs.key[0, head].double().T * call.formula.scale
        return scores.softmax(-1).numpy()

    assert weights(5, 11)[it, cat] == pytest.approx(0.683, abs=5e-4)
    assert weights(3, 1)[it, cat] == pytest.approx(0.487, abs=5e-4)
    assert weights(5, 4)[it, cat] == pytest.approx(0.415, abs=5e-4)
    profile, at = seen.call(0).measurements["distance_profile"][0, 2], seen.call(0).measurements["distances"]
    assert profile[at == 1] / (len(words) - 1) == pytest.approx(1.0, abs=5e-4)
    profile = seen.call(1).measurements["distance_profile"][0, 8]
    assert profile[at == -1] / (len(words) - 1) == pytest.approx(0.555, abs=5e-4)
    for layer, head in ((2, 7), (2, 9), (4, 5)):
        assert 0.86 <= seen.call(layer).measurements["received_mean"][0, head, 0] <= 0.895


@pytest.mark.parametrize("statistics", [3, None, 1.5])
def test_statistics_that_are_no_names_are_one_line(tiny_model: Any, statistics: Any) -> None:
    expected = r"\[statistics\] expected .*a name or a list of names"
    with pytest.raises(InputError, match=expected), watch(tiny_model("gpt2"), statistics=statistics):
        pass
