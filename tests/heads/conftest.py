"""Runs with weights of our choice for the tests of this room."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

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
