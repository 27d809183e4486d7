"""Tiny models with a tokenizer of their own in a folder, and texts that they read: for scans."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

WORDS = ["the", "cat", "dog", "sat", "ran", "on", "under", "a", "mat", "house", "because", "it", "was", "and", "then"]
MARKS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
SIGNS = [",", ".", "!", "7", "42", "%"]

FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": (
        "BertConfig",
        {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32,
         "max_position_embeddings": 600},
    ),
    "llama": (
        "LlamaConfig",
        {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "intermediate_size": 32, "max_position_embeddings": 600},
    ),
    "gpt_oss": (
        "GptOssConfig",
        {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
         "intermediate_size": 16, "num_local_experts": 2, "num_experts_per_tok": 1, "sliding_window": 8,
         "max_position_embeddings": 600},
    ),
}  # fmt: skip


def model_folder(path: Path, family: str = "bert", seed: int = 3) -> Path:
    """Save a model with random weights, sharp enough that heads differ, and a tokenizer of whole words."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    vocabulary = {word: place for place, word in enumerate([*MARKS, *WORDS, *SIGNS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    if family == "bert":
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
    name, sizes = FAMILIES[family]
    settings = {"vocab_size": len(vocabulary), "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
    config = getattr(transformers, name)(**settings, **sizes, initializer_range=0.4)
    torch.manual_seed(seed)
    transformers.AutoModel.from_config(config).eval().save_pretrained(path)
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    ).save_pretrained(path)
    return path


def texts(count: int, longest: int = 30, seed: int = 5) -> list[str]:
    """Texts of 1 to `longest` words, numbers and marks."""
    draw = random.Random(seed)
    return [
        " ".join(draw.choice([*WORDS, *WORDS, *SIGNS]) for _ in range(draw.randint(1, longest))) for _ in range(count)
    ]


def json_lines(path: Path, texts: list[Any], column: str = "text") -> Path:
    """A JSONL file with a text a line."""
    path.write_text("".join(json.dumps({column: text}) + "\n" for text in texts), encoding="utf-8")
    return path


def tables(folder: Path) -> dict[str, bytes]:
    """Every file of a set but its JSON, which says when it was made."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".json"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
