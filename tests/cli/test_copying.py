"""``heedmap induction`` and ``heedmap retrieval``, on a tiny model of random weights."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import duckdb
import pytest
import torch

from heedmap.cli.main import main

INDUCTION = ["--lengths", "8,16", "--draws", "2"]
RETRIEVAL = ["--lengths", "100", "--depths", "0,100"]


@pytest.fixture(scope="module")
def model(_minilm: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with a tiny Llama and MiniLM's tokenizer."""
    from transformers import LlamaConfig, LlamaForCausalLM

    _, tokenizer = _minilm
    torch.manual_seed(5)
    config = LlamaConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, intermediate_size=16,
        vocab_size=len(tokenizer), max_position_embeddings=256, bos_token_id=None, eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("model") / "tiny"
    LlamaForCausalLM(config).save_pretrained(folder)
    copy.deepcopy(tokenizer).save_pretrained(folder)
    return str(folder)


@pytest.fixture
def hay(tmp_path: Path) -> str:
    file = tmp_path / "hay.txt"
    file.write_text("The river was wide and slow. Nobody crossed it in winter! " * 20)
    return str(file)


def test_induction_tells_scores_loss_and_what_silence_costs(model: str, tmp_path: Path, capsys) -> None:
    more = ["--ablate", "0.1,1.0", "--out", str(tmp_path), "--png", str(tmp_path / "i.png"), "--dark"]
    assert main(["induction", "--model", model, *INDUCTION, *more]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "What the second copy costs less" in printed
    assert "these 2" in printed
    assert "2 others: drawn from the heads below the bar of induction, to compare with (0.0, 1.1)." in printed
    assert printed.count("command heedmap induction") == 1
    assert (tmp_path / "i.png").read_bytes().startswith(b"\x89PNG")
    found = duckdb.sql(f"SELECT silent, control FROM '{tmp_path}/induction_silenced.parquet'").fetchall()
    assert found == [("0.1", False), ("1.0", False), ("these 2", False), ("2 others", True)]
    scores = duckdb.sql(f"SELECT induction, induction_8, induction_16 FROM '{tmp_path}/induction.parquet'").fetchall()
    assert len(scores) == 4
    assert all(mean == pytest.approx((short + long) / 2) for mean, short, long in scores)
    assert scores == sorted(scores, key=lambda row: -row[0])


def test_induction_of_a_model_without_loss_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["induction", "--model", "minilm", "--lengths", "8", "--draws", "1", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert "No loss: BertModel predicts no next token." in document["notes"]
    assert len(document["rows"]) == 72
    assert document["rows"][0]["induction_low"] is None, "one draw has no interval"
    assert "induction_loss" not in document


def test_retrieval_tells_what_was_answered_and_who_fetched(model: str, hay: str, tmp_path: Path, capsys) -> None:
    more = ["--out", str(tmp_path / "out"), "--png", str(tmp_path / "r.svg")]
    assert main(["retrieval", "--model", model, "--file", hay, *RETRIEVAL, *more]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "The model answered 0 of 6 questions" in printed
    assert "a low score here is the model's, not the head's" in printed
    assert "0 of 4 heads are retrieval heads" in printed
    assert "hay.txt (sha256" in printed
    assert (tmp_path / "r.svg").read_text().startswith("<?xml")
    answers = f"{tmp_path}/out/retrieval_answers.parquet"
    rows = duckdb.sql(f"SELECT length, depth, needle_stop - needle_start, prompt_tokens FROM '{answers}'").fetchall()
    assert len(rows) == 6
    assert all(length == 100 and needle > 10 and prompt < 80 for length, _, needle, prompt in rows)
    assert {depth for _, depth, _, _ in rows} == {0.0, 1.0}


@pytest.mark.parametrize(
    ("stop_at", "code", "message"),
    [(5, 130, "interrupted; kept 1 of 4 sets of silent heads"), (2, 130, "[heedmap] interrupted")],
)
def test_ctrl_c_keeps_what_induction_measured(model: str, stop_at: int, code: int, message: str, capsys, monkeypatch):
    from heedmap.experiments import copying

    losses, seen = copying._losses, []

    def interrupt(*given: Any) -> Any:
        seen.append(given)
        if len(seen) > stop_at:
            raise KeyboardInterrupt
        return losses(*given)

    monkeypatch.setattr(copying, "_losses", interrupt)
    arguments = ["induction", "--model", model, "--lengths", "8", "--draws", "2", "--ablate", "0.0,0.1"]
    assert main(arguments) == code
    out, err = capsys.readouterr()
    assert message in err
    assert ("Interrupted: 1 of 4 sets of heads." in " ".join(out.split())) is (stop_at == 5)


def test_ctrl_c_keeps_the_questions_that_were_asked(model: str, hay: str, capsys, monkeypatch) -> None:
    from heedmap.experiments import retrieval

    generate, seen = retrieval.generate, []

    def interrupt(*given: Any) -> Any:
        seen.append(given)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return generate(*given)

    monkeypatch.setattr(retrieval, "generate", interrupt)
    assert main(["retrieval", "--model", model, "--file", hay, *RETRIEVAL]) == 130
    out, err = capsys.readouterr()
    assert "interrupted; kept 2 of 6 questions" in err
    assert "Interrupted: 2 of 6 questions." in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["induction"], "--model"),
        (["induction", "--model", "M", "--ablate", "0.0", "--ablate-top", "1"], "--ablate or --ablate-top, got both"),
        (["induction", "--model", "M", "--ablate", "3"], "heads as layer.head, such as 18.6, got 3"),
        (["induction", "--model", "M", "--ablate", "7.0", *INDUCTION], "got layer 7"),
        (["induction", "--model", "M", "--lengths", "1"], "different lengths of 2 or more"),
        (["induction", "--model", "M", "--lengths", "200"], "at most 256 tokens, the positions of this model"),
        (["retrieval", "--model", "M"], "--file"),
        (["retrieval", "--model", "minilm", "--file", "HAY"], "which has no language-model head"),
        (["retrieval", "--model", "M", "--file", "HAY", "--depths", "0,101"], "percentages such as"),
        (["retrieval", "--model", "M", "--file", "HAY", "--lengths", "512"], "lengths up to 256"),
        (["retrieval", "--model", "M", "--file", "HAY", "--needles", "none.json"], "a JSON file"),
        (["retrieval", "--model", "M", "--file", "none.txt"], "none.txt, which does not exist"),
    ],
)
def test_what_does_not_fit_is_refused(model: str, hay: str, arguments: list[str], message: str, capsys) -> None:
    names = {"M": model, "HAY": hay}
    assert main([names.get(argument, argument) for argument in arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
