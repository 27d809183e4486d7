from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel

from heedmap.capture.models import LoadedModel, resolve
from heedmap.errors import InputError
from heedmap.experiments.coreference import measure_chains, measure_gap
from heedmap.heads.gap import Example
from heedmap.heads.mentions import Document, documents_of
from heedmap.heads.trees import read_sentences

STORY = [
    [("Anna", "a", "PROPN"), ("saw", "", "VERB"), ("Peter", "b", "PROPN"), (".", "", "PUNCT")],
    [("She", "a", "PRON"), ("liked", "", "VERB"), ("him", "b", "PRON"), ("and", "", "X"), ("Rome", "c", "PROPN")],
    [("Anna", "a", "PROPN"), ("left", "", "VERB"), ("Rome", "c", "PROPN"), ("don", "d", "NOUN"), ("'t", "d", "NOUN")],
]


def story(name: str, sentences: list = STORY, *, glued: bool = False) -> str:
    """A document; `glued` writes the last two words together, so that a token covers both."""
    lines = [f"# newdoc id = {name}", "# global.Entity = GRP-minspan"]
    for number, words in enumerate(sentences):
        lines += ["# newpar"] if number == 2 else []
        for index, (form, chain, pos) in enumerate(words, 1):
            misc = [f"Entity=({chain}-1)"] if chain else []
            misc += ["SpaceAfter=No"] if glued and form == "don" else []
            lines.append("\t".join([str(index), form, form, pos, "_", "_", "0", "root", "_", "|".join(misc) or "_"]))
        lines.append("")
    return "\n".join(lines) + "\n"


def documents(tmp_path: Path, text: str) -> list[Document]:
    (tmp_path / "a.conllu").write_text(text)
    return documents_of(read_sentences(tmp_path / "a.conllu"), "a")


@pytest.fixture(params=["bert", "gpt2"])
def tiny(request, tiny_model, minilm_tokenizer) -> LoadedModel:
    return resolve(tiny_model(request.param, vocab_size=30522, max_position_embeddings=128), minilm_tokenizer)


def test_mentions_are_counted_and_resolved(tiny: LoadedModel, tmp_path: Path) -> None:
    found = measure_chains(tiny, documents(tmp_path, story("x") + story("y") + story("z")))
    counts = found.counts
    assert (counts.documents, counts.windows, counts.mentions) == (3, 3, 27)
    assert counts.anaphors == 3 * 5  # She, him, Anna, Rome, 't
    assert counts.without_antecedent_here == 0
    assert counts.head_without_unit == 0
    assert found.items == 15
    by_name = {(one.name, one.apart): one for one in found.classes}
    assert by_name["pronoun", True].items == 6
    assert by_name["proper", True].items == 0
    assert by_name["nominal", False].odd_items == 1
    assert by_name["all", False].of_baseline("same word") == pytest.approx(2 / 5)  # Anna and Rome
    assert by_name["all", False].accuracy().shape == (8,)


def test_antecedents_in_another_window_are_lost_and_counted(tiny: LoadedModel, tmp_path: Path) -> None:
    found = measure_chains(tiny, documents(tmp_path, story("x") + story("y")), window=16)
    counts = found.counts
    assert counts.windows == 4  # two sentences, then the third alone
    assert counts.without_antecedent_here == 2 * 2  # Anna and Rome of the last sentence
    assert found.items == counts.anaphors - 4


def test_a_sentence_longer_than_the_window_is_lost_with_its_mentions(tiny: LoadedModel, tmp_path: Path) -> None:
    long = [*STORY, [("Anna", "a", "PROPN"), *[("word", "", "X")] * 200]]
    found = measure_chains(tiny, documents(tmp_path, story("x", long) + story("y", long)))
    assert found.counts.sentences_too_long == 2
    assert found.counts.head_without_unit == 2
    assert found.items == found.counts.anaphors - 2


def test_heads_that_share_a_token_are_lost_and_counted(tiny: LoadedModel, tmp_path: Path) -> None:
    glued = [STORY[0], STORY[1], [("cann", "d", "NOUN"), ("ot", "d", "NOUN")]]
    text = story("x", glued).replace(
        "cann\tcann\tNOUN\t_\t_\t0\troot\t_\tE", "cann\tcann\tNOUN\t_\t_\t0\troot\t_\tSpaceAfter=No|E"
    )
    found = measure_chains(tiny, documents(tmp_path, text + text.replace("= x", "= y")))
    assert found.counts.head_without_unit == 2
    assert found.items == 4


def test_a_window_without_antecedents_is_refused(tiny: LoadedModel, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none in 2 windows of at most 128 tokens"):
        measure_chains(tiny, documents(tmp_path, story("x", STORY[:1]) + story("y", STORY[:1])))


def test_a_planted_head_resolves_everything(minilm_tokenizer, tiny_model, tmp_path: Path) -> None:
    """Query and key of one head are set so that each word of a chain looks at the chain's words: it is always right."""
    names = {"anna": 0, "she": 0, "peter": 1, "him": 1, "rome": 2, "don": 3, "t": 3}
    model = tiny_model("bert", vocab_size=30522, num_hidden_layers=1)
    with torch.no_grad():
        table = model.embeddings
        for part in (table.word_embeddings, table.position_embeddings, table.token_type_embeddings):
            part.weight.zero_()
        for word, chain in names.items():
            (token,) = minilm_tokenizer.encode(word, add_special_tokens=False)
            table.word_embeddings.weight[token, chain] = 1
        own = model.encoder.layer[0].attention.self
        for side in (own.query, own.key):
            side.weight.zero_()
            side.bias.zero_()
            side.weight[:4, :4] = 4 * torch.eye(4)
    text = "".join(story(name) for name in "wxyz")  # two odd documents: one alone has no interval
    found = measure_chains(resolve(model, minilm_tokenizer), documents(tmp_path, text))
    assert found.classes[0].best() == 0
    assert found.classes[0].of_head(0) == (1.0, 1.0, 1.0)
    assert found.classes[0].accuracy()[1:].max() < 1


def gap(a: str, b: str, text: str, pronoun: str, meant: tuple[bool, bool]) -> Example:
    spans = [(text.index(word), text.index(word) + len(word)) for word in (pronoun, a, b)]
    return Example("x", text, spans[0], spans[1], spans[2], *meant, "feminine")


def test_gap_sums_the_weights_of_a_name(tiny: LoadedModel) -> None:
    text = "Anna Maria met Eve and she left."
    examples = [gap("Anna Maria", "Eve", text, "she", (True, False))] * 2
    found = measure_gap(tiny, examples)
    assert found.answers.shape == (2, 8, 2)
    assert found.lost == 0
    model = tiny.model
    ids = tiny.tokenizer(text, return_tensors="pt")["input_ids"]
    names = tiny.tokenizer.convert_ids_to_tokens(ids[0])
    eager = AutoModel.from_config(model.config, attn_implementation="eager").eval()
    eager.load_state_dict(model.state_dict())
    types = torch.zeros_like(ids)  # which GPT-2 embeds as words
    weights = torch.cat(eager(ids, token_type_ids=types, output_attentions=True).attentions)  # [layers, heads, …]
    row = weights[:, :, names.index("she")].flatten(0, 1)
    anna = row[:, [names.index("anna"), names.index("maria")]].sum(1)
    expected = (anna >= row[:, names.index("eve")]).numpy()
    assert np.array_equal(found.answers[0, :, 0], expected)


def test_gap_examples_that_cannot_be_told_get_no_answer(tiny: LoadedModel) -> None:
    long = "word " * 200 + "Anna met Eve and she left."
    text = "Anna met Eve and she left."
    examples = [gap("Anna", "Eve", long, "she", (True, False)), gap("Anna", "Eve", text, "she", (True, False)),
                gap("An", "na", text, "she", (True, False))]  # fmt: skip
    found = measure_gap(tiny, examples)
    assert found.lost == 2
    assert not found.answers[0].any()
    assert not found.answers[2].any()
    assert (found.answers[1].sum(-1) == 1).all()
    with pytest.raises(InputError, match="none of 1"):
        measure_gap(tiny, examples[:1])
