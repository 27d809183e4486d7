"""Tiny configurations of many attention families: hidden size 32, 2 layers, 4 heads, 100 tokens in the vocabulary."""

from __future__ import annotations

from typing import Any

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

_TEXT = _SIZES | {"max_position_embeddings": 64}
_LATENT = {
    "num_key_value_heads": 4, "q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8,
    "v_head_dim": 6, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1,
    "moe_intermediate_size": 16, "n_shared_experts": 1, "first_k_dense_replace": 1,
}  # fmt: skip
_EXPERTS = {"num_local_experts": 2, "num_experts_per_tok": 1}
_AUDIO = _BARE | {
    "conv_dim": (8, 8), "conv_kernel": (4, 4), "conv_stride": (4, 4), "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2,
}  # fmt: skip

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
        | _LATENT
        | {
            "index_n_heads": 2,
            "index_head_dim": 8,
            "index_topk": 4,
        },
    ),
    "roberta": ("RobertaModel", "RobertaConfig", _TEXT),
    "distilbert": (
        "DistilBertModel",
        "DistilBertConfig",
        {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "vocab_size": 100},
    ),
    "electra": ("ElectraModel", "ElectraConfig", _TEXT | {"embedding_size": 16}),
    "xlm-roberta": ("XLMRobertaModel", "XLMRobertaConfig", _TEXT),
    "gpt-neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", _TEXT),
    "opt": (
        "OPTForCausalLM",
        "OPTConfig",
        _SIZES | {"ffn_dim": 64, "word_embed_proj_dim": 32, "max_position_embeddings": 64},
    ),
    "phi": ("PhiForCausalLM", "PhiConfig", _SIZES),
    "phi3": ("Phi3ForCausalLM", "Phi3Config", _SIZES | {"num_key_value_heads": 2, "sliding_window": 5}),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", _SIZES | {"num_key_value_heads": 2}),
    "gemma": ("GemmaForCausalLM", "GemmaConfig", _GROUPED),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig", _GROUPED | _EXPERTS),
    "qwen3-moe": (
        "Qwen3MoeForCausalLM",
        "Qwen3MoeConfig",
        _GROUPED | {"num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 16},
    ),
    "olmo2": ("Olmo2ForCausalLM", "Olmo2Config", _SIZES),
    "olmoe": ("OlmoeForCausalLM", "OlmoeConfig", _SIZES | {"num_experts": 2, "num_experts_per_tok": 1}),
    "granite": ("GraniteForCausalLM", "GraniteConfig", _SIZES | {"num_key_value_heads": 2}),
    "cohere": ("CohereForCausalLM", "CohereConfig", _SIZES | {"num_key_value_heads": 2}),
    "starcoder2": (
        "Starcoder2ForCausalLM",
        "Starcoder2Config",
        _SIZES | {"num_key_value_heads": 2, "sliding_window": 5},
    ),
    "stablelm": ("StableLmForCausalLM", "StableLmConfig", _SIZES | {"num_key_value_heads": 2}),
    "smollm3": ("SmolLM3ForCausalLM", "SmolLM3Config", _SIZES | {"num_key_value_heads": 2}),
    "deepseek-v3": ("DeepseekV3ForCausalLM", "DeepseekV3Config", _SIZES | _LATENT),
    "gpt-bigcode": (
        "GPTBigCodeForCausalLM",
        "GPTBigCodeConfig",
        {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 100},
    ),
    "mbart": ("MBartModel", "MBartConfig", _TWO_STACKS | {"max_position_embeddings": 64}),
    "pegasus": ("PegasusModel", "PegasusConfig", _TWO_STACKS | {"max_position_embeddings": 64}),
    "marian": ("MarianModel", "MarianConfig", _TWO_STACKS | {"max_position_embeddings": 64}),
    "mt5": ("MT5Model", "MT5Config", _T5),
    "deit": ("DeiTModel", "DeiTConfig", _VISION),
    "dinov2": ("Dinov2Model", "Dinov2Config", _VISION | {"mlp_ratio": 2}),
    "siglip": (
        "SiglipModel",
        "SiglipConfig",
        {"text_config": _BARE | {"max_position_embeddings": 12}, "vision_config": _VISION},
    ),
    "wav2vec2": ("Wav2Vec2Model", "Wav2Vec2Config", _AUDIO),
    "hubert": ("HubertModel", "HubertConfig", _AUDIO),
    "llava": (
        "LlavaForConditionalGeneration",
        "LlavaConfig",
        {
            "text_config": _SIZES | {"model_type": "llama", "num_key_value_heads": 2},
            "vision_config": _VISION | {"model_type": "clip_vision_model"},
            "image_token_index": 99,
            "vision_feature_layer": -1,
            "image_seq_length": 4,
        },
    ),
    "paligemma": (
        "PaliGemmaForConditionalGeneration",
        "PaliGemmaConfig",
        {
            "text_config": _GROUPED | {"model_type": "gemma"},
            "vision_config": _VISION | {"model_type": "siglip_vision_model", "vision_use_head": False},
            "image_token_index": 99,
            "projection_dim": 32,
            "hidden_size": 32,
        },
    ),
    "bloom": ("BloomModel", "BloomConfig", {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 100}),
    "mpt": (
        "MptModel",
        "MptConfig",
        {"d_model": 32, "n_layers": 2, "n_heads": 4, "vocab_size": 100, "max_seq_len": 64},
    ),
    "gpt-neo": (
        "GPTNeoModel",
        "GPTNeoConfig",
        {
            "hidden_size": 32,
            "num_layers": 2,
            "num_heads": 4,
            "attention_types": [[["global"], 2]],
            "vocab_size": 100,
            "max_position_embeddings": 64,
        },
    ),
    "gptj": ("GPTJModel", "GPTJConfig", {"n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4, "vocab_size": 100}),
    "deberta-v2": ("DebertaV2Model", "DebertaV2Config", _TEXT),
    "longformer": ("LongformerModel", "LongformerConfig", _TEXT | {"attention_window": 4}),
    "xlnet": (
        "XLNetModel",
        "XLNetConfig",
        {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64, "vocab_size": 100},
    ),
    "mpnet": ("MPNetModel", "MPNetConfig", _TEXT),
    "mamba": ("MambaModel", "MambaConfig", {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 100}),
}


def build(name: str, **changes: Any) -> Any:
    """A tiny model of a family, in eval mode, with weights large enough that its heads differ.

    Keywords change its configuration. Returns a `PreTrainedModel`.
    """
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


REFUSED = (
    "falcon", "doge", "deepseek-v3.2", "bloom", "mpt", "gpt-neo", "deberta-v2", "longformer", "xlnet", "mpnet", "mamba",
)  # fmt: skip
"""Families that `watch` refuses by name."""


def inputs_of(name: str, model: Any) -> dict[str, Any]:
    """Two inputs of a family, the second text with padding behind it; with images where it reads those too."""
    import torch

    torch.manual_seed(1)
    real = torch.ones(2, 12, dtype=torch.long)
    real[1, 8:] = 0
    text = {"input_ids": torch.randint(3, 99, (2, 12)), "attention_mask": real}
    image = {"pixel_values": torch.randn(2, 3, 16, 16)}
    decoded = {"decoder_input_ids": torch.randint(3, 99, (2, 10))}
    if name in ("vit", "swin", "deit", "dinov2"):
        return image
    if name in ("clip", "siglip"):
        return text | image
    if name in ("llava", "paligemma"):
        text["input_ids"][:, :4] = 99
        return text | image | ({"token_type_ids": torch.zeros_like(real)} if name == "paligemma" else {})
    if name in ("wav2vec2", "hubert"):
        heard = torch.ones(2, 400, dtype=torch.long)
        heard[1, 250:] = 0
        return {"input_values": torch.randn(2, 400), "attention_mask": heard}
    if name == "whisper":
        return {"input_features": torch.randn(2, 8, 40)} | decoded
    return text | (decoded if getattr(model.config, "is_encoder_decoder", False) else {})
