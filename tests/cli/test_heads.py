from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from heedmap.cli.main import main


@pytest.fixture
def run(made: ModuleType, tmp_path: Path) -> str:
    n = 12
    made.make_run(tmp_path / "run", np.array([[made.shifted(n, 1), made.on(n, 3), made.uniform(n)]]))
    return str(tmp_path / "run")


def test_types_are_listed_with_bar_value_and_count(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["heads", run]) == 0
    printed = capsys.readouterr().out
    rows = {line.split()[0]: line.split() for line in printed.splitlines() if line.strip()}
    assert rows["previous"] == ["previous", ">", "0.5", "1", "0.0", "1.00"]
    assert rows["sink"][:6] == ["sink", ">", "0.3", "1", "0.1", "1.00"]
    assert rows["no"] == ["no", "type", "1", "0.2"]
    assert "sinks: token3 #3 (1 head)" in printed
    assert "punctuation  this text has no punctuation" in printed


def test_all_lists_every_head(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["heads", run, "--all"]) == 0
    printed = capsys.readouterr().out
    assert "previous 1.00  positional 1.00" in printed
    assert [line.split() for line in printed.splitlines() if line.startswith("0.2")] == [["0.2", "none"]]


def test_json_holds_every_value_and_every_source(run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["heads", run, "--json", "--png", str(tmp_path / "types.svg")]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["heads"][1]["types"] == ["sink"]
    assert document["heads"][1]["sink"] == 3
    assert document["heads"][0]["values"]["previous"] == pytest.approx(1.0)
    assert document["types"]["sink"]["source"] == "Gu et al. 2024, α > 0.3"
    assert document["none"] == 1
    assert Path(document["picture"]).read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["heads"], "expected a run, got none; heedmap heads runs/cat, or"),
        (["heads", "r", "--model", "minilm"], "expected --model, --length, --draws, --seed with --probe-induction"),
        (["heads", "--probe-induction"], "expected --probe-induction with --model M and no run, got no model"),
        (["heads", "r", "--probe-induction", "--model", "m"], "got r"),
        (["heads", "nowhere"], "nowhere"),
    ],
)
def test_what_does_not_fit_together_is_refused(arguments, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_a_pipe_gets_lines_that_end_with_their_last_letter(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    for options in ([], ["--all"]):
        assert main(["heads", run, *options]) == 0
        printed = capsys.readouterr().out
        assert "\x1b" not in printed
        assert [line for line in printed.splitlines() if line != line.rstrip()] == []


def test_sinks_are_named_by_the_text_of_their_keys(capsys: pytest.CaptureFixture[str]) -> None:
    from heedmap.cli.heads import _sinks
    from heedmap.heads.types import TypedHead, Typing

    def head(part: str, number: int, sink: int) -> TypedHead:
        return TypedHead(part, 0, number, {"sink": 0.9}, ("sink",), sink)

    typing = Typing([head("encoder", 0, 1), head("decoder", 0, 1), head("decoder", 1, 1)], {})
    labels = {("encoder", 0): ("text", ["[CLS]", "Rome"]), ("decoder", 0): ("target", ["</s>", "Oslo"])}
    assert _sinks(typing, labels) == "sinks: Oslo #1 of the target (2 heads), Rome #1 of the text (1 head)"
    assert _sinks(typing, None) == ""
