"""The run folder that pins format version 1: today's reader reads it, today's writer writes the same."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors import safe_open

from heedmap.runs.reader import open_run
from heedmap.runs.tensors_file import open_tensors

GOLDEN = Path(__file__).parents[1] / "golden"
RUN = GOLDEN / "run-v1"


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(GOLDEN / "make_run.py"))


def test_todays_reader_reads_the_golden_run(script: dict[str, Any]) -> None:
    run = open_run(RUN)
    assert run.text == "나는 the cat"
    assert run.tokens.to_pydict() == script["TOKENS"]
    assert run.heads == [("self", 0, h) for h in range(4)] + [("self", 2, 1), ("self", 2, 3)] + [
        ("cross", 0, h) for h in range(4)
    ]
    assert run.meta["not_finite"] == {"layers.1.sinks.1": "-Infinity"}
    for layer in script["layers"]():
        number, part = layer.entry["layer"], layer.entry["part"]
        for index, head in enumerate(layer.entry["heads"]):
            np.testing.assert_allclose(run.weights(number, head, part=part), layer.weights[head], atol=1e-6)
            query = run.table("query", layer=number, head=head, part=part)
            rows = query.column("position").to_numpy()
            measured = layer.measurements["entropy"][0, index][rows]
            np.testing.assert_allclose(query.column("entropy").to_numpy(), measured, rtol=1e-5)
            np.testing.assert_allclose(
                run.map(number, head, part=part), layer.measurements["map_mean"][0, index], rtol=1e-5
            )


def test_todays_writer_writes_the_golden_run(script: dict[str, Any], tmp_path: Path) -> None:
    written = script["write"](tmp_path / "run")
    names = sorted(item.name for item in RUN.iterdir())
    assert sorted(item.name for item in written.path.iterdir()) == names
    golden = open_run(RUN)
    for name in names:
        if name.endswith(".parquet"):
            _same_table(RUN / name, written.path / name)
    without_sizes = {"files"}
    assert {k: v for k, v in written.meta.items() if k not in without_sizes} == {
        k: v for k, v in golden.meta.items() if k not in without_sizes
    }
    for name in ("inputs.safetensors", "maps.safetensors"):
        expected, found = open_tensors(RUN / name), open_tensors(written.path / name)
        assert list(found) == list(expected)
        for tensor in expected:
            assert found[tensor].kind == expected[tensor].kind
            np.testing.assert_allclose(found[tensor].array, expected[tensor].array, rtol=1e-5, err_msg=tensor)


def _same_table(golden: Path, written: Path) -> None:
    """Same columns, types, row groups, encodings and values; floats but for rounding."""
    expected, found = pq.ParquetFile(golden), pq.ParquetFile(written)
    assert found.schema_arrow.equals(expected.schema_arrow)
    assert found.num_row_groups == expected.num_row_groups
    for group in range(expected.num_row_groups):
        for column in range(len(expected.schema)):
            one, other = (file.metadata.row_group(group).column(column) for file in (expected, found))
            assert (other.compression, other.encodings) == (one.compression, one.encodings)
    one, other = expected.read(), found.read()
    for name in one.column_names:
        if pa.types.is_floating(one.schema.field(name).type):
            assert one.column(name).null_count == other.column(name).null_count
            np.testing.assert_allclose(
                other.column(name).to_numpy(), one.column(name).to_numpy(), rtol=1e-5, atol=1e-12
            )
        else:
            assert one.column(name).equals(other.column(name)), name


def test_the_golden_tensors_have_these_bytes() -> None:
    with safe_open(RUN / "inputs.safetensors", "np") as file:
        assert sorted(file.keys())[:4] == ["cross.0.key", "cross.0.query", "cross.0.row_max", "cross.0.row_sum"]
        assert file.get_tensor("self.0.query").shape == (4, 6, 4)
    bits = open_tensors(RUN / "inputs.safetensors")["self.2.query"]
    assert (bits.kind, bits.array.shape) == ("BF16", (2, 6, 4))
    assert (bits.array[:, :, 0] == 0x3F80).all()  # the number 1.0
