from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from heedmap.capture.models import LoadedModel
from heedmap.errors import InputError, UnsupportedError
from heedmap.experiments.haystack import NEEDLES, Haystack, Needle, read_needles
from heedmap.experiments.retrieval import Retrieval, find_retrieval

HAY = " ".join(f"The {name} walked down to the river. Nobody saw the {name} again!" for name in
               ("miller", "farmer", "doctor", "painter", "sailor", "teacher", "weaver", "hunter") * 4)  # fmt: skip
ZEBRA = Needle("A zebra zebra sleeps.", "What sleeps?", "zebra")
CHAT = (
    "{% for m in messages %}[CLS] {{ m.role }} : {{ m.content }} [SEP]{% endfor %}"
    "{% if add_generation_prompt %} yes :{% endif %}"
)


@pytest.fixture
def tokenizer(minilm_tokenizer: Any) -> Any:
    return copy.deepcopy(minilm_tokenizer)


def _loaded(tokenizer: Any, says: str | None = None, **changes: Any) -> LoadedModel:
    """A tiny Llama of random weights; with `says` one that says this word and nothing else."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(11)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
             "intermediate_size": 32, "vocab_size": len(tokenizer), "max_position_embeddings": 400,
             "bos_token_id": None, "eos_token_id": None, "pad_token_id": 0}  # fmt: skip
    model = LlamaForCausalLM(LlamaConfig(**(sizes | changes))).eval()
    for layer in model.model.layers:
        layer.self_attn.q_proj.weight.data *= 40  # rows with a clear favourite
    if says is not None:
        head = torch.nn.Linear(32, len(tokenizer))
        head.bias.data[tokenizer.convert_tokens_to_ids(says)] = 1e4
        model.lm_head = head
    return LoadedModel(model, tokenizer, "tiny", None, "memory", [])


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("depth", [0.0, 0.3, 0.5, 1.0])
def test_a_prompt_has_its_length_and_its_needle_where_it_is_wanted(tokenizer: Any, depth: float, chat: bool) -> None:
    tokenizer.chat_template = CHAT if chat else None
    hay = Haystack(tokenizer, HAY)
    assert hay.chat is chat
    for length in (80, 200):
        prompt = hay.prompt(ZEBRA, length, depth)
        assert length - 14 <= len(prompt.ids) <= length
        assert prompt.ids.count(tokenizer.cls_token_id) == 1
        assert tokenizer.decode(prompt.ids[prompt.start : prompt.stop]) == "a zebra zebra sleeps."
        assert abs(prompt.depth - depth) < 0.1
        before = prompt.text[: prompt.text.index(ZEBRA.needle)].rstrip()
        if 0 < depth < 1:
            assert before[-1] in ".!", "the needle stands behind a sentence"
        assert ("yes :" in prompt.text) is chat
        assert ZEBRA.question in prompt.text


def test_what_makes_no_prompt_is_refused(tokenizer: Any) -> None:
    hay = Haystack(tokenizer, HAY)
    with pytest.raises(InputError, match=r"a text of at least .* tokens, for a prompt of 5,000"):
        hay.prompt(ZEBRA, 5000, 0.5)
    with pytest.raises(InputError, match="leaves room for a text around the needle, got 10; take"):
        hay.prompt(ZEBRA, 10, 0.5)
    with pytest.raises(InputError, match="a needle that the haystack does not hold"):
        hay.prompt(Needle("Nobody saw the miller again!", "Who?"), 100, 0.5)
    slow = copy.copy(tokenizer)
    type(slow).is_fast, before = property(lambda self: False), type(slow).is_fast
    try:
        with pytest.raises(InputError, match="where in the text its tokens stand"):
            Haystack(slow, HAY)
    finally:
        type(slow).is_fast = before


def test_scores_are_those_of_the_largest_weights_of_the_whole_text(tokenizer: Any) -> None:
    """Against the model's own eager attention over prompt and answer together."""
    loaded = _loaded(tokenizer, says="zebra")
    found = find_retrieval(loaded, HAY, lengths=(90, 130), depths=(0.0, 0.5, 1.0), needles=[ZEBRA])
    assert found.heads == [("self", layer, head) for layer in range(2) for head in range(4)]
    assert (len(found.trials), found.planned, found.chat) == (6, 6, False)
    loaded.model.set_attn_implementation("eager")
    zebra, some = tokenizer.convert_tokens_to_ids("zebra"), 0.0
    steps = len(tokenizer(ZEBRA.needle, add_special_tokens=False)["input_ids"]) + 12
    for trial in found.trials:
        assert trial.answer == " ".join(["zebra"] * steps)
        assert trial.recall == 1
        prompt = Haystack(tokenizer, HAY).prompt(ZEBRA, trial.length - steps, trial.asked)
        ids = torch.tensor([prompt.ids + [zebra] * steps])
        with torch.no_grad():
            weights = torch.stack(loaded.model(input_ids=ids, output_attentions=True).attentions)[:, 0].flatten(0, 1)
        top = weights[:, len(prompt.ids) - 1 : -1].argmax(-1)
        places = [at for at in range(prompt.start, prompt.stop) if prompt.ids[at] == zebra]
        wanted = [sum((row == at).any().item() for at in places) / (prompt.stop - prompt.start) for row in top]
        np.testing.assert_allclose(trial.scores, wanted, atol=1e-12)
        some = max(some, *wanted)
    assert some > 0, "some head looked at the needle: the test compares more than zeros"


def test_a_model_that_copies_nothing_scores_nothing(tokenizer: Any) -> None:
    found = find_retrieval(_loaded(tokenizer), HAY, lengths=(90,), depths=(0.5,), needles=[ZEBRA])
    (trial,) = found.trials
    assert trial.recall == 0
    assert not trial.scores.any()


def test_an_interruption_keeps_the_questions_that_were_asked(tokenizer: Any) -> None:
    loaded, kept = _loaded(tokenizer), Retrieval("tiny", None)

    def stop(stage: str, done: int, total: int) -> None:
        assert (stage, total) == ("read", 3)
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        find_retrieval(loaded, HAY, lengths=(90,), depths=(0.0, 0.5, 1.0), needles=[ZEBRA], tell=stop, into=kept)
    assert (len(kept.trials), kept.planned) == (2, 3)
    assert loaded.model.config._attn_implementation == "sdpa"


def test_models_that_cannot_answer_are_refused_before_anything_runs(tokenizer: Any) -> None:
    from transformers import BertConfig, BertModel, T5Config, T5ForConditionalGeneration

    bert = BertModel(BertConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16))
    with pytest.raises(UnsupportedError, match="BertModel, which has no language-model head"):
        find_retrieval(LoadedModel(bert, tokenizer, "tiny", None, "memory", []), HAY)
    t5 = T5ForConditionalGeneration(T5Config(d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2))
    with pytest.raises(UnsupportedError, match="an encoder–decoder"):
        find_retrieval(LoadedModel(t5, tokenizer, "tiny", None, "memory", []), HAY)
    loaded = _loaded(tokenizer)
    with pytest.raises(InputError, match="lengths up to 400, the positions of this model, got 500"):
        find_retrieval(loaded, HAY, lengths=(100, 500))
    with pytest.raises(InputError, match="depths from 0 to 1"):
        find_retrieval(loaded, HAY, lengths=(100,), depths=(1.5,))
    with pytest.raises(InputError, match="a length, a depth and a needle"):
        find_retrieval(loaded, HAY, lengths=())


def test_the_needles_that_come_along_are_answered_by_their_own_words() -> None:
    for needle in NEEDLES:
        assert needle.answer in needle.needle
        assert needle.wanted == needle.answer
    assert Needle("A b.", "c?").wanted == "A b."


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[", "JSON in UTF-8"),
        ("{}", "a list of needles, got none"),
        ('{"needle": "a"}', "a list of needles, got dict"),
        ("[]", "a list of needles, got none"),
        ('["a"]', "got a at place 0"),
        ('[{"needle": "a"}]', "at place 0"),
        ('[{"needle": "a", "question": 1}]', "at place 0"),
        ('[{"needle": "a", "question": " "}]', "at place 0"),
        ('[{"needle": "a", "question": "b", "other": "c"}]', "at place 0"),
        ("[" * 9999, "JSON in UTF-8"),
    ],
)
def test_files_of_needles_are_read_with_distrust(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "needles.json"
    file.write_text(content)
    with pytest.raises(InputError, match=message):
        read_needles(file)
    with pytest.raises(InputError, match="No such file"):
        read_needles(tmp_path / "none.json")


def test_needles_of_a_file_are_taken_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "needles.json"
    file.write_text(json.dumps([{"needle": " 고래는 크다. ", "question": "무엇이 크다?"}]), encoding="utf-8")
    assert read_needles(file) == (Needle("고래는 크다.", "무엇이 크다?"),)
