from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from heedmap.capture.models import LoadedModel
from heedmap.errors import InputError
from heedmap.experiments.copying import Study, change, most_changed, study_copying
from heedmap.experiments.induction import random_twice
from heedmap.experiments.intervals import student


class _Vocabulary:
    bos_token_id, cls_token_id, all_special_ids = 0, None, (0,)

    def __len__(self) -> int:
        return 100

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [f"w{i}" for i in ids]


def _loaded(kind: str = "LlamaForCausalLM") -> LoadedModel:
    import transformers

    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
             "vocab_size": 100, "max_position_embeddings": 128}  # fmt: skip
    if kind.startswith("Llama"):
        sizes["num_key_value_heads"] = 2
    torch.manual_seed(3)
    config = getattr(transformers, "LlamaConfig" if kind.startswith("Llama") else "BertConfig")(**sizes)
    model = getattr(transformers, kind)(config).eval()
    return LoadedModel(model, _Vocabulary(), "tiny", None, "memory", [])  # type: ignore[arg-type]


def _dense(loaded: LoadedModel, ids: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Weights `[heads, tokens, tokens]` and the loss of each token but the first, from the model's own eager code."""
    loaded.model.set_attn_implementation("eager")
    with torch.no_grad():
        output = loaded.model(input_ids=ids[None], output_attentions=True)
    loaded.model.set_attn_implementation("sdpa")
    weights = torch.stack(output.attentions)[:, 0].double().flatten(0, 1).numpy()
    loss = torch.nn.functional.cross_entropy(output.logits[0, :-1].double(), ids[1:], reduction="none").numpy()
    return weights, loss


def test_scores_and_losses_are_those_of_the_dense_model() -> None:
    loaded = _loaded()
    found = study_copying(loaded, lengths=(6, 12), draws=2, seed=5).intact
    assert found is not None
    assert found.losses is not None
    assert found.heads == [("self", layer, head) for layer in range(2) for head in range(4)]
    for at, length in enumerate((6, 12)):
        for draw, ids in enumerate(random_twice(loaded.model, loaded.tokenizer, length, 2, 5)):
            weights, loss = _dense(loaded, ids)
            np.testing.assert_allclose(found.losses[at][draw], loss, rtol=0, atol=1e-5)
            same = np.tril(ids.numpy()[:, None] == ids.numpy()[None, :], -1)
            after = np.tril(np.pad(same, ((0, 0), (1, 0)))[:, : len(ids)], -1)
            rows = after.any(1)
            wanted = (weights * after).sum(-1)[:, rows].mean(1)
            np.testing.assert_allclose(found.values["induction"][at, draw], wanted, rtol=0, atol=1e-6)
            halves = found.halves()
            assert halves is not None
            wanted_halves = [loss[1:length].mean(), loss[length + 1 :].mean()]
            np.testing.assert_allclose(halves[at, draw], wanted_halves, atol=1e-5)
    means = found.values["induction"].mean(0)[:, 3]
    assert found.score("induction", 3) == student(means)


def test_silent_heads_change_what_zeroed_columns_change() -> None:
    loaded = _loaded()
    study = study_copying(loaded, lengths=(8,), draws=2, silence=[(0, 1), (1, 2)])
    assert [(one.name, one.heads, one.control) for one in study.silenced[:3]] == [
        ("0.1", [(0, 1)], False),
        ("1.2", [(1, 2)], False),
        ("these 2", [(0, 1), (1, 2)], False),
    ]
    control = study.silenced[3]
    assert control.control
    assert control.name == "2 others"
    assert not {(0, 1), (1, 2)} & set(control.heads)
    assert len(set(control.heads)) == 2
    layers = loaded.model.base_model.layers
    layers[0].self_attn.o_proj.weight.data[:, 8:16] = 0
    by_hand = study_copying(loaded, lengths=(8,), draws=2).intact
    alone = study.silenced[0].found
    assert by_hand is not None
    assert by_hand.losses is not None
    assert alone.losses is not None
    np.testing.assert_allclose(alone.losses[0], by_hand.losses[0], rtol=0, atol=1e-5)
    np.testing.assert_allclose(alone.values["induction"], by_hand.values["induction"], rtol=0, atol=1e-6)


def test_changes_are_paired_over_draws() -> None:
    study = study_copying(_loaded(), lengths=(8, 16), draws=3, strongest=1)
    assert study.intact is not None
    before, after = study.intact.halves(), study.silenced[0].found.halves()
    assert before is not None
    assert after is not None
    cost, drop = change(study.intact, study.silenced[0].found)
    assert cost == student((after - before)[..., 1].mean(0))
    fall = (after[..., 0] - after[..., 1] - before[..., 0] + before[..., 1]).mean(0)
    assert drop.mean == pytest.approx(fall.mean())
    assert drop.half == pytest.approx(student(fall).half)
    scores = study.intact.means("induction")
    assert study.silenced[0].heads == [study.intact.heads[int(scores.argmax())][1:]]
    (first, moved), *_ = most_changed(study.intact, study.silenced[0].found, study.silenced[0].heads)
    assert first[1:] not in study.silenced[0].heads
    others = [at for at, head in enumerate(study.intact.heads) if head[1:] not in study.silenced[0].heads]
    moves = study.silenced[0].found.means("induction") - scores
    assert abs(moved) == np.abs(moves[others]).max()


@pytest.mark.parametrize("kind", ["BertModel", "BertForMaskedLM"])
def test_a_model_that_predicts_no_next_token_has_scores_and_no_loss(kind: str) -> None:
    study = study_copying(_loaded(kind), lengths=(8,), draws=2, strongest=1)
    assert study.intact is not None
    assert study.intact.losses is None
    assert study.why_no_loss == f"{kind} predicts no next token"
    assert np.isfinite(study.intact.means("previous")).all()
    with pytest.raises(InputError, match="a model that predicts the next token"):
        change(study.intact, study.silenced[0].found)


def test_a_language_model_that_sees_ahead_has_no_loss() -> None:
    """BertLMHeadModel can generate, but reads both ways unless it is told to be a decoder."""
    study = study_copying(_loaded("BertLMHeadModel"), lengths=(8,), draws=1)
    assert study.intact is not None
    assert study.intact.losses is None
    assert study.why_no_loss == "BertLMHeadModel sees the tokens that it would predict"


def test_random_weights_copy_nothing() -> None:
    """No head of an untrained model finds the earlier copy, and the second copy costs no less: no leak."""
    found = study_copying(_loaded(), lengths=(24,), draws=4).intact
    assert found is not None
    halves = found.halves()
    assert halves is not None
    chance = np.mean([1 / (24 + row + 2) for row in range(24)])
    assert found.means("induction").max() < 2 * chance
    assert abs(student((halves[..., 0] - halves[..., 1]).mean(0)).mean) < 0.05
    assert halves.mean() == pytest.approx(math.log(100), abs=0.1)


def test_an_interruption_keeps_what_was_measured() -> None:
    loaded, kept = _loaded(), Study("tiny", None)
    before = {name: tensor.clone() for name, tensor in loaded.model.state_dict().items()}

    def stop(stage: str, done: int, total: int) -> None:
        assert (stage, total) == ("read", 10)
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        study_copying(loaded, lengths=(8,), draws=2, silence=[(0, 1), (1, 1)], tell=stop, into=kept)
    assert kept.intact is not None
    assert [one.name for one in kept.silenced] == ["0.1"]
    assert kept.planned == 4
    assert all(torch.equal(tensor, loaded.model.state_dict()[name]) for name, tensor in before.items())
    assert loaded.model.config._attn_implementation == "sdpa"


def test_what_does_not_fit_is_refused() -> None:
    loaded = _loaded()
    with pytest.raises(InputError, match="the strongest ones, got both"):
        study_copying(loaded, silence=[(0, 0)], strongest=1)
    for lengths in ((), (1,), (8, 8)):
        with pytest.raises(InputError, match="different lengths of 2 or more"):
            study_copying(loaded, lengths=lengths)
    with pytest.raises(InputError, match="at most 128 tokens"):
        study_copying(loaded, lengths=(8, 64))
    with pytest.raises(InputError, match="heads 0 to 3 in layer 0, got head 9"):
        study_copying(loaded, lengths=(8,), draws=1, silence=[(0, 9)])
