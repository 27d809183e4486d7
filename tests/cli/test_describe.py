from __future__ import annotations

import json
from pathlib import Path

import pytest

from heedmap.cli.describe import _ranges
from heedmap.cli.main import main


@pytest.fixture
def two(tmp_path: Path) -> list[str]:
    from transformers import BertConfig, Gemma3TextConfig

    sizes = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 64}
    BertConfig(**sizes).save_pretrained(tmp_path / "one")
    Gemma3TextConfig(
        **sizes, num_key_value_heads=1, head_dim=8, sliding_window=16,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"],
    ).save_pretrained(tmp_path / "other")  # fmt: skip
    return [str(tmp_path / "one"), str(tmp_path / "other")]


def test_two_models_stand_side_by_side_and_differences_are_marked(two, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["describe", *two]) == 0
    printed = capsys.readouterr().out
    assert "■ · · · · · · ·" in printed, "causal"
    assert "· ■ ■ ■ · · · ·" in printed, "a window"
    assert "query ●●●●" in printed
    rows = {line[2:].split("  ")[0]: line for line in printed.splitlines() if line.startswith(("≠ ", "  "))}
    assert rows["sees"].startswith("≠")
    assert "16 keys back" in rows["window"]
    assert "4 over 1, multi-query" in rows["heads"]
    assert rows["head size"].startswith("  ")
    assert "AAB" in printed


def test_json_names_the_differences(two, capsys) -> None:
    assert main(["describe", *two, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [len(model["kinds"]) for model in document["models"]] == [1, 2]
    assert document["models"][1]["kinds"][0]["layers"] == [0, 1]
    assert {"sees", "window", "heads", "positions"} <= set(document["differences"])
    assert "head size" not in document["differences"]


def test_no_model_and_three_models_are_refused(capsys) -> None:
    assert main(["describe", "a", "b", "c"]) == 2
    assert "one model or two" in capsys.readouterr().err
    assert main(["describe"]) == 2


def test_layers_are_named_in_short() -> None:
    assert _ranges([0]) == "0"
    assert _ranges([0, 1, 2, 4]) == "0-2, 4 (4)"
    assert _ranges([0, 2, 4, 6]) == "0, 2, … 6 (4)"
    assert _ranges([5, 11]) == "5, 11 (2)"
