"""The notebooks run from their first cell to their last, and their form is one that notebook programs read."""

from __future__ import annotations

import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


@pytest.fixture(scope="module")
def runner() -> ModuleType:
    spec = spec_from_file_location("examples_run", EXAMPLES / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_runs_to_its_end(path: Path, runner: ModuleType, minilm_folder: Path) -> None:
    done = runner.run_notebook(json.loads(path.read_text()))
    code = [cell for cell in done["cells"] if cell["cell_type"] == "code"]
    assert code
    assert all(cell["execution_count"] == index + 1 for index, cell in enumerate(code))
    assert any(cell["outputs"] for cell in code)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_has_the_form_of_one(path: Path) -> None:
    notebook = json.loads(path.read_text())
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)
    assert notebook["cells"][0]["cell_type"] == "markdown"
    for cell in notebook["cells"]:
        assert isinstance(cell["source"], list)
        assert cell["cell_type"] == "markdown" or {"outputs", "execution_count"} <= set(cell)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_stored_with_its_outputs(path: Path) -> None:
    code = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    assert all(cell["execution_count"] for cell in code)


def test_a_cell_that_fails_is_told(runner: ModuleType) -> None:
    notebook = {"cells": [{"cell_type": "code", "source": ["1 / 0"], "outputs": []}]}
    with pytest.raises(ZeroDivisionError):
        runner.run_notebook(notebook)
