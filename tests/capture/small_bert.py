"""A small model in a folder, and what is said of models that cannot be loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerBase

from heedmap.capture.models import resolve
from heedmap.errors import ModelError

BERT = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


def save(path: Path, tokenizer: PreTrainedTokenizerBase) -> Path:
    """A small BERT as save_pretrained writes it, with a tokenizer."""
    BertForMaskedLM(BertConfig(**BERT)).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def refusal(name: Any, **settings: Any) -> str:
    """The one line of a refusal."""
    with pytest.raises(ModelError) as raised:
        resolve(name, **settings)
    message = str(raised.value)
    assert "\n" not in message
    return message
