"""What is written comes back, in our reader and in others that have never heard of heedmap."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors import safe_open

from heedmap.errors import InputError
from heedmap.measurements import Quantity
from heedmap.runs.reader import Run, open_run
from heedmap.runs.writer import RunWriter


@pytest.fixture
def two_layers(dense: ModuleType, tmp_path: Path) -> Run:
    layers = [dense.make_layer(dense.CAUSAL, lambda q, k: k <= q, layer=layer, seed=layer) for layer in (0, 3)]
    return dense.write_run(tmp_path / "run", *layers)


def test_text_tokens_and_meta_come_back(two_layers: Run, dense: ModuleType) -> None:
    run = open_run(two_layers.path)
    assert run.text == dense.TEXT
    assert run.text_pair is None
    assert run.tokens.to_pydict() == dense.token_columns(12)
    assert run.meta["model"] == dense.META["model"]
    assert run.meta["text"]["characters"] == len(dense.TEXT)
    assert run.meta["text"]["tokens"] == 12
    assert run.meta["statistics"]["entropy"] == {"axis": "query", "unit": "nats", "over_rows": "mean"}
    assert run.heads == [("self", layer, head) for layer in (0, 3) for head in range(4)]


def test_tables_hold_what_was_measured(two_layers: Run, dense: ModuleType) -> None:
    measured = dense.make_layer(dense.CAUSAL, lambda q, k: k <= q, layer=3, seed=3).measurements
    query = two_layers.table("query", layer=3, head=2)
    for name in ("entropy", "max_weight", "argmax", "row_mass", "mean_distance", "row_max", "row_sum", "logsumexp"):
        np.testing.assert_array_equal(query.column(name).to_numpy(), measured[name][0, 2], err_msg=name)
    np.testing.assert_array_equal(query.column("position").to_numpy(), np.arange(12))
    key = two_layers.table("key", layer=3, head=2)
    np.testing.assert_array_equal(key.column("received").to_numpy(), measured["received"][0, 2])
    np.testing.assert_array_equal(key.column("rows_that_may_see").to_numpy(), np.arange(12, 0, -1))
    np.testing.assert_allclose(key.column("received_mean").to_numpy(), measured["received_mean"][0, 2], rtol=1e-7)
    distance = two_layers.table("distance", layer=3, head=2)
    np.testing.assert_array_equal(distance.column("distance").to_numpy(), np.arange(12))  # none ahead of the query
    np.testing.assert_array_equal(distance.column("distance_pairs").to_numpy(), np.arange(12, 0, -1))
    np.testing.assert_array_equal(
        distance.column("distance_profile").to_numpy(), measured["distance_profile"][0, 2, 11:]
    )
    mean = distance.column("distance_profile").to_numpy() / distance.column("distance_pairs").to_numpy()
    np.testing.assert_allclose(distance.column("distance_mean").to_numpy(), mean, rtol=1e-7)


def test_tables_have_the_types_of_the_specification(two_layers: Run) -> None:
    part = pa.dictionary(pa.int32(), pa.string())
    for name in ("head", "query", "key", "distance"):
        types = {field.name: field.type for field in two_layers.table(name).schema}
        assert list(types)[:3] == ["part", "layer", "head"]
        assert (types.pop("part"), types.pop("layer"), types.pop("head")) == (part, pa.int32(), pa.int32())
        whole = {"position", "distance", "argmax", "rows_that_may_see", "distance_pairs"}
        whole |= {"rows", "rows_empty"}
        double = set(types) if name == "head" else {"received", "distance_profile"}
        for column, kind in types.items():
            expected = pa.int32() if column in whole else pa.float64() if column in double else pa.float32()
            assert kind == expected, column


def test_head_table_holds_means_over_rows_that_may_attend(dense: ModuleType, tmp_path: Path) -> None:
    valid = np.arange(12) > 1
    layer = dense.make_layer({"kind": "causal", "offset": -4}, lambda q, k: k <= q - 4, valid=valid)
    head = dense.write_run(tmp_path / "run", layer).table("head", layer=0, head=1).to_pylist()[0]
    assert (head["rows"], head["rows_empty"]) == (10, 2)
    assert not any(name.startswith("rows_") and name != "rows_empty" for name in head)
    np.testing.assert_allclose(head["entropy"], layer.measurements["entropy"][0, 1, 4:].mean(dtype=np.float64))
    np.testing.assert_allclose(head["row_mass"], 1, rtol=1e-6)
    assert "logsumexp" not in head


def test_padding_rows_are_in_no_table(dense: ModuleType, tmp_path: Path) -> None:
    valid = np.arange(12) >= 3
    run = dense.write_run(tmp_path / "run", dense.make_layer(valid=valid))
    assert run.table("query", layer=0, head=0).column("position").to_pylist() == list(range(3, 12))
    assert not any(np.isnan(column.to_numpy()).any() for column in run.table("query").columns[3:])


def test_a_table_is_read_by_row_group(two_layers: Run) -> None:
    assert pq.ParquetFile(two_layers.path / "query.parquet").num_row_groups == 8
    assert two_layers.table("query").num_rows == 8 * 12
    assert two_layers.table("query", layer=3).num_rows == 4 * 12
    one = two_layers.table("query", layer=3, head=1, part="self", columns=["position", "entropy"])
    assert one.column_names == ["position", "entropy"]
    assert one.num_rows == 12
    assert two_layers.table("head").num_rows == 8
    assert two_layers.table("head", layer=3, head=1).column("head").to_pylist() == [1]
    assert two_layers.table("query", layer=3, head=1).to_pandas()["entropy"].dtype == np.float32


@pytest.mark.parametrize("what", [{"part": "cross"}, {"head": 99}, {"part": "self", "head": -1}])
def test_a_table_of_what_is_not_there_is_refused_rather_than_empty(what: dict[str, Any], two_layers: Run) -> None:
    for name in ("head", "query", "key", "distance"):
        with pytest.raises(InputError, match=f"a head that was looked at, of self, got .*{list(what.values())[-1]}"):
            two_layers.table(name, **what)


def test_maps_come_back(two_layers: Run, dense: ModuleType) -> None:
    measured = dense.make_layer(dense.CAUSAL, lambda q, k: k <= q, layer=3, seed=3).measurements
    for kind in ("mean", "max"):
        np.testing.assert_allclose(two_layers.map(3, 1, kind), measured[f"map_{kind}"][0, 1], rtol=1e-7)
    area = two_layers.map(3, 1, "area")
    np.testing.assert_array_equal(area, measured["map_area"][0, 0])
    assert (area.dtype, int(area.sum())) == (np.int32, 144)
    with pytest.raises(InputError, match="expected a map among max, area, mean, got 'median'"):
        two_layers.map(3, 1, "median")


def test_cross_attention_has_null_where_a_statistic_is_not_defined(dense: ModuleType, tmp_path: Path) -> None:
    cross = dense.make_layer(part="cross", layer=0, key_len=7, cross=True, key_sequence="source", seed=1)
    own = dense.make_layer(part="self", layer=0, seed=2)
    for name, layers in (("first", (cross, own)), ("last", (own, cross))):
        run = dense.write_run(tmp_path / name, *layers)
        query = run.table("query", layer=0, head=0, part="cross")
        assert query.column("mean_distance").null_count == 12
        assert run.table("query", layer=0, head=0, part="self").column("mean_distance").null_count == 0
        np.testing.assert_array_equal(query.column("entropy").to_numpy(), cross.measurements["entropy"][0, 0])
        assert run.table("distance", part="cross").num_rows == 0
        assert run.table("distance", part="self").num_rows == 4 * 23
        assert run.layer(0, "cross").key_sequence == "source"
        assert run.map(0, 0, part="cross").shape == (5, 5)
        np.testing.assert_allclose(run.weights(0, 3, part="cross"), cross.weights[3], atol=1e-6)
        assert list((tmp_path / name).glob("*.wider")) == []


def test_a_statistic_with_several_values_a_row_is_a_list_column(dense: ModuleType, tmp_path: Path) -> None:
    layer = dense.make_layer()
    top = np.arange(4 * 12 * 3).reshape(1, 4, 12, 3)
    extra = {"top_keys": Quantity(top, ("batch", "head", "query", "rank"), "query", "position", "row")}
    measurements = type(layer.measurements)(layer.measurements.quantities | extra, layer.measurements.ratios)
    run = dense.write_run(tmp_path / "run", type(layer)(**(vars(layer) | {"measurements": measurements})))
    column = run.table("query", layer=0, head=2).column("top_keys")
    assert column.type == pa.list_(pa.int32(), 3)
    assert column.to_pylist() == top[0, 2].tolist()
    assert duckdb.sql(f"select top_keys[1] from '{run.path}/query.parquet' where head = 2").limit(1).fetchall() == [
        (72,)
    ]


def test_a_share_that_some_rows_lack_names_its_denominator(dense: ModuleType, tmp_path: Path) -> None:
    plain, other = dense.make_layer(), dense.make_layer(layer=1)
    values = np.arange(48.0).reshape(1, 4, 12).astype(np.float32)
    values[:, :3, 0] = np.nan
    by_span = np.stack([values, 1 - values], -1)
    extra = {
        "previous": Quantity(values, ("batch", "head", "query"), "query", "weight", "row", over_rows="mean"),
        "max_score": Quantity(values, ("batch", "head", "query"), "query", "logit", "row", over_rows="max"),
        "span_mass": Quantity(
            by_span, ("batch", "head", "query", "span"), "query", "weight", "row", ("system", "question"), "mean"
        ),
    }
    measurements = type(other.measurements)(other.measurements.quantities | extra, other.measurements.ratios)
    run = dense.write_run(tmp_path / "run", plain, type(other)(**(vars(other) | {"measurements": measurements})))
    assert run.table("head", layer=0).column("rows_previous").null_count == 4
    head = run.table("head", layer=1).to_pydict()
    assert head["rows_previous"] == [11, 11, 11, 12]
    assert head["previous"] == [6.0, 18.0, 30.0, 41.5]
    assert head["max_score"] == [11.0, 23.0, 35.0, 47.0]
    assert head["span_mass"][3] == [41.5, -40.5]
    np.testing.assert_allclose(head["entropy"][0], other.measurements["entropy"][0, 0].mean(dtype=np.float64))
    assert run.meta["statistics"]["span_mass"]["labels"] == ["system", "question"]


@pytest.mark.parametrize("stored", ["all heads", "measured heads"])
def test_a_choice_of_heads_is_kept(stored: str, dense: ModuleType, tmp_path: Path) -> None:
    layer = dense.make_layer(heads=[1, 3])
    query = layer.query if stored == "all heads" else layer.query[[1, 3]]
    run = dense.write_run(tmp_path / "run", type(layer)(**(vars(layer) | {"query": query})))
    assert run.heads == [("self", 0, 1), ("self", 0, 3)]
    np.testing.assert_allclose(run.weights(0, 3), layer.weights[3], atol=1e-6)
    np.testing.assert_array_equal(
        run.table("query", layer=0, head=3).column("entropy").to_numpy(), layer.measurements["entropy"][0, 1]
    )
    with pytest.raises(InputError, match=r"a head of layer 0 that was looked at: 1, 3, got 2"):
        run.weights(0, 2)


def test_duckdb_reads_every_table(two_layers: Run) -> None:
    tables = {name: two_layers.table(name) for name in ("head", "query", "key", "distance")}
    for name, table in tables.items():
        path = two_layers.path / f"{name}.parquet"
        read = duckdb.sql(f"select * from '{path}'").to_arrow_table()
        assert read.column_names == table.column_names
        for column in table.column_names[3:]:
            np.testing.assert_array_equal(read.column(column).to_numpy(), table.column(column).to_numpy())
    rows = duckdb.sql(
        f"""select q.layer, q.head, avg(q.entropy), any_value(h.entropy)
        from '{two_layers.path}/query.parquet' q join '{two_layers.path}/head.parquet' h using (part, layer, head)
        where part = 'self' group by all"""
    ).fetchall()
    assert len(rows) == 8
    for _, _, average, stored in rows:
        assert average == pytest.approx(stored, rel=1e-6)
    tokens = duckdb.sql(f"select text from '{two_layers.path}/tokens.parquet' where not special").fetchall()
    assert len(tokens) == 10


def test_pandas_reads_every_table(two_layers: Run) -> None:
    for name in ("head", "query", "key", "distance"):
        frame = pd.read_parquet(two_layers.path / f"{name}.parquet")
        assert len(frame) == two_layers.table(name).num_rows
        assert set(frame["part"]) == {"self"}
    assert pd.read_parquet(two_layers.path / "tokens.parquet")["special"].dtype == bool


def test_the_safetensors_library_reads_the_tensors(two_layers: Run, dense: ModuleType) -> None:
    layer = dense.make_layer(dense.CAUSAL, lambda q, k: k <= q, layer=3, seed=3)
    with safe_open(two_layers.path / "inputs.safetensors", "np") as file:
        assert len(file.keys()) == 8
        np.testing.assert_array_equal(file.get_tensor("self.3.query"), layer.query)
        np.testing.assert_array_equal(file.get_tensor("self.3.key"), layer.key)
        np.testing.assert_array_equal(file.get_tensor("self.3.row_max"), layer.measurements["row_max"][0])
    with safe_open(two_layers.path / "maps.safetensors", "np") as file:
        assert file.get_tensor("self.0.mean").shape == (4, 5, 5)


def test_numbers_that_json_lacks_are_null_and_noted(dense: ModuleType, tmp_path: Path) -> None:
    meta = dense.META | {"self_check": {"max_abs_error": float("nan"), "budget": np.float32(1e-5), "seen": [np.inf]}}
    layer = dense.make_layer(sinks=[0.0, -np.inf, 1.0, 2.0])
    run = dense.write_run(tmp_path / "run", layer, meta=meta)
    text = (run.path / "run.json").read_text()
    assert not {"NaN", "Infinity"} & {str(value) for value in json.loads(text, parse_constant=str).values()}
    assert run.meta["self_check"]["max_abs_error"] is None
    assert run.meta["self_check"]["budget"] == pytest.approx(1e-5)
    assert run.meta["not_finite"] == {
        "self_check.max_abs_error": "NaN",
        "self_check.seen.0": "Infinity",
        "layers.0.sinks.1": "-Infinity",
    }
    assert run.layers[0].sinks == (0.0, None, 1.0, 2.0)
    np.testing.assert_allclose(run.weights(0, 1), layer.weights[1], atol=1e-6)


def test_a_pair_keeps_both_texts_and_lines_end_as_they_did(dense: ModuleType, tmp_path: Path) -> None:
    layer = dense.make_layer()
    with RunWriter(tmp_path / "run") as writer:
        writer.source("나는\r\n사과를 먹었다 🍎", "second\n")
        writer.tokens(dense.token_columns(12) | {"sequence": ["text"] * 12})
        writer.layer(layer.entry, layer.measurements)
        run = writer.finish({})
    assert (run.text, run.text_pair) == ("나는\r\n사과를 먹었다 🍎", "second\n")
    assert run.tokens.column("sequence").to_pylist() == ["text"] * 12
    assert not (run.path / "inputs.safetensors").exists()


def test_without_inputs_the_tables_and_maps_are_there(dense: ModuleType, tmp_path: Path) -> None:
    run = dense.write_run(tmp_path / "run", dense.make_layer(), keep_inputs=False)
    assert sorted(item.name for item in run.path.iterdir()) == [
        "distance.parquet",
        "head.parquet",
        "key.parquet",
        "maps.safetensors",
        "query.parquet",
        "run.json",
        "text.txt",
        "tokens.parquet",
    ]
    assert run.table("query").num_rows == 48
    assert run.layers[0].inputs is False


def test_errors_name_what_there_is(two_layers: Run) -> None:
    cases = [
        (lambda: two_layers.table("rows"), "a table among head, query, key, distance, got 'rows'"),
        (lambda: two_layers.table("query", layer=1), "a layer that was looked at: 0, 3, got 1"),
        (lambda: two_layers.table("query", layer=0, head=4), "a head of layer 0 that was looked at: 0-3, got 4"),
        (lambda: two_layers.table("query", columns=["entropi"]), "a column among part, layer, head"),
        (lambda: two_layers.layer(0, "cross"), "a part among self, got 'cross'"),
    ]
    for call, message in cases:
        with pytest.raises(InputError) as caught:
            call()
        assert message in str(caught.value)
