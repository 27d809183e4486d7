from __future__ import annotations

import numpy as np
import pytest
import torch

from heedmap.capture.models import LoadedModel
from heedmap.errors import InputError, UnsupportedError
from heedmap.experiments.induction import probe_induction


@pytest.fixture
def loaded(tiny_model):
    """A tiny Llama of random weights with a vocabulary of 100 tokens, of which one is special and one unused."""
    return LoadedModel(tiny_model("llama"), _Vocabulary(), "tiny", None, "memory", [])  # type: ignore[arg-type]


class _Vocabulary:
    bos_token_id, cls_token_id, all_special_ids = 0, None, (0,)

    def __len__(self) -> int:
        return 100

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        names = ["<s>", "[unused1]", *(f"w{i}" for i in range(98))]
        return [names[i] for i in ids]


def test_values_are_means_over_the_second_half_of_the_exact_weights(loaded) -> None:
    read = {}
    body = loaded.model.base_model
    body.register_forward_pre_hook(lambda module, args, given: read.update(given), with_kwargs=True)
    probe = probe_induction(loaded, length=12)
    ids = read["input_ids"]
    assert ids.shape == (1, 25)
    assert ids[0, 0] == 0
    assert torch.equal(ids[0, 1:13], ids[0, 13:])
    assert not set(ids[0, 1:].tolist()) & {0, 1}
    loaded.model.set_attn_implementation("eager")
    with torch.no_grad():
        weights = torch.stack(loaded.model(input_ids=ids, output_attentions=True).attentions)[:, 0].double()
    weights = weights.reshape(-1, 25, 25).numpy()
    same = np.tril(ids[0].numpy()[:, None] == ids[0].numpy()[None, :], -1)
    after = np.tril(np.pad(same, ((0, 0), (1, 0)))[:, :25], -1)
    for name, matches in (("duplicate", same), ("induction", after)):
        rows = matches.any(1)
        wanted = (weights * matches).sum(-1)[:, rows].mean(1)
        np.testing.assert_allclose(probe.means[name], wanted, atol=1e-6)
    assert probe.heads == [("self", layer, head) for layer in range(2) for head in range(4)]


def test_draws_differ_and_are_the_same_again(loaded) -> None:
    first, again = (probe_induction(loaded, length=8, draws=2, seed=3) for _ in range(2))
    np.testing.assert_array_equal(first.values["induction"], again.values["induction"])
    assert (first.values["induction"][0] != first.values["induction"][1]).any()
    np.testing.assert_array_equal(
        first.values["duplicate"][1], probe_induction(loaded, length=8, seed=4).values["duplicate"][0]
    )


def test_more_tokens_than_positions_are_refused_with_what_fits(loaded) -> None:
    with pytest.raises(InputError, match=r"at most 128 tokens.*got 141; take a length of 63 or less"):
        probe_induction(loaded, length=70)


def test_a_model_that_reads_no_text_is_refused_by_what_it_reads() -> None:
    from transformers import ViTConfig, ViTModel

    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    model = ViTModel(ViTConfig(**small, image_size=16, patch_size=8))
    with pytest.raises(UnsupportedError, match="ViTModel, which reads pixel_values"):
        probe_induction(LoadedModel(model, _Vocabulary(), "tiny", None, "memory", []))  # type: ignore[arg-type]


def test_smollm2s_known_heads_are_typed_rightly(smollm2: LoadedModel) -> None:
    probe = probe_induction(smollm2)
    types = {(head.layer, head.head): head for head in probe.typing().heads}
    known = {
        "induction": {(18, 6): 0.856, (17, 3): 0.738, (17, 4): 0.730},
        "duplicate": {(14, 3): 0.671, (8, 0): 0.628},
        "previous": {(16, 0): 0.873, (11, 1): 0.846},
        "first": {(18, 8): 1.000},
    }
    for name, heads in known.items():
        for head, value in heads.items():
            assert types[head].values[name] == pytest.approx(value, abs=1e-3)
            assert types[head].types == (name,)
    assert (probe.tokens, len(probe.heads), probe.on_first) == (129, 270, 81)
