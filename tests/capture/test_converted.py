"""A GGUF file is converted once; what is kept of it is never anything but what the file holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase

from heedmap.capture import converted, loading
from heedmap.capture.loading import Loaded
from heedmap.capture.models import resolve

pytest.importorskip("gguf")
pytest.importorskip("accelerate")
TEXT = "The cat sat — 고양이."


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that begins as GGUF does, and a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "small.gguf"
    path.write_bytes(b"GGUF one")
    return path


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch, minilm_tokenizer: PreTrainedTokenizerBase) -> list[Loaded]:
    """What was converted so far; each conversion draws other weights."""
    done: list[Loaded] = []

    def convert(path: Path, name: str, tokenizer: Any, dtype: torch.dtype | str | None) -> Loaded:
        config = LlamaConfig(
            vocab_size=len(minilm_tokenizer), hidden_size=16, intermediate_size=16, num_hidden_layers=1,
            num_attention_heads=2, tie_word_embeddings=True,
        )  # fmt: skip
        model = LlamaForCausalLM(config).to(getattr(torch, str(dtype or "float32").removeprefix("torch."))).eval()
        done.append(Loaded(model, tokenizer or minilm_tokenizer, []))
        return done[-1]

    monkeypatch.setattr(loading, "_convert", convert)
    return done


def same(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    left, right = one.state_dict(), other.state_dict()
    return left.keys() == right.keys() and all(
        torch.equal(left[name], right[name]) and left[name].dtype == right[name].dtype for name in left
    )


def test_the_second_time_the_copy_is_read(file: Path, conversions: list[Loaded]) -> None:
    first, second = resolve(file), resolve(file)
    assert len(conversions) == 1
    assert same(first.model, second.model)
    assert second.initialised == []
    assert not second.model.training
    assert first.tokenizer(TEXT)["input_ids"] == second.tokenizer(TEXT)["input_ids"]
    assert (second.name, second.source) == (first.name, first.source)
    assert second.model.name_or_path == str(file.parent)


def test_another_file_or_another_dtype_is_converted_by_itself(file: Path, conversions: list[Loaded]) -> None:
    resolve(file)
    half = resolve(file, dtype=torch.bfloat16)
    assert half.model.dtype == torch.bfloat16
    file.write_bytes(b"GGUF two")
    changed = resolve(file)
    assert len(conversions) == 3
    assert same(changed.model, conversions[2].model)
    assert resolve(file, dtype="bfloat16").model.dtype == torch.bfloat16  # of the changed file: not the first one's
    assert len(conversions) == 4


@pytest.mark.parametrize("damage", [lambda path: path.write_bytes(path.read_bytes()[:-40]), Path.unlink])
@pytest.mark.parametrize("name", [converted.WEIGHTS, "config.json"])
def test_a_damaged_copy_is_made_anew(
    file: Path, conversions: list[Loaded], damage: Callable[[Path], object], name: str
) -> None:
    resolve(file)
    copy = converted.copy_of(file, torch.float32)
    damage(copy / name)
    again = resolve(file)
    assert len(conversions) == 2
    assert same(again.model, conversions[1].model)
    assert same(resolve(file).model, again.model)
    assert len(conversions) == 2


def test_where_nothing_can_be_kept_the_model_loads_all_the_same(
    file: Path, conversions: list[Loaded], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_the_way = file.with_name("in the way")
    in_the_way.write_text("a file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(in_the_way))
    assert same(resolve(file).model, conversions[0].model)
    resolve(file)
    assert len(conversions) == 2
    assert in_the_way.read_text() == "a file"


def test_a_disk_that_fills_leaves_nothing(
    file: Path, conversions: list[Loaded], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*parts: object, **settings: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(PreTrainedTokenizerBase, "save_pretrained", full)
    assert same(resolve(file).model, conversions[0].model)
    assert list(converted.cache_folder().rglob("*.partial")) == []
    assert not converted.is_whole(converted.copy_of(file, torch.float32))


def test_what_a_killed_process_left_is_no_copy(file: Path, conversions: list[Loaded]) -> None:
    copy = converted.copy_of(file, torch.float32)
    half = copy.with_name(f"{copy.name}.1.partial")
    half.mkdir(parents=True)
    (half / converted.WEIGHTS).write_bytes(b"half")
    resolve(file)
    assert same(resolve(file).model, conversions[0].model)
    assert len(conversions) == 1


def test_a_tokenizer_that_would_come_back_otherwise_is_not_kept(
    file: Path, conversions: list[Loaded], monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = iter(["one", "other"])
    monkeypatch.setattr(converted, "_content", lambda tokenizer: next(contents))
    resolve(file)
    assert not converted.is_whole(converted.copy_of(file, torch.float32))


def test_a_tokenizer_of_the_users_own_is_used_and_not_kept(
    file: Path, conversions: list[Loaded], minilm_tokenizer: PreTrainedTokenizerBase
) -> None:
    assert resolve(file, minilm_tokenizer).tokenizer is minilm_tokenizer
    assert not converted.is_whole(converted.copy_of(file, torch.float32))
    resolve(file)
    assert resolve(file, minilm_tokenizer).tokenizer is minilm_tokenizer
    assert len(conversions) == 2


def test_weights_drawn_at_random_are_not_kept(
    file: Path, conversions: list[Loaded], monkeypatch: pytest.MonkeyPatch
) -> None:
    convert = loading._convert
    monkeypatch.setattr(
        loading, "_convert", lambda *given: Loaded(convert(*given).model, conversions[-1].tokenizer, ["a.weight"])
    )
    assert resolve(file).initialised == ["a.weight"]
    assert not converted.is_whole(converted.copy_of(file, torch.float32))


def test_the_cache_lies_where_the_desktop_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert converted.cache_folder() == tmp_path / "heedmap"
    for unusable in ("", "relative/path"):
        monkeypatch.setenv("XDG_CACHE_HOME", unusable)
        assert converted.cache_folder() == Path.home() / ".cache" / "heedmap"
