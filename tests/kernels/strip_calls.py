"""Calls of the compiled pass on tables of any layout, and the same in float64 torch."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

native = pytest.importorskip("heedmap._native", reason="heedmap installed without its compiled part")
SETS: list[str] = native.instruction_sets()
ROWS = (
    "row_max",
    "row_sum",
    "entropy",
    "max_weight",
    "logsumexp",
    "row_mass",
    "concentration",
    "saturation",
    "mean_distance",
)


@dataclass
class Passed:
    """What a pass over one strip gave, the strip being the whole call."""

    results: dict[str, Tensor]
    exponentials: Tensor
    terms: Tensor
    top: Tensor
    spoiled: tuple[int, int] | None = None
    weights: Tensor | None = None


@dataclass
class Formula:
    """What changes the softmax of a strip."""

    softcap: float = 0.0
    sinks: Tensor | None = None
    valid: Tensor | None = None
    allowed: list[tuple[int, Tensor]] = field(default_factory=list)


def cells(length: int, at_most: int = 256) -> tuple[int, int, int]:
    count = min(length, at_most)
    return count, length // count, length % count


def run(
    scores: Tensor,
    formula: Formula | None = None,
    *,
    instruction_set: str | None = None,
    threads: int = 1,
    weights: Tensor | None = None,
    key_len: int | None = None,
) -> Passed:
    """Pass over `scores [heads, rows, keys]`, in place, as the first keys of a call with `key_len` keys."""
    formula = formula or Formula()
    heads, rows, keys = scores.shape
    key_len = max(keys, 1) if key_len is None else key_len
    row_cells, key_cells = cells(rows, 1), cells(key_len)
    results = {name: torch.full((1, heads, rows), torch.nan) for name in ROWS}
    results["argmax"] = torch.full((1, heads, rows), -2)
    results["received"] = torch.zeros(1, heads, key_len, dtype=torch.float64)
    results["distance_profile"] = torch.zeros(1, heads, rows + key_len - 1, dtype=torch.float64)
    results["map_sum"] = torch.zeros(1, heads, row_cells[0], key_cells[0], dtype=torch.float64)
    results["map_max"] = torch.zeros(1, heads, row_cells[0], key_cells[0])
    sweep = native.Sweep(
        batch=1,
        heads=heads,
        query_len=rows,
        key_len=key_len,
        query_offset=key_len - rows,
        key_offset=0,
        softcap=formula.softcap,
        sinks=formula.sinks,
        row_cells=row_cells,
        key_cells=key_cells,
        results=results,
        instruction_set=instruction_set,
    )
    terms, top = torch.empty(4, heads, rows), torch.empty(heads, rows, dtype=torch.int64)
    spoiled = sweep.strip(
        scores=scores,
        batch=0,
        heads=(0, heads),
        rows=(0, rows),
        keys=(0, keys),
        cell_rows=rows,
        allowed=formula.allowed,
        valid=None if formula.valid is None else formula.valid[None],
        weights=weights,
        row_terms=terms,
        top=top,
        threads=threads,
    )
    return Passed(results, scores, terms, top, spoiled, weights)


def expected(scores: Tensor, key_len: int | None = None) -> dict[str, Tensor]:
    """The results of plain scores, no formula, in float64: call it before `run` writes over them."""
    table = scores.double()
    heads, rows, keys = table.shape
    key_len = max(keys, 1) if key_len is None else key_len
    if keys == 0:
        table = torch.full((heads, rows, 1), -torch.inf, dtype=torch.float64)
    empty = table.amax(-1) == -torch.inf
    weights = torch.softmax(table, -1).nan_to_num(0)
    at = torch.arange(rows)[:, None] + (key_len - rows) - torch.arange(table.shape[-1])
    norm = (weights**2).sum(-1) - 2 * (weights**3).sum(-1) + (weights**2).sum(-1) ** 2
    received = torch.zeros(heads, key_len, dtype=torch.float64)
    received[:, : weights.shape[-1]] = weights.sum(1)
    return {
        "row_max": table.amax(-1),
        "logsumexp": table.logsumexp(-1),
        "entropy": -torch.xlogy(weights, weights).sum(-1),
        "max_weight": weights.amax(-1),
        "row_mass": weights.sum(-1),
        "concentration": (weights**2).sum(-1),
        "saturation": norm.clamp_min(0).sqrt(),
        "mean_distance": (weights * at).sum(-1),
        "argmax": table.argmax(-1).masked_fill(empty, -1),
        "received": received,
        "map_sum": weights.sum((1, 2))[:, None, None],
    }


def assert_right(found: Passed, wanted: dict[str, Tensor]) -> None:
    assert found.spoiled is None
    for name, values in wanted.items():
        result = found.results[name][0]
        if name == "argmax":
            assert torch.equal(result, values), name
        elif name == "map_sum":
            torch.testing.assert_close(result.sum((-2, -1)), values[:, 0, 0], rtol=1e-6, atol=1e-6)
        else:
            size = max(1.0, _largest(values))
            torch.testing.assert_close(result.double(), values, rtol=1e-6, atol=4e-6 * size, msg=name)
    torch.testing.assert_close(
        found.results["distance_profile"].sum(-1), found.results["received"].sum(-1), rtol=1e-6, atol=1e-6
    )


def _largest(values: Tensor) -> float:
    finite = values[values.isfinite()]
    return float(finite.abs().max()) if finite.numel() else 0.0
