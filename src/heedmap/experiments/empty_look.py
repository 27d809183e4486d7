"""What a process of `heedmap look` holds whatever its model and text: found by looking at next to nothing.

The memory of libraries grows with use, not only on import: model classes, kernels, the writers of tables, the pages of
code that run. So a model of a single head of 8 components reads a few letters, and the process tells what it holds.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from heedmap.capture.look import look
from heedmap.machine import peak_memory, resident_memory

TEXT = "a " * 8


def main() -> None:
    """Print the bytes held after the imports, and at most while looking, as one JSON document."""
    imported = resident_memory()
    with contextlib.redirect_stdout(io.StringIO()):
        words = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
        words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        config = BertConfig(
            vocab_size=2,
            hidden_size=8,
            num_hidden_layers=1,
            num_attention_heads=1,
            intermediate_size=8,
            max_position_embeddings=64,
        )
        look(TEXT, BertModel(config), PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]"))
    sys.stdout.write(json.dumps({"imported": imported, "looked": peak_memory()}) + "\n")


if __name__ == "__main__":
    main()
