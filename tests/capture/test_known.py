"""Facts about tokens reach the statistics that ask for them, through watch and through look."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from heedmap.capture.known import Known
from heedmap.capture.look import look
from heedmap.capture.watch import watch
from heedmap.errors import InputError

TEXT = "The cat sat, and the cat slept. The dog sat too."


def test_keys_beyond_the_text_belong_to_no_set_and_copy_nothing() -> None:
    known = Known(torch.tensor([[7, 8, 7]]), {"a": torch.tensor([[True, False, True]])})
    facts = known.of_keys(2, 1, 4)
    assert facts["token_ids"].tolist() == [[8, 7, -4, -5]] * 2
    assert facts["spans"]["a"].tolist() == [[False, True, False, False]] * 2
    assert facts["classes"] == {}
    with pytest.raises(InputError, match="of 1 texts, got those of 2"):
        Known(torch.zeros(2, 3, dtype=torch.int64)).of_keys(1, 0, 3)


def test_watch_measures_copies_of_the_tokens_it_is_told(family) -> None:
    model = family("llama")
    ids = torch.randint(5, 90, (1, 8)).repeat(1, 2)
    with watch(model, ["induction", "duplicate"], known=Known(ids)) as seen:
        model(input_ids=ids)
    assert seen.call(0).measurements["induction"].shape == (1, 4, 16)
    assert np.isnan(seen.call(0).measurements["duplicate"][:, :, 0]).all()
    assert np.isfinite(seen.call(0).measurements["duplicate"][:, :, 8:]).all()


@pytest.mark.parametrize("heads", [None, ["0.3", "1.1"]])
def test_every_statistic_is_in_the_tables_of_a_run(minilm, minilm_tokenizer, tmp_path, heads) -> None:
    spans = {"first": "The cat sat", "last": "The dog sat too."}
    run = look(TEXT, minilm, minilm_tokenizer, out=tmp_path / "run", statistics="all", spans=spans, heads=heads)
    layer, head = 1, 1
    weights = run.weights(layer, head).astype(np.float64)
    query = run.table("query", layer=layer, head=head)
    ids = np.array(run.tokens.column("id"))
    same = np.tril(ids[:, None] == ids[None, :], -1)
    after = np.tril(np.pad(ids[:, None] == ids[None, :-1], ((0, 0), (1, 0))), -1)
    for name, matches in (("duplicate", same), ("induction", after)):
        wanted = np.where(matches.any(1), (weights * matches).sum(1), np.nan)
        np.testing.assert_allclose(np.array(query.column(name)), wanted, atol=2e-6)
    places = {name: np.r_[tuple(slice(*stretch) for stretch in run.meta["spans"][name])] for name in spans}
    assert run.meta["statistics"]["span_mass"]["labels"] == list(spans)
    wanted = np.stack([weights[:, place].sum(1) for place in places.values()], axis=1)
    np.testing.assert_allclose(np.stack(query.column("span_mass").to_pylist()), wanted, atol=2e-6)
    labels = run.tokens.column("text").to_pylist()
    kinds = np.array([[label in ("[CLS]", "[SEP]"), label in (",", ".")] for label in labels])
    np.testing.assert_allclose(np.stack(query.column("class_mass").to_pylist()), weights @ kinds, atol=2e-6)
    np.testing.assert_array_equal(np.stack(query.column("top_keys").to_pylist())[:, 0], weights.argmax(1))
    key = run.table("key", layer=layer, head=head).to_pandas()
    np.testing.assert_allclose(key["received_max"], weights.max(0), atol=2e-6)
    assert (key["value_received"] > 0).all()


def test_values_are_there_for_some_heads_as_for_all(minilm, minilm_tokenizer, tmp_path) -> None:
    names = ["value_received"]
    whole = look(TEXT, minilm, minilm_tokenizer, out=tmp_path / "whole", statistics=names)
    some = look(TEXT, minilm, minilm_tokenizer, out=tmp_path / "some", statistics=names, heads=["2.5"])
    both = [run.table("key", layer=2, head=5).column("value_received").to_numpy() for run in (whole, some)]
    np.testing.assert_allclose(*both, rtol=1e-5)


def test_spans_are_measured_beside_what_was_asked(minilm, minilm_tokenizer, tmp_path) -> None:
    run = look(TEXT, minilm, minilm_tokenizer, out=tmp_path / "run", statistics=["entropy"], spans={"a": (0, 3)})
    assert {"entropy", "span_mass"} <= set(run.table("query").column_names)


def test_span_mass_without_spans_is_refused_before_a_model_is_loaded() -> None:
    with pytest.raises(InputError, match="inputs with spans for span_mass"):
        look(TEXT, "no such model", statistics=["span_mass"])
