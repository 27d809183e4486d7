"""Models, tokenizers and arguments that do not fit: one clear line each, the model as it was, nothing left behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import BertConfig, BertModel

from heedmap.capture.look import look
from heedmap.capture.models import resolve
from heedmap.capture.selection import Selection
from heedmap.capture.watch import watch
from heedmap.errors import HeedmapWarning, InputError, ModelError, UnsupportedError

CAT = "The cat sat on the mat"
BERT = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}


@pytest.fixture
def bert(minilm_tokenizer) -> Any:
    torch.manual_seed(0)
    return BertModel(BertConfig(**BERT, vocab_size=minilm_tokenizer.vocab_size)).eval()


# --- folders ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "a config.json with a JSON object in .*, got Expecting value"),
        (b"null", "a config.json with a JSON object in .*, got 'None'"),
        (b"[1]", r"a config.json with a JSON object in .*, got '\[1\]'"),
        (b"\xff\xfe", "a config.json with a JSON object in .*, got .*can't decode"),
        (b"[" * 100_000, "a config.json with a JSON object in .*, got JSON nested too deeply"),
        (b'{"model_type": ["bert"]}', "a failure in config.json: TypeError unhashable"),
        (b'{"model_type": "bert", "num_attention_heads": 0}', "a failure in the weights: ZeroDivisionError"),
        (b'{"model_type": "bert", "hidden_size": 24}', "a failure in the weights: their shapes are not those that"),
    ],
)
def test_a_config_that_makes_no_sense_is_one_clear_line(
    content: bytes, message: str, bert: Any, tmp_path: Path, minilm_tokenizer: Any
) -> None:
    bert.save_pretrained(tmp_path)
    minilm_tokenizer.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(ModelError, match=message):
        resolve(tmp_path)


def test_an_index_without_its_shards_is_one_clear_line(bert: Any, tmp_path: Path, minilm_tokenizer: Any) -> None:
    bert.save_pretrained(tmp_path)
    minilm_tokenizer.save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "gone.safetensors"}}))
    with pytest.raises(ModelError, match="a failure in the weights: KeyError 'metadata'"):
        resolve(tmp_path)


# --- models in memory ------------------------------------------------------------------------------------------------


class Wrapper(nn.Module):
    """As SentenceTransformer and PEFT hold their model: some modules down."""

    def __init__(self, *models: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Sequential(model) for model in models)


def test_a_wrapper_around_one_model_is_looked_into(bert: Any, minilm_tokenizer: Any, tmp_path: Path) -> None:
    assert look(CAT, Wrapper(bert), minilm_tokenizer, out=tmp_path / "run").meta["self_check"]["passed"]


def test_what_cannot_be_looked_at_is_refused_by_name(bert: Any, minilm_tokenizer: Any) -> None:
    compiled = nn.Module()
    compiled._orig_mod = bert
    for model, kind, message in (
        (Wrapper(bert, bert), InputError, "one Hugging Face model .*, got Wrapper, which holds several"),
        (nn.Linear(2, 2), UnsupportedError, "Linear, which holds no transformers model"),
        (nn.DataParallel(bert), UnsupportedError, "DataParallel, which runs copies .*: model.module"),
        (compiled, UnsupportedError, "compiled code; .*model._orig_mod"),
    ):
        with pytest.raises(kind, match=message):
            look(CAT, model, minilm_tokenizer)
    assert bert.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("name", ["vit", "whisper"])
def test_a_model_that_reads_no_text_is_refused_by_what_it_reads(family: Any, minilm_tokenizer: Any, name: str) -> None:
    model = family(name)
    before = model.config._attn_implementation
    with pytest.raises(UnsupportedError, match=f"a model that reads text, got .*, which reads {model.main_input_name}"):
        look(CAT, model, minilm_tokenizer)
    assert model.config._attn_implementation == before


def test_of_a_model_of_texts_and_images_the_text_tower_is_looked_at(minilm_tokenizer: Any, tmp_path: Path) -> None:
    from transformers import CLIPConfig, CLIPModel

    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    config = CLIPConfig(
        text_config=small | {"vocab_size": minilm_tokenizer.vocab_size, "bos_token_id": 1, "eos_token_id": 2},
        vision_config=small | {"image_size": 16, "patch_size": 8},
    )
    run = look(CAT, CLIPModel(config), minilm_tokenizer, out=tmp_path / "run")
    assert len(run.heads) == 8
    assert all("text_model" in info.module for info in run.layers)
    assert run.meta["self_check"]["passed"]


def test_tokens_beyond_the_embedding_table_are_told_before_the_model_runs(family: Any, minilm_tokenizer: Any) -> None:
    with pytest.raises(
        InputError, match=r"tokens of LlamaForCausalLM, numbered below 100, got token \d.* at position 0"
    ):
        look(CAT, family("llama"), minilm_tokenizer)


def test_a_tokenizer_that_is_none_is_refused(bert: Any) -> None:
    with pytest.raises(InputError, match=r"a tokenizer of transformers, got str; give AutoTokenizer.from_pretrained"):
        look(CAT, bert, "bert-base-uncased")  # type: ignore[arg-type]


# --- weights that are no numbers -------------------------------------------------------------------------------------


def test_nan_behind_the_last_attention_is_told_and_the_weights_stand(bert: Any, minilm_tokenizer: Any) -> None:
    with torch.no_grad():
        bert.encoder.layer[1].output.dense.weight[0, 0] = torch.nan
    with pytest.warns(HeedmapWarning, match="the model's own output holds NaN or infinity") as told:
        run = look(CAT, bert, minilm_tokenizer)
    assert len(told) == 1
    check = run.meta["self_check"]
    assert (check["passed"], check["loaded_agrees"], check["output_finite"]) == (True, True, False)


def test_nan_before_an_attention_is_an_error_and_leaves_nothing(
    bert: Any, minilm_tokenizer: Any, tmp_path: Path
) -> None:
    with torch.no_grad():
        bert.encoder.layer[1].attention.self.query.weight[0, 0] = torch.nan
    with pytest.raises(
        InputError, match="NaN or infinity in self layer 1, head 0, at row 0 of text 0; the model computes"
    ):
        look(CAT, bert, minilm_tokenizer, out=tmp_path / "new" / "run")
    assert list(tmp_path.iterdir()) == []
    assert bert.config._attn_implementation == "sdpa"


def test_a_path_that_differs_is_told_as_that(bert: Any, minilm_tokenizer: Any) -> None:
    bert.encoder.layer[1].output.register_forward_hook(
        lambda module, args, output: output + 0.5 * (bert.config._attn_implementation == "heedmap")
    )
    with pytest.warns(HeedmapWarning, match="self-check failed: the model's output while it is looked at differs"):
        assert not look(CAT, bert, minilm_tokenizer).meta["self_check"]["passed"]


# --- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"max_tokens": "10"}, "a whole number as max_tokens, got '10'"),
        ({"max_tokens": 1.5}, "a whole number as max_tokens, got 1.5"),
        ({"max_tokens": 0}, "room for at least 3 tokens, .*max_tokens=0"),
        ({"layers": 1.5}, "numbers of layers or heads, got 1.5"),
        ({"heads": 0.5}, "numbers of layers or heads, got 0.5"),
        ({"layers": "²"}, "layer numbers from 0, got '²'"),
        ({"heads": "1.²"}, "head numbers from 0, got '1.²'"),
        ({"spans": "cat"}, "named passages, .*, got str"),
        ({"statistics": None}, "a name or a list of names, got NoneType"),
    ],
)
def test_arguments_of_another_kind_are_one_clear_line(
    asked: dict[str, Any], message: str, bert: Any, minilm_tokenizer: Any, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        look(CAT, bert, minilm_tokenizer, out=tmp_path / "run", **asked)
    assert list(tmp_path.iterdir()) == []


def test_room_for_more_tokens_than_there_are_is_no_error(bert: Any, minilm_tokenizer: Any) -> None:
    assert look(CAT, bert, minilm_tokenizer, max_tokens=10**30).meta["text"]["truncated_from"] is None


def test_a_head_may_be_named_by_a_string() -> None:
    assert Selection.of("1", "3").heads == (3,)


def test_what_was_seen_is_short_to_print(bert: Any) -> None:
    with watch(bert) as seen:
        bert(**bert.dummy_inputs)
    assert repr(seen) == "<Seen: 2 calls of 2 attention modules>"
