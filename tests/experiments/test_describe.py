from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
import torch

from heedmap.errors import ModelError, UnsupportedError
from heedmap.experiments.describe import Description, describe, describe_model


@pytest.fixture(scope="module")
def families() -> ModuleType:
    """The tiny configurations of many families that the tests of capture stand on."""
    spec = spec_from_file_location("families", Path(__file__).parents[1] / "capture" / "families.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def described(families: ModuleType, tmp_path: Path):
    """Describe a family from its config alone, in a folder that holds no weights."""

    def by_name(name: str, **changes: object) -> Description:
        import transformers

        _, config, sizes = families.FAMILIES[name]
        getattr(transformers, config)(**(sizes | changes)).save_pretrained(tmp_path / name)
        return describe(str(tmp_path / name))

    return by_name


def kinds(description: Description) -> dict[str, object]:
    return {kind.part: kind for kind, _ in description.kinds}


def test_an_encoder_sees_everything_and_a_decoder_the_past(described) -> None:
    ((bert, layers),) = described("bert").kinds
    assert (bert.direction, bert.variant, layers) == ("bidirectional", "multi-head", [0, 1])
    assert bert.positions == "learned, added to the input"
    ((llama, _),) = described("llama").kinds
    assert (llama.direction, llama.variant) == ("causal", "grouped-query")
    assert (llama.query_heads, llama.key_heads, llama.head_dim) == (4, 2, 8)
    assert llama.positions == "rotary, base 10,000"
    assert llama.scale == pytest.approx(8**-0.5)


def test_one_key_head_is_multi_query(described) -> None:
    ((kind, _),) = described("llama", num_key_value_heads=1).kinds
    assert kind.variant == "multi-query"


def test_layers_with_and_without_a_window_are_two_kinds(described) -> None:
    (near, first), (far, second) = described("gemma3").kinds
    assert (near.window, near.both_sides, first) == (5, False, [0])
    assert (far.window, second) == (None, [1])
    assert (near.positions, far.positions) == ("rotary, base 10,000", "rotary, base 1,000,000")
    assert near.normalised
    (_, _), (both, _) = described("modernbert").kinds
    assert (both.window, both.both_sides, both.direction) == (4, True, "bidirectional")


def test_what_changes_the_formula_is_told(described) -> None:
    assert {kind.softcap for kind, _ in described("gemma2").kinds} == {2.0}
    assert all(kind.sinks for kind, _ in described("gpt-oss").kinds)
    assert {kind.chunk for kind, _ in described("llama4").kinds} == {4}
    assert {kind.scale for kind, _ in described("t5").kinds} == {1.0}


def test_encoder_decoder_and_cross_attention_are_parts(described) -> None:
    parts = kinds(described("t5"))
    assert {name: kind.direction for name, kind in parts.items()} == {
        "encoder": "bidirectional",
        "decoder": "causal",
        "cross": "cross",
    }
    assert (parts["encoder"].positions, parts["cross"].positions) == ("bias by distance", "none of its own")
    assert set(kinds(described("whisper"))) == {"encoder", "decoder", "cross"}
    assert {name: kind.direction for name, kind in kinds(described("clip")).items()} == {
        "vision": "bidirectional",
        "text": "causal",
    }


def test_a_hybrids_layers_keep_their_numbers(described) -> None:
    ((_, layers),) = described("lfm2").kinds
    assert layers == [1]


def test_a_model_of_any_size_is_described_without_weights(tmp_path: Path) -> None:
    from transformers import LlamaConfig

    LlamaConfig(
        hidden_size=8192, num_hidden_layers=80, num_attention_heads=64, num_key_value_heads=8, intermediate_size=28672
    ).save_pretrained(tmp_path)
    found = describe(str(tmp_path))
    assert found.parameters > 6e10
    assert [(kind.query_heads, kind.key_heads, len(layers)) for kind, layers in found.kinds] == [(64, 8, 80)]


def test_a_model_in_memory_is_left_as_it_was(tiny_model) -> None:
    model = tiny_model("gpt2").train()
    before = model.config._attn_implementation
    ((kind, _),) = describe_model(model, "tiny").kinds
    assert kind.direction == "causal"
    assert model.training
    assert model.config._attn_implementation == before
    assert torch.isfinite(model(**model.dummy_inputs)[0]).all()


def test_what_cannot_be_described_is_refused_by_name(described) -> None:
    with pytest.raises(UnsupportedError, match="FalconModel"):
        described("falcon")
    with pytest.raises(ModelError, match=r"\[describe\] expected a model .* got 'no/such-model-here': .* switched off"):
        describe("no/such-model-here")
    with pytest.raises(ModelError, match=r"\[describe\] expected a model's name, .* got nothing at './nowhere'"):
        describe("./nowhere")


def test_a_config_that_makes_no_sense_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert", "num_attention_heads": 0}')
    with pytest.raises(ModelError, match=r"\[describe\] expected .* got .*zero"):
        describe(str(tmp_path))
