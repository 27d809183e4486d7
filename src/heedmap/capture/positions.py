"""How many tokens a model takes: read from its config, never from the tokenizer (whose limit is 1e30 for many)."""

from __future__ import annotations

from typing import Any

_NAMES = (
    "max_encoder_position_embeddings",  # LED
    "max_position_embeddings",
    "n_positions",  # GPT-2, GPT-J, CTRL
    "n_ctx",
    "max_seq_len",  # MPT, DBRX
    "max_sequence_length",
    "seq_length",
    "max_source_positions",  # Whisper, Speech2Text: frames, not letters
)
_SUB_CONFIGS = ("text_config", "text_encoder", "thinker_config", "encoder")
# These begin to count behind the padding id, so that their table is longer than the text may be.
_COUNT_FROM_PADDING = frozenset(
    (
        "altclip_text_model", "bridgetower_text_model", "camembert", "clap_text_model", "data2vec-text", "esm", "ibert",
        "layoutlmv3", "lilt", "longformer", "luke", "markuplm", "mpnet", "roberta", "roberta-prelayernorm",
        "xlm-roberta", "xlm-roberta-xl", "xmod",
    )
)  # fmt: skip
# A bias by distance, not a table: any length goes, whatever an old config still says.
_BY_DISTANCE = frozenset(
    ("bloom", "longt5", "mt5", "pop2piano", "switch_transformers", "t5", "transfo-xl", "udop", "umt5", "xlnet")
)


def positions_of(config: Any) -> int | None:
    """The most tokens of text that a model with this config takes, special tokens included; None where it has no limit.

    Models with rotary positions run beyond it, but were not trained there; tables of learned positions end there.
    RoBERTa and its kin count from behind the padding id, so 514 rows are 512 tokens. Models with a bias by distance
    (T5) or a slope (ALiBi) have no limit.
    """
    for name in _SUB_CONFIGS:
        inner = getattr(config, name, None)
        if hasattr(inner, "model_type"):
            return positions_of(inner)
    kind = getattr(config, "model_type", "")
    if kind in _BY_DISTANCE or _has_slopes(config):
        return None
    stated = next((value for name in _NAMES if isinstance(value := getattr(config, name, None), int)), None)
    if stated is None or stated <= 0:
        return None
    if kind in _COUNT_FROM_PADDING and not (kind == "esm" and config.position_embedding_type == "rotary"):
        padding = 1 if kind == "mpnet" else getattr(config, "pad_token_id", None)
        return stated - (padding + 1 if isinstance(padding, int) else 0)
    return stated


def _has_slopes(config: Any) -> bool:
    """ALiBi, as Falcon, MPT and BERT's descendants spell it."""
    return bool(
        getattr(config, "alibi", False)
        or getattr(getattr(config, "attn_config", None), "alibi", False)
        or getattr(config, "position_embedding_type", None) == "alibi"
    )
