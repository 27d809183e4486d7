"""Small runs, whole and broken, for the tests of this folder."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def dense() -> ModuleType:
    """The module `dense.py` beside this file: attention in NumPy, and runs made of it."""
    path = Path(__file__).with_name("dense.py")
    spec = importlib.util.spec_from_file_location("heedmap_tests_dense", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
