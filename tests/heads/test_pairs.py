from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from heedmap.heads.pairs import LONGEST, strongest_pairs

LABELS = ["[CLS]", "the", "cat", "sat", ",", "it", "un", "rest", "[SEP]"]
WORDS = [-1, 0, 1, 2, 3, 4, 5, 5, -1]
N = len(LABELS)


def _weights(made: ModuleType, pairs: dict[tuple[int, int], float]) -> np.ndarray:
    """Each row looks at itself but for what ``pairs`` gives to another token."""
    weights = np.eye(N)
    for (query, key), weight in pairs.items():
        weights[query] = (1 - weight) * np.eye(N)[query] + weight * np.eye(N)[key]
    return weights


def _pairs(run) -> list[tuple[str, str, float, str]]:
    return [(p.query_text, p.key_text, round(p.weight, 2), f"{p.layer}.{p.head}") for p in strongest_pairs(run)]


def test_pairs_come_strongest_first_with_their_head(made: ModuleType, tmp_path: Path):
    weights = np.array([[_weights(made, {(5, 2): 0.68}), _weights(made, {(3, 1): 0.4})]])
    run = made.make_run(tmp_path / "run", weights, LABELS, special=(0, 8), words=WORDS)
    assert _pairs(run)[:2] == [("it", "cat", 0.68, "0.0"), ("sat", "the", 0.4, "0.1")]


def test_words_of_a_byte_level_vocabulary_are_shown_without_their_space(made: ModuleType, tmp_path: Path):
    labels = ["[CLS]", "the", "␣cat", "␣sat", ",", "␣it", "␣un", "rest", "[SEP]"]
    weights = np.array([[_weights(made, {(5, 2): 0.68})]])
    run = made.make_run(tmp_path / "run", weights, labels, special=(0, 8), words=WORDS)
    assert _pairs(run)[:1] == [("it", "cat", 0.68, "0.0")]


def test_a_pair_is_listed_once_with_the_head_in_which_it_is_strongest(made: ModuleType, tmp_path: Path):
    weights = np.array([[_weights(made, {(5, 2): 0.3})], [_weights(made, {(5, 2): 0.7})]])
    run = made.make_run(tmp_path / "run", weights, LABELS, special=(0, 8), words=WORDS)
    assert [pair for pair in _pairs(run) if pair[:2] == ("it", "cat")] == [("it", "cat", 0.7, "1.0")]


@pytest.mark.parametrize(
    ("query", "key"),
    [
        pytest.param(3, 0, id="a special token as key"),
        pytest.param(0, 3, id="a special token as query"),
        pytest.param(3, 3, id="itself"),
        pytest.param(3, 2, id="the token before"),
        pytest.param(2, 3, id="the token after"),
        pytest.param(1, 4, id="punctuation as key"),
        pytest.param(4, 1, id="punctuation as query"),
    ],
)
def test_pairs_that_say_nothing_are_left_out(made: ModuleType, tmp_path: Path, query: int, key: int):
    weights = np.array([[_weights(made, {(query, key): 0.9, (5, 2): 0.3})]])
    run = made.make_run(tmp_path / "run", weights, LABELS, special=(0, 8), words=WORDS)
    assert _pairs(run)[0] == ("it", "cat", 0.3, "0.0")


def test_pieces_of_one_word_are_no_pair(made: ModuleType, tmp_path: Path):
    weights = np.array([[_weights(made, {(3, 1): 0.9, (5, 2): 0.3})]])
    run = made.make_run(tmp_path / "run", weights, LABELS, special=(0, 8), words=[-1, 2, 1, 2, 3, 4, 5, 5, -1])
    assert _pairs(run)[0] == ("it", "cat", 0.3, "0.0")


def test_in_a_causal_text_the_first_token_is_no_partner(made: ModuleType, tmp_path: Path):
    weights = np.array([[_weights(made, {(3, 0): 0.9, (5, 2): 0.3})]])
    run = made.make_run(tmp_path / "run", weights, ["once", *LABELS[1:]], words=WORDS, causal=True)
    assert _pairs(run)[0] == ("it", "cat", 0.3, "0.0")


def test_in_a_text_read_both_ways_the_first_word_is_a_partner(made: ModuleType, tmp_path: Path):
    weights = np.array([[_weights(made, {(3, 0): 0.9, (2, 5): 0.3})]])
    run = made.make_run(tmp_path / "run", weights, ["once", *LABELS[1:]], words=WORDS)
    assert _pairs(run)[0] == ("sat", "once", 0.9, "0.0")


def test_a_long_text_has_no_list_of_pairs(made: ModuleType, tmp_path: Path):
    run = made.make_run(tmp_path / "run", made.uniform(LONGEST + 1)[None, None])
    assert strongest_pairs(run) == []


def test_without_maps_pairs_come_from_the_inputs(made: ModuleType, tmp_path: Path):
    weights = np.array([[_weights(made, {(5, 2): 0.68})]])
    options = {"special": (0, 8), "words": WORDS, "statistics": ["entropy"]}
    assert _pairs(made.make_run(tmp_path / "kept", weights, LABELS, **options))[0] == ("it", "cat", 0.68, "0.0")
    assert _pairs(made.make_run(tmp_path / "left out", weights, LABELS, keep_inputs=False, **options)) == []


def test_words_of_several_tokens_are_shown_whole_with_the_weight_of_all_of_them(made: ModuleType, tmp_path: Path):
    weights = np.eye(N)
    weights[2] = 0.3 * np.eye(N)[6] + 0.4 * np.eye(N)[7] + 0.3 * np.eye(N)[2]
    run = made.make_run(tmp_path / "run", np.array([[weights]]), LABELS, special=(0, 8), words=WORDS)
    assert _pairs(run) == [("cat", "unrest", 0.7, "0.0")]
    (pair,) = strongest_pairs(run)
    assert (pair.query, pair.key) == (2, 6), "the first token of each"


def test_weights_that_even_attention_would_give_are_no_pairs(made: ModuleType, tmp_path: Path):
    run = made.make_run(tmp_path / "run", made.uniform(N)[None, None], LABELS, special=(0, 8), words=WORDS)
    assert strongest_pairs(run) == []
