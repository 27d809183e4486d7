"""Korean through a stand-in for Gemma 3: causal, windows in most layers, grouped heads, tokens of parts of letters."""

from __future__ import annotations

from pathlib import Path

import pytest

from heedmap.capture.models import LoadedModel, resolve
from heedmap.experiments.syntax import measure_syntax
from heedmap.heads.trees import Sentence, read_sentences

ROWS = [("나는", 3, "nsubj"), ("집에", 3, "obl"), ("간다", 0, "root"), (".", 3, "punct")]
MORE = [("그는", 4, "nsubj"), ("큰", 3, "amod"), ("책을", 4, "obj"), ("읽었다", 0, "root"), (".", 4, "punct")]
DATA = Path(__file__).parents[3] / "shared" / "data" / "dependencies" / "ko_gsd-ud-dev-300.conllu"


@pytest.fixture(scope="module")
def stand_in() -> LoadedModel:
    import torch
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import AutoModel, Gemma3TextConfig, PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split("▁", "merged_with_next"), pre_tokenizers.Punctuation()]
    )
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    marks = ["<pad>", "<unk>", "<bos>", "<eos>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    texts = ["▁".join(form for form, _, _ in rows) for rows in (ROWS, MORE)]
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=300, special_tokens=marks, show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 2)])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<bos>", eos_token="<eos>", unk_token="<unk>", pad_token="<pad>"
    )
    torch.manual_seed(0)
    config = Gemma3TextConfig(
        vocab_size=400, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
        intermediate_size=64, sliding_window=8, query_pre_attn_scalar=8, max_position_embeddings=2048,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"],
    )  # fmt: skip
    return resolve(AutoModel.from_config(config).eval(), fast)


def bank(path: Path, times: int) -> list[Sentence]:
    lines = []
    for rows in [ROWS, MORE, MORE] * times:
        lines.append("# text = " + " ".join(form for form, _, _ in rows).replace(" .", "."))
        for number, (form, head, relation) in enumerate(rows, 1):
            misc = "SpaceAfter=No" if number == len(rows) - 1 else "_"
            lines.append("\t".join([str(number), form, form, "X", "_", "_", str(head), relation, "_", misc]))
        lines.append("")
    (path / "ko.conllu").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return list(read_sentences(path / "ko.conllu"))


def test_korean_runs_end_to_end(stand_in: LoadedModel, tmp_path: Path) -> None:
    found = measure_syntax(stand_in, bank(tmp_path, 4))
    assert found.causal
    assert len(found.relations[0].heads) == 3 * 4
    assert found.counts.words == 4 * (4 + 5 + 5)
    assert found.counts.words_without_token == 0
    assert found.counts.words_sharing_a_token == sum(one.units.shared for one in found.prepared)
    scored = {relation.name: relation for relation in found.relations}
    # all but the root's dependents stand before their heads, which no row sees
    assert (scored["nsubj"].accuracy()[0] == 0).all()
    assert scored["nsubj"].accuracy()[1].max() > 0


@pytest.mark.skipif(not DATA.exists(), reason="needs the Korean treebank in ../shared/data")
def test_the_korean_treebank_runs_end_to_end(stand_in: LoadedModel) -> None:
    sentences = list(read_sentences(DATA, 60))
    found = measure_syntax(stand_in, sentences)
    assert found.counts.sentences == 60
    assert found.arcs > 500
    assert found.counts.words_without_token == 0  # bytes stand for letters that the vocabulary lacks
    assert found.counts.texts_put_together == 0
