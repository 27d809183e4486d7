from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from shutil import copytree
from urllib.request import urlopen

import pytest

from heedmap.cli.main import main
from heedmap.runs.reader import Run


def test_view_prints_its_address_serves_until_interrupted_and_ends_well(run: Run) -> None:
    command = [sys.executable, "-m", "heedmap", "view", str(run.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+/[\w-]+/", said)
        assert found is not None
        with urlopen(f"{found[0]}runs/0/text.txt", timeout=20) as answer:
            assert answer.read().decode() == run.text
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=20)
    assert process.returncode == 0
    assert error == ""


@pytest.mark.parametrize("command", [["view"], ["export", "--max-bytes", "1M"]])
def test_a_missing_run_is_one_line(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*command, str(tmp_path / "nothing"), *([str(tmp_path / "x.html")] if command[0] == "export" else [])]
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert "where nothing is" in error
    assert error.count("\n") == 1


def test_a_truncated_run_is_one_line(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = Path(copytree(run.path, tmp_path / "cut"))
    content = (copy / "query.parquet").read_bytes()
    (copy / "query.parquet").write_bytes(content[:-10])
    assert main(["view", str(copy)]) == 2
    assert "query.parquet" in capsys.readouterr().err
