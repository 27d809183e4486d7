from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from heedmap.heads.units import align, spans_of


def test_tokens_go_to_the_words_they_cover() -> None:
    #        The cat sat.   tokens: [CLS] The ␣ca t ␣sat .
    units = align([(0, 3), (4, 7), (8, 11), (11, 12)], [None, (0, 3), (3, 6), (6, 7), (7, 11), (11, 12)])
    assert units.of_token.tolist() == [-1, 0, 1, 1, 2, 3]
    assert units.of_word.tolist() == [0, 1, 2, 3]
    assert units.alone.all()
    assert (units.shared, units.without) == (0, 0)


def test_words_that_share_a_token_are_one_unit_and_counted() -> None:
    # do|n't as don + 't: the token "don" covers both
    units = align([(0, 1), (2, 4), (4, 7), (8, 10)], [(0, 1), (2, 5), (5, 7), (7, 10)])
    assert units.words == ((0,), (1, 2), (3,))
    assert units.of_token.tolist() == [0, 1, 1, 2]
    assert units.alone.tolist() == [True, False, False, True]
    assert units.shared == 2


def test_sharing_is_passed_on() -> None:
    units = align([(0, 2), (2, 4), (4, 6), (6, 8)], [(0, 3), (3, 5), (5, 6), (6, 8)])
    assert units.words == ((0, 1, 2), (3,))


def test_words_without_a_token_have_no_unit() -> None:
    units = align([(0, 1), (2, 3), (4, 5)], [(0, 1), None, (4, 5)])
    assert units.of_word.tolist() == [0, -1, 1]
    assert units.alone.tolist() == [True, False, True]
    assert units.without == 1


def test_words_of_one_place_share_their_tokens() -> None:
    units = align([(0, 3), (0, 3), (4, 8)], [(0, 3), (3, 8)])
    assert units.words == ((0, 1), (2,))


def test_a_token_of_white_space_belongs_to_no_word() -> None:
    units = align([(0, 1), (3, 4)], [(0, 1), (1, 2), (2, 4)])
    assert units.of_token.tolist() == [0, -1, 1]


def test_no_words_and_no_tokens() -> None:
    assert len(align([], [(0, 1), None])) == 0
    assert align([(0, 1)], []).without == 1


def test_special_tokens_stand_for_no_word() -> None:
    assert spans_of([-1, 0, 2, 5], [-1, 2, 2, 9], [True, False, False, True]) == [None, (0, 2), None, None]


spans = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=12)


@given(spans, spans)
def test_each_word_is_in_the_unit_of_every_token_it_shares_a_character_with(words: list, tokens: list) -> None:
    def laid(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
        at, found = 0, []
        for gap, size in pairs:
            found.append((at + gap, at + gap + size))
            at += gap + size
        return found

    own, covers = laid(words), laid(tokens)
    units = align(own, list(covers))
    for word, (start, end) in enumerate(own):
        touching = [t for t, (first, last) in enumerate(covers) if first < end and start < last]
        assert {int(units.of_token[t]) for t in touching} <= {int(units.of_word[word])}
        assert (units.of_word[word] < 0) == (not touching)
    assert sorted(word for words in units.words for word in words) == np.flatnonzero(units.of_word >= 0).tolist()
    firsts = [words[0] for words in units.words]
    assert firsts == sorted(firsts)
