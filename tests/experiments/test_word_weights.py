from __future__ import annotations

from inspect import signature

import numpy as np
import pytest
import torch

from heedmap.capture.models import resolve
from heedmap.capture.watch import watch
from heedmap.errors import InputError
from heedmap.experiments.word_weights import BATCH_TOKENS, Grouped, group_weights, read_text
from heedmap.heads.units import align, spans_of
from heedmap.statistics.dense import Dense

TEXTS = ["The unbelievable cat sat.", "It was tired", "Nobody saw the small dragonflies now, did they?"]


def grouped(loaded, text: str) -> Grouped:
    tokens, inputs = read_text(loaded, text)
    at, words = 0, []
    for word in text.split(" "):
        words.append((at, at + len(word)))
        at += len(word) + 1
    of_token = align(words, spans_of(tokens.start, tokens.end, tokens.special)).of_token
    return Grouped(tokens, inputs, of_token, of_token)


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama"])
def test_weights_of_a_batch_are_the_dense_ones_of_each_text_alone(family, tiny_model, minilm_tokenizer) -> None:
    model = tiny_model(family, vocab_size=30522)
    loaded = resolve(model, minilm_tokenizer)
    texts = [grouped(loaded, text) for text in TEXTS]
    assert any(np.bincount(text.rows[text.rows >= 0]).max() > 1 for text in texts)  # words of several tokens
    told: list[tuple[int, int]] = []
    found = {}
    for index, heads, weights in group_weights(loaded, texts, lambda done, total: told.append((done, total))):
        found[index] = weights
        assert heads.names == tuple(("self", layer, head) for layer in range(2) for head in range(4))
    assert told == [(3, 3)]
    for index, text in enumerate(texts):
        with watch(model, (), keep_inputs=True) as seen, torch.no_grad():
            model(**{name: text.inputs[name] for name in text.inputs if name in signature(model.forward).parameters})
        dense = np.concatenate([Dense.of(call.inputs).weights[0].numpy() for call in seen.calls if call.inputs])
        words = int(text.rows.max()) + 1
        assert found[index].shape == (8, words, words)
        for row in range(words):
            for key in range(words):
                block = dense[:, text.rows == row][:, :, text.keys == key]
                assert found[index][:, row, key] == pytest.approx(block.sum(2).mean(1), abs=1e-6)


def test_rows_and_keys_may_be_grouped_apart(tiny_model, minilm_tokenizer) -> None:
    loaded = resolve(tiny_model("bert", vocab_size=30522), minilm_tokenizer)
    whole = grouped(loaded, TEXTS[0])
    only = np.where(whole.rows == 2, 0, -1)
    ((_, _, all_rows),) = group_weights(loaded, [whole])
    ((_, _, one_row),) = group_weights(loaded, [Grouped(whole.tokens, whole.inputs, only, whole.keys)])
    assert np.allclose(one_row[:, 0], all_rows[:, 2], atol=1e-7)


def test_texts_are_batched_by_length_and_none_is_lost(tiny_model, minilm_tokenizer) -> None:
    loaded = resolve(tiny_model("bert", vocab_size=30522), minilm_tokenizer)
    texts = [grouped(loaded, " ".join(["cat"] * size)) for size in (3, 400, 5, 350, 400, 380, 390, 1, 410)]
    assert sum(len(text.tokens) for text in texts) > BATCH_TOKENS
    told: list[tuple[int, int]] = []
    done = [index for index, _, _ in group_weights(loaded, texts, lambda *count: told.append(count))]
    assert sorted(done) == list(range(9))
    assert done[0] == 8  # the longest first
    assert len(told) > 1
    assert told[-1] == (9, 9)
    assert list(group_weights(loaded, [])) == []


def test_the_model_is_as_before_afterwards(tiny_model, minilm_tokenizer) -> None:
    model = tiny_model("bert", vocab_size=30522)
    before = model.config._attn_implementation
    running = group_weights(resolve(model, minilm_tokenizer), [grouped(resolve(model, minilm_tokenizer), TEXTS[0])])
    next(running)
    running.close()
    assert model.config._attn_implementation == before


def test_a_model_that_computes_nan_is_named_with_the_place(tiny_model, minilm_tokenizer) -> None:
    model = tiny_model("bert", vocab_size=30522)
    with torch.no_grad():
        model.encoder.layer[1].attention.self.query.bias[9] = float("nan")  # of head 1
    loaded = resolve(model, minilm_tokenizer)
    with pytest.raises(InputError, match="NaN or infinity in self layer 1, head 1, at token 0 of a text of"):
        list(group_weights(loaded, [grouped(loaded, TEXTS[0])]))


def test_a_text_without_tokens_is_none(tiny_model, minilm_tokenizer) -> None:
    loaded = resolve(tiny_model("bert", vocab_size=30522), minilm_tokenizer)
    assert [read_text(loaded, text) for text in ("", " ", "\u200b", "[SEP]")] == [None] * 4
    with pytest.raises(InputError, match="tokenizer that the model was trained with"):
        read_text(resolve(tiny_model("bert"), minilm_tokenizer), "words")
