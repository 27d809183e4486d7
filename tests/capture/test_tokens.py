"""`tokenise` on the packaged models' tokenizers: labels, places, words, pairs, cuts, and every bad text."""

from __future__ import annotations

import contextlib
import warnings
from typing import TYPE_CHECKING

import pytest
import torch

from heedmap.capture.packaged import PACKAGED, weights_of
from heedmap.capture.tokens import Tokens, tokenise
from heedmap.errors import HeedmapWarning, InputError, ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

CAT = "The cat sat on the mat because it was tired"


@pytest.fixture(scope="session")
def smollm2_tokenizer() -> PreTrainedTokenizerBase:
    """SmolLM2's tokenizer alone, read from the packaged GGUF file (3 s); its vocabulary is of bytes."""
    from heedmap.capture.loading import load_tokenizer

    pytest.importorskip("gguf")
    try:
        return load_tokenizer(weights_of(PACKAGED["smollm2"]), "smollm2")
    except ModelError:
        pytest.skip("smollm2 is not installed")


def covered(tokens: Tokens) -> list[str | None]:
    texts = [tokens.text, tokens.text_pair or ""]
    return [
        texts[segment][start:end] if start >= 0 else None
        for start, end, segment in zip(tokens.start, tokens.end, tokens.segment, strict=True)
    ]


def test_a_plain_text(minilm_tokenizer: PreTrainedTokenizerBase) -> None:
    tokens, inputs = tokenise(minilm_tokenizer, CAT)
    assert tokens.labels == ["[CLS]", *CAT.split(), "[SEP]"]
    assert tokens.ids == minilm_tokenizer(CAT)["input_ids"]
    assert covered(tokens) == [None, *CAT.split(), None]
    assert tokens.word == [-1, *range(10), -1]
    assert tokens.special == [True, *[False] * 10, True]
    assert tokens.segment == [0] * 12
    assert (tokens.text, tokens.text_pair, tokens.truncated_from, len(tokens)) == (CAT, None, None, 12)
    assert set(inputs) == {"input_ids", "attention_mask", "token_type_ids"}
    assert inputs["input_ids"].tolist() == [tokens.ids]
    assert all(column.dtype == torch.int64 and column.shape == (1, 12) for column in inputs.values())


def test_labels_keep_the_letter_case_and_accents_of_the_text(minilm_tokenizer: PreTrainedTokenizerBase) -> None:
    tokens, _ = tokenise(minilm_tokenizer, "Café don't UNBELIEVABLY")
    assert tokens.labels[1:-1] == ["Café", "don", "'", "t", "UN", "BEL", "IE", "VA", "BLY"]
    assert tokens.word[1:-1] == [0, 1, 1, 1, *[2] * 5]


def test_an_unknown_token_shows_its_text_and_is_not_special(minilm_tokenizer: PreTrainedTokenizerBase) -> None:
    tokens, _ = tokenise(minilm_tokenizer, "say ꙮ 👩‍👩‍👧 now")
    assert tokens.ids.count(minilm_tokenizer.unk_token_id) == 2
    assert tokens.labels == ["[CLS]", "say", "ꙮ", "👩‍👩‍👧", "now", "[SEP]"]
    assert tokens.special == [True, False, False, False, False, True]


def test_a_typed_sep_is_special_but_has_a_place_in_the_text(minilm_tokenizer: PreTrainedTokenizerBase) -> None:
    tokens, _ = tokenise(minilm_tokenizer, "one [SEP] two")
    assert tokens.labels == ["[CLS]", "one", "[SEP]", "two", "[SEP]"]
    assert tokens.special == [True, False, True, False, True]
    assert (tokens.start[2], tokens.end[2]) == (4, 9)
    assert (tokens.start[4], tokens.end[4]) == (-1, -1)


def test_letters_taken_apart_are_parts_of_the_character(minilm_tokenizer: PreTrainedTokenizerBase) -> None:
    tokens, _ = tokenise(minilm_tokenizer, "나는")
    assert tokens.labels == ["[CLS]", "나 ½", "나 ²⁄₂", "는 ⅓", "는 ⅔", "는 ³⁄₃", "[SEP]"]
    assert tokens.word == [-1, 0, 0, 0, 0, 0, -1]


def test_built_in_truncation_of_a_tokenizer_is_not_used(minilm_tokenizer: PreTrainedTokenizerBase) -> None:
    tokens, _ = tokenise(minilm_tokenizer, "word " * 300)
    assert len(tokens) == 302
    assert tokens.truncated_from is None


def test_byte_level_text(smollm2_tokenizer: PreTrainedTokenizerBase) -> None:
    tokens, _ = tokenise(smollm2_tokenizer, "The cat  sat\n\ton don't")
    assert tokens.labels == ["The", "␣cat", "␣", "␣sat", "⏎", "⇥", "on", "␣don", "'t"]
    assert tokens.word == [0, 1, -1, 2, -1, -1, 3, 4, 4]
    assert "".join(text or "" for text in covered(tokens)) == tokens.text


def test_byte_level_korean(smollm2_tokenizer: PreTrainedTokenizerBase) -> None:
    tokens, _ = tokenise(smollm2_tokenizer, "나는 집에")
    assert tokens.labels[:3] == ["나 ⅓", "나 ⅔", "나 ³⁄₃"]
    assert tokens.labels[6:9] == ["␣집 ⅓", "집 ⅔", "집 ³⁄₃"]
    assert tokens.word == [0] * 6 + [1] * 6


def test_byte_level_emoji_sequence(smollm2_tokenizer: PreTrainedTokenizerBase) -> None:
    tokens, _ = tokenise(smollm2_tokenizer, "a 👩‍👧")
    assert tokens.labels == [
        "a", "␣👩 ⅓", "👩 ⅔", "👩 ³⁄₃", "‹ZWJ› ½", "‹ZWJ› ²⁄₂", "👧 ⅓", "👧 ⅔", "👧 ³⁄₃",
    ]  # fmt: skip
    assert tokens.word == [0] + [1] * 8


def test_chat_marks_are_special(smollm2_tokenizer: PreTrainedTokenizerBase) -> None:
    tokens, _ = tokenise(smollm2_tokenizer, "<|im_start|>user\nhi<|im_end|>")
    assert tokens.labels == ["<|im_start|>", "user", "⏎", "hi", "<|im_end|>"]
    assert tokens.special == [True, False, False, False, True]
    assert tokens.start == [0, 12, 16, 17, 19]


def test_a_mark_that_serves_as_unknown_token_in_name_only_is_special(
    smollm2_tokenizer: PreTrainedTokenizerBase,
) -> None:
    tokens, _ = tokenise(smollm2_tokenizer, "a<|endoftext|>")
    assert smollm2_tokenizer.unk_token == "<|endoftext|>"
    assert tokens.special == [False, True]


AWKWARD = [
    "나는 집에 간다",
    "👩‍👩‍👧 🇰🇷 👍🏽 ❤️",
    "cafe\u0301 na\u0301ive Zürich",
    "שָׁלוֹם עולם",
    "مرحبا بالعالم",
    "a\u200bb \u202eabc\u202c ﬁ ½ ①",
    "tab\tbell\x07 nbsp\u00a0ideographic\u3000space",
    "日本語です。中国人民",
    "हिन्दी สวัสดี",
    "Ġ ▁ ## <0x41> </w> are only letters here",
    " lead  double trail ",
    "line\r\nline\n\n\nline",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 \U000e0041 \ufdd0",
]


@pytest.mark.parametrize("text", AWKWARD)
@pytest.mark.parametrize("which", ["minilm_tokenizer", "smollm2_tokenizer"])
def test_awkward_texts_have_readable_labels(which: str, text: str, request: pytest.FixtureRequest) -> None:
    tokenizer = request.getfixturevalue(which)
    tokens, _ = tokenise(tokenizer, text)
    assert tokens.ids == tokenizer(text)["input_ids"]
    for label, start, end in zip(tokens.labels, tokens.start, tokens.end, strict=True):
        assert label
        assert not any(char.isspace() for char in label.replace(" ", ""))
        assert "\ufffd" not in label
        if start >= 0:
            assert 0 <= start < end <= len(text)
    if not any(stand_in in text for stand_in in "Ġ▁"):
        assert not any(stand_in in label for label in tokens.labels for stand_in in "ĠĊĉ▁Ã")


def test_a_pair_of_texts_is_told_apart(minilm_tokenizer: PreTrainedTokenizerBase) -> None:
    tokens, inputs = tokenise(minilm_tokenizer, "the cat", "a dog ran")
    assert tokens.labels == ["[CLS]", "the", "cat", "[SEP]", "a", "dog", "ran", "[SEP]"]
    assert tokens.segment == [0, 0, 0, 0, 1, 1, 1, 1]
    assert inputs["token_type_ids"].tolist() == [tokens.segment]
    assert covered(tokens) == [None, "the", "cat", None, "a", "dog", "ran", None]
    assert tokens.word == [-1, 0, 1, -1, 2, 3, 4, -1]
    assert tokens.text_pair == "a dog ran"


def test_max_tokens_cuts_the_text_and_keeps_the_special_tokens(minilm_tokenizer: PreTrainedTokenizerBase) -> None:
    tokens, inputs = tokenise(minilm_tokenizer, CAT, max_tokens=6)
    assert tokens.labels == ["[CLS]", "The", "cat", "sat", "on", "[SEP]"]
    assert tokens.truncated_from == 12
    assert tokens.text == CAT
    assert inputs["attention_mask"].shape == (1, 6)
    whole, _ = tokenise(minilm_tokenizer, CAT, max_tokens=12)
    assert whole.truncated_from is None


def test_max_tokens_in_the_middle_of_a_character_still_says_which_part(
    smollm2_tokenizer: PreTrainedTokenizerBase,
) -> None:
    tokens, _ = tokenise(smollm2_tokenizer, "나는", max_tokens=2)
    assert tokens.labels == ["나 ⅓", "나 ⅔"]


@pytest.mark.parametrize(
    ("first", "second", "room", "kept"),
    [(10, 2, 9, (4, 2)), (2, 10, 9, (2, 4)), (10, 10, 9, (3, 3)), (10, 10, 8, (3, 2)), (10, 10, 5, (1, 1))],
)
def test_max_tokens_cuts_the_longer_text_of_a_pair(
    minilm_tokenizer: PreTrainedTokenizerBase, first: int, second: int, room: int, kept: tuple[int, int]
) -> None:
    tokens, _ = tokenise(minilm_tokenizer, "cat " * first, "dog " * second, max_tokens=room)
    assert len(tokens) == room
    assert (tokens.labels.count("cat"), tokens.labels.count("dog")) == kept
    assert tokens.labels.count("[SEP]") == 2


@pytest.mark.parametrize("room", [0, 1, 2])
def test_max_tokens_without_room_for_the_text_is_refused(minilm_tokenizer: PreTrainedTokenizerBase, room: int) -> None:
    with pytest.raises(InputError, match=f"at least 3 tokens.*got --tokens {room} "):
        tokenise(minilm_tokenizer, CAT, max_tokens=room)


def test_a_text_longer_than_the_model_states_both_numbers(minilm_tokenizer: PreTrainedTokenizerBase) -> None:
    with pytest.raises(InputError) as raised:
        tokenise(minilm_tokenizer, CAT, positions=8)
    assert str(raised.value) == (
        "[tokenise] expected at most 8 tokens, the positions of this model, got 12 tokens; cut the text with "
        "--tokens 8 (max_tokens=8 in Python), or take a model for longer texts"
    )
    assert len(tokenise(minilm_tokenizer, CAT, positions=12)[0]) == 12
    assert len(tokenise(minilm_tokenizer, CAT, positions=8, max_tokens=8)[0]) == 8
    with pytest.raises(InputError, match=r"at most 8 tokens.*got 10 tokens"):
        tokenise(minilm_tokenizer, CAT, positions=8, max_tokens=10)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"expected a text, got an empty one"),
        (" \n\t ", r"at least one token of its own, got none: this tokenizer drops all"),
        ("\u200b", r"at least one token of its own, got none: this tokenizer drops all"),
        ("[CLS] [SEP]", r"at least one token of its own, got nothing but special tokens"),
        ("a\0b", r"a NUL character at character 1"),
        ("ab\ud800", r"half a surrogate pair \(U\+D800\) at character 2"),
        (b"bytes", r"a text \(str\), got bytes"),
        (None, r"a text \(str\), got NoneType"),
    ],
)
def test_texts_that_are_none_are_refused(minilm_tokenizer: PreTrainedTokenizerBase, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as raised:
        tokenise(minilm_tokenizer, text)
    assert "\n" not in str(raised.value)


def test_an_empty_second_text_is_named(minilm_tokenizer: PreTrainedTokenizerBase) -> None:
    with pytest.raises(InputError, match="a second text with at least one token"):
        tokenise(minilm_tokenizer, "cat", " ")


def test_a_byte_level_vocabulary_reads_white_space(smollm2_tokenizer: PreTrainedTokenizerBase) -> None:
    tokens, _ = tokenise(smollm2_tokenizer, " \n")
    assert tokens.labels == ["␣⏎"]
    assert tokens.word == [-1]
    with pytest.raises(InputError, match="nothing but special tokens"):
        tokenise(smollm2_tokenizer, "<|im_start|><|im_end|>")


def test_a_text_that_brings_the_beginning_token_along_is_warned_about(
    minilm_tokenizer: PreTrainedTokenizerBase,
) -> None:
    with pytest.warns(HeedmapWarning, match=r"already begins with \[CLS\].*take \[CLS\] out"):
        tokens, _ = tokenise(minilm_tokenizer, "[CLS] the cat")
    assert tokens.special == [True, True, False, False, True]
    assert tokens.start == [-1, 0, 6, 10, -1]


def test_a_beginning_token_that_only_the_text_brings_is_fine(smollm2_tokenizer: PreTrainedTokenizerBase) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tokenise(smollm2_tokenizer, "<|im_start|>user")


def test_no_chatter_about_long_texts(
    minilm_tokenizer: PreTrainedTokenizerBase, capfd: pytest.CaptureFixture[str]
) -> None:
    with contextlib.suppress(InputError):
        tokenise(minilm_tokenizer, "word " * 2000, positions=512)
    assert capfd.readouterr() == ("", "")


def test_a_book_is_tokenised_in_one_piece(minilm_tokenizer: PreTrainedTokenizerBase) -> None:
    text = "The Cat — who'd sat there — said: “Café!”\n" * 500
    tokens, _ = tokenise(minilm_tokenizer, text)
    assert len(tokens) == 500 * 15 + 2
    assert max(tokens.word) + 1 == 500 * 13
