"""A small run of six tokens with two layers of two heads, for the tests of this room."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from heedmap.runs.reader import Run

TEXT = "one two </script><b>x three"
LABELS = ["[CLS]", "one", "two", "</script><b>x", "three", "[SEP]"]


@pytest.fixture(scope="session")
def made() -> ModuleType:
    """The module ``tests/made_runs.py``."""
    spec = spec_from_file_location("made_runs", Path(__file__).parents[1] / "made_runs.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def run(made: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Run:
    n = len(LABELS)
    weights = np.stack([[made.uniform(n), made.shifted(n, 1)], [made.on(n, 0), made.shifted(n, -1)]])
    return made.make_run(tmp_path_factory.mktemp("runs") / "small", weights, LABELS, special=[0, 5], text=TEXT)
