"""Attention while a model trains: logged every few steps, and training the same to the last bit."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor

from heedmap.capture.callback import AttentionCallback
from heedmap.capture.gauge import Gauge
from heedmap.capture.watch import watch
from heedmap.errors import HeedmapWarning, InputError

Logged = list[tuple[int, dict[str, float]]]


@pytest.fixture
def llama(family) -> Any:
    return family("llama", attention_dropout=0.1).train()


def _texts(count: int = 40) -> list[dict[str, Tensor]]:
    drawn = torch.Generator().manual_seed(11)
    texts = [torch.randint(3, 100, (12,), generator=drawn) for _ in range(count)]
    return [{"input_ids": text, "labels": text} for text in texts]


def _train(model: Any, gauge: Gauge | None, steps: int = 20) -> list[Tensor]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    torch.manual_seed(1)
    for text in _texts(steps):
        batch = {name: values[None] for name, values in text.items()}
        if gauge is None:
            model(**batch).loss.backward()
        else:
            with gauge:
                model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return [parameter.detach().clone() for parameter in model.parameters()]


def test_twenty_steps_with_the_gauge_give_the_same_weights_to_the_last_bit(llama):
    twin, logged = copy.deepcopy(llama), []
    gauge = Gauge(llama, lambda values, step: logged.append((step, values)), every=5)
    for with_, without in zip(_train(llama, gauge), _train(twin, None), strict=True):
        assert torch.equal(with_, without)
    assert [step for step, _ in logged] == [0, 5, 10, 15]
    assert gauge.step == 20
    assert llama.config._attn_implementation == "sdpa"


def test_what_is_logged_is_what_watch_measures(llama):
    logged: Logged = []
    batch = {name: values[None] for name, values in _texts(1)[0].items()}
    with watch(llama.eval(), ["entropy", "max_score", "first_token", "saturation"]) as seen:
        llama(**batch)
    with Gauge(llama.train(), lambda values, step: logged.append((step, values))):
        llama(**batch).loss.backward()
    ((_, values),) = logged
    assert len(values) == 4 * 2 * 4
    found = seen.call(0).measurements  # of layer 0: dropout behind it changes what layer 1 reads
    assert values["attention/entropy/0.3"] == pytest.approx(found["entropy"][0, 3].mean(), rel=1e-5)
    assert values["attention/max_score/0.3"] == pytest.approx(found["max_score"][0, 3].max(), rel=1e-5)
    assert values["attention/sink_share/0.3"] == pytest.approx(np.nanmean(found["first_token"][0, 3]), rel=1e-5)
    assert values["attention/saturation/0.3"] == pytest.approx(found["saturation"][0, 3].mean(), rel=1e-5)


def test_micro_batches_of_one_step_are_taken_together_and_parts_are_named(family):
    model, logged = family("bart").train(), []
    ids = torch.randint(3, 100, (2, 9))
    with Gauge(model, lambda values, step: logged.append(values), layers=[1], heads=[2]):
        for _ in range(3):
            model(input_ids=ids, decoder_input_ids=ids).last_hidden_state.sum().backward()
    parts = ("encoder", "decoder", "cross")
    assert len(logged) == 1
    assert [name for name in logged[0] if "entropy" in name] == [f"attention/entropy/{part}.1.2" for part in parts]


def test_a_step_that_fails_logs_nothing_and_the_model_is_set_back(llama):
    logged: Logged = []
    gauge = Gauge(llama, lambda values, step: logged.append((step, values)), every=2)
    batch = {name: values[None] for name, values in _texts(1)[0].items()}
    interrupt = llama.register_forward_hook(lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt), gauge:
        llama(**batch)
    interrupt.remove()
    assert llama.config._attn_implementation == "sdpa"
    for _ in range(2):
        with gauge:
            llama(**batch)
    assert [step for step, _ in logged] == [2]


def test_it_warns_once_of_each_head_that_collapses_or_explodes(llama):
    gauge = Gauge(llama, lambda values, step: None, every=1, exploded=30.0)
    batch = {name: values[None] for name, values in _texts(1)[0].items()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with gauge:
            llama(**batch)
    with torch.no_grad():
        llama.model.layers[1].self_attn.q_proj.weight.mul_(1000)
    with pytest.warns(HeedmapWarning) as told, gauge:
        llama(**batch)
    words = [str(warning.message) for warning in told]
    assert len(words) == 2
    assert "attention entropy collapsed to less than 0.1 of what it was at step 1, in heads 1.0" in words[0]
    assert "attention scores exploded beyond 30 at step 1, in heads 1.0" in words[1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with gauge:
            llama(**batch)


def test_scores_that_are_no_longer_finite_do_not_stop_the_training(llama):
    logged: Logged = []
    gauge = Gauge(llama, lambda values, step: logged.append((step, values)), every=1)
    batch = {name: values[None] for name, values in _texts(1)[0].items()}
    with torch.no_grad():
        llama.model.layers[1].self_attn.q_proj.weight[0, 0] = torch.inf
    with pytest.warns(HeedmapWarning, match=r"in heads 1\.0 \(not finite\)"), gauge:
        llama(**batch).loss.backward()
    assert {name.split("/")[-1] for name in logged[0][1]} == {f"0.{head}" for head in range(4)}


@pytest.mark.parametrize("every", [0, -1, True, 1.5, None])
def test_every_must_be_a_number_of_steps(llama, every):
    with pytest.raises(InputError, match="from 1, got "):
        Gauge(llama, print, every=every)


# --- transformers' Trainer ------------------------------------------------------------------------------------------


def _trainer(model: Any, folder: Path, **changes: Any) -> Any:
    from transformers import Trainer, TrainingArguments

    settings = {
        "output_dir": str(folder / "out"),
        "max_steps": 20,
        "per_device_train_batch_size": 1,
        "gradient_accumulation_steps": 2,
        "learning_rate": 1e-2,
        "logging_steps": 5,
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
        "use_cpu": True,
        "seed": 3,
    }
    return Trainer(model, TrainingArguments(**(settings | changes)), train_dataset=cast("Any", _texts()))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_a_trainer_logs_to_tensorboard_and_trains_the_same_weights(llama, tmp_path, monkeypatch):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    twin = copy.deepcopy(llama)
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "events"))
    trainer = _trainer(llama, tmp_path, report_to=["tensorboard"])
    trainer.add_callback(AttentionCallback(trainer, every=8))
    trainer.train()
    _trainer(twin, tmp_path).train()
    for with_, without in zip(llama.parameters(), twin.parameters(), strict=True):
        assert torch.equal(with_, without)
    assert "training_step" not in vars(trainer)
    assert not any("attention" in name for entry in trainer.state.log_history for name in entry)
    (file,) = tmp_path.rglob("events.out.tfevents.*")
    read = events.EventAccumulator(str(file), size_guidance={events.SCALARS: 0}).Reload()
    tags = [tag for tag in read.Tags()["scalars"] if "attention/" in tag]
    assert len(tags) == 4 * 2 * 4
    found = read.Scalars("train/attention/entropy/1.3")
    assert [event.step for event in found] == [0, 8, 16]
    assert all(0 < event.value < np.log(12) for event in found)
    assert "train/loss" in read.Tags()["scalars"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_a_training_that_is_broken_off_leaves_the_model_as_it_was(llama, tmp_path):
    trainer = _trainer(llama, tmp_path)
    trainer.add_callback(AttentionCallback(trainer, every=1))
    llama.register_forward_hook(lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    assert llama.config._attn_implementation == "sdpa"
