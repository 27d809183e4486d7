"""Inside watch, `generate()` gives one matrix a layer: that of one full forward pass over the text it returned."""

from __future__ import annotations

import inspect
import os
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor

from heedmap.capture.freed import LONG
from heedmap.capture.generation import Generation
from heedmap.capture.known import Known
from heedmap.capture.text_rows import TextRows
from heedmap.capture.watch import Seen, watch
from heedmap.errors import UnsupportedError

PROMPT = 6
OLD = transformers.__version__.startswith("4.")


def _batch(side: str | None = None) -> dict[str, Tensor]:
    ids = torch.randint(3, 100, (2, PROMPT))
    real = torch.ones_like(ids)
    if side == "left":
        real[1, :2] = 0
    return {"input_ids": ids, "attention_mask": real}


def _generated(model: Any, inputs: dict[str, Tensor], **settings: Any) -> tuple[Tensor, Seen]:
    """What the model returns inside watch, which must be what it returns outside."""
    settings = {"max_new_tokens": 7, "pad_token_id": 0, "do_sample": False} | settings
    torch.manual_seed(5)
    expected = model.generate(**inputs, **settings)
    torch.manual_seed(5)
    with watch(model) as seen:
        returned = model.generate(**inputs, **settings)
    assert torch.equal(returned, expected)
    return returned, seen


def _assert_as_one_pass(model: Any, seen: Seen, text: int, ids: Tensor, real: Tensor) -> None:
    """The joined matrices of one returned text are those of a forward pass over all but its last token."""
    ids = ids[None, :-1]
    real = torch.cat([real[None], torch.ones(1, ids.shape[1] - len(real), dtype=torch.long)], 1)
    with torch.no_grad(), watch(model) as whole:
        model(input_ids=ids, attention_mask=real, position_ids=(real.cumsum(-1) - 1).clamp(min=0))
    assert len(whole.calls) == len(seen.calls)
    for expected in whole.calls:
        found = seen.call(expected.layer)
        rows = expected.formula.query_len
        for name in expected.measurements:
            quantity = expected.measurements.quantity(name)
            if quantity.axis not in ("query", "key") or name == "row_valid":
                continue
            values = found.measurements[name]
            values = values[text : text + 1] if values.shape[0] > 1 else values
            close = {"rtol": 1e-5, "atol": 2e-5}
            np.testing.assert_allclose(values[:, :, :rows], quantity.values, err_msg=name, **close)
            if quantity.axis == "key":
                assert not np.any(values[:, :, rows:])


def _encoder_decoder(family: Any, name: str) -> Any:
    """With weights large enough that attention is uneven."""
    kind = {"t5": transformers.T5ForConditionalGeneration, "bart": transformers.BartForConditionalGeneration}[name]
    model = kind(family(name).config).eval()
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.15)
    return model


@pytest.mark.parametrize("side", [None, "left"])
@pytest.mark.parametrize("cache", [None, "static"])
@pytest.mark.parametrize("name", ["gpt2", "llama", "mistral", "gemma3", "gpt-oss", "llama4"])
def test_greedy_generation_is_one_matrix_a_layer(family, name, cache, side):
    model, inputs = family(name), _batch(side)
    settings = {} if cache is None else {"cache_implementation": cache}
    returned, seen = _generated(model, inputs, min_new_tokens=7, **settings)
    assert [(call.layer, call.formula.query_len) for call in seen.calls] == [(0, PROMPT + 6), (1, PROMPT + 6)]
    for text in (0, 1):
        _assert_as_one_pass(model, seen, text, returned[text], inputs["attention_mask"][text])


@pytest.mark.parametrize("name", ["llama", "gemma2"])
def test_a_text_alone_has_every_statistic_of_one_pass_and_its_formula(family, name):
    model, ids = family(name), torch.randint(3, 100, (1, PROMPT))
    with watch(model, "all") as seen:
        returned = model.generate(input_ids=ids, max_new_tokens=7, min_new_tokens=7, do_sample=False, pad_token_id=0)
    with torch.no_grad(), watch(model, "all", known=Known(returned[:, :-1])) as whole:
        model(input_ids=returned[:, :-1])
    for layer in (0, 1):
        found, expected = seen.call(layer), whole.call(layer)
        assert found.formula == expected.formula
        assert found.token_ids is not None
        assert torch.equal(found.token_ids, returned)
        assert set(found.measurements) == set(expected.measurements)
        for statistic in expected.measurements:
            np.testing.assert_allclose(
                found.measurements[statistic], expected.measurements[statistic], rtol=1e-5, atol=2e-5
            )


@pytest.mark.parametrize(
    "settings",
    [
        {"do_sample": True, "min_new_tokens": 7},
        {"use_cache": False, "min_new_tokens": 7},
        {"prefill_chunk_size": 2, "min_new_tokens": 7},
        {"num_beams": 3, "min_new_tokens": 7},
        {"num_beams": 4, "num_return_sequences": 3},
        {"num_beams": 3, "cache_implementation": "static"},
        {"num_return_sequences": 2, "do_sample": True},
    ],
    ids=["sampling", "no cache", "chunked prompt", "beams", "several beams", "beams, static", "several samples"],
)
def test_each_returned_text_has_its_own_matrix(family, settings):
    if "prefill_chunk_size" in settings and OLD:
        pytest.skip("positions of padded texts move on between the parts of a prompt in transformers 4")
    model, inputs = family("mistral"), _batch("left")
    model.generation_config.eos_token_id = list(range(3, 12))  # beams and samples end at different lengths
    returned, seen = _generated(model, inputs, **settings)
    for text, ids in enumerate(returned):
        ends = torch.nonzero(torch.isin(ids[PROMPT:], torch.arange(3, 12)))
        length = PROMPT + int(ends[0]) + 1 if len(ends) else len(ids)
        item = text * 2 // len(returned)
        _assert_as_one_pass(model, seen, text, ids[:length], inputs["attention_mask"][item])
        valid = seen.call(0).measurements["row_valid"][text]
        assert valid.sum() == length - 1 - int((inputs["attention_mask"][item] == 0).sum())


def test_padding_of_a_prompt_that_is_read_in_parts_may_be_longer_than_a_part(family):
    if OLD:
        pytest.skip("positions of padded texts move on between the parts of a prompt in transformers 4")
    model, inputs = family("llama"), _batch()
    inputs["attention_mask"][1, :3] = 0
    inputs["input_ids"][0, 4] = 2  # an end token within the prompt, as between the turns of a chat
    returned, seen = _generated(model, inputs, prefill_chunk_size=2, min_new_tokens=7)
    for text in (0, 1):
        _assert_as_one_pass(model, seen, text, returned[text], inputs["attention_mask"][text])
    valid = seen.call(0).measurements["row_valid"]
    assert valid.reshape(2, -1).sum(-1).tolist() == [PROMPT + 6, PROMPT + 3]


def test_a_padding_token_that_was_drawn_last_is_a_token_of_its_text(family):
    model, inputs = family("llama"), _batch()
    model.generation_config.eos_token_id = None
    returned, seen = _generated(model, inputs, pad_token_id=100, max_new_tokens=4)
    drawn = int(returned[0, -1])  # no text is padded, for none ends before the last token
    again, seen = _generated(model, inputs, pad_token_id=drawn, max_new_tokens=4)
    assert torch.equal(again, returned)
    assert seen.call(0).measurements["row_valid"].reshape(2, -1).sum(-1).tolist() == [PROMPT + 3] * 2


def test_drafts_that_were_thrown_away_leave_no_rows(family):
    model = family("llama")
    ids = torch.tensor([[5, 6, 7, 8, 5, 6, 7, 8, 5, 6]])
    settings = {"max_new_tokens": 12, "min_new_tokens": 12, "do_sample": False, "pad_token_id": 0}
    with watch(model) as seen:
        returned = model.generate(input_ids=ids, prompt_lookup_num_tokens=3, **settings)
    assert seen.call(0).formula.query_len == returned.shape[1] - 1
    _assert_as_one_pass(model, seen, 0, returned[0], torch.ones(10, dtype=torch.long))


def test_another_models_drafts_are_not_seen(family):
    model, assistant = family("llama"), family("llama", num_hidden_layers=1)
    model.generation_config.eos_token_id = assistant.generation_config.eos_token_id = None
    ids = torch.randint(3, 100, (1, PROMPT))
    with watch(model) as seen:
        returned = model.generate(
            input_ids=ids, assistant_model=assistant, max_new_tokens=8, do_sample=False, pad_token_id=0
        )
    _assert_as_one_pass(model, seen, 0, returned[0], torch.ones(PROMPT, dtype=torch.long))


def test_a_cache_that_was_there_before_gives_its_keys(family):
    model, ids = family("llama"), torch.randint(3, 100, (1, PROMPT))
    settings = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    first = model.generate(input_ids=ids, return_dict_in_generate=True, **settings)
    more = torch.cat([first.sequences, torch.randint(3, 100, (1, 3))], 1)
    name = "cache" if "cache" in inspect.signature(type(model).forward).parameters else "past_key_values"
    with watch(model) as seen:
        returned = model.generate(input_ids=more, **{name: first[name]}, **settings)
    with torch.no_grad(), watch(model) as whole:
        model(input_ids=returned[:, :-1])
    call = seen.call(1)
    assert (call.formula.query_offset, call.formula.key_len) == (PROMPT + 3, returned.shape[1] - 1)
    for name in ("entropy", "argmax", "mean_distance"):
        expected = whole.call(1).measurements[name][:, :, PROMPT + 3 :]
        np.testing.assert_allclose(call.measurements[name], expected, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("name", ["t5", "bart"])
def test_an_encoder_decoder_generates_with_its_decoder_and_its_cross_attention(family, name, beams):
    model = _encoder_decoder(family, name)
    inputs = {"input_ids": torch.randint(3, 100, (2, 9)), "attention_mask": torch.ones(2, 9, dtype=torch.long)}
    inputs["attention_mask"][1, 6:] = 0
    returned, seen = _generated(model, inputs, num_beams=beams, min_new_tokens=7, eos_token_id=2,
                                decoder_start_token_id=1, forced_eos_token_id=None)  # fmt: skip
    with torch.no_grad(), watch(model) as whole:
        model(**inputs, decoder_input_ids=returned[:, :-1])
    assert [(call.part, call.layer) for call in seen.calls[:2]] == [("encoder", 0), ("encoder", 1)]
    for part in ("decoder", "cross"):
        for layer in (0, 1):
            found, expected = seen.call(layer, part), whole.call(layer, part)
            assert found.formula.query_offset == 0
            for statistic in ("entropy", "max_weight", "argmax", "logsumexp", "received", "row_valid"):
                np.testing.assert_allclose(
                    found.measurements[statistic], expected.measurements[statistic], rtol=1e-5, atol=2e-5
                )


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_a_decoders_prompt_may_be_read_in_parts_where_no_mask_of_the_encoders_text_is_lost_by_it(family, name):
    if OLD:
        pytest.skip("a prompt is not read in parts in transformers 4 where the model has an encoder")
    model, settings = _encoder_decoder(family, name), {"min_new_tokens": 5, "decoder_start_token_id": 1}
    inputs = {"input_ids": torch.randint(3, 100, (2, 9)), "attention_mask": torch.ones(2, 9, dtype=torch.long),
              "decoder_input_ids": torch.randint(3, 100, (2, 5))}  # fmt: skip
    returned, seen = _generated(model, inputs, prefill_chunk_size=2, **settings)
    with torch.no_grad(), watch(model) as whole:
        model(**inputs | {"decoder_input_ids": returned[:, :-1]})
    for statistic in ("entropy", "received"):
        found, expected = (run.call(1, "cross").measurements[statistic] for run in (seen, whole))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-5)
    inputs["attention_mask"][1, 6:] = 0  # cut to its first columns, the mask hides nothing any more
    with pytest.raises(UnsupportedError, match="prefill_chunk_size"), watch(model):
        model.generate(**inputs, prefill_chunk_size=2, max_new_tokens=5, **settings)
    inputs["attention_mask"] = inputs["attention_mask"].flip(1)
    with pytest.raises(UnsupportedError, match=r"first \d, to which generate\(\) cut it"), watch(model):
        model.generate(**inputs, prefill_chunk_size=2, max_new_tokens=5, **settings)


def test_passes_apart_are_a_call_each(family):
    model, ids = family("llama"), torch.randint(3, 100, (1, PROMPT))
    with watch(model, passes="apart") as seen:
        model.generate(input_ids=ids, max_new_tokens=3, min_new_tokens=3, do_sample=False, pad_token_id=0)
    assert [(call.layer, call.forward) for call in seen.calls] == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]


def test_every_generate_and_every_other_pass_is_a_call_of_its_own(family):
    model, ids = family("llama"), torch.randint(3, 100, (1, PROMPT))
    with watch(model, layers=[1], heads=[0, 3]) as seen:
        for _ in range(2):
            model.generate(input_ids=ids, max_new_tokens=3, min_new_tokens=3, do_sample=False, pad_token_id=0)
        with torch.no_grad():
            model(input_ids=ids)
    assert [call.formula.query_len for call in seen.calls] == [PROMPT + 2, PROMPT + 2, PROMPT]
    assert [call.heads for call in seen.calls] == [[0, 3]] * 3


def test_what_cannot_be_followed_is_refused_by_name_and_the_model_set_back(family):
    model, ids = family("llama"), torch.randint(3, 100, (1, PROMPT))
    embeddings = model.get_input_embeddings()(ids).detach()
    with pytest.raises(UnsupportedError, match="token ids"), watch(model):
        model.generate(inputs_embeds=embeddings, max_new_tokens=3, do_sample=False, pad_token_id=0)
    with pytest.raises(UnsupportedError, match="assistant_early_exit"), watch(model):
        model.generate(input_ids=ids, assistant_early_exit=1, max_new_tokens=3, do_sample=False, pad_token_id=0)
    assert not {"generate", "prepare_inputs_for_generation"} & set(vars(model))
    assert model.config._attn_implementation == "sdpa"


def test_watches_that_nest_join_each_for_itself_whichever_ends_first(family):
    model, ids = family("llama"), torch.randint(3, 100, (1, PROMPT))
    settings = {"max_new_tokens": 3, "min_new_tokens": 3, "do_sample": False, "pad_token_id": 0}
    outer, inner = watch(model), watch(model, passes="apart")
    one, other = outer.__enter__(), inner.__enter__()
    model.generate(input_ids=ids, **settings)
    outer.__exit__(None, None, None)
    model.generate(input_ids=ids, **settings)
    inner.__exit__(None, None, None)
    assert [call.formula.query_len for call in one.calls] == [PROMPT + 2] * 2
    assert len(other.calls) == 12
    assert "generate" not in vars(model)


def test_rows_are_found_by_the_text_up_to_them_and_by_its_owner():
    rows = TextRows()
    rows.add(np.array([[5, 6], [5, 7], [5, 7]]), [0, 0, 1], 0)
    rows.add(np.array([[5, 7, 8], [5, 6, 9]]), [0, 0], 2)  # the texts changed places
    assert rows.find(np.array([5, 6, 9]), 0, 0, 3).tolist()[1:] == [1, 7]
    assert rows.find(np.array([5, 7, 8]), 0, 1, 3).tolist() == [3, 6]
    assert rows.find(np.array([5, 7, 8]), 1, 0, 3).tolist() == [4, 5, -1]
    assert rows.known(np.array([5, 7]), 0)
    assert not rows.known(np.array([7]), 0)


def test_what_is_kept_grows_with_the_number_of_tokens_not_with_its_square(family, monkeypatch):
    """Tensors held by the end of a generate(), for texts of n and of 2n tokens."""
    model, ids = family("llama"), torch.randint(3, 100, (1, PROMPT))
    held: list[int] = []
    join = Generation.join

    def counted(self: Generation, *args: Any) -> None:
        kept = [tensor for one in self._kept.values() for tensor in (*one._queries, *one._keys, one._first.query)]
        held.append(sum(tensor.untyped_storage().nbytes() for tensor in kept))
        join(self, *args)

    monkeypatch.setattr(Generation, "join", counted)
    for new in (25, 50):
        with watch(model):
            model.generate(input_ids=ids, max_new_tokens=new, min_new_tokens=new, do_sample=False, pad_token_id=0)
    per_row = 2 * 4 * (4 + 2) * 8  # layers, bytes, heads of query and key, head_dim
    assert held == [per_row * (PROMPT + 24), per_row * (PROMPT + 49)]


@pytest.mark.skipif(sys.platform != "linux", reason="glibc is what keeps freed memory")
@pytest.mark.parametrize("passes", ["joined", "apart"])
def test_holes_that_a_growing_cache_leaves_go_back_to_the_system(family, passes):
    """Each decoding step copies keys and values; the places of the old ones are too small for the next."""
    model = family("llama", hidden_size=256, head_dim=256, num_key_value_heads=4, max_position_embeddings=4096)
    held: list[int] = []

    class Held:
        def put(self, value: Tensor) -> None:
            held.append(int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"))

        def end(self) -> None: ...

    ids = torch.randint(3, 100, (1, LONG))
    with watch(model, ["entropy"], passes=passes):
        model.generate(input_ids=ids, max_new_tokens=40, min_new_tokens=40, do_sample=False, pad_token_id=0,
                       streamer=Held())  # fmt: skip
    cache = 2 * 2 * 4 * LONG * 256 * 4  # layers, key and value, heads, tokens, head_dim, bytes
    assert held[-1] - held[5] < cache


def test_python_objects_of_a_generation_grow_linearly(family):
    model, ids = family("llama"), torch.randint(3, 100, (1, PROMPT))
    peaks: list[int] = []
    for new in (40, 40, 160):  # the first one warms up
        tracemalloc.start()
        with watch(model, statistics=["entropy"]):
            model.generate(input_ids=ids, max_new_tokens=new, min_new_tokens=new, do_sample=False, pad_token_id=0)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < 6 * peaks[1]
