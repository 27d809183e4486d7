from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from heedmap.cli.main import main
from heedmap.errors import HeedmapWarning
from heedmap.runs.reader import open_run

CAT = "The cat sat on the mat because it was tired"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What ``look`` was called with; it then stops, so that nothing is loaded."""
    seen: dict[str, Any] = {}

    def stop(text: str, model: str | None, **options: Any) -> None:
        seen.update(options, text=text, model=model)
        raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "heedmap.capture.look", SimpleNamespace(look=stop))
    return seen


def test_options_reach_look_as_it_takes_them(here: Path, asked: dict[str, Any]):
    main(
        "look cat --pair dog --target fish --generate 3 --model m --tokens 9 "
        f"--layers 0-2 --heads 1,5.11 --statistics entropy,received "
        f"--out {here / 'o'} --no-inputs".split()
    )
    assert asked.pop("progress") is not None
    assert asked.pop("command")[0] == "heedmap"
    assert asked == {
        "text": "cat",
        "model": "m",
        "text_pair": "dog",
        "target": "fish",
        "generate": 3,
        "out": here / "o",
        "layers": [0, 1, 2],
        "heads": [1, "5.11"],
        "statistics": ["entropy", "received"],
        "spans": None,
        "max_tokens": 9,
        "keep_inputs": False,
    }


def test_without_options_look_gets_its_defaults_and_a_folder_named_after_the_text(here: Path, asked: dict[str, Any]):
    assert main(["look", CAT]) == 130
    assert (asked["model"], asked["layers"], asked["heads"], asked["max_tokens"]) == (None, None, None, None)
    assert (asked["statistics"], asked["keep_inputs"]) == ("default", True)
    assert asked["out"] == Path("runs/the-cat-sat-on-the-mat")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected a text to look at, got none; try: heedmap look"),
        (["cat", "--file", "a.txt"], "expected a text or --file, one of them, got both"),
        (["--file", "a.txt"], "expected a text file, got a.txt, which does not exist"),
        (["--file", "."], "expected a text file, got the folder ."),
        ([""], "expected a text with at least one word"),
        (["cat", "--pair", ""], "got nothing in the text of --pair"),
        (["cat", "--layers", "5-2"], "expected ranges that run upwards"),
        (["cat", "--heads", "x"], "[--heads] expected something like"),
        (["cat", "--tokens", "0"], "expected a usable '--tokens'"),
        (["cat", "--tokens", "many"], "expected a usable '--tokens'"),
        (["cat", "--png", "cat.jpg"], "expected a file name that ends in .png or .svg"),
        (["cat", "--png", "."], "expected a file name that ends in .png or .svg"),
        (["cat", "--out", "taken"], "expected a heedmap run to replace"),
        (["the", "cat"], "unexpected extra argument"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2_before_anything_is_loaded(
    here: Path, asked: dict[str, Any], capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
):
    (here / "taken").mkdir()
    (here / "taken" / "thesis.docx").write_text("mine")
    assert main(["look", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.count("\n") == 1
    assert asked == {}
    assert sorted(item.name for item in here.iterdir()) == ["taken"]


def test_a_text_that_is_the_name_of_a_file_gets_a_note(
    here: Path, asked: dict[str, Any], capsys: pytest.CaptureFixture[str]
):
    (here / "cat.txt").write_text(CAT)
    main(["look", "cat.txt"])
    assert "for the text in that file use --file cat.txt" in capsys.readouterr().err


def test_a_text_too_long_to_be_the_name_of_a_file_is_a_text(here: Path, asked: dict[str, Any]):
    assert main(["look", "고양이" * 200]) == 130
    assert asked["text"] == "고양이" * 200


def test_a_picture_is_measured_for_even_where_other_statistics_are_asked_for(here: Path, asked: dict[str, Any]):
    main(["look", CAT, "--statistics", "received,entropy", "--png", "a.png"])
    assert asked["statistics"] == ["received", "entropy", "map_max"]


def test_help_needs_no_torch():
    code = (
        "import sys; from heedmap.cli.main import main; code = main(sys.argv[1:]); "
        "print([m for m in ('torch', 'transformers', 'matplotlib', 'pyarrow') if m in sys.modules]); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code, "look", "--help"], capture_output=True, text=True, check=True)
    assert "heedmap look --file alice.txt --model smollm2 --tokens 8192 --png alice.png" in done.stdout
    assert done.stdout.strip().endswith("[]")


class TestTheDefaultModel:
    @pytest.fixture(autouse=True)
    def _installed(self, minilm_folder: Path) -> None:
        """Skips where the packaged model is not installed."""

    def test_a_look_ends_in_a_run_a_picture_and_a_summary(self, here: Path, capsys: pytest.CaptureFixture[str]):
        assert main(["look", CAT, "--png", "cat.png", "--out", "runs/cat"]) == 0
        out, err = capsys.readouterr()
        lines = [" ".join(line.split()) for line in out.splitlines()]
        assert err == ""
        assert "it → cat 0.68 head 5.11" in lines
        assert any(line.startswith("the token before 0.2 1.00") for line in lines)
        assert any(line.startswith("the first token 2.7 0.89 2.9 0.88 4.5 0.86") for line in lines)
        assert any(line.startswith("check ✓ within") for line in lines)
        assert (here / "cat.png").read_bytes().startswith(b"\x89PNG")
        assert open_run("runs/cat").weights(5, 11, 8, 2)[0, 0] == pytest.approx(0.683, abs=5e-4)

    def test_json_is_one_document_on_stdout_and_nothing_on_stderr(
        self, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv("FORCE_COLOR", "1")
        assert main(["look", CAT, "--json", "--layers", "5", "--heads", "11"]) == 0
        out, err = capsys.readouterr()
        document = json.loads(out)
        assert document["layers"] == [{"part": "self", "layer": 5, "heads": [11]}]
        assert ("it", "cat") in [(pair["query"]["text"], pair["key"]["text"]) for pair in document["pairs"]]
        assert err == ""

    def test_a_failed_self_check_is_loud_and_exit_code_3(
        self, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ):
        import heedmap.capture.look as module

        real = module.self_check

        def fail(*arguments: Any) -> dict[str, Any] | None:
            checked = real(*arguments)
            return None if checked is None else checked | {"passed": False, "max_abs_error": 0.25}

        monkeypatch.setattr(module, "self_check", fail)
        assert main(["look", CAT, "--json"]) == 3
        out, err = capsys.readouterr()
        assert json.loads(out)["self_check"]["passed"] is False
        assert "warning: the self-check FAILED" in err

    def test_warnings_on_the_way_are_lines_on_stderr_and_in_the_json(
        self, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ):
        import warnings

        import heedmap.capture.look as module

        real = module.look

        def warn(*arguments: Any, **options: Any):
            warnings.warn("mind the gap", HeedmapWarning, stacklevel=1)
            return real(*arguments, **options)

        monkeypatch.setattr(module, "look", warn)
        assert main(["look", CAT, "--json", "--layers", "0"]) == 0
        out, err = capsys.readouterr()
        assert err == "warning: mind the gap\n"
        assert json.loads(out)["warnings"] == ["mind the gap"]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--layers", "6"], "layer 6"),
            (["--heads", "12"], "head 12"),
            (["--statistics", "entropie"], "entropie"),
            (["--tokens", "2"], "--tokens"),
        ],
    )
    def test_what_the_model_does_not_have_is_one_line_and_exit_code_2(
        self, here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
    ):
        assert main(["look", CAT, *arguments]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert message in err
        assert err.count("\n") == 1
        assert [path for path in here.rglob("*") if path.is_file()] == []

    def test_a_terminal_sees_progress_and_colour_a_pipe_neither(self, here: Path):
        command = [sys.executable, "-m", "heedmap", "look", "--file", "-", "--layers", "0", "--out", "run"]
        piped = subprocess.run(command, input=CAT.encode(), capture_output=True, check=True)
        assert b"\x1b" not in piped.stdout
        assert piped.stderr == b""
        seen = _in_a_terminal(command, CAT.encode())
        assert "loading minilm" in seen
        assert "1/1 layers" in seen
        assert "\x1b[1mMost telling heads" in seen


def _in_a_terminal(command: list[str], text: bytes) -> str:
    """What a command writes to a terminal, with ``text`` on its standard input."""
    above, below = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "100"}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=below, stderr=below, env=environment) as process:
        os.close(below)
        assert process.stdin is not None
        process.stdin.write(text)
        process.stdin.close()
        seen = b""
        while True:
            try:
                piece = os.read(above, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            seen += piece
    os.close(above)
    assert process.returncode == 0
    return seen.decode()
