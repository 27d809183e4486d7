"""`heedmap view`: open runs in the browser."""

from __future__ import annotations

import contextlib
import webbrowser
from pathlib import Path

import click

from heedmap.runs.reader import open_run
from heedmap.view.server import ViewServer


@click.command("view")
@click.argument("runs", metavar="RUN…", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--open", "open_browser", is_flag=True, help="Open the page in the default browser.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port to listen on; 0 takes a free one.")
def command(runs: tuple[Path, ...], open_browser: bool, port: int) -> None:
    """Show runs in the browser: a local server, on this machine only, until Ctrl-C.

    With several runs of one text they can be compared.
    """
    with ViewServer([open_run(path) for path in runs], port) as server:
        click.echo(f"{server.url}  (Ctrl-C ends it)")
        if open_browser:
            webbrowser.open(server.url)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever(poll_interval=0.2)
