from __future__ import annotations

import gc
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
from heedmap.errors import HeedmapWarning, InputError, RunError, UnsupportedError
from heedmap.runs.writer import RunWriter

CAT = "The cat sat on the mat because it was tired"


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
