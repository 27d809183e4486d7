from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from heedmap.cli.main import main
from heedmap.runs.reader import Run

LABELS = ["[CLS]", "the", "cat", "sat", "[SEP]"]
N = len(LABELS)


@pytest.fixture
def run(made: ModuleType, tmp_path: Path) -> Run:
    weights = np.array([[made.shifted(N, 1), made.uniform(N)], [made.on(N, 0), made.shifted(N, -1)]])
    return made.make_run(tmp_path / "run", weights, LABELS, special=(0, 4))


def test_it_prints_the_summary_again(run: Run, capsys: pytest.CaptureFixture[str]):
    assert main(["show", str(run.path)]) == 0
    out, err = capsys.readouterr()
    assert "Most telling heads" in out
    assert err == ""


def test_json_is_one_document_and_nothing_else(run: Run, capsys: pytest.CaptureFixture[str]):
    assert main(["show", str(run.path), "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["run"] == str(run.path)
    assert err == ""


@pytest.mark.parametrize("arguments", [[], ["--dark"], ["--head", "0.1"], ["--statistic", "max_weight"]])
@pytest.mark.parametrize("name", ["a.png", "a.svg"])
def test_it_draws_as_asked(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], name: str
):
    assert main(["show", str(run.path), "--png", str(tmp_path / name), *arguments]) == 0
    assert (tmp_path / name).stat().st_size > 5_000
    assert "picture" in capsys.readouterr().out


def test_a_run_without_entropy_is_drawn_by_another_statistic(made: ModuleType, tmp_path: Path):
    run = made.make_run(tmp_path / "run", made.uniform(N)[None, None], statistics=["max_weight", "map_max"])
    assert main(["show", str(run.path), "--png", str(tmp_path / "a.png")]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--png", "a.jpg"], "expected a file name that ends in .png or .svg, got 'a.jpg'"),
        (["--png", "a.png", "--head", "9.9"], "expected a head of this run as layer.head"),
        (["--png", "a.png", "--statistic", "entropie"], "expected a statistic of this run's heads"),
        (["--head", "0.1"], "are about the picture: say where it goes with --png F"),
        (["--heads", "0.1"], "expected an option it knows, got --heads"),
    ],
)
def test_what_cannot_be_drawn_is_one_line_and_exit_code_2(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
):
    monkeypatch.chdir(tmp_path)
    assert main(["show", str(run.path), *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.count("\n") == 1
    assert [item.name for item in tmp_path.iterdir()] == ["run"]


def test_a_folder_that_is_no_run_is_one_line_and_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["show", str(tmp_path / "nowhere")]) == 2
    assert main(["show", str(tmp_path)]) == 2
    assert main(["show"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 3


def test_a_failed_self_check_is_shown_again(made: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    check = made.META["self_check"] | {"passed": False}
    run = made.make_run(tmp_path / "run", made.uniform(N)[None, None], meta={"self_check": check})
    assert main(["show", str(run.path), "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["self_check"]["passed"] is False
    assert "warning: the self-check FAILED" in err


def test_it_needs_neither_torch_nor_transformers(run: Run, tmp_path: Path):
    code = (
        "import sys; from heedmap.cli.main import main; code = main(sys.argv[1:]); "
        "print([m for m in ('torch', 'transformers') if m in sys.modules], file=sys.stderr); sys.exit(code)"
    )
    command = [sys.executable, "-c", code, "show", str(run.path), "--png", str(tmp_path / "a.png")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.strip()) == (0, "[]")


def test_a_reader_that_goes_away_is_no_error(run: Run):
    command = f"{sys.executable} -m heedmap show {run.path} | head -n 2"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 2
