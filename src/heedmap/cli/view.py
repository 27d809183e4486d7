"""`heedmap view`: open runs in the browser."""

from __future__ import annotations

import contextlib
import webbrowser
from pathlib import Path

import click

from heedmap.errors import InputError
from heedmap.runs.reader import open_run
from heedmap.sets.reader import is_set, open_set
from heedmap.view.server import ViewServer
from heedmap.view.set_server import SetServer


@click.command("view")
@click.argument("runs", metavar="RUN…", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--open", "open_browser", is_flag=True, help="Open the page in the default browser.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port to listen on; 0 takes a free one.")
def command(runs: tuple[Path, ...], open_browser: bool, port: int) -> None:
    """Show runs in the browser: a local server, on this machine only, until Ctrl-C.

    With several runs of one text they can be compared. One set of texts (heedmap scan) opens like a run.
    """
    sets = [path for path in runs if is_set(path)]
    if sets and len(runs) > 1:
        raise InputError("view", expected="one set of texts, or runs", got=f"{sets[0]} and {len(runs) - 1} more")
    with SetServer(open_set(sets[0]), port) if sets else ViewServer(list(map(open_run, runs)), port) as server:
        click.echo(f"{server.url}  (Ctrl-C ends it)")
        if open_browser:
            webbrowser.open(server.url)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever(poll_interval=0.2)
