"""Texts in a batch, packed in a row, or under a mask of the user's, have the results that they have alone."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor

from heedmap.capture.watch import watch
from heedmap.measurements import Measurements

LENGTHS = (12, 7, 9)


def _alone(model: Any, ids: Tensor, **named: Any) -> list[Measurements]:
    with torch.no_grad(), watch(model) as seen:
        model(input_ids=ids[None], **named)
    return [call.measurements for call in seen.calls]


def _assert_same(together: Measurements, item: int, start: int, alone: Measurements, atol: float = 1e-6) -> None:
    """Rows and keys `start` and on of one text of a batch are those of the text alone."""
    length = alone["row_valid"].shape[1]
    here = slice(start, start + length)
    for name in alone:
        quantity = alone.quantity(name)
        if name == "row_valid":
            assert together[name][item, here].all()
        elif quantity.axis in ("query", "key"):
            values = together[name][item if together[name].shape[0] > 1 else 0][:, here]
            values = values - start * (values >= 0) if name == "argmax" else values
            np.testing.assert_allclose(values, quantity.values[0], rtol=1e-6, atol=atol, err_msg=name)


def _padded(side: str) -> tuple[list[Tensor], dict[str, Tensor], list[int]]:
    texts = [torch.randint(3, 99, (length,)) for length in LENGTHS]
    ids, real, starts = torch.zeros(3, 12, dtype=torch.long), torch.zeros(3, 12, dtype=torch.long), []
    for item, text in enumerate(texts):
        start = 12 - len(text) if side == "left" else 0
        ids[item, start : start + len(text)] = text
        real[item, start : start + len(text)] = 1
        starts.append(start)
    return texts, {"input_ids": ids, "attention_mask": real}, starts


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", ["llama", "mistral", "gemma2", "gemma3", "gpt-oss", "llama4", "qwen3", "phi3", "opt"])
def test_a_padded_batch_of_a_decoder_gives_each_text_its_own_results(family, name, side):
    model, (texts, inputs, starts) = family(name), _padded(side)
    if name != "opt":  # which counts its positions by the mask itself
        inputs["position_ids"] = (inputs["attention_mask"].cumsum(-1) - 1).clamp(min=0)
    with torch.no_grad(), watch(model) as seen:
        model(**inputs)
    for item, text in enumerate(texts):
        for layer, alone in enumerate(_alone(model, text)):
            _assert_same(seen.call(layer).measurements, item, starts[item], alone)


def test_a_left_padded_batch_of_a_trained_model_gives_each_text_its_own_results(smollm2):
    model = copy.deepcopy(smollm2.model.base_model).double()  # in float32 its products alone differ with the batch
    said = ("The cat sat on the mat because it was tired", "Rome is old.", "나는 사과를 먹었다")
    texts = [torch.tensor(smollm2.tokenizer(text)["input_ids"]) for text in said]
    longest = max(map(len, texts))
    starts = [longest - len(text) for text in texts]
    ids, real = torch.zeros(3, longest, dtype=torch.long), torch.zeros(3, longest, dtype=torch.long)
    for item, (text, start) in enumerate(zip(texts, starts, strict=True)):
        ids[item, start:], real[item, start:] = text, 1
    with torch.no_grad(), watch(model) as seen:
        model(input_ids=ids, attention_mask=real, position_ids=(real.cumsum(-1) - 1).clamp(min=0), use_cache=False)
    assert len(seen.calls) == 30
    for item, text in enumerate(texts):
        for layer, alone in enumerate(_alone(model, text, use_cache=False)):
            _assert_same(seen.call(layer).measurements, item, starts[item], alone)


@pytest.mark.parametrize("name", ["bert", "modernbert", "roberta", "distilbert", "t5-encoder"])
def test_a_padded_batch_of_an_encoder_gives_each_text_its_own_results(family, name):
    changes = {"pad_token_id": 0} if name == "roberta" else {}
    model, (texts, inputs, starts) = family(name, **changes), _padded("right")
    with torch.no_grad(), watch(model) as seen:
        model(**inputs)
    for item, text in enumerate(texts):
        for layer, alone in enumerate(_alone(model, text)):
            found = seen.call(layer).measurements
            assert found["row_valid"][item].sum() == len(text)
            # T5 does not scale its scores: what its layers round differs by more
            _assert_same(found, item, starts[item], alone, atol=5e-6 if name == "t5-encoder" else 1e-6)


def test_a_padded_batch_of_an_encoder_decoder_gives_each_pair_its_own_results(family):
    model, (texts, inputs, _) = family("bart"), _padded("right")
    with torch.no_grad(), watch(model) as seen:
        model(**inputs, decoder_input_ids=inputs["input_ids"], decoder_attention_mask=inputs["attention_mask"])
    for item, text in enumerate(texts):
        with torch.no_grad(), watch(model) as alone:
            model(input_ids=text[None], decoder_input_ids=text[None])
        for call in alone.calls:
            _assert_same(seen.call(call.layer, call.part).measurements, item, 0, call.measurements)


@pytest.mark.parametrize("name", ["llama", "mistral", "gemma2"])
def test_packed_texts_have_the_results_that_they_have_alone(family, name):
    model = family(name)
    texts = [torch.randint(3, 99, (length,)) for length in LENGTHS]
    positions = torch.cat([torch.arange(length) for length in LENGTHS])[None]
    with torch.no_grad(), watch(model) as seen:
        model(input_ids=torch.cat(texts)[None], position_ids=positions, use_cache=False)
    start = 0
    for text in texts:
        for layer, alone in enumerate(_alone(model, text)):
            _assert_same(seen.call(layer).measurements, 0, start, alone)
        start += len(text)


@pytest.mark.skipif(transformers.__version__.startswith("4."), reason="token types mean otherwise in transformers 4")
def test_a_prefix_that_sees_itself_both_ways_is_followed(family):
    model, ids = family("paligemma"), torch.randint(3, 99, (1, 10))
    answer = torch.zeros_like(ids)
    answer[:, 6:] = 1  # token types: the prefix, then what is to be written
    with torch.no_grad(), watch(model, keep_inputs=True) as seen:
        model(input_ids=ids, token_type_ids=answer, labels=ids)
    inputs = seen.calls[0].inputs
    assert inputs is not None
    may = torch.ones(10, 10).tril().bool()
    may[:, :6] = True
    scores = inputs.query[0].double() @ inputs.key[0].double().repeat_interleave(2, 0).mT * inputs.scale
    weights = scores.masked_fill(~may, -torch.inf).softmax(-1)
    found = seen.calls[0].measurements
    np.testing.assert_allclose(found["received"][0], weights.sum(1), atol=1e-5)
    np.testing.assert_allclose(found["max_weight"][0], weights.amax(-1), atol=1e-6)


@pytest.mark.parametrize("kind", ["bool", "additive"])
def test_a_four_dimensional_mask_of_the_user_differs_by_text(family, kind):
    model, ids = family("llama"), torch.randint(3, 99, (2, 8))
    may = torch.ones(8, 8).tril().bool().expand(2, 1, 8, 8).clone()
    may[1, :, 4:, :4] = False  # two packed texts of four tokens
    mask = may if kind == "bool" else torch.zeros(may.shape).masked_fill(~may, torch.finfo(torch.float32).min)
    positions = torch.stack([torch.arange(8), torch.arange(8) % 4])
    with torch.no_grad(), watch(model) as seen:
        model(input_ids=ids, attention_mask=mask, position_ids=positions)
    for layer in (0, 1):
        found = seen.call(layer).measurements
        _assert_same(found, 0, 0, _alone(model, ids[0])[layer])
        _assert_same(found, 1, 0, _alone(model, ids[1, :4])[layer])
        _assert_same(found, 1, 4, _alone(model, ids[1, 4:])[layer])


def test_padding_rows_are_left_out_where_a_model_makes_a_mask_tensor_of_its_own(family):
    """Swin-like code and older versions hand the attention function a 4-D tensor; the 2-D mask still tells padding."""
    model, (texts, inputs, _) = family("llama"), _padded("right")
    real = inputs["attention_mask"].bool()
    may = torch.ones(12, 12).tril().bool() & real[:, None, None, :]
    decoder, forward = model.model, type(model.model).forward

    def with_a_tensor(*args: Any, attention_mask: Tensor | None = None, **named: Any) -> Any:
        return forward(decoder, *args, attention_mask=may, **named)

    decoder.forward = with_a_tensor
    with torch.no_grad(), watch(model) as seen:
        model(**inputs)
    del decoder.forward
    for item, text in enumerate(texts):
        for layer, alone in enumerate(_alone(model, text)):
            _assert_same(seen.call(layer).measurements, item, 0, alone)
