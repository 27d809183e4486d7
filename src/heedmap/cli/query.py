"""``heedmap query``: questions to a set in SQL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


@click.command(short_help="Ask a set of texts in SQL.")
@click.argument("set", metavar="SET", type=click.Path(path_type=Path))
@click.argument("question", metavar="[SQL]", required=False)
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, all rows.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, all rows.")
def command(set: Path, question: str | None, as_csv: bool, as_json: bool) -> None:  # noqa: A002 — the argument's name
    """Answer SQL over the views of SET; without SQL, list the views and their columns.

    \b
    heedmap query sets/reviews
    heedmap query sets/reviews "SELECT layer, head, mean FROM means WHERE statistic = 'previous' ORDER BY mean DESC"

    docs/sets.md has ten worked examples. Needs DuckDB: pip install 'heedmap[sql]'.
    """
    if as_csv and as_json:
        raise click.UsageError("--csv and --json exclude each other")
    from heedmap.cli.answers import print_csv, print_json, print_table
    from heedmap.sets.reader import open_set
    from heedmap.sets.sql import asking

    found = open_set(set)
    show = print_json if as_json else print_csv if as_csv else print_table
    if question is None:
        columns, rows = _views(found)
        show(columns, iter(rows))
        return
    with asking(found, question) as (columns, answer):
        show(columns, answer)


def _views(found: Any) -> tuple[list[str], list[tuple[Any, ...]]]:
    from heedmap.sets.sql import VIEWS, connect

    connection = connect(found)
    rows = []
    for name, says in VIEWS.items():
        columns = connection.execute(f"SELECT * FROM {name} LIMIT 0").description
        rows.append((name, says, ", ".join(column[0] for column in columns)))
    connection.close()
    return ["view", "a row", "columns"], rows
