"""The program ``heedmap``: finds its commands, and turns every expected failure into one line and an exit code."""

from __future__ import annotations

import difflib
import errno
import io
import os
import re
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import TextIO

import click

from heedmap import __version__
from heedmap.errors import HeedmapError, InputError, StorageError

# name → what it does, in the order of `heedmap --help`; a command's module is imported only when it is called
COMMANDS = {
    "look": "Look at a text: measure every head of a model over it and print what stands out.",
    "show": "Print the summary of a run again.",
    "view": "Open runs in the browser: every head, down to single weights.",
    "export": "Write runs into one HTML file that works from disk.",
    "heads": "Say what each head of a run does, or probe a model for induction heads.",
    "spans": "Say which passage each token of a run read, by head.",
    "syntax": "Find the heads that follow relations of grammar, on a gold treebank.",
    "rollout": "Follow what reaches one token of a run through all layers.",
    "similar": "Map the heads of a run by how alike they attend, and group them.",
    "sinks": "Measure what the first tokens of a text get from every head.",
    "induction": "Find the heads that copy, on repeated random tokens, and what a model loses without them.",
    "retrieval": "Find the heads that fetch a needle from a haystack while a model answers.",
    "scan": "Measure what every head does over many texts: a file, a folder, a data set.",
    "query": "Ask a set of texts in SQL.",
    "compare": "Say how heads changed between two sets of the same texts.",
    "coreference": "Find the heads that look from a mention to its antecedent, on gold data.",
    "statistics": "List what can be measured: formula, unit, axis and source of each statistic.",
    "describe": "Say what kind of attention a model has, layer by layer, or how two models differ.",
    "scaling": "Measure why scores are divided by √d_k, on random vectors or on a model's own heads.",
    "complexity": "Measure how time and memory grow with length, for three ways to attend.",
    "plan": "Predict memory and time of a model on a text of N tokens, before anything runs.",
    "bench": "Time the sweep beside the other ways to attend, on this machine.",
    "doctor": "Say what this installation has, and what to do about what it lacks.",
}

EXIT_ERROR = 2
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells report it


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return import_module(f"heedmap.cli.{cmd_name}").command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not args[0].startswith("-") and args[0] not in COMMANDS:
            close = difflib.get_close_matches(args[0], COMMANDS)
            raise InputError(
                ctx.command_path,
                expected=f"a command ({', '.join(COMMANDS)})",
                got=repr(args[0]),
                do=f"did you mean {close[0]}?" if close else f"see {ctx.command_path} --help",
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="heedmap %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """See what every attention head attends to: exact statistics of any text, in memory linear in its length."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0: done, or the reader of the output has gone. 2: an error the user can act on, one line on stderr. 130: Ctrl-C.
    Any other exception is a defect and keeps its traceback.
    """
    if sys.stdout is None:  # closed by whoever started us, who wants no output
        sys.stdout = io.TextIOWrapper(io.FileIO(os.devnull, "w"), encoding="utf-8")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without "→" shows "?", not a traceback
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            code = _invoke(arguments)
        sys.stdout.flush()  # here, where a failure can be told, and not while Python shuts down
        return code
    except (KeyboardInterrupt, click.Abort):
        return _fail("[heedmap] interrupted", EXIT_INTERRUPTED)
    except HeedmapError as error:
        return _fail(str(error))
    except click.ClickException as error:
        return _fail(str(_as_input_error(error, arguments)))
    except BrokenPipeError:
        _silence(sys.stdout)
        return 0
    except (MemoryError, RuntimeError) as error:
        if not _ran_out_of_memory(error):
            raise
        return _fail(str(_as_memory_error(error)))
    except OSError as error:
        if error.errno is None:  # raised by hand in some library, not by the system: a defect here
            raise
        _silence(sys.stdout)
        return _fail(str(_as_storage_error(error)))


def _invoke(arguments: list[str]) -> int:
    given = tuple(arguments)  # parsing takes them out of their list
    try:
        with cli.make_context("heedmap", arguments) as context:
            context.meta["heedmap.arguments"] = given  # tables state the command that made them
            cli.invoke(context)
    except click.exceptions.Exit as stop:  # --help, --version, or a command's own exit code
        return stop.exit_code
    return 0


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Our own warnings are for the reader of the terminal: a line, without the place in the code."""
    if category.__module__.partition(".")[0] == "heedmap":
        click.echo(f"warning: {message}", err=True)
    else:
        click.echo(warnings.formatwarning(message, category, filename, lineno, line), err=True, nl=False)


def _fail(line: str, code: int = EXIT_ERROR) -> int:
    try:
        click.echo(line, err=True)
    except OSError:  # nobody is left to read it; the exit code still tells
        _silence(sys.stderr)
    return code


def _silence(stream: TextIO | None) -> None:
    """Point a stream that failed at nothing, so that the flush at shutdown does not fail once more."""
    if stream is None:
        return
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):  # not a file, or closed: nothing will be flushed
        return
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, descriptor)
    os.close(nothing)


def _as_input_error(error: click.ClickException, arguments: Sequence[str]) -> InputError:
    """Say a mistake on the command line in the words of every other error."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = [name for name in arguments[:1] if name in COMMANDS]  # click's parser does not always say which
    where = context.command_path if context is not None else " ".join(["heedmap", *command])
    see = f"see {where} --help"
    match error:
        case click.NoSuchOption():
            close = f"did you mean {' or '.join(error.possibilities)}? " if error.possibilities else ""
            return InputError(where, expected="an option it knows", got=error.option_name, do=close + see)
        case click.MissingParameter():
            name = error.param.get_error_hint(context) if error.param is not None and context is not None else "more"
            return InputError(where, expected=name, got="nothing", do=see)
        case click.BadParameter():
            hint = error.param_hint or (error.param.get_error_hint(context) if error.param and context else None)
            name = " / ".join([hint] if isinstance(hint, str) else hint or ["arguments"])
            return InputError(where, expected=f"a usable {name}", got=_phrase(error.message), do=see)
        case _:
            return InputError(where, expected="a command line it can read", got=_phrase(error.format_message()), do=see)


def _phrase(message: str) -> str:
    """A sentence of click's as the middle of one of ours."""
    message = message.removeprefix("Got ").rstrip(".")
    return message[:1].lower() + message[1:]


def _ran_out_of_memory(error: MemoryError | RuntimeError) -> bool:
    """Python says so by the kind of its error, torch only in the text of one."""
    return isinstance(error, MemoryError) or "t allocate memory" in str(error) or "out of memory" in str(error)


def _as_memory_error(error: MemoryError | RuntimeError) -> HeedmapError:
    found = re.search(r"(?:tried|Tried) to allocate ([0-9.]+ ?[A-Za-z]+)", str(error))
    return HeedmapError(
        "heedmap",
        expected="enough memory for this",
        got="none left" + ("" if found is None else f" for {found[1]} more"),
        do="take a shorter text or smaller sizes; heedmap plan tells what a model needs",
    )


def _as_storage_error(error: OSError) -> StorageError:
    place = f" ({error.filename})" if error.filename is not None else ""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return StorageError(
        "heedmap",
        expected="files that can be read and written",
        got=f"{error.strerror or error}{place}",
        do="free some space or choose another disk, then run it again" if full else None,
    )


if __name__ == "__main__":
    sys.exit(main())
