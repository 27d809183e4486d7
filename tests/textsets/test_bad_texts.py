"""A text that cannot be measured is recorded with its reason, and is no other text's affair."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.made_sets import json_lines, texts

from heedmap.capture.models import resolve
from heedmap.errors import InputError, UnsupportedError
from heedmap.textsets.scan import scan

BAD = {
    "": "empty",
    " \n\t": "only white space",
    "a\0b": "a NUL character at character 1",
    "half \ud800": "half a surrogate pair (U+D800) at character 5",
    "cat " * 700: "at most 600 tokens, the positions of this model, got 702 tokens",
}


def reasons(found) -> dict[int, str]:
    return {row["text"]: row["reason"] for row in found.table("texts").to_pylist() if row["reason"] is not None}


def test_each_is_recorded_with_its_reason(model_folder, tmp_path: Path) -> None:
    good = texts(6, 10)
    given = [text for pair in zip(good, [*BAD, "🙂 \u202e cat"], strict=True) for text in pair]
    found = scan(json_lines(tmp_path / "texts.jsonl", given), model_folder(), out=tmp_path / "set", shard_texts=4)
    told = reasons(found)
    assert list(told) == [1, 3, 5, 7, 9]
    for text, reason in zip(BAD.values(), told.values(), strict=True):
        assert text in reason
    assert found.meta["texts"] == 7
    assert found.meta["refused"] == 5
    assert sorted(set(found.table("heads").column("text").to_pylist())) == [0, 2, 4, 6, 8, 10, 11]


def test_a_long_text_is_cut_where_that_is_asked_for(model_folder, tmp_path: Path) -> None:
    source = json_lines(tmp_path / "texts.jsonl", ["cat " * 700, "dog"])
    found = scan(source, model_folder(), out=tmp_path / "set", max_tokens=20)
    first, second = found.table("texts").to_pylist()
    assert (first["tokens"], first["cut_from"]) == (20, 702)
    assert (second["tokens"], second["cut_from"]) == (3, None)


def test_strict_stops_at_the_first(model_folder, tmp_path: Path) -> None:
    source = json_lines(tmp_path / "texts.jsonl", ["cat", "", "dog"])
    with pytest.raises(InputError, match=r"all be measured \(--strict\), got text 1, texts.jsonl 2: empty"):
        scan(source, model_folder(), out=tmp_path / "set", strict=True)
    assert scan(source, model_folder(), out=tmp_path / "set").meta["refused"] == 1
    with pytest.raises(InputError, match=r"got text 1, texts.jsonl 2: empty"):  # though its shard is finished
        scan(source, model_folder(), out=tmp_path / "set", strict=True)


@pytest.mark.parametrize(
    ("given", "line"), [([], "no text at all"), (["", " "], "2, none of which can be; the first: empty")]
)
def test_a_set_without_one_text_is_refused(model_folder, tmp_path: Path, given: list[str], line: str) -> None:
    with pytest.raises(InputError, match=line):
        scan(json_lines(tmp_path / "texts.jsonl", given), model_folder(), out=tmp_path / "set")


def test_a_text_that_a_model_turns_to_nan_does_not_spoil_its_batch(model_folder, tmp_path: Path) -> None:
    loaded = resolve(model_folder("bert", 8))
    rows = loaded.model.get_input_embeddings().weight
    with torch.no_grad():
        rows[loaded.tokenizer.convert_tokens_to_ids("mat")] = torch.nan
    given = ["the cat sat", "the mat sat", "a dog ran", "on a mat"]
    source = json_lines(tmp_path / "texts.jsonl", given)
    found = scan(source, loaded.model, loaded.tokenizer, out=tmp_path / "set")
    told = reasons(found)
    assert list(told) == [1, 3]
    assert "NaN or infinity" in told[1]
    alone = scan(json_lines(tmp_path / "good.jsonl", given[::2]), loaded.model, loaded.tokenizer, out=tmp_path / "good")
    for mine, theirs in zip(found.table("means").to_pylist(), alone.table("means").to_pylist(), strict=True):
        assert mine["mean"] == pytest.approx(theirs["mean"], abs=1e-6)


def test_a_model_that_attends_by_its_own_code_is_refused_by_name(tmp_path: Path, tiny_model, minilm_tokenizer) -> None:
    import transformers

    model = transformers.AutoModel.from_config(
        transformers.BloomConfig(hidden_size=32, n_layer=1, n_head=4, vocab_size=minilm_tokenizer.vocab_size)
    )
    source = json_lines(tmp_path / "texts.jsonl", ["cat"])
    with pytest.raises(UnsupportedError, match="BloomModel"):
        scan(source, model, minilm_tokenizer, out=tmp_path / "set")


def test_warnings_about_texts_are_counted_in_the_manifest(tmp_path: Path, model_folder) -> None:
    source = json_lines(tmp_path / "texts.jsonl", ["[CLS] the cat", "[CLS] the dog", "the cat"])
    found = scan(source, model_folder(), out=tmp_path / "set")
    ((warning, count),) = found.meta["warnings"].items()
    assert warning.startswith("the text already begins with [CLS]")
    assert count == 2


def test_the_model_is_as_before(model_folder, tmp_path: Path) -> None:
    loaded = resolve(model_folder())
    loaded.model.train()
    before = loaded.model.config._attn_implementation
    scan(json_lines(tmp_path / "t.jsonl", ["the cat"]), loaded.model, loaded.tokenizer, out=tmp_path / "set")
    assert loaded.model.config._attn_implementation == before
    assert loaded.model.training
