"""Tiny models of many attention families, with weights large enough that their heads differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 100,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_GROUPED = _SIZES | {"num_key_value_heads": 2, "head_dim": 8}
_HYBRID = {"sliding_window": 5, "layer_types": ["sliding_attention", "full_attention"]}
_BARE = {name: size for name, size in _SIZES.items() if not name.endswith("token_id")}
_VISION: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": 16,
    "patch_size": 8,
}
_TWO_STACKS: dict[str, Any] = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "vocab_size": 100,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}
_T5 = {"d_model": 32, "d_kv": 8, "num_layers": 2, "num_heads": 4, "d_ff": 64, "vocab_size": 100}

# name → (model class, configuration class, its sizes)
FAMILIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert": ("BertModel", "BertConfig", _SIZES),
    "albert": ("AlbertModel", "AlbertConfig", _SIZES | {"embedding_size": 16}),
    "modernbert": (
        "ModernBertModel",
        "ModernBertConfig",
        _SIZES | {"local_attention": 8, "global_attn_every_n_layers": 2, "cls_token_id": 1, "sep_token_id": 2},
    ),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 100}),
    "llama": ("LlamaForCausalLM", "LlamaConfig", _SIZES | {"num_key_value_heads": 2}),
    "mistral": ("MistralForCausalLM", "MistralConfig", _GROUPED | {"sliding_window": 5}),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", _GROUPED),
    "gemma2": (
        "Gemma2ForCausalLM",
        "Gemma2Config",
        _GROUPED | {"sliding_window": 5, "query_pre_attn_scalar": 8, "attn_logit_softcapping": 2.0},
    ),
    "gemma3": ("Gemma3ForCausalLM", "Gemma3TextConfig", _GROUPED | _HYBRID | {"query_pre_attn_scalar": 8}),
    "gpt-oss": (
        "GptOssForCausalLM",
        "GptOssConfig",
        _GROUPED | _HYBRID | {"num_local_experts": 2, "num_experts_per_tok": 1},
    ),
    "llama4": (
        "Llama4ForCausalLM",
        "Llama4TextConfig",
        _GROUPED | {"attention_chunk_size": 4, "num_local_experts": 2, "intermediate_size_mlp": 64},
    ),
    "diffllama": ("DiffLlamaForCausalLM", "DiffLlamaConfig", _SIZES | {"num_key_value_heads": 2}),
    "lfm2": (
        "Lfm2ForCausalLM",
        "Lfm2Config",
        _SIZES
        | {
            "num_hidden_layers": 3,
            "num_key_value_heads": 2,
            "layer_types": ["conv", "full_attention", "conv"],
        },
    ),
    "vit": ("ViTModel", "ViTConfig", _VISION),
    "swin": (
        "SwinModel",
        "SwinConfig",
        {"image_size": 16, "patch_size": 2, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4},
    ),
    "clip": (
        "CLIPModel",
        "CLIPConfig",
        {"text_config": _BARE | {"max_position_embeddings": 16}, "vision_config": _VISION},
    ),
    "bart": ("BartModel", "BartConfig", _TWO_STACKS | {"max_position_embeddings": 64}),
    "t5": ("T5Model", "T5Config", _T5),
    "t5-encoder": ("T5EncoderModel", "T5Config", _T5),
    "whisper": (
        "WhisperModel",
        "WhisperConfig",
        _TWO_STACKS | {"max_source_positions": 20, "max_target_positions": 20, "num_mel_bins": 8},
    ),
    "falcon": (
        "FalconModel",
        "FalconConfig",
        {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100},
    ),
    "doge": ("DogeModel", "DogeConfig", _SIZES),
    "deepseek-v3.2": (
        "DeepseekV32Model",
        "DeepseekV32Config",
        _SIZES
        | {
            "num_key_value_heads": 4,
            "q_lora_rank": 8,
            "kv_lora_rank": 8,
            "qk_rope_head_dim": 4,
            "qk_nope_head_dim": 8,
            "v_head_dim": 6,
            "n_routed_experts": 4,
            "num_experts_per_tok": 2,
            "n_group": 2,
            "topk_group": 1,
            "moe_intermediate_size": 16,
            "n_shared_experts": 1,
            "first_k_dense_replace": 1,
            "index_n_heads": 2,
            "index_head_dim": 8,
            "index_topk": 4,
        },
    ),
}


@pytest.fixture
def family() -> Callable[..., PreTrainedModel]:
    """``family("gemma2")``: a tiny model of that family, in eval mode; keywords change its configuration."""

    def build(name: str, **changes: Any) -> PreTrainedModel:
        import torch
        import transformers

        model_name, config_name, sizes = FAMILIES[name]
        model = getattr(transformers, model_name)(getattr(transformers, config_name)(**(sizes | changes))).eval()
        torch.manual_seed(7)
        with torch.no_grad():
            for parameter_name, parameter in model.named_parameters():
                if parameter.dim() > 1:
                    parameter.normal_(0, 0.15)
                elif "sinks" in parameter_name:
                    parameter.normal_(0, 1)
        return model

    return build
