"""This machine's matrix product: how many operations a second torch's own reaches at its best."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import torch

SQUARES = (1024, 2048, 4096)
ATTENTION_LENGTH = 4096
"""Queries and keys of the two products that attention is made of."""
LEAST = 3


def shapes(head_dim: int) -> Iterator[tuple[int, int, int]]:
    """Rows, inner size and columns: squares, from small to large, then Q·Kᵀ and weights·V of one head."""
    yield from ((size, size, size) for size in SQUARES)
    yield ATTENTION_LENGTH, head_dim, ATTENTION_LENGTH
    yield ATTENTION_LENGTH, ATTENTION_LENGTH, head_dim


def measure_products(head_dim: int, seconds: float) -> list[dict[str, Any]]:
    """The fastest run of each shape, float32, in about `seconds` in all.

    Which shape is fastest depends on caches and on how the library cuts it up, so the best of several is what the
    library can do. A square that would take longer than `seconds` by itself, judged by the one before, is left out.
    """
    found: list[dict[str, Any]] = []
    each = seconds / len(list(shapes(head_dim)))
    for rows, inner, columns in shapes(head_dim):
        operations = 2 * rows * inner * columns
        square = rows == inner == columns
        if square and found and operations / found[-1]["operations_per_second"] > seconds:
            continue
        left, right = torch.randn(rows, inner), torch.randn(inner, columns)
        out = torch.empty(rows, columns)
        taken: list[float] = []
        while len(taken) < LEAST or sum(taken) < each:
            start = time.perf_counter()
            torch.mm(left, right, out=out)
            taken.append(time.perf_counter() - start)
        fastest = operations / min(taken)
        found.append({"rows": rows, "inner": inner, "columns": columns, "operations_per_second": fastest})
    return found
