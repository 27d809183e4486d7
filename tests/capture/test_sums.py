"""`passes="summed"`: many texts in one result, equal to what the texts give one by one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from heedmap.capture.watch import watch
from heedmap.errors import InputError


def test_sums_over_passes_are_those_of_their_texts(family):
    model = family("llama")
    texts = [torch.randint(3, 100, (1, length)) for length in (5, 9, 7)]
    names = ["entropy", "max_score", "previous", "received_mean", "distance_mean", "map_mean", "argmax"]
    with torch.no_grad():
        with watch(model, names, passes="summed") as summed:
            for ids in texts:
                model(input_ids=ids)
        alone = []
        for ids in texts:
            with watch(model, names) as seen:
                model(input_ids=ids)
            alone.append(seen.call(1).measurements)
    assert [(call.layer, call.part) for call in summed.calls] == [(0, "self"), (1, "self")]
    found = summed.call(1).measurements
    rows = np.concatenate([one["entropy"][0] for one in alone], axis=-1)
    np.testing.assert_allclose(found["entropy"][0], rows.mean(-1), rtol=1e-6)
    assert found["entropy_rows"].tolist() == [[21] * 4]
    previous = np.concatenate([one["previous"][0][:, 1:] for one in alone], axis=-1)
    np.testing.assert_allclose(found["previous"][0], previous.mean(-1), rtol=1e-6)
    largest = np.concatenate([one["max_score"][0] for one in alone], axis=-1).max(-1)
    np.testing.assert_array_equal(found["max_score"][0], largest)
    assert found["texts"].tolist() == [[3]]
    assert found["distances"].tolist() == list(range(-8, 9))
    for name in ("distance_profile", "distance_pairs"):
        total = np.zeros(found[name].shape)
        for one in alone:
            for place, distance in enumerate(one["distances"]):
                total[..., distance + 8] += one[name][..., place]
        np.testing.assert_allclose(found[name], total, rtol=1e-12)
    for name in ("received", "rows_that_may_see"):
        total = np.zeros(found[name].shape)
        for one in alone:
            total[..., : one[name].shape[-1]] += one[name]
        np.testing.assert_allclose(found[name], total, rtol=1e-12)
    assert found["received_mean"].shape == (1, 4, 9)
    assert not {"argmax", "map_mean", "map_sum", "row_max"} & set(found)


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_padded_batch_adds_up_to_its_texts_alone(family, side):
    model, ids = family("llama"), torch.randint(3, 100, (2, 8))
    real = torch.ones_like(ids)
    real[1, :3] = 0
    if side == "right":
        real[1] = real[1].flip(0)
    positions = (real.cumsum(-1) - 1).clamp(min=0)
    with torch.no_grad():
        with watch(model, passes="summed") as together:
            model(input_ids=ids, attention_mask=real, position_ids=positions)
        with watch(model, passes="summed") as alone:
            model(input_ids=ids[:1])
            model(input_ids=ids[1:, real[1].bool()])
    for name, expected in alone.call(0).measurements.items():
        np.testing.assert_allclose(together.call(0).measurements[name], expected, rtol=2e-6, atol=2e-6, err_msg=name)


def test_the_result_does_not_grow_and_goes_with_generation_and_cross_attention(family):
    model, ids = family("llama"), torch.randint(3, 100, (1, 6))
    with watch(model, passes="summed") as seen:
        for _ in range(3):
            model.generate(input_ids=ids, max_new_tokens=3, min_new_tokens=3, do_sample=False, pad_token_id=0)
    assert len(seen.calls) == 2
    assert seen.call(0).measurements["entropy_rows"].tolist() == [[24] * 4]
    bart = family("bart")
    with torch.no_grad(), watch(bart, passes="summed") as seen:
        bart(input_ids=ids, decoder_input_ids=ids[:, :4])
        bart(input_ids=ids[:, :3], decoder_input_ids=ids)
    assert seen.call(0, "cross").measurements["entropy_rows"].tolist() == [[10] * 4]
    assert seen.call(0, "cross").measurements["received"].shape == (1, 4, 6)


def test_what_cannot_be_summed_is_refused(family):
    with pytest.raises(InputError, match="keep_inputs"), watch(family("llama"), passes="summed", keep_inputs=True):
        pass
    with pytest.raises(InputError, match="joined, apart, summed, got 'added'"):
        watch(family("llama"), passes="added").__enter__()
