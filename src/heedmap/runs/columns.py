"""From the measurements of one layer to the columns of its tables, one head at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from heedmap.measurements import Measurements
from heedmap.runs.manifest import LayerInfo
from heedmap.runs.schema import NOT_STORED, MalformedError

Array = np.ndarray[Any, Any]
Columns = dict[str, Array]


class LayerColumns:
    """Tables of one layer. Rows of padding are left out of `query`, distances without an allowed pair of `distance`."""

    def __init__(self, measurements: Measurements, info: LayerInfo) -> None:
        """Check that these are the measurements of one text that fit the layer. Raises `MalformedError`."""
        self._info = info
        self._over_rows = {name: measurements.quantity(name).over_rows for name in measurements}
        self._by_axis: dict[str, Columns] = {"query": {}, "key": {}, "distance": {}, "cell": {}}
        sizes = {"query": (info.query_len,), "key": (info.key_len,)}
        for name in measurements:
            if name in NOT_STORED:
                continue
            quantity = measurements.quantity(name)
            values = self._one_text(name, quantity.values)
            if values.shape[1:2] != sizes.get(quantity.axis, values.shape[1:2]):
                raise MalformedError(
                    f"{name} over {sizes[quantity.axis][0]} {quantity.axis} positions", f"{values.shape[1]}"
                )
            kept_exact = quantity.reduction == "sum" or name in ("row_max", "row_sum")
            if values.dtype == np.float64 and not kept_exact:
                values = values.astype(np.float32)
            self._by_axis[quantity.axis][name] = values
        missing = {"row_max", "row_sum"} - set(measurements)
        if missing:
            raise MalformedError("measurements with row_max and row_sum", f"none of {sorted(missing)}")
        self._valid = (
            np.asarray(measurements["row_valid"])[0]
            if "row_valid" in measurements
            else ~np.isnan(self._by_axis["query"]["row_sum"][0])
        )
        self._distances = np.asarray(measurements["distances"]) if "distances" in measurements else None

    def _one_text(self, name: str, values: Array) -> Array:
        """`[head, …]` of a batch of one."""
        if values.ndim < 3 or values.shape[0] != 1:
            raise MalformedError(f"{name} of one text, [1, heads, …]", f"{list(values.shape)}")
        if values.shape[1] not in (1, len(self._info.heads), self._info.query_heads):
            raise MalformedError(f"{name} of {len(self._info.heads)} heads", f"{values.shape[1]}")
        return values[0]

    def _of(self, axis: str, index: int) -> Columns:
        return {name: self._pick(values, index) for name, values in self._by_axis[axis].items()}

    def _pick(self, values: Array, index: int) -> Array:
        if values.shape[0] == 1:
            return values[0]
        return values[index if values.shape[0] == len(self._info.heads) else self._info.heads[index]]

    def query(self, index: int) -> Columns:
        """Rows of the query table of the `index`-th measured head."""
        positions = np.flatnonzero(self._valid) + self._info.query_offset
        columns = {name: values[self._valid] for name, values in self._of("query", index).items()}
        columns["row_max"], columns["row_sum"] = rounded_softmax(columns["row_max"], columns["row_sum"])
        return {"position": positions} | columns

    def softmax(self) -> tuple[Array, Array]:
        """Row maximum and row sum of every measured head, float32 `[heads, query_len]`, NaN where left out."""
        heads = range(len(self._info.heads))
        top = np.stack([self._pick(self._by_axis["query"]["row_max"], index) for index in heads]).astype(np.float64)
        total = np.stack([self._pick(self._by_axis["query"]["row_sum"], index) for index in heads]).astype(np.float64)
        top[:, ~self._valid] = total[:, ~self._valid] = np.nan
        return rounded_softmax(top, total)

    def key(self, index: int) -> Columns:
        """Rows of the key table of the `index`-th measured head, empty where nothing by key was measured."""
        columns = self._of("key", index)
        return {"position": np.arange(self._info.key_len) + self._info.key_offset} | columns if columns else {}

    def distance(self, index: int) -> Columns:
        """Rows of the distance table of the `index`-th measured head, empty where there is no distance."""
        columns = self._of("distance", index)
        if not columns or self._distances is None:
            return {}
        columns = {"distance": self._distances} | columns
        some = columns["distance_pairs"] > 0 if "distance_pairs" in columns else slice(None)
        return {name: values[some] for name, values in columns.items()}

    def head(self, index: int) -> dict[str, int | float | Array]:
        """The head's row of the head table: numbers of rows, and one value from each statistic of its rows.

        Rows that may attend to nothing are left out, and rows whose value is not finite; where there are such rows,
        `rows_NAME` says how many count for NAME.
        """
        columns = self._of("query", index)
        nothing = columns["argmax"] < 0 if "argmax" in columns else columns["row_sum"] == 0
        counted = self._valid & ~nothing
        row: dict[str, int | float | Array] = {
            "rows": int(self._valid.sum()),
            "rows_empty": int((self._valid & nothing).sum()),
        }
        for name, values in columns.items():
            over_rows = self._over_rows[name]
            if over_rows == "none":
                continue
            finite = np.isfinite(values).reshape(len(values), -1).all(1) & counted
            chosen = values[finite].astype(np.float64)
            if len(chosen) == 0:
                row[name] = np.full(values.shape[1:], np.nan)
            else:
                row[name] = chosen.mean(0) if over_rows == "mean" else chosen.max(0)
            if len(chosen) < counted.sum():
                row[f"rows_{name}"] = len(chosen)
        return row

    def maps(self) -> dict[str, Array]:
        """Pooled maps without their `map_` prefix: float32 `[heads, R, C]`, and `area` int32 `[1 or heads, R, C]`."""
        pooled: dict[str, Array] = {}
        for name, values in self._by_axis["cell"].items():
            each = range(1 if values.shape[0] == 1 and name == "map_area" else len(self._info.heads))
            stacked = np.stack([self._pick(values, index) for index in each])
            pooled[name.removeprefix("map_")] = stacked.astype(np.int32 if name == "map_area" else np.float32)
        return pooled


def rounded_softmax(row_max: Array, row_sum: Array) -> tuple[Array, Array]:
    """Row maximum and row sum in float32, so that exp(s − m) / l keeps its value although m was rounded.

    The sum is stated relative to the rounded maximum: l′ = l · exp(m − m′).
    """
    if row_max.dtype == np.float32 and row_sum.dtype == np.float32:
        return row_max, row_sum
    top = row_max.astype(np.float32)
    with np.errstate(invalid="ignore"):
        shift = np.where(np.isfinite(top), row_max.astype(np.float64) - top, 0.0)
    return top, (row_sum * np.exp(shift)).astype(np.float32)


def column_type(name: str, values: Array) -> str:
    """The type of a column: sums and values of heads in float64, other numbers in float32, integers in int32."""
    if values.dtype.kind in "iub":
        return "int32"
    if values.dtype.kind != "f":
        raise MalformedError(f"numbers in column {name}", str(values.dtype))
    return "float64" if values.dtype == np.float64 else "float32"
