from __future__ import annotations

import pytest

from heedmap.runs.kinds import is_punctuation, kinds_of


@pytest.mark.parametrize("surface", [".", " ,", "…", "“", "。", "？", "--", "¿", "(?)"])
def test_punctuation_of_any_script_is_punctuation(surface: str) -> None:
    assert is_punctuation(surface)


@pytest.mark.parametrize("surface", ["", " ", "a", "a.", "+", "$", "3", "나", "\n", "👍"])
def test_letters_digits_symbols_and_white_space_are_not(surface: str) -> None:
    assert not is_punctuation(surface)


def test_a_punctuation_mark_that_the_tokenizer_added_is_special_only() -> None:
    kinds = kinds_of([True, False, False, True], [0, 0, 1, 1], [-1, 1, 0, -1], [-1, 2, 1, -1], ["a.", "!"])
    assert kinds == {"special": [True, False, False, True], "punctuation": [False, True, True, False]}
