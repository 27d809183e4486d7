"""What a watch leaves as it was, however it ends."""

from __future__ import annotations

import copy
import gc

import numpy as np
import pytest
import torch
from tests.capture.watching import ids_of
from torch import Tensor, nn

from heedmap.capture.watch import watch
from heedmap.errors import InputError, ModelError, UnsupportedError


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
        clip(pixel_values=torch.randn(2, 3, 15, 15, 1), input_ids=ids_of())
    assert [config._attn_implementation for config in configs] == before
    assert hooks == [len(module._forward_pre_hooks) + len(module._forward_hooks) for module in clip.modules()]


def test_nested_watches_both_see_every_call_whichever_ends_first(family):
    model, ids = family("llama"), ids_of()
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
    model, ids = family("bert"), ids_of()
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
    model, ids = family("bert"), ids_of()
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
        model(input_ids=ids_of())
    alive = weakref.ref(model)
    del model
    gc.collect()
    assert alive() is None
    assert len(seen.calls) == 2


class _Around(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.inside = nn.ModuleList([model])

    def forward(self, ids: Tensor) -> Tensor:
        return self.inside[0](input_ids=ids).last_hidden_state


def test_wrappers_are_unwrapped_or_refused_by_name(family):
    model, ids = family("bert"), ids_of()
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
