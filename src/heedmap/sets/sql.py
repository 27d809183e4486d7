"""Questions to a set in SQL: DuckDB over its Parquet files, one view a table."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import chain
from typing import Any

from heedmap.errors import InputError, UnsupportedError
from heedmap.sets.reader import TextSet
from heedmap.sets.schema import HEADS, TABLES, TEXTS

WHERE = "query"
VIEWS = {
    "texts": "one row a text: where it stands in its source, its tokens, or the reason why it was left out",
    "heads": "one row a text and head: every value of the head in that text",
    "means": "one row a head and statistic: mean over texts, its 95 % interval, deviation, extremes",
    "deciles": "one row a head, statistic and decile: the value there, and the text that has it",
    "tops": "one row a head, statistic, side and rank: the texts with the highest and lowest values",
    "profiles": "one row a head and bin of distances: weight, pairs and mean weight over all texts",
    "entropies": "one row a head and bin of entropy: how many rows of all texts",
    "kinds": "one row a head and kind of token: what such tokens receive",
    "types": "one row a head and type: in how many texts it is of that type",
    "runs": "one row a stored run: its text and its folder",
    "about": "one row: model, texts, tokens, shards, version",
}
"""View → what a row of it is, in the order of the documentation."""
_FETCHED = 4096
"""Rows of an answer that are held at once."""
_ASKING = ("FROM", "PIVOT", "PIVOT_WIDER", "SELECT", "WITH")


def connect(found: TextSet) -> Any:
    """A DuckDB connection with the views of `VIEWS`.

    Raises:
        UnsupportedError: duckdb is not installed.
    """
    try:
        duckdb = import_module("duckdb")
    except ModuleNotFoundError as error:
        raise UnsupportedError(
            WHERE, expected="the package duckdb for questions in SQL", got="none", do='pip install "heedmap[sql]"'
        ) from error
    connection = duckdb.connect()
    for name in (TEXTS, HEADS, *TABLES):
        files = ", ".join(_quoted(_plain(str(file.resolve()))) for file in found.files(name))
        hive = "true" if name in (TEXTS, HEADS) else "false"
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet([{files}], hive_partitioning = {hive})")
    connection.execute("CREATE TABLE runs (text BIGINT, path VARCHAR)")
    for number, path in stored(found):
        connection.execute("INSERT INTO runs VALUES (?, ?)", [number, path])
    meta = found.meta
    connection.execute(
        "CREATE TABLE about (model VARCHAR, revision VARCHAR, texts BIGINT, refused BIGINT, tokens BIGINT, "
        "heads BIGINT, shards BIGINT, heedmap VARCHAR, created VARCHAR, plan VARCHAR)"
    )
    connection.execute(
        f"INSERT INTO about VALUES ({', '.join('?' * 10)})",
        [
            meta["model"].get("name"), meta["model"].get("revision"), meta["texts"], meta["refused"], meta["tokens"],
            len(found.heads), meta["shards"], meta.get("heedmap"), meta.get("created"), json.dumps(meta["plan"]),
        ],
    )  # fmt: skip
    return connection


def stored(found: TextSet) -> Iterator[tuple[int, str]]:
    """Text and folder of every stored run."""
    folder = found.path / "runs"
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if (match := re.fullmatch(r"text-(\d+)", path.name)) is not None:
            yield int(match[1]), str(path)


@contextmanager
def asking(found: TextSet, question: str) -> Iterator[tuple[list[str], Iterator[tuple[Any, ...]]]]:
    """The names of the columns and the rows of the answer, which are fetched as they are taken, within the block.

    Raises:
        InputError: SQL that DuckDB does not take, that asks nothing or several things, or that would change something.
        UnsupportedError: duckdb is not installed.
    """
    connection = connect(found)
    duckdb = import_module("duckdb")
    try:
        _check_asks(duckdb, connection.extract_statements(question))
        answer = connection.execute(question)
        first = answer.fetchmany(_FETCHED)  # before anything is printed: here a question that fails mostly does
        rest = iter(lambda: answer.fetchmany(_FETCHED), [])
        yield [column[0] for column in answer.description], chain(first, chain.from_iterable(rest))
    except duckdb.Error as error:
        raise InputError(
            WHERE,
            expected="SQL that DuckDB takes",
            got=" ".join(str(error).split())[:400],
            do=f'views: {", ".join(VIEWS)}; columns whose names are words of SQL stand in quotes, as "positional"',
        ) from error
    finally:
        connection.close()


def _check_asks(duckdb: Any, statements: list[Any]) -> None:
    """One statement that only reads; of several DuckDB would answer the last alone, and COPY writes files.

    Raises:
        InputError: any other SQL.
    """
    do = 'try "SELECT * FROM means LIMIT 5"'
    if len(statements) != 1:
        got = f"{len(statements)} statements" if statements else "nothing"
        raise InputError(WHERE, expected="a question in SQL", got=got, do="ask one at a time" if statements else do)
    (statement,) = statements
    first = re.sub(r"--[^\n]*|/\*.*?\*/|\(", " ", statement.query, flags=re.DOTALL).split()[0].upper()
    # PIVOT is of the kind MULTI, as is what would store its answer
    pivot = statement.type == duckdb.StatementType.MULTI and first in _ASKING
    if statement.type != duckdb.StatementType.SELECT and not pivot:
        raise InputError(WHERE, expected="SQL that only asks: SELECT …", got=first, do=do)


def _plain(path: str) -> str:
    """A path in which no letter stands for others."""
    return re.sub(r"([*?\[])", r"[\1]", path)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
