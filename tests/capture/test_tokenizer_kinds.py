"""Every kind of tokenizer gives the same readable labels: small ones trained here, and slow ones without offsets."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import ByT5Tokenizer, CanineTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from heedmap.capture.tokens import Tokens, tokenise
from heedmap.errors import InputError

CORPUS = ["The cat sat on the mat because it was tired. café naïve don't 나는 집에 간다 שלום hello  world"] * 40
MARKS = ["<unk>", "<s>", "</s>"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def wrap(tokenizer: Tokenizer, post: Any = None) -> PreTrainedTokenizerFast:
    tokenizer.post_processor = post or processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B:1 </s>:1", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="</s>"
    )


def byte_level(*, roberta: bool = False) -> PreTrainedTokenizerFast:
    """GPT-2's way; with ``roberta`` a space is put before the text and offsets leave spaces out."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=roberta)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        CORPUS,
        trainers.BpeTrainer(vocab_size=400, special_tokens=MARKS, initial_alphabet=alphabet, show_progress=False),
    )
    post = processors.RobertaProcessing(("</s>", 2), ("<s>", 1), trim_offsets=True, add_prefix_space=True)
    return wrap(tokenizer, post if roberta else None)


def unigram() -> PreTrainedTokenizerFast:
    """T5's way: a space before the text, NFKC, no bytes to fall back on."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.train_from_iterator(
        CORPUS,
        trainers.UnigramTrainer(vocab_size=110, special_tokens=MARKS, unk_token="<unk>", show_progress=False),
    )
    return wrap(tokenizer)


def sentencepiece(*, prefix: bool) -> PreTrainedTokenizerFast:
    """Llama 2's way (a space before the text) or Gemma's (none), with bytes for letters that are not known."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    spaces = normalizers.Replace(" ", "▁")
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), spaces]) if prefix else spaces
    tokenizer.pre_tokenizer = None if prefix else pre_tokenizers.Split(" ", "merged_with_previous")
    words = [text.replace(" ", "▁") for text in CORPUS]
    tokenizer.train_from_iterator(
        words[:1], trainers.BpeTrainer(vocab_size=330, special_tokens=MARKS + BYTES, show_progress=False)
    )
    return wrap(tokenizer)


def wordpiece() -> PreTrainedTokenizerFast:
    """BERT's way: lower case, no accents, no white space."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train_from_iterator(
        CORPUS, trainers.WordPieceTrainer(vocab_size=120, special_tokens=MARKS, show_progress=False)
    )
    return wrap(tokenizer)


def word_ends() -> PreTrainedTokenizerFast:
    """CLIP's way: the end of a word is marked in the vocabulary."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(
        CORPUS,
        trainers.BpeTrainer(vocab_size=150, special_tokens=MARKS, end_of_word_suffix="</w>", show_progress=False),
    )
    return wrap(tokenizer)


KINDS: dict[str, Callable[[], PreTrainedTokenizerBase]] = {
    "byte_level": byte_level,
    "roberta": lambda: byte_level(roberta=True),
    "unigram": unigram,
    "llama": lambda: sentencepiece(prefix=True),
    "gemma": lambda: sentencepiece(prefix=False),
    "wordpiece": wordpiece,
    "word_ends": word_ends,
    "canine": CanineTokenizer,
    "byt5": ByT5Tokenizer,
}


@cache
def tokenizer_of(kind: str) -> PreTrainedTokenizerBase:
    return KINDS[kind]()


def content(tokens: Tokens) -> list[str]:
    """The labels of the tokens that the tokenizer did not add."""
    return [label for label, mark in zip(tokens.labels, tokens.special, strict=True) if not mark]


@pytest.mark.parametrize("kind", KINDS)
def test_labels_read_as_the_text(kind: str) -> None:
    tokens, _ = tokenise(tokenizer_of(kind), "The cat sat")
    assert "".join(content(tokens)).replace("␣", "") == "Thecatsat"
    words = {}
    for label, word in zip(tokens.labels, tokens.word, strict=True):
        words[word] = words.get(word, "") + label.replace("␣", "")
    assert {word: text for word, text in words.items() if word >= 0} == {0: "The", 1: "cat", 2: "sat"}


@pytest.mark.parametrize("kind", ["roberta", "unigram", "llama"])
def test_a_space_put_before_the_text_has_no_place(kind: str) -> None:
    tokens, _ = tokenise(tokenizer_of(kind), "שלום")
    at = tokens.special.index(False)
    if tokens.labels[at] == "␣":
        assert (tokens.start[at], tokens.word[at]) == (-1, -1)
        at += 1
    assert tokens.start[at] == 0
    assert "".join(tokens.labels[at:-1]) == "שלום"


@pytest.mark.parametrize("kind", ["byte_level", "roberta", "llama", "gemma", "byt5"])
def test_letters_split_into_bytes_are_parts(kind: str) -> None:
    tokens, _ = tokenise(tokenizer_of(kind), "x本")
    assert content(tokens)[-3:] == ["本 ⅓", "本 ⅔", "本 ³⁄₃"]
    tokens, _ = tokenise(tokenizer_of(kind), "👧x")
    parts = [label for label in content(tokens) if label != "␣"]
    assert parts[:4] == ["👧 ¼", "👧 ²⁄₄", "👧 ¾", "👧 ⁴⁄₄"]


def test_a_token_over_parts_of_two_letters() -> None:
    tokens, _ = tokenise(tokenizer_of("byte_level"), "שלום")
    assert "".join(content(tokens)).count("ש") <= 2
    assert all("Ġ" not in label and "×" not in label for label in tokens.labels)


@pytest.mark.parametrize("kind", ["unigram", "wordpiece", "word_ends"])
def test_unknown_text_is_shown(kind: str) -> None:
    tokens, _ = tokenise(tokenizer_of(kind), "the ꙮ sat")
    assert "ꙮ" in tokens.labels
    assert not tokens.special[tokens.labels.index("ꙮ")]


def test_composed_accents_keep_the_writing_of_the_text() -> None:
    tokens, _ = tokenise(tokenizer_of("unigram"), "cafe\u0301 x")
    assert "e\u0301" in "".join(content(tokens))
    at = next(i for i, label in enumerate(tokens.labels) if label.endswith("e\u0301"))
    assert tokens.end[at] == 5


def test_a_letter_that_becomes_two_is_parts_of_itself() -> None:
    tokens, _ = tokenise(tokenizer_of("unigram"), "ﬁ")
    parts = [label for label in content(tokens) if label != "␣"]
    assert parts in (["ﬁ"], ["ﬁ ½", "ﬁ ²⁄₂"])


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("canine", "byt5")])
def test_a_typed_mark_is_special_and_has_a_place(kind: str) -> None:
    tokens, _ = tokenise(tokenizer_of(kind), "the </s> sat")
    typed = [i for i, label in enumerate(tokens.labels) if label == "</s>" and tokens.start[i] >= 0]
    assert [(tokens.start[i], tokens.end[i], tokens.special[i]) for i in typed] == [(4, 8, True)]
    assert (tokens.labels[-1], tokens.start[-1], tokens.special[-1]) == ("</s>", -1, True)


def test_byte_tokens_that_a_tokenizer_calls_special_are_not() -> None:
    tokenizer = tokenizer_of("llama")
    assert tokenizer.added_tokens_decoder[100].content.startswith("<0x")
    tokens, _ = tokenise(tokenizer, "本")
    assert tokens.special.count(True) == 2


def test_canine_names_its_unprintable_marks() -> None:
    tokens, inputs = tokenise(tokenizer_of("canine"), "Cat 나\n")
    assert tokens.labels == ["[CLS]", "C", "a", "t", "␣", "나", "⏎", "[SEP]"]
    assert tokens.start == [-1, 0, 1, 2, 3, 4, 5, -1]
    assert inputs["input_ids"].shape == (1, 8)


def test_byt5_shows_characters_not_bytes() -> None:
    tokens, _ = tokenise(tokenizer_of("byt5"), "é 나")
    assert tokens.labels == ["é ½", "é ²⁄₂", "␣", "나 ⅓", "나 ⅔", "나 ³⁄₃", "</s>"]
    assert tokens.word == [0, 0, -1, 1, 1, 1, -1]


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_are_told_apart(kind: str) -> None:
    tokens, _ = tokenise(tokenizer_of(kind), "the cat", "the mat sat")
    texts = ["the cat", "the mat sat"]
    for segment, text in enumerate(texts):
        own = [i for i in range(len(tokens)) if tokens.segment[i] == segment and tokens.start[i] >= 0]
        covered = [text[tokens.start[i] : tokens.end[i]] for i in own]
        assert "".join(covered).replace(" ", "") == text.replace(" ", "")
    assert max(tokens.word) == 4


@pytest.mark.parametrize("kind", KINDS)
def test_cutting_keeps_the_special_tokens(kind: str) -> None:
    whole, _ = tokenise(tokenizer_of(kind), "the cat sat on the mat")
    tokens, _ = tokenise(tokenizer_of(kind), "the cat sat on the mat", max_tokens=5)
    assert len(tokens) == 5
    assert tokens.truncated_from == len(whole)
    assert tokens.labels[0] == whole.labels[0]
    assert tokens.labels[-1] == whole.labels[-1]


LETTERS = st.sampled_from(
    [*"the cat Café나는ﬁ½①\n\t\u00a0\u3000👩👧ꙮשָ,.'▁", "\u200d", "\u0301", "\u200b", "</s>", "<s>", "##"]
)


@settings(max_examples=100, deadline=None)
@given(text=st.lists(LETTERS, max_size=20).map("".join) | st.text(max_size=20))
@pytest.mark.filterwarnings("ignore::heedmap.errors.HeedmapWarning", "ignore:This sequence already has")
@pytest.mark.parametrize("kind", KINDS)
def test_any_text_has_labels_or_one_clear_error(kind: str, text: str) -> None:
    tokenizer = tokenizer_of(kind)
    try:
        tokens, _ = tokenise(tokenizer, text)
    except InputError:
        return
    assert tokens.ids == list(tokenizer(text)["input_ids"])
    count = len(tokens.ids)
    assert {len(column) for column in (tokens.labels, tokens.start, tokens.end, tokens.word, tokens.special)} == {count}
    assert all(tokens.labels)
    for start, end in zip(tokens.start, tokens.end, strict=True):
        assert (start, end) == (-1, -1) or 0 <= start < end <= len(text)
    words = [word for word in tokens.word if word >= 0]
    assert words == sorted(words)
    assert sorted(set(words)) == list(range(len(set(words))))
    shown = "".join(tokens.labels)
    assert not any(char in shown and char not in text for char in "ĠĊ▁")
