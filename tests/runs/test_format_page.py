"""The specification names everything that the code writes, with the types that it writes."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heedmap.runs import formula, schema
from heedmap.runs.manifest import LayerInfo
from heedmap.runs.reader import open_run

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "format.md").read_text(encoding="utf-8")
GOLDEN = ROOT / "tests" / "golden" / "run-v1"


def _section(title: str) -> str:
    return re.split(r"\n#+ ", PAGE[PAGE.index(title) :])[0]


def _columns(title: str) -> dict[str, str]:
    """Column → type in the first table of a section."""
    rows = re.findall(r"^\| (`[^|]+`) \| (\w+) \|", _section(title), flags=re.MULTILINE)
    return {name: kind for names, kind in rows for name in re.findall(r"`(\w+)`", names)}


def _types(path: Path) -> dict[str, str]:
    names = {pa.string(): "string", pa.bool_(): "bool"}
    names |= {getattr(pa, kind)(): kind for kind in ("int32", "float32", "float64")}
    return {field.name: names.get(field.type, str(field.type)) for field in pq.read_schema(path)}


@pytest.mark.parametrize("table", ["query", "key", "distance", "tokens"])
def test_the_page_lists_every_column_with_its_type(table: str) -> None:
    documented = _columns(f"`{table}.parquet`: one row")
    written = _types(GOLDEN / f"{table}.parquet")
    for name in ("part", "layer", "head"):
        written.pop(name, None)
    assert written.items() <= documented.items()


def test_the_page_names_every_default_statistic() -> None:
    from heedmap.statistics.catalogue import DEFAULT

    for statistic in DEFAULT:
        name = statistic if isinstance(statistic, str) else statistic.name
        if name not in schema.NOT_STORED:
            assert f"`{name}`" in PAGE or f"`.{name.removeprefix('map_')}`" in PAGE, name


def test_the_page_names_every_file_entry_type_and_mask() -> None:
    meta = open_run(GOLDEN).meta
    for name in [
        *schema.FILES,
        *schema.TENSOR_TYPES,
        *formula.KINDS,
        *meta,
        *LayerInfo.__dataclass_fields__,
        "rows",
        "rows_empty",
    ]:
        assert f"`{name}`" in PAGE, name
    assert f"version {schema.VERSION}" in PAGE
