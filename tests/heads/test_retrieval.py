from __future__ import annotations

import numpy as np
import pytest

from heedmap.heads.retrieval import Trial, mean_scores, retrieval_scores, word_recall

NEEDLE = np.array([5, 6, 7, 6])


def test_a_head_that_looks_at_each_token_while_it_is_copied_has_all_of_the_needle() -> None:
    generated = np.array([9, 5, 6, 7, 6])
    copier = [0, 10, 11, 12, 13]
    beside = [0, 11, 12, 13, 14]
    elsewhere = [3, 3, 3, 3, 3]
    top = np.array([copier, beside, elsewhere]).T
    np.testing.assert_array_equal(retrieval_scores(NEEDLE, 10, generated, top), [1, 0, 0])


@pytest.mark.parametrize(
    ("generated", "keys", "score"),
    [
        ([5, 6], [10, 11], 0.5),
        ([6, 6], [11, 13], 0.5),  # the same word twice in the needle: two places
        ([6, 6, 6], [11, 11, 11], 0.25),  # repeating one earns nothing
        ([6], [13], 0.25),
        ([5], [-1], 0.0),  # a row that could look at nothing
        ([5], [9], 0.0),
        ([5], [14], 0.0),
        ([8], [10], 0.0),  # looked, and said something else
        ([], [], 0.0),
    ],
)
def test_scores_count_places_of_the_needle_once(generated: list[int], keys: list[int], score: float) -> None:
    found = retrieval_scores(NEEDLE, 10, np.array(generated, dtype=int), np.array(keys, dtype=int).reshape(-1, 1))
    assert found.tolist() == [score]


@pytest.mark.parametrize(
    ("wanted", "said", "recall"),
    [
        ("in a blue teapot", "It is in a BLUE teapot.", 1.0),
        ("in a blue teapot", "in the teapot", 0.5),
        ("forty-seven crates", "47 crates", 1 / 3),
        ("the the the", "the", 1.0),
        ("파란 주전자", "파란 주전자입니다", 0.5),
        ("a b", "", 0.0),
        ("?!", "anything", 0.0),
    ],
)
def test_recall_is_the_share_of_the_answers_words(wanted: str, said: str, recall: float) -> None:
    assert word_recall(wanted, said) == pytest.approx(recall)


def test_means_are_over_all_questions_or_over_those_that_were_answered() -> None:
    def trial(recall: float, score: float) -> Trial:
        return Trial(0, 100, 90, 0.5, 0.5, 3, 7, "", recall, np.array([score, 0.0]))

    trials = [trial(0.9, 0.8), trial(0.5, 0.2), trial(0.0, 0.2)]
    assert [one.answered for one in trials] == [True, False, False]
    np.testing.assert_allclose(mean_scores(trials), [0.4, 0])
    np.testing.assert_allclose(mean_scores(trials, answered=True), [0.8, 0])
    assert mean_scores(trials[1:], answered=True) is None
