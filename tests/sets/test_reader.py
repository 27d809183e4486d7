"""A set opens whole or not at all, and says what is wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow.parquet as pq
import pytest

import heedmap
from heedmap.errors import InputError, RunError
from heedmap.runs.reader import open_run
from heedmap.sets.reader import is_set, open_set
from heedmap.sets.schema import TABLES, way_back


def test_every_table_opens_with_heads_and_columns_chosen(made_set) -> None:
    found = made_set()
    for name in TABLES:
        assert found.table(name).num_rows > 0, name
    one = found.table("heads", layer=1, head=2, columns=["text", "entropy"])
    assert one.column_names == ["text", "entropy"]
    assert one.num_rows == found.meta["texts"] == 22
    assert found.table("texts").num_rows == 24
    assert "22 texts, 8 heads" in repr(found)


def test_it_opens_in_pandas_and_polars_without_heedmap(made_set) -> None:
    found = made_set()
    means = {
        (row["layer"], row["head"]): row["mean"]
        for row in found.table("means").to_pylist()
        if row["statistic"] == "entropy"
    }
    by_pandas = pandas.read_parquet(found.path / "heads").groupby(["layer", "head"])["entropy"].mean()
    by_polars = (
        polars.scan_parquet(found.path / "heads")
        .group_by("layer", "head")
        .agg(polars.col("entropy").mean(), polars.col("shard").n_unique())
        .collect()
    )
    assert {key: pytest.approx(value, abs=1e-6) for key, value in by_pandas.items()} == means
    for layer, head, mean, shards in by_polars.iter_rows():
        assert mean == pytest.approx(means[layer, head], abs=1e-6)
        assert shards == 3


def test_texts_are_found_again_by_source_line_and_byte(made_set) -> None:
    found = made_set()
    content = Path(found.meta["plan"]["texts"]["where"]).read_bytes()
    for row in found.table("texts").to_pylist():
        line = json.loads(content[row["byte"] :].split(b"\n")[0])["text"]
        assert row["source"] == "texts.jsonl"
        if row["reason"] is None:
            assert row["excerpt"] == line[:200]
    reasons = [row["reason"] for row in found.table("texts").to_pylist() if row["reason"]]
    assert reasons == ["empty", "no text in 'text' but int"]


def test_maps_have_rows_that_sum_to_one(made_set) -> None:
    found = made_set()
    np.testing.assert_allclose(found.map(1, 3).sum(1), 1, atol=1e-5)
    with pytest.raises(InputError, match=r"0 heads 1\.9"):
        found.map(1, 9)


def test_the_text_that_is_an_example_most_often_is_stored_as_a_run(made_set) -> None:
    found = made_set()
    (stored,) = (found.path / "runs").iterdir()
    number = int(stored.name.removeprefix("text-"))
    assert found.stored(number) == stored
    assert found.stored(number + 1) is None
    texts = {row["text"]: row for row in found.table("texts").to_pylist()}
    assert open_run(stored).text == texts[number]["excerpt"]
    seen = [
        text for table in ("tops", "deciles") for text in found.table(table, columns=["text"]).column(0).to_pylist()
    ]
    assert seen.count(number) == max(map(seen.count, set(seen)))


def test_it_is_behind_the_public_door(made_set) -> None:
    assert heedmap.open_set(made_set().path).meta == made_set().meta
    assert isinstance(made_set(), heedmap.TextSet)


@pytest.mark.parametrize(
    ("name", "columns", "chosen", "line"),
    [
        ("rows", None, {}, "a table among texts, heads, means"),
        ("means", ["median"], {}, "got 'median'"),
        ("texts", None, {"layer": 1}, "texts without heads, got layer"),
    ],
)
def test_what_a_set_does_not_have_is_refused(made_set, name: str, columns: Any, chosen: Any, line: str) -> None:
    with pytest.raises(InputError) as caught:
        made_set().table(name, columns=columns, **chosen)
    assert line in str(caught.value)


def test_missing_foreign_and_unfinished_folders_are_told_apart(copied: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="which is none; check the name"):
        open_set(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunError, match=r"a set with set\.json"):
        open_set(tmp_path / "empty")
    assert not is_set(tmp_path / "empty")
    (copied / "set.json").unlink()
    assert is_set(copied)
    with pytest.raises(RunError, match=r"a finished set, got .* run its `heedmap scan` again"):
        open_set(copied)


HOSTILE = [
    ("format", "heedmap-run"),
    ("version", 2),
    ("version", None),
    ("heads", None),
    ("heads", [["self", 0]]),
    ("heads", [["self", "0", 1]]),
    ("heads", []),
    ("values", {"entropy": 1}),
    ("values", []),
    ("model", "minilm"),
    ("plan", None),
    ("shards", -1),
    ("shards", 1e300),
    ("texts", "many"),
    ("files", {"../../etc/passwd": 1}),
    ("files", {"/etc/passwd": 1}),
    ("files", {"totals/means.parquet": 1}),
    ("files", {"totals/means.parquet": None}),
    ("files", ["totals/means.parquet"]),
]


@pytest.mark.parametrize(("name", "value"), HOSTILE)
def test_a_manifest_that_lies_is_one_line(copied: Path, name: str, value: Any) -> None:
    manifest = copied / "set.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {name: value}))
    with pytest.raises(RunError) as caught:
        open_set(copied)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"[" * 100_000])
def test_a_manifest_that_is_none_is_one_line(copied: Path, content: bytes) -> None:
    (copied / "set.json").write_bytes(content)
    with pytest.raises(RunError):
        open_set(copied)


def test_a_damaged_table_is_told_when_it_is_read(copied: Path) -> None:
    found = open_set(copied)
    for file in ("totals/means.parquet", "totals/maps.safetensors"):
        size = (copied / file).stat().st_size
        (copied / file).write_bytes(b"x" * size)
    with pytest.raises(RunError, match="the table means"):
        found.table("means")
    with pytest.raises(RunError, match=r"the map of 0\.0"):
        found.map(0, 0)


@pytest.mark.parametrize("table", ["texts", "heads", "means", "profiles"])
def test_one_changed_byte_of_a_column_is_told(copied: Path, table: str) -> None:
    found = open_set(copied)
    file = found.files(table)[0]
    content, column = bytearray(file.read_bytes()), pq.ParquetFile(file).metadata.row_group(0).column(0)
    content[(column.dictionary_page_offset or column.data_page_offset) + column.total_compressed_size - 1] ^= 1
    file.write_bytes(content)
    says = r"shards/shard=00000\.json" if table in ("texts", "heads") else r"set\.json"
    with pytest.raises(RunError, match=f"the table {table}, whole in .*{file.name}.*; remove .*/{says} and run"):
        found.table(table)
    assert found.table(table, columns=["layer"] if table != "texts" else ["tokens"]).num_rows


@pytest.mark.parametrize("table", ["texts", "heads"])
def test_a_shard_that_is_gone_is_told_and_not_left_out_of_the_answer(copied: Path, table: str) -> None:
    found = open_set(copied)
    gone = found.files(table)[1]
    gone.unlink()
    with pytest.raises(RunError, match=r"shard=00001/part.parquet .* got none; run its `heedmap scan` again"):
        found.table(table)


def test_a_shard_of_which_no_text_was_measured_has_no_heads(copied: Path) -> None:
    found = open_set(copied)
    found.files("heads")[1].unlink()
    marker = copied / "shards" / "shard=00001.json"
    marker.write_text(re.sub(r'"texts": ?\d+', '"texts": 0', marker.read_text()))
    assert len(found.files("heads")) == found.meta["shards"] - 1


def test_the_way_back_goes_by_names_within_the_set_alone() -> None:
    folder = Path("shard=00007") / "set"
    assert "set/set.json and run" in way_back(folder, folder / "totals" / "means.parquet")
    assert "set/shards/shard=00001.json and run" in way_back(folder, folder / "heads/shard=00001/part.parquet")
    assert "set/shards/shard=00002.json and run" in way_back(folder, folder / "sums/shard=00002.safetensors")
