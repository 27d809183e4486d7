from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from heedmap.capture.models import resolve
from heedmap.errors import InputError
from heedmap.experiments.syntax import measure_syntax, weights_of
from heedmap.heads.syntax import READINGS
from heedmap.heads.trees import read_sentences


@pytest.fixture(scope="module")
def gold() -> ModuleType:
    spec = spec_from_file_location("gold_texts", Path(__file__).parents[1] / "gold_texts.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def sentences(path: Path, text: str) -> list:
    path.joinpath("a.conllu").write_text(text)
    return list(read_sentences(path / "a.conllu"))


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_models_of_random_weights_stay_at_chance_on_every_relation(
    family, tiny_model, minilm_tokenizer, gold: ModuleType, tmp_path: Path
) -> None:
    """Over models of random weights the mean accuracy of a head is that of pointing to any word it may see.

    By column this holds where all see all: where rows see the past alone, an even row gives a word the less the later
    the row is, so that the word after is the one that looks most. That is an offset, which the baseline has too.
    """
    import torch
    import transformers

    bank = sentences(tmp_path, gold.treebank(40))
    config = tiny_model(family, vocab_size=30522, initializer_range=0.5).config
    accuracies: dict[str, list[np.ndarray]] = {}
    chance: dict[str, np.ndarray] = {}
    for seed in range(12):
        torch.manual_seed(seed)
        model = transformers.AutoModel.from_config(config).eval()
        found = measure_syntax(resolve(model, minilm_tokenizer), bank)
        assert found.causal == (family == "gpt2")
        for relation in found.relations:
            accuracies.setdefault(relation.name, []).append(relation.accuracy().mean(1))
        if not chance:
            chance = {relation.name: _chance(found, relation.name) for relation in found.relations}
    assert set(accuracies) == {"det", "amod", "advmod", "nsubj", "obj"}
    readings = slice(None) if family == "bert" else slice(2)
    for name, values in accuracies.items():
        table = np.stack(values)[:, readings]  # [models, readings]
        error = table.std(0, ddof=1) / np.sqrt(len(table))
        assert (np.abs(table.mean(0) - chance[name][readings]) <= 4 * error + 1e-12).all(), name


def _chance(found, name: str) -> np.ndarray:
    """Mean over arcs of 1 / words that may be pointed to, 0 where the right one is not among them, by reading."""
    rows = []
    for one in found.prepared:
        for arc in one.arcs:
            if arc.relation != name:
                continue
            units = len(one.units)
            if not found.causal:
                rows.append([1 / (units - 1)] * 3)
                continue
            left = arc.head < arc.dependent
            rows.append([
                1 / arc.dependent if left else 0.0,
                0.0 if left else 1 / arc.head,
                0.0 if left else 1 / (units - 1 - arc.dependent),
            ])  # fmt: skip
    return np.array(rows).mean(0)


def test_what_cannot_be_scored_is_counted(minilm, minilm_tokenizer, gold: ModuleType, tmp_path: Path) -> None:
    rows = [("cannot", 0, "root"), ("go", 1, "xcomp")]
    split = "# text = we cannot go\n1\twe\t_\t_\t_\t_\t3\tnsubj\t_\t_\n2-3\tcannot" + "\t_" * 8 + "\n"
    split += "2\tcan\t_\t_\t_\t_\t3\taux\t_\t_\n3\tnot\t_\t_\t_\t_\t0\troot\t_\t_\n4\tgo\t_\t_\t_\t_\t1\tobj\t_\t_\n\n"
    long = gold.conllu([("word", 0, "root"), *[("word", 1, "dep")] * 520], "word " * 520 + "word")
    bare = "# text = No tree\n1\tNo" + "\t_" * 8 + "\n2\ttree" + "\t_" * 8 + "\n\n"
    invisible = gold.conllu([("\u200b", 2, "punct"), ("word", 0, "root"), ("now", 2, "advmod")], "\u200b word now")
    text = split + gold.conllu(rows, "cannot go") + long + bare + invisible + gold.treebank(2)
    found = measure_syntax(resolve(minilm, minilm_tokenizer), sentences(tmp_path, text))
    assert found.counts.sentences == 7
    assert found.counts.too_long == 1
    assert found.counts.without_tree == 1
    assert found.counts.words_sharing_a_token == 2  # can|not
    assert found.counts.words_without_token == 1
    assert found.counts.lost.sharing_a_token == 2  # nsubj to "not" and aux
    assert found.counts.lost.without_token == 1
    assert "arcs left out, no token" in found.counts.entries()
    assert found.arcs == sum(relation.items for relation in found.relations)


def test_no_sentence_with_a_tree_is_refused(tiny_model, minilm_tokenizer, tmp_path: Path) -> None:
    bare = "# text = No tree\n1\tNo" + "\t_" * 8 + "\n2\ttree" + "\t_" * 8 + "\n\n"
    with pytest.raises(InputError, match="1 sentences, 1 of them without a tree"):
        measure_syntax(resolve(tiny_model("bert", vocab_size=30522), minilm_tokenizer), sentences(tmp_path, bare))


def test_minilm_has_heads_for_determiners_and_objects(minilm, minilm_tokenizer, gold, tmp_path: Path) -> None:
    found = measure_syntax(resolve(minilm, minilm_tokenizer), sentences(tmp_path, gold.treebank(60)))
    by_name = {relation.name: relation for relation in found.relations}
    best, offset = by_name["det"].best(READINGS[0]), by_name["det"].baseline()
    assert best.accuracy > offset.accuracy + 0.1
    heads, weights = weights_of(resolve(minilm, minilm_tokenizer), found.prepared[1])
    assert len(heads) == 72
    assert weights.shape == (72, len(found.prepared[1].units), len(found.prepared[1].units))


DATA = Path(__file__).parents[3] / "shared" / "data" / "dependencies" / "en_ewt-ud-dev.conllu"


@pytest.mark.skipif(not DATA.exists(), reason="needs the English treebank in ../shared/data")
def test_the_english_treebank_is_aligned_as_was_counted(minilm, minilm_tokenizer) -> None:
    from heedmap.experiments.syntax import Counts, prepare

    loaded, counts = resolve(minilm, minilm_tokenizer), Counts()
    found = [prepare(loaded, sentence, counts) for sentence in read_sentences(DATA, 200)]
    assert all(found)
    assert counts.texts_put_together == 0
    for one in found:
        assert one is not None
        assert all(one.sentence.text[word.start : word.end] == word.form for word in one.sentence.words)
        assert one.units.without == 0
