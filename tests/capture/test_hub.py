"""Models of the hub, from its cache or by one question, and models that are in memory already."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
import torch
from huggingface_hub import constants
from tests.capture.small_bert import BERT, refusal
from transformers import (
    AutoModel,
    BertConfig,
    BertModel,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from heedmap.capture import hub
from heedmap.capture.models import resolve
from heedmap.capture.quiet import quiet
from heedmap.errors import InputError, ModelError

# --- the hub ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the hub, and a hub that is switched on but must not be asked unless a test says so."""
    path = tmp_path / "cache"
    path.mkdir()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", _not_asked)
    return path


def _not_asked(*args: Any, **settings: Any) -> Any:
    raise AssertionError("the hub was asked")


def _answer(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    def model_info(self: Any, name: str, **settings: Any) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", model_info)


def _cached(cache: Path, folder: Path, name: str) -> Path:
    """Put a folder into the cache, as the hub's client does."""
    repository = cache / f"models--{name.replace('/', '--')}"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("abc123")
    snapshot = repository / "snapshots" / "abc123"
    snapshot.parent.mkdir()
    folder.rename(snapshot)
    return snapshot


def test_a_cached_hub_model_is_loaded_without_asking(cache: Path, folder: Path) -> None:
    _cached(cache, folder, "somebody/small-bert")
    loaded = resolve("somebody/small-bert")
    assert (loaded.name, loaded.revision, loaded.source) == ("somebody/small-bert", "abc123", "hub")


def test_an_unknown_name_lists_what_is_here(
    cache: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, minilm_folder: Path
) -> None:
    _cached(cache, folder, "somebody/small-bert")
    _answer(monkeypatch, ConnectionError("no route"))
    message = refusal("somebody/other")
    assert "'somebody/other': no such model on this machine, and no connection to the hub" in message
    assert "installed: minilm" in message
    assert "in the hub's cache: somebody/small-bert" in message


def test_whatever_the_transport_raises_is_no_connection(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = hub._transport_errors()
    assert errors
    for error in errors:
        _answer(monkeypatch, error("down"))
        assert "no connection to the hub" in refusal("somebody/other")


def test_a_hub_that_is_switched_off_is_not_asked(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert "the hub is switched off (HF_HUB_OFFLINE)" in refusal("somebody/other")


def test_a_half_cached_model_is_completed_by_the_hub(
    cache: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = _cached(cache, folder, "somebody/small-bert")
    names = [path.name for path in snapshot.iterdir()]
    whole = tmp_path / "whole"
    whole.mkdir()
    for path in snapshot.iterdir():
        (whole / path.name).write_bytes(path.read_bytes())
    (snapshot / "model.safetensors").unlink()
    others = ["onnx/model.onnx", "pytorch_model.bin", "model.fp16.safetensors", "README.md"]
    _answer(monkeypatch, SimpleNamespace(sha="def456", siblings=[SimpleNamespace(rfilename=f) for f in names + others]))
    asked: dict[str, Any] = {}

    def download(name: str, **settings: Any) -> str:
        asked.update(settings, name=name)
        return str(whole)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    loaded = resolve("somebody/small-bert")
    assert loaded.revision == "def456"
    assert sorted(asked["allow_patterns"]) == sorted(names)
    assert asked["revision"] == "def456"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (["config.json", "pytorch_model.bin"], "pickled weights can run any code"),
        (["model-Q4.gguf", "model-Q8.gguf"], "got 2 GGUF files; download one of them, as model-Q4.gguf"),
    ],
)
def test_a_hub_model_without_safetensors(
    cache: Path, monkeypatch: pytest.MonkeyPatch, files: list[str], said: str
) -> None:
    _answer(monkeypatch, SimpleNamespace(sha="0", siblings=[SimpleNamespace(rfilename=file) for file in files]))
    assert said in refusal("somebody/other")


# --- in memory -------------------------------------------------------------------------------------------------------


def test_a_model_in_memory_is_left_as_it_is(minilm: PreTrainedModel, minilm_tokenizer: PreTrainedTokenizerBase) -> None:
    loaded = resolve(minilm, minilm_tokenizer)
    assert loaded.model is minilm
    assert loaded.tokenizer is minilm_tokenizer
    assert (loaded.name, loaded.revision, loaded.source, loaded.initialised) == ("minilm", None, "memory", [])
    training = BertModel(BertConfig(**BERT)).train()
    assert resolve(training, minilm_tokenizer).model.training


def test_a_model_in_memory_finds_the_tokenizer_it_came_with(folder: Path, cache: Path) -> None:
    model = AutoModel.from_pretrained(folder)
    assert resolve(model).tokenizer.vocab_size == 30522
    _cached(cache, folder, "somebody/small-bert")
    model.config.name_or_path = "somebody/small-bert"
    model.name_or_path = "somebody/small-bert"
    assert resolve(model).name == "somebody/small-bert"


def test_a_model_in_memory_without_tokenizer_says_what_to_pass(cache: Path) -> None:
    with pytest.raises(InputError, match="expected a tokenizer for this BertModel, got none"):
        resolve(BertModel(BertConfig(**BERT)))


def test_a_model_in_memory_keeps_its_dtype(minilm: PreTrainedModel, minilm_tokenizer: PreTrainedTokenizerBase) -> None:
    with pytest.raises(InputError, match=r"use model\.to\(dtype\)"):
        resolve(minilm, minilm_tokenizer, dtype=torch.float16)


def test_a_config_alone_comes_from_the_cache_or_by_one_question(
    cache: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = _cached(cache, folder, "somebody/small-bert")
    (snapshot / "model.safetensors").unlink()
    assert hub.config_folder("somebody/small-bert") == snapshot
    asked: list[tuple[str, str, str]] = []

    def download(name: str, file: str, *, revision: str) -> str:
        asked.append((name, file, revision))
        return str(snapshot / file)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    _answer(monkeypatch, SimpleNamespace(sha="def456"))
    assert hub.config_folder("somebody/other") == snapshot
    assert asked == [("somebody/other", "config.json", "def456")]
    _answer(monkeypatch, ConnectionError("no route"))
    with pytest.raises(ModelError, match="'somebody/third': no such model on this machine, and no connection"):
        hub.config_folder("somebody/third")


def test_log_lines_of_the_hub_stay_off_the_terminal_while_it_is_called() -> None:
    from huggingface_hub.utils import logging

    logging.set_verbosity_warning()
    with quiet():
        assert logging.get_verbosity() == logging.ERROR
    assert logging.get_verbosity() == logging.WARNING
