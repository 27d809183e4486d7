from __future__ import annotations

import pytest

from heedmap.capture.marks import from_marks
from heedmap.capture.passages import locate, stretches
from heedmap.capture.tokens import tokenise
from heedmap.errors import InputError

TEXT = "Paris is big. Rome is old. Which is old?"


def covered(tokens, marks) -> list[str]:
    return [label for label, mark in zip(tokens.labels, marks, strict=True) if mark]


def test_marks_are_taken_out_and_leave_the_places_of_their_passages() -> None:
    text, places = from_marks("[[a]]Paris is big.[[/a]] [[b]]Rome is old.[[/b]] [[q]]Which is old?[[/q]]")
    assert text == TEXT
    assert {name: [text[start:end] for start, end in spans] for name, spans in places.items()} == {
        "a": ["Paris is big."],
        "b": ["Rome is old."],
        "q": ["Which is old?"],
    }


def test_passages_may_hold_others_and_have_several_places() -> None:
    text, places = from_marks("[[all]]one [[x]]two[[/x]] three[[/all]] [[x]]four[[/x]]")
    assert text == "one two three four"
    assert places == {"all": [(0, 13)], "x": [(4, 7), (14, 18)]}


def test_korean_passages_are_found_at_their_characters() -> None:
    text, places = from_marks("[[가]]나는 사과를 먹었다.[[/가]] 끝")
    assert text[slice(*places["가"][0])] == "나는 사과를 먹었다."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[a]]open", r"expected \[\[/a\]\], got none for \[\[a\]\] at character 0"),
        ("closed[[/a]]", r"expected \[\[a\]\] before \[\[/a\]\], got \[\[/a\]\] at character 6"),
        ("[[a]]x[[b]]y[[/a]][[/b]]", r"expected \[\[/b\]\], got \[\[/a\]\]"),
        ("nothing", "expected marks around passages of the text, got none"),
    ],
)
def test_marks_that_do_not_close_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_marks(text)


def test_a_passage_covers_the_tokens_that_begin_in_it(minilm_tokenizer) -> None:
    tokens, _ = tokenise(minilm_tokenizer, TEXT)
    found = locate({"words": "Rome is old.", "place": (0, 13), "places": [(0, 5), (14, 18)]}, tokens)
    assert covered(tokens, found["words"]) == ["Rome", "is", "old", "."]
    assert covered(tokens, found["place"]) == ["Paris", "is", "big", "."]
    assert covered(tokens, found["places"]) == ["Paris", "Rome"]
    assert not any(found["words"][i] for i, special in enumerate(tokens.special) if special)


def test_words_are_sought_in_both_texts_of_a_pair(minilm_tokenizer) -> None:
    tokens, _ = tokenise(minilm_tokenizer, "Rome is old.", "Which is old?")
    assert covered(tokens, locate({"q": "Which is old?"}, tokens)["q"]) == ["Which", "is", "old", "?"]


@pytest.mark.parametrize(
    ("passages", "message"),
    [
        ({}, "at least one named passage"),
        ({"a": "is"}, "once in the text, got 4 times"),
        ({"a": "London"}, "once in the text, got 0 times"),
        ({"a": (0, 400)}, "within the text's 40 characters, got 0 to 400"),
        ({"a": (5, 5)}, "got 5 to 5"),
        ({"a": (5, 6)}, "expected tokens in passage 'a', got none"),
        ({"a": 3}, "as its words, or as"),
        ({"a": [1, 2, 3]}, "as its words, or as"),
        ({"": "Rome"}, "a name for each passage"),
        ({"rest": "Rome"}, "names of passages other than all, first token, generated, rest, target, got 'rest'"),
    ],
)
def test_passages_that_cannot_be_found_are_refused(minilm_tokenizer, passages, message: str) -> None:
    tokens, _ = tokenise(minilm_tokenizer, TEXT)
    with pytest.raises(InputError, match=message):
        locate(passages, tokens)


def test_a_passage_that_was_cut_away_says_so(minilm_tokenizer) -> None:
    tokens, _ = tokenise(minilm_tokenizer, TEXT, max_tokens=6)
    with pytest.raises(InputError, match="the text was cut to 6 tokens"):
        locate({"q": "Which is old?"}, tokens)


def test_stretches_join_neighbours() -> None:
    assert stretches([False, True, True, False, True]) == [[1, 3], [4, 5]]
    assert stretches([]) == []
