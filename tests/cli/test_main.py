"""The program: every expected failure is one line on stderr and an exit code."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import click
import pytest

import heedmap
from heedmap.cli import main as program
from heedmap.errors import HeedmapError

Failing = Callable[..., None]
COMMANDS = ", ".join(program.COMMANDS)


@pytest.fixture
def fails_with(monkeypatch: pytest.MonkeyPatch) -> Failing:
    """Let `heedmap look` raise an error (or run a function) in place of its work."""

    def install(error: BaseException | Callable[[], object]) -> None:
        @click.command()
        @click.argument("text")
        @click.option("--tokens", type=click.IntRange(min=1))
        def command(text: str, tokens: int | None) -> None:
            if isinstance(error, BaseException):
                raise error
            error()

        monkeypatch.setattr(program._LazyGroup, "get_command", lambda self, ctx, name: command)

    return install


def one_line(text: str) -> str:
    assert text.endswith("\n")
    assert text.count("\n") == 1, text
    return text.rstrip("\n")


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], []])
def test_help_names_every_command_and_succeeds(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(arguments) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for name in program.COMMANDS:
        assert f"\n  {name}  " in out


def test_version_is_the_package_s(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["--version"]) == 0
    assert capsys.readouterr().out == f"heedmap {heedmap.__version__}\n"


@pytest.mark.parametrize("name", program.COMMANDS)
def test_every_command_says_in_its_help_what_the_list_says(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main([name, "--help"]) == 0
    assert f"Usage: heedmap {name} " in capsys.readouterr().out


@pytest.mark.parametrize("name", program.COMMANDS)
def test_help_of_a_command_needs_no_model_library(name: str) -> None:
    code = (
        f"from heedmap.cli.main import main; main([{name!r}, '--help']); import sys; sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["lok"], f"[heedmap] expected a command ({COMMANDS}), got 'lok'; did you mean look?"),
        (["xyz"], f"[heedmap] expected a command ({COMMANDS}), got 'xyz'; see heedmap --help"),
        (["--vers"], "[heedmap] expected an option it knows, got --vers; did you mean --version? see heedmap --help"),
        (["look"], "[heedmap look] expected 'TEXT', got nothing; see heedmap look --help"),
        (["look", "a", "b"], "[heedmap look] expected a command line it can read, got unexpected extra"),
        (["look", "a", "--token", "3"], "[heedmap look] expected an option it knows, got --token; did you mean"),
        (["look", "a", "--tokens", "0"], "[heedmap look] expected a usable '--tokens', got 0 is not in the range x>=1"),
        (["look", "a", "--tokens", "few"], "got 'few' is not a valid integer range; see heedmap look --help"),
        (
            ["look", "a", "--tokens"],
            "[heedmap look] expected a command line it can read, got option '--tokens' requires",
        ),
    ],
)
def test_a_mistyped_command_line_is_told_like_every_other_error(
    arguments: list[str], line: str, fails_with: Failing, capsys: pytest.CaptureFixture[str]
) -> None:
    fails_with(AssertionError("the command must not run"))
    assert program.main(arguments) == program.EXIT_ERROR
    out, err = capsys.readouterr()
    assert out == ""
    assert line in one_line(err)


@pytest.mark.parametrize("kind", [HeedmapError, *HeedmapError.__subclasses__()])
def test_every_error_of_the_house_is_one_line_and_exit_code_2(
    kind: type[HeedmapError], fails_with: Failing, capsys: pytest.CaptureFixture[str]
) -> None:
    fails_with(kind("open_run", expected="a run folder", got="runs/cat\nwithout run.json", do="make it anew"))
    assert program.main(["look", "a"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert one_line(err) == "[open_run] expected a run folder, got runs/cat without run.json; make it anew"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device"),
            "[heedmap] expected files that can be read and written, got No space left on device; "
            "free some space or choose another disk, then run it again",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "runs/cat"),
            "[heedmap] expected files that can be read and written, got Permission denied (runs/cat)",
        ),
    ],
)
def test_a_failing_disk_is_one_line(error: OSError, line: str) -> None:
    result = run(f"raise OSError({error.errno}, {error.strerror!r}, {error.filename!r})")
    assert result.returncode == 2
    assert one_line(result.stderr) == line


def test_a_defect_keeps_its_traceback(fails_with: Failing) -> None:
    fails_with(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        program.main(["look", "a"])
    fails_with(OSError("raised by hand, not by the system"))
    with pytest.raises(OSError, match="by hand"):
        program.main(["look", "a"])


def test_a_command_s_own_exit_code_is_kept(fails_with: Failing) -> None:
    fails_with(click.exceptions.Exit(3))
    assert program.main(["look", "a"]) == 3


def program_with(body: str) -> str:
    """A program that is heedmap, except that `heedmap look` does ``body``."""
    return textwrap.dedent(
        """
        import sys, time, click
        from heedmap.cli import main as program
        @click.command()
        def command():
        {body}
        program._LazyGroup.get_command = lambda self, ctx, name: command
        sys.exit(program.main(["look"]))
        """
    ).format(body=textwrap.indent(textwrap.dedent(body), "    "))


def run(body: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program_with(body)],
        **({"capture_output": True} | options),
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory as Linux has them")
@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("torch.empty(2**50)", r"got none left for 4503599627370496 bytes more"),
        ("bytearray(2**55)", "got none left"),
    ],
)
def test_memory_that_runs_out_is_one_line_and_exit_code_2(body: str, told: str) -> None:
    result = run(f"import torch; {body}" if "torch" in body else body)
    assert result.returncode == 2
    assert one_line(result.stderr).startswith("[heedmap] expected enough memory for this")
    assert told in result.stderr


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
def test_ctrl_c_is_one_line_and_exit_code_130() -> None:
    body = "print('started', flush=True); time.sleep(60)"
    with subprocess.Popen(
        [sys.executable, "-c", program_with(body)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert one_line(err) == "[heedmap] interrupted"


@pytest.mark.skipif(os.name != "posix", reason="pipes as POSIX has them")
@pytest.mark.parametrize("printed", ["'x' * 10_000_000", "'short'"])
def test_a_reader_who_leaves_ends_the_program_quietly(printed: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        result = run(f"click.echo({printed})", capture_output=False, stdout=writer, stderr=subprocess.PIPE)
    finally:
        os.close(writer)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.skipif(os.name != "posix", reason="file descriptors as POSIX has them")
def test_a_closed_output_is_no_error() -> None:
    body = "sys.stdout.write('seen by nobody'); click.echo('nor this')"
    result = run(body, capture_output=False, stderr=subprocess.PIPE, preexec_fn=lambda: os.close(1))
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's /dev/full")
@pytest.mark.parametrize("arguments", [["--help"], ["--version"], []])
def test_output_that_does_not_fit_is_an_error(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "heedmap", *arguments],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert result.returncode == 2
    assert "No space left on device" in one_line(result.stderr)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's /dev/full")
def test_the_exit_code_tells_when_even_stderr_is_lost() -> None:
    with Path("/dev/full").open("w") as full:
        result = run("raise program.HeedmapError('a', expected='b', got='c')", capture_output=False, stderr=full)
    assert result.returncode == 2


def test_a_warning_of_ours_is_one_line_and_others_keep_their_place() -> None:
    result = run("""
        import warnings
        from heedmap.errors import HeedmapWarning
        warnings.warn("the text begins twice", HeedmapWarning)
        warnings.warn("not ours")
        print("done")
    """)
    assert (result.returncode, result.stdout) == (0, "done\n")
    ours, *others = result.stderr.splitlines()
    assert ours == "warning: the text begins twice"
    assert "UserWarning: not ours" in others[0]


def test_a_terminal_without_the_letters_shows_question_marks() -> None:
    result = run("print('it → cat')", env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert (result.returncode, result.stdout, result.stderr) == (0, "it ? cat\n", "")
