"""``heedmap query``: questions to a set in SQL."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import click

_SHOWN = 200


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
    from heedmap.sets.reader import open_set
    from heedmap.sets.sql import asking

    found = open_set(set)
    show = _print_json if as_json else _print_csv if as_csv else _print
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


def _print_json(columns: list[str], rows: Iterator[tuple[Any, ...]]) -> None:
    from heedmap.cli import lesson

    lesson.write_json({"columns": columns, "rows": [[_plain(cell) for cell in row] for row in rows]})


def _print_csv(columns: list[str], rows: Iterator[tuple[Any, ...]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)


def _print(columns: list[str], rows: Iterator[tuple[Any, ...]]) -> None:
    from heedmap.cli import lesson
    from heedmap.cli.summary import printable

    shown = list(islice(rows, _SHOWN))
    more = sum(1 for _ in rows)
    table = lesson.new_table(*columns)
    table.columns[0].no_wrap = True
    for place, column in enumerate(table.columns):
        numbers = all(isinstance(row[place], int | float) or row[place] is None for row in shown)
        column.justify = "right" if numbers and shown else "left"
        column.no_wrap = place == 0 or numbers
    for row in shown:
        table.add_row(*(printable(_shown(cell)) for cell in row))
    page = lesson.console()
    page.print(table)
    if more > 0:
        page.print(f"… and {more:,} more rows; --csv prints all")


def _shown(cell: Any) -> str:
    if cell is None:
        return "–"
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)


def _plain(cell: Any) -> Any:
    return cell if cell is None or isinstance(cell, str | int | float | bool) else str(cell)
