"""Where tokens stand: offsets that lie are noticed, and tokenizers without offsets are read along the text."""

from __future__ import annotations

import pytest

from heedmap.capture.spans import Span, align, place


def _place(text: str, offsets: list[Span], says: list[str | bytes], unknown: set[int] = frozenset()) -> tuple:  # type: ignore[assignment]
    surfaces = [word.encode() if isinstance(word, str) else word for word in says]
    placed = place(text, offsets, surfaces, [i in unknown for i in range(len(says))])
    return placed.spans, placed.from_token


def test_good_offsets_are_kept() -> None:
    spans, from_token = _place("The cat", [(0, 3), (3, 7)], ["the", " cat"])
    assert spans == [(0, 3), (3, 7)]
    assert from_token == [False, False]


def test_an_empty_offset_is_no_place() -> None:
    spans, from_token = _place("a cat", [(0, 1), (2, 2), (2, 5)], ["a", " ", "cat"])
    assert spans == [(0, 1), None, (2, 5)]
    assert from_token == [False, True, False]


def test_a_space_before_the_text_does_not_own_its_first_character() -> None:
    spans, from_token = _place("The", [(0, 1), (0, 1), (1, 3)], [" ", "T", "he"])
    assert spans == [None, (0, 1), (1, 3)]
    assert from_token == [True, False, False]


def test_of_two_spaces_for_one_the_first_is_made_up() -> None:
    spans, _ = _place(" a", [(0, 1), (0, 1), (1, 2)], [" ", " ", "a"])
    assert spans == [None, (0, 1), (1, 2)]


def test_a_lost_first_character_is_given_back() -> None:
    spans, from_token = _place("hello you", [(1, 5), (6, 9)], ["hello", " you"])
    assert spans == [(0, 5), (6, 9)]
    assert from_token == [False, False]


def test_a_skipped_accent_goes_to_the_token_that_says_it() -> None:
    spans, from_token = _place("cafe\u0301 x", [(0, 3), (3, 4), (5, 7)], ["caf", "é", " x"])
    assert spans == [(0, 3), (3, 5), (5, 7)]
    assert from_token == [False, False, False]


def test_a_skipped_accent_that_nobody_says_stays_out() -> None:
    spans, from_token = _place("cafe\u0301", [(0, 4)], ["cafe"])
    assert spans == [(0, 4)]
    assert from_token == [False]


def test_a_token_that_says_something_else_beside_a_gap_gives_the_label() -> None:
    spans, from_token = _place("abc def", [(0, 1), (3, 7)], ["xyz", " def"])
    assert spans == [(0, 1), (3, 7)]
    assert from_token == [True, False]


def test_tokens_that_overlap_by_more_than_a_character_give_the_labels() -> None:
    _, from_token = _place("abcdef", [(0, 4), (2, 6)], ["abcd", "ef"])
    assert from_token == [True, True]


def test_an_unknown_token_always_shows_the_text_it_stands_for() -> None:
    spans, from_token = _place("x\u0301 y", [(0, 1), (3, 4)], ["[UNK]", "y"], unknown={0})
    assert spans == [(0, 1), (3, 4)]
    assert from_token == [False, False]


@pytest.mark.parametrize("offsets", [[(0, 0), (0, 0)], [(4, 7), (0, 3)]])
def test_useless_offsets_are_replaced_by_an_alignment(offsets: list[Span]) -> None:
    spans, from_token = _place("The cat", offsets, ["the", " cat"])
    assert spans == [(0, 3), (3, 7)]
    assert from_token == [False, False]


def _align(text: str, says: list[str | bytes], unknown: set[int] | None = None) -> list[Span | None]:
    surfaces = [word.encode() if isinstance(word, str) else word for word in says]
    return align(text, surfaces, [i in (unknown or set()) for i in range(len(says))])


def test_alignment_of_plain_pieces() -> None:
    assert _align("The cat sat", ["The", " cat", " sat"]) == [(0, 3), (3, 7), (7, 11)]


def test_alignment_without_spaces_case_and_accents() -> None:
    assert _align("The Café, naïve", ["the", "cafe", ",", "na", "ive"]) == [(0, 3), (4, 8), (8, 9), (10, 12), (12, 15)]


def test_alignment_of_bytes() -> None:
    raw = "나 a".encode()
    assert _align("나 a", [raw[:1], raw[1:2], raw[2:3], b" ", b"a"]) == [(0, 1), (0, 1), (0, 1), (1, 2), (2, 3)]


def test_alignment_of_bytes_over_two_characters() -> None:
    raw = "나는".encode()
    assert _align("나는", [raw[:2], raw[2:5], raw[5:]]) == [(0, 1), (0, 2), (1, 2)]


def test_alignment_of_letters_that_are_taken_apart() -> None:
    assert _align("나ﬁx", ["ᄂ", "ᅡ", "f", "ix"]) == [(0, 1), (0, 1), (1, 2), (1, 3)]


def test_alignment_gives_an_unknown_token_the_text_that_nobody_explains() -> None:
    assert _align("say ꙮꙮ now", ["say", "<unk>", "now"], {1}) == [(0, 3), (4, 6), (7, 10)]
    assert _align("say ꙮ", ["say", "<unk>"], {1}) == [(0, 3), (4, 5)]


def test_alignment_does_not_guess_between_two_unknown_tokens() -> None:
    assert _align("ꙮ ꙭ now", ["<unk>", "<unk>", "now"], {0, 1}) == [None, None, (4, 7)]


def test_alignment_leaves_out_a_space_that_the_text_does_not_hold() -> None:
    assert _align("a", [" ", "a"]) == [None, (0, 1)]


def test_alignment_survives_bytes_that_are_no_text() -> None:
    assert _align("abc", [b"\xff", "abc"]) == [None, (0, 3)]
