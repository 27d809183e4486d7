"""Length limits come from the config, and the models agree with them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from transformers import AutoConfig, AutoModel

from heedmap.capture.positions import positions_of

SMALL = {
    "vocab_size": 60,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "pad_token_id": 1,
}


def config(name: str, **settings: Any) -> Any:
    return getattr(transformers, name)(**settings)


@pytest.mark.parametrize(
    ("made", "positions"),
    [
        (("BertConfig", {}), 512),
        (("RobertaConfig", {"max_position_embeddings": 514, "pad_token_id": 1}), 512),
        (("XLMRobertaConfig", {"max_position_embeddings": 514, "pad_token_id": 1}), 512),
        (("MPNetConfig", {"max_position_embeddings": 514}), 512),
        (("GPT2Config", {}), 1024),
        (("GPTJConfig", {}), 2048),
        (("CTRLConfig", {}), 256),
        (("OPTConfig", {}), 2048),
        (("BartConfig", {}), 1024),
        (("LlamaConfig", {"max_position_embeddings": 8192}), 8192),
        (("ModernBertConfig", {}), 8192),
        (("WhisperConfig", {}), 1500),
        (("LEDConfig", {"max_encoder_position_embeddings": 16384}), 16384),
        (("CLIPConfig", {}), 77),
        (("Gemma3Config", {}), 131072),
        (("T5Config", {"n_positions": 512}), None),
        (("MT5Config", {}), None),
        (("BloomConfig", {"seq_length": 2048}), None),
        (("MptConfig", {}), None),
        (("FalconConfig", {"alibi": True}), None),
        (("FalconConfig", {"alibi": False}), 2048),
        (("XLNetConfig", {}), None),
        (("MambaConfig", {}), None),
        (("ViTConfig", {}), None),
    ],
)
def test_positions_of_every_kind_of_config(made: tuple[str, dict[str, Any]], positions: int | None) -> None:
    assert positions_of(config(made[0], **made[1])) == positions


def test_the_encoder_of_a_joined_pair_reads_the_text() -> None:
    encoder = config("BertConfig", max_position_embeddings=256)
    both = transformers.EncoderDecoderConfig.from_encoder_decoder_configs(encoder, config("GPT2Config"))
    assert positions_of(both) == 256


@pytest.mark.parametrize(
    "kind", ["bert", "roberta", "xlm-roberta", "camembert", "roberta-prelayernorm", "data2vec-text", "mpnet", "esm"]
)
def test_a_model_takes_as_many_tokens_as_its_config_says_and_no_more(kind: str) -> None:
    extra = {"position_embedding_type": "absolute", "mask_token_id": 4} if kind == "esm" else {}
    made = AutoConfig.for_model(kind, **SMALL, **extra, max_position_embeddings=20)
    model = AutoModel.from_config(made).eval()
    positions = positions_of(made)
    assert positions is not None
    with torch.no_grad():
        model(input_ids=torch.full((1, positions), 5))
        with pytest.raises((IndexError, RuntimeError)):
            model(input_ids=torch.full((1, positions + 1), 5))
