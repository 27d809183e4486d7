"""Facts about tokens reach the statistics that ask for them, through watch and through look."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from heedmap.capture.known import Known
from heedmap.capture.look import look
from heedmap.capture.watch import watch
from heedmap.errors import InputError, UnsupportedError

TEXT = "The cat sat, and the cat slept. The dog sat too."


def test_keys_beyond_the_text_belong_to_no_set_and_copy_nothing() -> None:
    known = Known(torch.tensor([[7, 8, 7]]), {"a": torch.tensor([[True, False, True]])})
    facts = known.of_keys(2, 1, 4)
    assert facts["token_ids"].tolist() == [[8, 7, -4, -5]] * 2
    assert facts["spans"]["a"].tolist() == [[False, True, False, False]] * 2
    assert facts["classes"] == {}
    facts = Known(parts=torch.ones(1, 3, 2)).of_keys(2, 1, 4)
    assert facts["parts"].tolist() == [[[1, 1], [1, 1], [0, 0], [0, 0]]]
    with pytest.raises(InputError, match="of 1 texts, got those of 2"):
        Known(torch.zeros(2, 3, dtype=torch.int64)).of_keys(1, 0, 3)


def test_watch_measures_copies_of_the_tokens_it_is_told(family) -> None:
    model = family("llama")
    ids = torch.randint(5, 90, (1, 8)).repeat(1, 2)
    with watch(model, ["induction", "duplicate"], known=Known(ids)) as seen:
        model(input_ids=ids)
    assert seen.call(0).measurements["induction"].shape == (1, 4, 16)
    assert np.isnan(seen.call(0).measurements["duplicate"][:, :, 0]).all()
    assert np.isfinite(seen.call(0).measurements["duplicate"][:, :, 8:]).all()


@pytest.mark.parametrize("heads", [None, ["0.3", "1.1"]])
def test_every_statistic_is_in_the_tables_of_a_run(minilm, minilm_tokenizer, tmp_path, heads) -> None:
    spans = {"first": "The cat sat", "last": "The dog sat too."}
    run = look(TEXT, minilm, minilm_tokenizer, out=tmp_path / "run", statistics="all", spans=spans, heads=heads)
    layer, head = 1, 1
    weights = run.weights(layer, head).astype(np.float64)
    query = run.table("query", layer=layer, head=head)
    ids = np.array(run.tokens.column("id"))
    same = np.tril(ids[:, None] == ids[None, :], -1)
    after = np.tril(np.pad(ids[:, None] == ids[None, :-1], ((0, 0), (1, 0))), -1)
    for name, matches in (("duplicate", same), ("induction", after)):
        wanted = np.where(matches.any(1), (weights * matches).sum(1), np.nan)
        np.testing.assert_allclose(np.array(query.column(name)), wanted, atol=2e-6)
    places = {name: np.r_[tuple(slice(*stretch) for stretch in run.meta["spans"][name])] for name in spans}
    assert run.meta["statistics"]["span_mass"]["labels"] == list(spans)
    wanted = np.stack([weights[:, place].sum(1) for place in places.values()], axis=1)
    np.testing.assert_allclose(np.stack(query.column("span_mass").to_pylist()), wanted, atol=2e-6)
    labels = run.tokens.column("text").to_pylist()
    kinds = np.array([[label in ("[CLS]", "[SEP]"), label in (",", ".")] for label in labels])
    np.testing.assert_allclose(np.stack(query.column("class_mass").to_pylist()), weights @ kinds, atol=2e-6)
    np.testing.assert_array_equal(np.stack(query.column("top_keys").to_pylist())[:, 0], weights.argmax(1))
    key = run.table("key", layer=layer, head=head).to_pandas()
    np.testing.assert_allclose(key["received_max"], weights.max(0), atol=2e-6)
    assert (key["value_received"] > 0).all()


def test_values_are_there_for_some_heads_as_for_all(minilm, minilm_tokenizer, tmp_path) -> None:
    names = ["value_received"]
    whole = look(TEXT, minilm, minilm_tokenizer, out=tmp_path / "whole", statistics=names)
    some = look(TEXT, minilm, minilm_tokenizer, out=tmp_path / "some", statistics=names, heads=["2.5"])
    both = [run.table("key", layer=2, head=5).column("value_received").to_numpy() for run in (whole, some)]
    np.testing.assert_allclose(*both, rtol=1e-5)


def test_spans_are_measured_beside_what_was_asked(minilm, minilm_tokenizer, tmp_path) -> None:
    run = look(TEXT, minilm, minilm_tokenizer, out=tmp_path / "run", statistics=["entropy"], spans={"a": (0, 3)})
    assert {"entropy", "span_mass"} <= set(run.table("query").column_names)


def test_span_mass_without_spans_is_refused_before_a_model_is_loaded() -> None:
    with pytest.raises(InputError, match="inputs with spans for span_mass"):
        look(TEXT, "no such model", statistics=["span_mass"])


def test_a_statistic_that_only_some_layers_can_tell_is_left_out_of_the_others(family) -> None:
    model = family("t5")
    ids = torch.randint(5, 90, (1, 6))
    with watch(model, ["entropy", "previous", "distance_mean"]) as seen:
        model(input_ids=ids, decoder_input_ids=ids)
    for part in ("encoder", "decoder"):
        assert {"entropy", "previous", "distance_mean"} <= set(seen.call(0, part).measurements)
    assert "entropy" in seen.call(0, "cross").measurements
    assert not {"previous", "distance_mean"} & set(seen.call(0, "cross").measurements)


@pytest.mark.parametrize(
    ("known", "asked", "message"),
    [
        (None, "duplicate", "inputs with token_ids for duplicate"),
        (None, "span_mass", "inputs with spans for span_mass"),
        (Known(torch.tensor([[7, 8, 9]])), "class_mass", "inputs with classes for class_mass"),
        (Known(target=Known(torch.tensor([[7, 8, 9]]))), "duplicate", "inputs with token_ids for duplicate"),
    ],
)
def test_a_statistic_that_no_layer_can_tell_is_refused(family, known, asked: str, message: str) -> None:
    model = family("llama")
    with pytest.raises(InputError, match=message), watch(model, ["entropy", asked], known=known):
        model(input_ids=torch.tensor([[7, 8, 9]]))
    assert model.config._attn_implementation == "sdpa"


def test_distance_asked_of_cross_attention_alone_is_refused(family) -> None:
    model = family("bart")
    attention = model.get_decoder().layers[0].encoder_attn
    refused = pytest.raises(UnsupportedError, match="without distance in cross-attention, got previous")
    with refused, torch.no_grad(), watch(model, ["previous"]):
        attention(torch.randn(1, 6, 32), key_value_states=torch.randn(1, 4, 32))


def test_an_encoder_decoder_has_facts_about_both_its_texts(family) -> None:
    model = family("bart")
    source, target = torch.tensor([[5, 6, 5, 7, 6]]), torch.tensor([[8, 9, 8, 8]])
    first = torch.tensor([[True, True, False, False, False]])
    with watch(model, "all", known=Known(source, {"a": first}, target=Known(target))) as seen:
        model(input_ids=source, decoder_input_ids=target)
    encoder, decoder, cross = (seen.call(0, part).measurements for part in ("encoder", "decoder", "cross"))
    assert np.isfinite(encoder["duplicate"][0, 0]).tolist() == [False, False, True, False, True]
    assert np.isfinite(decoder["duplicate"][0, 0]).tolist() == [False, False, True, True]
    assert "duplicate" not in cross
    assert encoder["span_mass"].shape == (1, 4, 5, 1)
    assert cross["span_mass"].shape == (1, 4, 4, 1)
    assert "span_mass" not in decoder


def test_an_image_is_asked_for_no_facts_about_tokens(family) -> None:
    model = family("clip")
    ids = torch.tensor([[5, 6, 5, 7, 6, 2]])
    with watch(model, ["duplicate"], known=Known(ids)) as seen:
        model(input_ids=ids, pixel_values=torch.zeros(1, 3, 16, 16))
    assert "duplicate" in seen.call(0, "text").measurements
    assert "duplicate" not in seen.call(0, "vision").measurements


@pytest.mark.parametrize(
    "settings",
    [{}, {"num_beams": 3, "num_return_sequences": 2}, {"do_sample": True, "num_return_sequences": 2}],
    ids=["greedy", "beams", "samples"],
)
def test_generated_texts_have_their_own_copies_and_the_sets_of_their_inputs(family, settings) -> None:
    model = family("llama")
    model.generation_config.eos_token_id = None
    prompts = torch.tensor([[5, 6, 7, 5, 6], [9, 8, 9, 8, 9]])
    spans = {"a": torch.tensor([[True, True, False, False, False], [False, False, False, True, True]])}
    names = ["duplicate", "induction", "span_mass"]
    sizes = {"max_new_tokens": 6, "pad_token_id": 0, "do_sample": False}
    with watch(model, names, known=Known(prompts, spans)) as seen:
        texts = model.generate(input_ids=prompts, attention_mask=torch.ones_like(prompts), **sizes | settings)
    for item, text in enumerate(texts):
        owner = item * 2 // len(texts)
        alone = Known(text[None, :-1], {"a": spans["a"][owner : owner + 1]})
        with torch.no_grad(), watch(model, names, known=alone) as whole:
            model(input_ids=text[None, :-1])
        for layer in (0, 1):
            for name in names:
                wanted = whole.call(layer).measurements[name][0]
                np.testing.assert_allclose(seen.call(layer).measurements[name][item], wanted, rtol=1e-5, atol=2e-5)


def test_generate_knows_the_token_ids_by_itself_and_refuses_sets_of_other_inputs(family) -> None:
    model, ids = family("llama"), torch.tensor([[5, 6, 5, 6]])
    sizes = {"max_new_tokens": 3, "min_new_tokens": 3, "pad_token_id": 0, "do_sample": False}
    with watch(model, ["duplicate"]) as seen:
        model.generate(input_ids=ids, **sizes)
    assert np.isfinite(seen.call(0).measurements["duplicate"][0, 0, 2:4]).all()
    known = Known(spans={"a": torch.zeros(3, 4, dtype=torch.bool)})
    with pytest.raises(InputError, match="of 1 texts, got those of 3"), watch(model, ["span_mass"], known=known):
        model.generate(input_ids=ids, **sizes)


def test_a_decoder_that_generates_has_copies_and_its_cross_attention_the_spans_of_its_inputs(family) -> None:
    import transformers

    settings = {"decoder_start_token_id": 2, "forced_eos_token_id": None}
    model = transformers.BartForConditionalGeneration(family("bart", **settings).config).eval()
    model.generation_config.eos_token_id = None
    sources = torch.tensor([[5, 6, 7, 5, 6], [9, 8, 9, 8, 9]])
    spans = {"a": torch.tensor([[True, True, False, False, False], [False, False, False, True, True]])}
    sizes = {"max_new_tokens": 4, "pad_token_id": 0, "num_beams": 2, "num_return_sequences": 2, "do_sample": False}
    with watch(model, ["duplicate", "span_mass"], known=Known(sources, spans)) as seen:
        texts = model.generate(input_ids=sources, attention_mask=torch.ones_like(sources), **sizes)
    assert seen.call(0, "encoder").measurements["duplicate"].shape == (2, 4, 5)
    assert seen.call(0, "decoder").measurements["duplicate"].shape == (4, 4, 4)
    for item, text in enumerate(texts):
        source = sources[item // 2 : item // 2 + 1]
        alone = Known(source, {"a": spans["a"][item // 2 : item // 2 + 1]}, target=Known(text[None, :-1]))
        with torch.no_grad(), watch(model, ["duplicate", "span_mass"], known=alone) as whole:
            model(input_ids=source, decoder_input_ids=text[None, :-1])
        for part, name in (("decoder", "duplicate"), ("cross", "span_mass")):
            wanted = whole.call(1, part).measurements[name][0]
            np.testing.assert_allclose(seen.call(1, part).measurements[name][item], wanted, rtol=1e-5, atol=2e-5)
