"""Runs with weights of our choice for the tests of this room."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture(scope="session")
def made() -> ModuleType:
    """The module ``tests/made_runs.py``: ``made.make_run(path, weights)`` and a few matrices."""
    spec = spec_from_file_location("made_runs", Path(__file__).parents[1] / "made_runs.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def dense() -> ModuleType:
    """The module ``tests/runs/dense.py``: layers with any mask, softcap and sinks, and their dense truth."""
    spec = spec_from_file_location("heedmap_tests_dense", Path(__file__).parents[1] / "runs" / "dense.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def long_run() -> Callable[[Path, int], Any]:
    """``long_run(path, tokens)``: a run of two layers with random query and key, for tests of memory."""
    return _long_run


def _long_run(path: Path, count: int) -> Any:
    import torch

    from heedmap.measure import measure
    from heedmap.runs.writer import RunWriter

    names = ("position", "id", "start", "end", "word", "segment")
    columns: dict[str, list[Any]] = {name: [0] * count for name in names} | {
        "position": list(range(count)), "text": ["a"] * count, "special": [False] * count,
    }  # fmt: skip
    with RunWriter(path) as writer:
        writer.source("a")
        writer.tokens(columns)
        for layer in range(2):
            query, key = torch.randn(2, count, 4), torch.randn(1, count, 4)
            found = measure(query[None], key[None], statistics="entropy")
            entry = {
                "part": "self", "layer": layer, "module": "m", "query_heads": 2, "key_heads": 1, "heads": [0, 1],
                "head_dim": 4, "query_len": count, "key_len": count, "query_offset": 0, "key_offset": 0, "scale": 0.5,
                "softcap": None, "sinks": None, "mask": {"kind": "all"}, "cross": False, "kernel": found.kernel,
            }  # fmt: skip
            writer.layer(entry, found, query.numpy(), key.numpy())
        return writer.finish({"model": {"layers": 2}, "self_check": None, "cost": {}})
