from __future__ import annotations

import math
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from heedmap.heads import telling
from heedmap.heads.telling import head_scores, head_to_show, rows_seeing_any, telling_heads

N = 6


def test_a_previous_token_head_scores_one_over_the_rows_that_have_a_previous_token(made: ModuleType, tmp_path: Path):
    run = made.make_run(tmp_path / "run", np.array([[made.shifted(N, 1), made.uniform(N)]]))
    assert head_scores(run)["previous"] == pytest.approx([1.0, 1 / N], abs=1e-6)


def test_a_next_token_head_scores_one_over_the_rows_that_have_a_next_token(made: ModuleType, tmp_path: Path):
    run = made.make_run(tmp_path / "run", np.array([[made.shifted(N, -1), made.shifted(N, 0)]]))
    scores = head_scores(run)
    assert scores["next"] == pytest.approx([1.0, 0.0], abs=1e-6)
    assert scores["self"] == pytest.approx([1 / N, 1.0], abs=1e-6)


def test_in_a_causal_layer_the_first_row_is_left_out_of_first_and_self(made: ModuleType, tmp_path: Path):
    half = np.tril(np.ones((N, N)))
    half /= half.sum(1, keepdims=True)
    run = made.make_run(tmp_path / "run", np.array([[made.on(N, 0), half]]), causal=True)
    scores = head_scores(run)
    assert scores["first"] == pytest.approx([1.0, np.mean([1 / (i + 1) for i in range(1, N)])], abs=1e-6)
    assert scores["self"] == pytest.approx([0.0, np.mean([1 / (i + 1) for i in range(1, N)])], abs=1e-6)
    assert np.isnan(scores["next"]).all()


def test_first_is_a_mean_over_all_rows_where_rows_look_both_ways(made: ModuleType, tmp_path: Path):
    run = made.make_run(tmp_path / "run", np.array([[made.on(N, 0), made.on(N, 2)]]))
    assert head_scores(run)["first"] == pytest.approx([1.0, 0.0], abs=1e-6)


def test_separators_are_the_special_tokens_after_the_first(made: ModuleType, tmp_path: Path):
    weights = np.array([[0.25 * made.on(N, 3) + 0.75 * made.on(N, 5), made.on(N, 0)]])
    run = made.make_run(tmp_path / "run", weights, special=(0, 3, 5))
    assert head_scores(run)["separator"] == pytest.approx([1.0, 0.0], abs=1e-6)


def test_a_text_without_separators_has_no_separator_heads(made: ModuleType, tmp_path: Path):
    run = made.make_run(tmp_path / "run", np.array([[made.on(N, 0)]]), special=(0,))
    assert np.isnan(head_scores(run)["separator"]).all()
    assert "separator" not in telling_heads(run)


def test_a_separator_in_a_causal_text_is_averaged_over_the_rows_that_may_see_it(made: ModuleType, tmp_path: Path):
    weights = np.where(np.arange(N)[:, None] >= 4, made.on(N, 4), np.eye(N))
    run = made.make_run(tmp_path / "run", np.array([[weights]]), special=(0, 4), causal=True)
    assert head_scores(run)["separator"] == pytest.approx([1.0], abs=1e-6)


def test_several_separators_in_a_causal_text_are_averaged_over_the_rows_that_see_any(made: ModuleType, tmp_path: Path):
    weights = np.eye(N)
    weights[2:] = made.on(N, 2)[2:]
    weights[4:] = made.on(N, 4)[4:]
    run = made.make_run(tmp_path / "run", np.array([[weights]]), special=(0, 2, 4), causal=True)
    assert head_scores(run)["separator"] == pytest.approx([1.0], abs=1e-6)


def test_broad_heads_are_named_by_their_entropy_in_nats(made: ModuleType, tmp_path: Path):
    run = made.make_run(tmp_path / "run", np.array([[made.shifted(N, 1), made.uniform(N)]]))
    best = telling_heads(run)["broad"][0]
    assert (best.layer, best.head, best.unit) == (0, 1, "nats")
    assert best.value == pytest.approx(math.log(N), abs=1e-5)


def test_sharp_heads_are_those_that_position_does_not_explain(made: ModuleType, tmp_path: Path):
    looks_at_two = 0.9 * made.on(N, 2) + 0.1 * made.uniform(N)
    weights = np.array([[made.shifted(N, 1), looks_at_two], [made.on(N, 0), made.uniform(N)]])
    run = made.make_run(tmp_path / "run", weights)
    telling = telling_heads(run)
    assert (telling["sharp"][0].layer, telling["sharp"][0].head) == (0, 1)
    assert (1, 0) not in [(head.layer, head.head) for head in telling["sharp"]]
    assert head_to_show(telling) == ("self", 0, 1)


def test_a_head_that_half_looks_at_itself_and_at_the_first_token_is_not_sharp(made: ModuleType, tmp_path: Path):
    mixed = np.eye(N)
    mixed[::2] = made.on(N, 0)[::2]
    run = made.make_run(tmp_path / "run", np.array([[mixed, 0.6 * made.on(N, 3) + 0.4 * made.uniform(N)]]))
    assert [head.head for head in telling_heads(run)["sharp"]] == [1]


def test_the_top_heads_come_highest_first_and_at_most_as_many_as_asked(made: ModuleType, tmp_path: Path):
    weights = np.array([[share * made.shifted(N, 1) + (1 - share) * made.uniform(N) for share in (0.2, 0.9, 0.5)]])
    run = made.make_run(tmp_path / "run", weights)
    assert [head.head for head in telling_heads(run, top=2)["previous"]] == [1, 2]


def test_layers_keep_the_numbers_of_the_model(made: ModuleType, tmp_path: Path):
    run = made.make_run(
        tmp_path / "run", np.array([[made.uniform(N)] * 4, [made.shifted(N, 1)] * 4]), layers=[3, 7], heads=[1, 2]
    )
    best = telling_heads(run)["previous"][0]
    assert (best.part, best.layer, best.head) == ("self", 7, 1)


def test_a_single_token_has_no_heads_to_tell_apart(made: ModuleType, tmp_path: Path):
    run = made.make_run(tmp_path / "run", np.ones((1, 2, 1, 1)), causal=True)
    telling = telling_heads(run)
    assert set(telling) == {"sharp"}


def test_a_run_with_few_statistics_tells_what_it_can(made: ModuleType, tmp_path: Path):
    run = made.make_run(tmp_path / "run", np.array([[made.shifted(N, 1)]]), statistics=["entropy"])
    assert set(head_scores(run)) <= {"broad"}
    run = made.make_run(tmp_path / "other", np.array([[made.shifted(N, 1)]]), statistics=["distance_profile"])
    assert set(telling_heads(run)) == {"previous", "self"}


def test_what_even_attention_would_give_is_not_telling(made: ModuleType, tmp_path: Path):
    n = 12
    even = np.tril(np.ones((n, n)))
    even /= even.sum(1, keepdims=True)
    telling = telling_heads(made.make_run(tmp_path / "causal", np.array([[even]]), causal=True))
    assert set(telling) == {"broad"}
    weights = np.array([[made.uniform(n), 0.75 * made.uniform(n) + 0.25 * made.shifted(n, 1)]])
    telling = telling_heads(made.make_run(tmp_path / "both", weights))
    assert [head.head for head in telling["previous"]] == [1]


def test_rows_that_see_one_of_several_keys_are_counted_once():
    rng = np.random.default_rng(3)
    for _ in range(50):
        position = rng.permutation(20)[: rng.integers(1, 6)].astype(np.int32)
        seen_by = rng.integers(0, 8, len(position)).astype(np.int32)
        rows = set().union(*(range(at, at + n) for at, n in zip(position.tolist(), seen_by.tolist(), strict=True)))
        assert rows_seeing_any(position, seen_by, causal=True, rows=20) == len(rows)


def test_scores_that_are_at_hand_are_not_read_again(made: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    run = made.make_run(tmp_path / "run", np.stack([made.shifted(N, 1), made.uniform(N)])[None])
    scores = head_scores(run)
    found = telling_heads(run)
    monkeypatch.setattr(telling, "head_scores", None)
    assert telling_heads(run, scores=scores) == found
