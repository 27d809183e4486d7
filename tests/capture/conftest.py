"""Tiny models of many attention families."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


@pytest.fixture(scope="session")
def families() -> ModuleType:
    """The module ``families.py``: ``families.FAMILIES`` and ``families.build(name)``."""
    spec = spec_from_file_location("families", Path(__file__).with_name("families.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def folder(tmp_path: Path, minilm_tokenizer: PreTrainedTokenizerBase) -> Path:
    """A small BERT as save_pretrained writes it, with a tokenizer."""
    from tests.capture.small_bert import save

    return save(tmp_path / "small-bert", minilm_tokenizer)


@pytest.fixture
def family(families: ModuleType) -> Callable[..., PreTrainedModel]:
    """``family("gemma2")``: a tiny model of that family, in eval mode; keywords change its configuration.

    Skips where the installed transformers has no such model, or one that attends by its own code.
    """

    def build(name: str, **changes: Any) -> PreTrainedModel:
        import transformers

        from heedmap.capture.layers import sites_of

        if families.FAMILIES[name][0] not in dir(transformers):
            pytest.skip(f"no {name} in transformers {transformers.__version__}")
        if name == "gemma2" and transformers.__version__.startswith("4."):
            pytest.skip("Gemma 2 drops its softcap under sdpa in transformers 4")
        model = families.build(name, **changes)
        if name not in families.REFUSED and not sites_of(model):
            pytest.skip(f"{name} attends by its own code in transformers {transformers.__version__}")
        return model

    return build


@pytest.fixture(scope="session")
def minilm_folder(minilm_folder: Path) -> Path:
    """The folder of the default model; skips where the installed transformers' BERT attends by its own code."""
    import transformers
    from transformers.models.bert.modeling_bert import BertSelfAttention

    from heedmap.capture.layers import uses_interface

    if not uses_interface(BertSelfAttention):
        pytest.skip(f"BERT attends by its own code in transformers {transformers.__version__}")
    return minilm_folder


@pytest.fixture
def wordy(family, minilm_tokenizer):
    """A tiny model of a family that reads MiniLM's vocabulary, and the tokenizer."""

    def build(name: str, **changes: Any) -> tuple[Any, Any]:
        return family(name, vocab_size=minilm_tokenizer.vocab_size, **changes), minilm_tokenizer

    return build
