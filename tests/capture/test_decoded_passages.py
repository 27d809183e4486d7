"""Which passage did each decoded token read: spans through the cross-attention of models that have an encoder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
import torch
import transformers

from heedmap.capture.look import look
from heedmap.cli.main import main
from heedmap.errors import InputError
from heedmap.heads.evidence import type_heads
from heedmap.heads.passages import between, read_passages

TEXT = "Rome is old. Oslo is new. Which is old?"
SPANS = {"a": "Rome is old.", "b": "Oslo is new.", "q": "Which is old?"}
SETTINGS = {"decoder_start_token_id": 2, "eos_token_id": 1, "pad_token_id": 0, "forced_eos_token_id": None}
NEW = 6


@pytest.fixture
def writer(family, minilm_tokenizer):
    """A tiny encoder–decoder that generates, and its tokenizer."""

    def build(name: str) -> tuple[Any, Any]:
        config = family(name, vocab_size=minilm_tokenizer.vocab_size, **SETTINGS).config
        kind = {"t5": "T5ForConditionalGeneration", "bart": "BartForConditionalGeneration"}[name]
        model = getattr(transformers, kind)(config).eval()
        model.generation_config.eos_token_id = None
        return model, minilm_tokenizer

    return build


@pytest.mark.parametrize("name", ["t5", "bart"])
@pytest.mark.parametrize("asked", [{"generate": NEW}, {"target": "It is Rome."}], ids=["generated", "given"])
def test_each_decoded_token_has_the_passages_that_its_row_read(writer, tmp_path: Path, name: str, asked) -> None:
    model, tokenizer = writer(name)
    run = look(TEXT, model, tokenizer, spans=SPANS, statistics="all", out=tmp_path / "run", **asked)
    readings = read_passages(run)
    assert readings.which == ("generated" if "generate" in asked else "target")
    assert {part for part, _, _ in readings.heads} == {"cross"}
    target = run.tokens_of("target").column("text").to_pylist()
    assert readings.labels == target[1:], "each row is told by the token that it led to"
    assert readings.names == ("a", "b", "q", "rest")
    ids = {name: torch.tensor([run.tokens_of(name).column("id").to_pylist()]) for name in ("text", "target")}
    model.set_attn_implementation("eager")
    with torch.no_grad():
        out = model(input_ids=ids["text"], decoder_input_ids=ids["target"][:, :-1], output_attentions=True)
    places = [slice(1, 5), slice(5, 9), slice(9, 13), [0, 13]]
    for layer, weights in enumerate(out.cross_attentions):
        for head in range(4):
            wanted = np.stack([weights[0, head][:, place].sum(1) for place in places], axis=1)
            np.testing.assert_allclose(readings.of_head(("cross", layer, head)), wanted, atol=1e-5)


def test_the_encoder_reads_the_passages_by_its_own_rows(writer, tmp_path: Path) -> None:
    model, tokenizer = writer("bart")
    run = look(TEXT, model, tokenizer, spans=SPANS, generate=NEW, out=tmp_path / "run")
    readings = read_passages(run, "q")
    assert {part for part, _, _ in readings.heads} == {"encoder"}
    assert readings.labels == ["Which", "is", "old", "?"]
    rows, columns, table = between(run)
    assert rows == ["a", "b", "q", "rest", "generated"]
    assert columns == ["a", "b", "q", "rest"]
    np.testing.assert_allclose(table[2], readings.by_row.mean(0), atol=1e-6)
    np.testing.assert_allclose(table[-1], read_passages(run).by_row.mean(0), atol=1e-6)
    np.testing.assert_allclose(table.sum(1), 1.0, atol=1e-5)
    with pytest.raises(InputError, match="a head that reads the text of the passages, got encoder"):
        read_passages(run).of_head(("encoder", 0, 0))


def test_layers_of_the_decoder_alone_read_no_passages_and_that_is_said(writer, tmp_path: Path, monkeypatch) -> None:
    model, tokenizer = writer("bart")
    run = look(TEXT, model, tokenizer, spans=SPANS, generate=NEW, out=tmp_path / "run")
    own = [info for info in run.layers if info.part == "decoder"]
    monkeypatch.setitem(run.__dict__, "layers", own)
    with pytest.raises(InputError, match=r"layers in which the rows of 'generated' read the text .* got decoder 0"):
        read_passages(run, "generated")


def test_the_table_and_the_picture_are_of_the_generated_tokens(
    writer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, tokenizer = writer("t5")
    folder, picture = tmp_path / "run", tmp_path / "read.png"
    run = look(TEXT, model, tokenizer, spans=SPANS, generate=NEW, out=folder)
    assert main(["spans", str(folder), "--each", "--png", str(picture)]) == 0
    printed = capsys.readouterr().out
    assert "what each generated token was read from" in " ".join(printed.split())
    first = run.tokens_of("target").column("text").to_pylist()[1]
    assert [line for line in printed.splitlines() if line.startswith(f"0 {first}")]
    assert "Heads in which generated tokens read most of a passage" in printed
    assert picture.stat().st_size > 10_000
    assert main(["spans", str(folder), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {head["part"] for head in document["heads"]} == {"cross"}
    assert len(document["tokens"]) == NEW
    assert sum(document["between"]["generated"].values()) == pytest.approx(1.0, abs=1e-4)


def test_a_statistic_of_distance_by_name_is_left_out_of_cross_attention_only(writer, tmp_path: Path) -> None:
    model, tokenizer = writer("bart")
    asked = ["default", "duplicate", "previous"]
    run = look(TEXT, model, tokenizer, generate=NEW, statistics=asked, out=tmp_path / "run")
    assert {"duplicate", "previous"} <= set(run.meta["statistics"])
    means = run.table("head").to_pandas().groupby("part")["previous"].apply(lambda column: column.notna().all())
    assert means.to_dict() == {"encoder": True, "decoder": True, "cross": False}


def test_words_of_what_was_decoded_have_the_rows_of_their_tables(writer, tmp_path: Path) -> None:
    model, tokenizer = writer("bart")
    run = look(TEXT, model, tokenizer, spans=SPANS, generate=NEW, statistics="all", out=tmp_path / "run")
    for part in ("encoder", "decoder", "cross"):
        table = run.table("query", level="word", part=part, layer=1, head=2)
        weights = run.weights(1, 2, part=part, level="word")
        assert weights.shape[0] == table.num_rows, part
        np.testing.assert_allclose(weights.sum(1), 1.0, atol=1e-5)
    whole = run.table("query", level="word")
    null = {
        part: whole.filter(pc.equal(whole["part"], part)).column("previous").null_count for part in ("cross", "encoder")
    }
    assert null["cross"] == whole.filter(pc.equal(whole["part"], "cross")).num_rows
    assert null["encoder"] == 0
    spans = np.stack(run.table("query", level="word", part="cross", layer=0, head=0).column("span_mass").to_pylist())
    assert spans.shape == (run.table("query", level="word", part="cross", layer=0, head=0).num_rows, 3)


def test_heads_are_typed_by_the_tokens_of_their_own_text(
    writer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, tokenizer = writer("bart")
    said = "one two three one two three one two three one two three"
    folder = tmp_path / "run"
    run = look("Rome is old", model, tokenizer, target=said, out=folder)
    typing = type_heads(run)
    assert not {"duplicate", "induction"} & set(typing.unjudged), "the target has copies, the text has none"
    values = {(head.part, head.layer, head.head): head.values for head in typing.heads}
    ids = np.array(run.tokens_of("target").column("id").to_pylist())[:-1]
    same = np.tril(ids[:, None] == ids[None, :], -1)
    for layer in (0, 1):
        weights = run.weights(layer, 3, part="decoder")
        wanted = (weights * same).sum(1)[same.any(1)].mean()
        assert values["decoder", layer, 3]["duplicate"] == pytest.approx(wanted, abs=1e-5)
    assert not {"duplicate", "induction"} & {name for key, found in values.items() if key[0] != "decoder"
                                             for name, value in found.items() if np.isfinite(value)}  # fmt: skip
    capsys.readouterr()
    assert main(["heads", str(folder)]) == 0
    assert "Traceback" not in capsys.readouterr().out
