"""What is measured is what the model computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.capture.watching import DECODERS, TEXT, assert_as_dense, eager_pass, first_output, ids_of, padded_inputs

from heedmap.capture.watch import watch
from heedmap.errors import InputError


@pytest.mark.parametrize("side", [None, "right", "left"])
@pytest.mark.parametrize("name", TEXT)
def test_output_is_eagers_within_twice_sdpas_own_difference_and_statistics_are_the_dense_ones(family, name, side):
    model, inputs = family(name), padded_inputs(ids_of(), side)
    eager = eager_pass(model, inputs)
    with torch.no_grad():
        own = first_output(model(**inputs))
        with watch(model) as seen:
            watched = first_output(model(**inputs))
    real = inputs.get("attention_mask", torch.ones(2, 12)).bool()
    budget = max(2 * float((own - first_output(eager)).abs()[real].max()), 4e-6)
    assert float((watched - first_output(eager)).abs()[real].max()) <= budget
    assert [call.layer for call in seen.calls] == [0, 1]
    for call, weights in zip(seen.calls, eager.attentions, strict=True):
        np.testing.assert_array_equal(call.measurements["row_valid"], real.numpy())
        assert_as_dense(call, weights)


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
        model(input_ids=ids_of(1))
    assert seen.calls[-1].formula.mask == kind


def test_softcap_and_sinks_are_part_of_the_formula(family):
    with torch.no_grad():
        with watch(gemma := family("gemma2")) as seen:
            gemma(input_ids=ids_of())
        assert seen.calls[0].formula.softcap == 2.0
        with watch(oss := family("gpt-oss")) as seen:
            oss(input_ids=ids_of())
    sinks = oss.model.layers[1].self_attn.sinks
    assert seen.calls[1].formula.sinks == tuple(sinks.tolist())
    assert float(seen.calls[1].measurements["row_mass"].max()) < 1


@pytest.mark.parametrize("name", ["bert", "llama", "mistral", "llama4"])
def test_a_padded_batch_gives_each_text_its_own_results(family, name):
    model, ids = family(name), ids_of()
    inputs = padded_inputs(ids, "right" if name == "bert" else "left")
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
        clip(pixel_values=torch.randn(2, 3, 16, 16), **padded_inputs(ids_of(2, 12), "right"))
    assert [(call.part, call.layer) for call in seen.calls] == [("vision", 0), ("vision", 1), ("text", 0), ("text", 1)]
    assert set(seen.modules) >= {"text_model.encoder.layers.0.self_attn", "vision_model.encoder.layers.1.self_attn"}


def test_stages_of_a_vision_model_are_numbered_in_order_and_their_bias_is_part_of_the_scores(family):
    swin, images = family("swin"), torch.randn(1, 3, 16, 16)
    eager = eager_pass(swin, {"pixel_values": images})
    with torch.no_grad(), watch(swin) as seen:
        swin(pixel_values=images)
    assert [call.layer for call in seen.calls] == [0, 1, 2, 3]
    assert seen.calls[0].formula.mask["kind"] == "opaque"
    for call, weights in zip((seen.calls[1], seen.calls[3]), eager.attentions, strict=True):  # of each stage's last
        assert_as_dense(call, weights)


@pytest.mark.parametrize("name", ["t5", "bart", "whisper"])
def test_encoder_decoder_and_cross_attention_are_told_apart_at_equal_lengths(family, name):
    model = family(name)
    inputs = padded_inputs(ids_of(2, 10), "right")
    if name == "whisper":
        inputs = {"input_features": torch.randn(2, 8, 40)}
    decoded = torch.ones(2, 10, dtype=torch.long)
    decoded[0, 6:] = 0
    inputs |= {"decoder_input_ids": ids_of(2, 10), "decoder_attention_mask": decoded}
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
    assert_as_dense(cross, eager.cross_attentions[1])
    assert_as_dense(seen.call(1, "decoder"), eager.decoder_attentions[1])
    assert_as_dense(seen.call(1, "encoder"), eager.encoder_attentions[1])


def test_packed_documents_do_not_see_one_another(family):
    model = family("llama")
    packed: dict[str, Any] = {
        "input_ids": ids_of(1),
        "position_ids": torch.tensor([[0, 1, 2, 3, 4, 0, 1, 2, 3, 0, 1, 2]]),
        "use_cache": False,  # with a cache transformers looks for no packing
    }
    eager = eager_pass(model, packed)
    with torch.no_grad(), watch(model) as seen:
        model(**packed)
    assert {"kind": "packed", "documents": [[0, 5, 0], [5, 9, 1], [9, 12, 2]]} in seen.calls[0].formula.mask["of"]
    assert_as_dense(seen.calls[1], eager.attentions[1])


@pytest.mark.parametrize("kind", ["bool", "additive", "zeros and ones", "nothing"])
def test_a_mask_tensor_of_the_user_is_used_as_it_is(family, kind):
    model, ids = family("llama"), ids_of()
    lower = torch.ones(12, 12).tril().bool()[None, None].expand(2, 1, 12, 12)
    hidden = torch.zeros(lower.shape).masked_fill(~lower, torch.finfo(torch.float32).min)
    mask = {
        "bool": lower,
        "additive": hidden + 0.5 * torch.randn(2, 1, 12, 12),
        "zeros and ones": torch.ones(2, 1, 12, 12).tril(),
        "nothing": torch.zeros(2, 1, 12, 12),
    }[kind]
    dense = eager_pass(model, {"input_ids": ids, "attention_mask": hidden if kind == "bool" else mask})
    with torch.no_grad(), watch(model) as seen:
        model(input_ids=ids, attention_mask=mask)
    for call, weights in zip(seen.calls, dense.attentions, strict=True):
        assert_as_dense(call, weights)


def test_models_in_half_precision_are_measured_on_their_own_rounded_inputs(family):
    model, ids = family("llama").to(torch.bfloat16), ids_of()
    with torch.no_grad(), watch(model, keep_inputs=True) as seen:
        output = model(input_ids=ids).logits
    call = seen.call(0)
    assert output.dtype == torch.bfloat16
    assert call.inputs is not None
    query, key = call.inputs.query.double(), call.inputs.key.double().repeat_interleave(2, 1)
    scores = (query @ key.mT * call.formula.scale).masked_fill(~torch.ones(12, 12).tril().bool(), -torch.inf)
    assert_as_dense(call, scores.softmax(-1))


def test_under_autocast_attention_runs_in_autocasts_dtype(family):
    model, ids = family("llama"), ids_of()
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
    model, ids = family("gemma2"), ids_of()
    eager = eager_pass(model, {"input_ids": ids})
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


@pytest.mark.parametrize("cache", [None, "static"])
@pytest.mark.parametrize("name", DECODERS)
def test_decoded_rows_stand_where_they_stand_in_the_final_text(family, name, cache):
    model, ids = family(name), ids_of(2, 6)
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
    model, ids = family("llama"), ids_of(1, 4)
    with watch(model, keep_inputs=True, passes="apart") as seen:
        model.generate(input_ids=ids, max_new_tokens=3, do_sample=False, pad_token_id=0, cache_implementation="static")
    first, last = seen.calls[0].inputs, seen.calls[-2].inputs
    assert first is not None
    assert last is not None
    assert first.key.shape[2] == 4
    torch.testing.assert_close(first.key, last.key[:, :, :4])


def test_a_module_that_runs_once_a_layer_counts_its_layers(family):
    albert = family("albert", num_hidden_layers=3)
    with torch.no_grad(), watch(albert) as seen:
        albert(input_ids=ids_of())
        albert(input_ids=ids_of())
    assert [(call.layer, call.forward) for call in seen.calls] == [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)]


def test_a_module_that_attends_twice_in_one_run_has_two_parts(family):
    model = family("diffllama")
    with torch.no_grad(), watch(model) as seen:
        model(input_ids=ids_of())
    assert [(call.part, call.layer) for call in seen.calls] == [("self", 0), ("self.2", 0), ("self", 1), ("self.2", 1)]


def test_layers_of_a_hybrid_keep_their_numbers(family):
    model = family("lfm2")
    with torch.no_grad(), watch(model) as seen:
        model(input_ids=ids_of())
    assert [call.layer for call in seen.calls] == [1]
    with pytest.raises(InputError, match=r"layers with attention \(1\), got layer 0"), watch(model, layers=0):
        pass


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
