"""Looking at a text that a model generates or decodes."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch

from heedmap.capture.look import look
from heedmap.capture.watch import watch
from heedmap.cli.summary import Summary
from heedmap.errors import InputError, UnsupportedError
from heedmap.figures.overview import overview

CAT = "The cat sat on the mat because it was tired"


def test_a_look_that_generates_keeps_the_whole_text_with_a_row_for_every_token_read(wordy, tmp_path):
    model, tokenizer = wordy("llama")
    run = look(CAT, model, tokenizer, generate=7, out=tmp_path / "run")
    tokens = run.tokens
    assert tokens.num_rows == 12 + 7
    assert tokens.column("generated").to_pylist() == [False] * 12 + [True] * 7
    assert tokens.column("unread").to_pylist() == [False] * 18 + [True]
    assert run.text.startswith(CAT)
    assert len(run.text) > len(CAT)
    assert run.meta["text"]["generated"] == 7
    assert run.meta["text"]["tokens"] == 19
    assert run.meta["self_check"]["passed"]
    starts, ends = tokens.column("start").to_pylist(), tokens.column("end").to_pylist()
    added = [run.text[start:end] for start, end in zip(starts[12:], ends[12:], strict=True) if start >= 0]
    assert added
    assert "".join(added) == run.text[len(CAT) :]
    assert {(info.query_len, info.key_len) for info in run.layers} == {(18, 18)}
    ids = torch.tensor([tokens.column("id").to_pylist()])
    model.set_attn_implementation("eager")
    with torch.no_grad():
        eager = model(input_ids=ids[:, :-1], output_attentions=True).attentions
        logits = model(input_ids=ids[:, :-1]).logits
    assert torch.equal(logits[0, 11:].argmax(-1), ids[0, 12:])  # row t chose token t + 1
    for layer in (0, 1):
        np.testing.assert_allclose(run.weights(layer, 2), eager[layer][0, 2].numpy(), rtol=0, atol=1e-5)


def test_a_generated_text_is_measured_in_full_with_its_spans(wordy, tmp_path):
    model, tokenizer = wordy("llama")
    told: list[tuple[str, int, int]] = []
    run = look(
        CAT, model, tokenizer, generate=5, statistics="all", spans={"animal": "The cat"}, out=tmp_path / "run",
        layers=[1], heads=[2], progress=lambda *step: told.append(step),
    )  # fmt: skip
    weights = run.weights(1, 2)
    mass = np.stack(run.table("query", layer=1, head=2).column("span_mass").to_pylist())[:, 0]
    place = slice(*run.meta["spans"]["animal"][0])
    np.testing.assert_allclose(mass, weights[:, place].sum(1), atol=2e-6)
    assert [step[1] for step in told if step[0] == "generate"][-1] == 5


def test_special_tokens_that_are_generated_add_no_text(wordy, tmp_path):
    model, tokenizer = wordy("llama")
    model.generation_config.eos_token_id = list(range(tokenizer.vocab_size))  # ends at once
    run = look(CAT, model, tokenizer, generate=5, out=tmp_path / "run")
    assert run.meta["text"]["generated"] == 1
    assert run.layers[0].query_len == 12


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_an_encoder_decoder_is_looked_at_with_a_target(wordy, tmp_path, name):
    model, tokenizer = wordy(name, decoder_start_token_id=0, eos_token_id=1, pad_token_id=0)
    run = look(CAT, model, tokenizer, target="It slept there.", out=tmp_path / "run")
    assert {part for part, _, _ in run.heads} == {"encoder", "decoder", "cross"}
    assert run.text_pair == "It slept there."
    source, target = run.tokens_of(), run.tokens_of("target")
    assert (source.num_rows, run.tokens.num_rows) == (12, 12 + target.num_rows)
    assert target.column("position").to_pylist() == list(range(target.num_rows))
    assert target.column("text").to_pylist()[1:] == ["[CLS]", "It", "slept", "there", ".", "[SEP]"]
    assert target.column("unread").to_pylist() == [False] * (target.num_rows - 1) + [True]
    assert run.meta["self_check"]["passed"]
    cross = run.layer(1, "cross")
    assert (cross.query_sequence, cross.key_sequence, cross.cross) == ("target", "text", True)
    assert (cross.query_len, cross.key_len, cross.query_offset) == (target.num_rows - 1, 12, 0)
    decoder = run.layer(0, "decoder")
    assert (decoder.query_sequence, decoder.key_sequence) == ("target", "target")
    assert run.layer(0, "encoder").query_sequence == "text"
    model.set_attn_implementation("eager")
    with torch.no_grad():
        eager = model(
            input_ids=torch.tensor([source.column("id").to_pylist()]),
            decoder_input_ids=torch.tensor([target.column("id").to_pylist()])[:, :-1],
            output_attentions=True,
        )
    np.testing.assert_allclose(
        run.weights(1, 2, part="cross"), eager.cross_attentions[1][0, 2].numpy(), rtol=0, atol=1e-5
    )
    if name == "bart":
        np.testing.assert_allclose(
            run.weights(1, 2, part="decoder"), eager.decoder_attentions[1][0, 2].numpy(), rtol=0, atol=1e-5
        )


def test_lists_of_top_keys_have_the_places_of_the_longest_text(wordy, tmp_path):
    model, tokenizer = wordy("bart", decoder_start_token_id=2, eos_token_id=1, pad_token_id=0)
    run = look("It slept", model, tokenizer, target=CAT, statistics=["top_keys"], out=tmp_path / "run")
    assert [(info.part, info.key_len) for info in run.layers[::2]] == [("encoder", 4), ("decoder", 12), ("decoder", 12)]
    encoder, decoder = (run.table("query", part=part, layer=1, head=0) for part in ("encoder", "decoder"))
    keys = np.stack(encoder.column("top_keys").to_pylist())
    assert keys.shape == (4, 10)
    assert (keys[:, 4:] == -1).all()
    assert np.isnan(np.stack(encoder.column("top_weights").to_pylist())[:, 4:]).all()
    np.testing.assert_array_equal(np.sort(keys[:, :4], axis=1), np.tile(np.arange(4), (4, 1)))
    assert np.stack(decoder.column("top_keys").to_pylist())[-1].min() >= 0


def test_an_encoder_decoder_generates_its_target(wordy, tmp_path):
    import transformers

    made, tokenizer = wordy("bart", decoder_start_token_id=2, eos_token_id=1, pad_token_id=0, forced_eos_token_id=None)
    model = transformers.BartForConditionalGeneration(made.config).eval()
    run = look(CAT, model, tokenizer, generate=6, statistics="all", out=tmp_path / "run")
    target = run.tokens_of("target")
    assert target.column("generated").to_pylist() == [False] + [True] * 6
    assert run.tokens_of().column("generated").to_pylist() == [False] * 12
    assert run.layer(0, "cross").query_len == 6
    assert run.layer(0, "decoder").key_len == 6
    assert run.meta["self_check"]["passed"]
    ids = {name: torch.tensor([run.tokens_of(name).column("id").to_pylist()]) for name in ("text", "target")}
    with torch.no_grad(), watch(model) as seen:
        model(input_ids=ids["text"], decoder_input_ids=ids["target"][:, :-1])
    expected = seen.call(1, "cross").measurements["entropy"][0, 3]
    found = run.table("query", layer=1, head=3, part="cross").column("entropy").to_numpy()
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize(
    ("name", "asked", "message"),
    [
        ("bert", {"generate": 3}, "BertModel, which has no language-model head"),
        ("llama", {"generate": 0}, "1 or more"),
        ("llama", {"generate": 3000}, "12 in the text and 3000 to generate"),
        ("llama", {"target": "x"}, "no decoder beside an encoder"),
        ("t5", {"target": "x", "text_pair": "y"}, "a pair of texts too"),
        ("t5", {"target": "x", "generate": 3}, "has no language-model head|something to generate"),
    ],
)
def test_what_cannot_be_generated_or_decoded_is_a_clear_error(wordy, tmp_path, name, asked, message):
    changes = {"decoder_start_token_id": 0} if name == "t5" else {}
    with pytest.raises((InputError, UnsupportedError), match=message):
        look(CAT, *wordy(name, **changes), out=tmp_path / "run", **asked)
    assert list(tmp_path.iterdir()) == []


def test_pictures_and_summaries_tell_both_texts(wordy, tmp_path):
    model, tokenizer = wordy("bart", decoder_start_token_id=2, eos_token_id=1, pad_token_id=0)
    run = look("The cat sat.", model, tokenizer, target="Rain fell on it.", out=tmp_path / "run")
    figure = overview(run, head="cross.1.2")
    drawn = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert {"cat", "sat", "Rain", "fell"} <= set(drawn)
    told = io.StringIO()
    Summary(run).print(told)
    words = " ".join(told.getvalue().split())
    assert "“The cat sat.” → “Rain fell on it.” · 6 tokens + 8 decoded; the last one has read nothing yet" in words


def test_the_summary_of_a_generated_run_shows_what_was_generated(wordy, tmp_path):
    run = look(CAT, *wordy("llama"), generate=4, out=tmp_path / "run")
    told = io.StringIO()
    Summary(run).print(told)
    words = " ".join(told.getvalue().split())
    assert f"“{CAT}” → “" in words
    assert "12 tokens + 4 generated; the last one has read nothing yet" in words
