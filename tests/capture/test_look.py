from __future__ import annotations

import gc
import io
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import heedmap
from heedmap.capture import look as look_module
from heedmap.capture import selfcheck
from heedmap.capture.look import look
from heedmap.capture.watch import watch
from heedmap.cli.summary import Summary
from heedmap.errors import HeedmapWarning, InputError, RunError, UnsupportedError
from heedmap.figures.overview import overview
from heedmap.runs.writer import RunWriter

CAT = "The cat sat on the mat because it was tired"


@pytest.fixture
def wordy(family, minilm_tokenizer):
    """A tiny model of a family that reads MiniLM's vocabulary, and the tokenizer."""

    def build(name: str, **changes: Any) -> tuple[Any, Any]:
        return family(name, vocab_size=minilm_tokenizer.vocab_size, **changes), minilm_tokenizer

    return build


def test_the_known_figures_of_minilm_are_in_the_run(minilm_folder, tmp_path):
    run = heedmap.look(CAT, out=tmp_path / "cat")
    words = run.tokens.column("text").to_pylist()
    it, cat = words.index("it"), words.index("cat")
    assert run.weights(5, 11)[it, cat] == pytest.approx(0.683, abs=5e-4)
    assert run.weights(3, 1)[it, cat] == pytest.approx(0.487, abs=5e-4)
    assert run.weights(5, 4)[it, cat] == pytest.approx(0.415, abs=5e-4)
    previous = np.diagonal(run.weights(0, 2), -1)
    assert previous.mean() == pytest.approx(1.0, abs=5e-4)
    assert len(run.heads) == 72
    assert run.text == CAT
    meta = run.meta
    assert meta["self_check"]["passed"]
    assert meta["model"] == {
        "name": "minilm",
        "revision": meta["model"]["revision"],
        "class": "BertModel",
        "dtype": "float32",
        "layers": 6,
        "initialised": 0,
        "attention": "sdpa",
    }
    assert meta["cost"]["output_attentions_bytes"] == 72 * 12 * 12 * 4
    assert meta["cost"]["peak_bytes"] > 1e8
    assert set(meta["cost"]["seconds"]) == {"load", "tokenise", "forward", "total"}
    assert meta["text"]["tokens"] == 12
    assert set(meta["versions"]) == {"python", "numpy", "torch", "transformers", "tokenizers"}


@pytest.mark.parametrize("name", ["bert", "llama", "mistral", "gemma2", "gpt-oss", "modernbert", "llama4", "diffllama"])
def test_windows_of_a_run_are_the_models_own_eager_weights(wordy, tmp_path, name):
    model, tokenizer = wordy(name)
    run = look(CAT, model, tokenizer, out=tmp_path / "run")
    assert run.meta["self_check"]["passed"]
    model.set_attn_implementation("eager")
    ids = torch.tensor([run.tokens.column("id").to_pylist()])
    with torch.no_grad():
        eager = model(input_ids=ids, output_attentions=True).attentions
    for layer in (0, 1):
        for head in range(4):
            np.testing.assert_allclose(
                run.weights(layer, head, part="self"), eager[layer][0, head].numpy(), rtol=0, atol=1e-5
            )


def test_an_encoder_decoder_is_looked_at_with_its_encoder_and_says_why_zoom_is_off(wordy, tmp_path):
    model, tokenizer = wordy("t5")
    run = look(CAT, model, tokenizer, out=tmp_path / "run")
    assert {part for part, _, _ in run.heads} == {"encoder"}
    assert run.meta["self_check"]["passed"]
    with pytest.raises(UnsupportedError, match="position bias"):
        run.weights(0, 0)


def test_bf16_inputs_are_kept_as_they_are(wordy, tmp_path):
    model, tokenizer = wordy("llama")
    model = model.to(torch.bfloat16)
    run = look(CAT, model, tokenizer, out=tmp_path / "run")
    with torch.no_grad(), watch(model, keep_inputs=True) as seen:
        model(input_ids=torch.tensor([run.tokens.column("id").to_pylist()]))
    inputs = seen.call(1).inputs
    assert inputs is not None
    scores = inputs.query[0, 3].double() @ inputs.key[0, 1].double().T * inputs.scale
    hidden = ~torch.ones(12, 12).tril().bool()
    np.testing.assert_allclose(
        run.weights(1, 3), scores.masked_fill(hidden, -torch.inf).softmax(-1).numpy(), rtol=0, atol=1e-5
    )


def test_layers_heads_and_statistics_that_were_asked_for_are_what_is_kept(wordy, tmp_path):
    model, tokenizer = wordy("llama")
    run = look(
        CAT, model, tokenizer, out=tmp_path / "run", layers=[1], heads=[0, 3], statistics=["entropy"], keep_inputs=False
    )
    assert run.heads == [("self", 1, 0), ("self", 1, 3)]
    columns = run.table("query").column_names
    assert "entropy" in columns
    assert "saturation" not in columns
    assert not (run.path / "inputs.safetensors").exists()


@pytest.mark.parametrize("name", ["gpt-oss", "gemma2"])
def test_windows_of_some_heads_are_those_of_the_whole_run(wordy, tmp_path, name):
    model, tokenizer = wordy(name)
    whole = look(CAT, model, tokenizer, out=tmp_path / "whole")
    some = look(CAT, model, tokenizer, out=tmp_path / "some", heads=["0.3", "1.1"])
    assert some.heads == [("self", 0, 3), ("self", 1, 1)]
    for layer, head in ((0, 3), (1, 1)):
        np.testing.assert_allclose(some.weights(layer, head), whole.weights(layer, head), rtol=0, atol=2e-6)


def test_a_pair_of_texts_is_kept_with_both_its_texts(minilm_folder, tmp_path):
    run = look("The cat sat.", out=tmp_path / "pair", text_pair="It was tired.")
    assert set(run.tokens.column("segment").to_pylist()) == {0, 1}
    assert (run.path / "text_pair.txt").read_text() == "It was tired."


def test_each_layer_is_written_and_forgotten_before_the_next_begins(wordy, tmp_path, monkeypatch):
    model, tokenizer = wordy("llama", num_hidden_layers=4)
    write, alive = RunWriter.layer, []

    def layer(self: RunWriter, entry: Any, measurements: Any, **inputs: Any) -> None:
        gc.collect()
        assert [reference() for reference in alive] == [None] * len(alive)
        alive.append(weakref.ref(measurements))
        write(self, entry, measurements, **inputs)

    monkeypatch.setattr(RunWriter, "layer", layer)
    look(CAT, model, tokenizer, out=tmp_path / "run")
    assert len(alive) == 4


def test_no_logits_and_no_cache_are_computed(wordy, tmp_path):
    model, tokenizer = wordy("llama")
    model.lm_head.register_forward_hook(lambda *_: pytest.fail("the language-model head ran"))
    caches = []
    model.model.register_forward_hook(lambda module, args, output: caches.append(output.past_key_values))
    look(CAT, model, tokenizer, out=tmp_path / "run")
    assert caches
    assert set(caches) == {None}


def test_progress_is_told_in_steps(wordy, tmp_path):
    model, tokenizer = wordy("llama")
    told: list[tuple[str, int, int]] = []
    look(CAT, model, tokenizer, out=tmp_path / "run", progress=lambda *step: told.append(step))
    stages = list(dict.fromkeys(stage for stage, _, _ in told))
    assert stages == ["load", "tokenise", "forward", "check", "write"]
    assert [step for step in told if step[0] == "forward"] == [("forward", done, 2) for done in (0, 1, 2)]


def test_the_model_is_left_as_it_was(wordy, tmp_path):
    model, tokenizer = wordy("bert", hidden_dropout_prob=0.5)
    model.train()
    model.encoder.layer[0].eval()
    modes = [module.training for module in model.modules()]
    run = look(CAT, model, tokenizer, out=tmp_path / "run")
    assert [module.training for module in model.modules()] == modes
    assert model.config._attn_implementation == "sdpa"
    again = look(CAT, model, tokenizer, out=tmp_path / "again")
    assert np.array_equal(run.weights(1, 1), again.weights(1, 1))  # no dropout at work


def test_a_run_without_a_folder_lives_as_long_as_it_is_used(wordy):
    run = look(CAT, *wordy("bert"))
    folder = run.path
    assert folder.exists()
    assert run.weights(0, 0).shape == (12, 12)
    del run
    gc.collect()
    assert not folder.parent.exists()


def test_an_earlier_run_is_replaced_and_nothing_else_is(wordy, tmp_path, monkeypatch):
    model, tokenizer = wordy("bert")
    look(CAT, model, tokenizer, out=tmp_path / "run")
    run = look("Another text", model, tokenizer, out=tmp_path / "run")
    assert run.text == "Another text"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("all of it")
    monkeypatch.setattr(look_module, "resolve", lambda *_: pytest.fail("a model was loaded first"))
    with pytest.raises(RunError):
        look(CAT, model, tokenizer, out=tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "all of it"


@pytest.mark.parametrize("failure", [KeyboardInterrupt, RuntimeError])
def test_what_fails_in_the_middle_leaves_nothing(wordy, tmp_path, failure):
    model, tokenizer = wordy("bert")

    def fail(*_: Any) -> None:
        raise failure

    model.encoder.layer[1].register_forward_pre_hook(fail)
    with pytest.raises(failure):
        look(CAT, model, tokenizer, out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []
    assert model.config._attn_implementation == "sdpa"


def test_a_run_without_a_folder_that_fails_leaves_nothing(wordy, tmp_path, monkeypatch):
    monkeypatch.setattr(look_module.tempfile, "tempdir", str(tmp_path))
    with pytest.raises(InputError):
        look("", *wordy("bert"))
    assert list(tmp_path.iterdir()) == []


def test_a_text_longer_than_the_model_states_both_numbers(minilm_folder, tmp_path):
    with pytest.raises(InputError, match=r"512 .*1002 .*max_tokens") as error:
        look("word " * 1000, out=tmp_path / "run")
    assert "--tokens" in str(error.value)
    assert look("word " * 1000, out=tmp_path / "run", max_tokens=30, layers=[0]).meta["text"]["truncated_from"] == 1002


@pytest.mark.parametrize(
    "asked", [{"statistics": ["entropi"]}, {"layers": [-1]}, {"heads": ["x"]}, {"layers": [0], "heads": ["1.1"]}]
)
def test_what_cannot_be_asked_for_is_said_before_a_model_is_loaded(tmp_path, monkeypatch, asked):
    monkeypatch.setattr(look_module, "resolve", lambda *_: pytest.fail("a model was loaded first"))
    with pytest.raises(InputError):
        look(CAT, out=tmp_path / "run", **asked)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("asked", "message"), [({"layers": [6]}, r"\(0-5\), got layer 6"), ({"heads": [12]}, "heads 0 to 11")]
)
def test_layers_and_heads_that_the_model_lacks_are_a_clear_error(minilm_folder, tmp_path, asked, message):
    with pytest.raises(InputError, match=message):
        look(CAT, out=tmp_path / "run", **asked)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_self_check_warns_and_is_in_the_run(wordy, tmp_path, monkeypatch):
    weights = selfcheck._weights

    def wrong(inputs: Any, measured: Any, index: int) -> Any:
        ours, budget = weights(inputs, measured, index)
        return ours + 0.01, budget

    monkeypatch.setattr(selfcheck, "_weights", wrong)
    with pytest.warns(HeedmapWarning, match="the self-check failed"):
        run = look(CAT, *wordy("bert"), out=tmp_path / "run")
    assert run.meta["self_check"]["passed"] is False


def test_a_run_that_cannot_check_itself_says_so(wordy, tmp_path, monkeypatch):
    monkeypatch.setattr(selfcheck, "eager_function", lambda module: None)
    with pytest.warns(HeedmapWarning, match="could not check itself"):
        run = look(CAT, *wordy("bert"), out=tmp_path / "run")
    assert run.meta["self_check"] is None


def test_a_run_holds_files_of_its_own_only(wordy, tmp_path):
    run = look(CAT, *wordy("bert"), out=tmp_path / "deep" / "run")
    assert sorted(path.name for path in Path(run.path).iterdir()) == sorted([*run.meta["files"], "run.json"])


# --- generated and decoded texts -----------------------------------------------------------------------------------


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
