"""One rule of words for every tokenizer, from the original string."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedmap.capture.words import token_words, word_spans


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The cat sat.", ["The", "cat", "sat", "."]),
        ("don't can't", ["don't", "can't"]),
        ("3.14 and 1,000", ["3.14", "and", "1,000"]),
        ('He said: "Hi..."', ["He", "said", ":", '"', "Hi", ".", ".", ".", '"']),
        ("나는 집에 간다.", ["나는", "집에", "간다", "."]),
        ("日本語です。", ["日本語", "です", "。"]),
        ("カタカナとらーめん", ["カタカナ", "とらーめん"]),
        ("中国人民", ["中国人民"]),
        ("สวัสดีครับ", ["สวัสดีครับ"]),
        ("שלום עולם", ["שלום", "עולם"]),
        ("cafe\u0301 naïve", ["cafe\u0301", "naïve"]),
        ("👩‍👩‍👧 🇰🇷🇫🇷 👍🏽", ["👩‍👩‍👧", "🇰🇷", "🇫🇷", "👍🏽"]),
        ("a\u200bb", ["a", "b"]),
        ("soft\u00adhyphen", ["soft\u00adhyphen"]),
        ("one\n\n  two\t", ["one", "two"]),
        ("  \x07\u200b ", []),
        ("", []),
    ],
)
def test_words_of_a_text(text: str, words: list[str]) -> None:
    assert [text[start:end] for start, end in word_spans(text)] == words


def test_the_pieces_of_a_word_share_its_number() -> None:
    assert token_words("unhappy cat", [(0, 2), (2, 7), (7, 11)]) == [0, 0, 1]


def test_white_space_and_added_tokens_have_no_word() -> None:
    assert token_words("a  b", [None, (0, 1), (1, 2), (2, 4), None]) == [-1, 0, -1, 1, -1]


def test_a_token_over_several_words_makes_them_one() -> None:
    text = 'he said "hi." ok'
    spans = [(0, 2), (2, 7), (7, 9), (9, 11), (11, 13), (13, 16)]
    assert token_words(text, spans) == [0, 1, 2, 3, 4, 5]
    assert token_words("a.b-c d", [(0, 1), (1, 4), (4, 5), (5, 7)]) == [0, 0, 1, 2]


def test_a_character_split_over_tokens_is_one_word() -> None:
    assert token_words("나는 집", [(0, 1), (0, 2), (1, 2), (2, 4), (3, 4)]) == [0, 0, 0, 1, 1]


def test_numbers_go_on_in_a_second_text() -> None:
    assert token_words("b c", [(0, 1), (1, 3)], first=5) == [5, 6]


@given(st.text(max_size=60))
def test_words_are_in_order_and_never_overlap(text: str) -> None:
    spans = word_spans(text)
    assert all(start < end for start, end in spans)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    between = text
    for start, end in reversed(spans):
        between = between[:start] + between[end:]
    assert not any(char.isalnum() for char in between)
    assert token_words(text, spans) == list(range(len(spans)))
