"""A run opens, and its exact weights are computed, in a process that never loads torch or transformers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

SCRIPT = """
import sys
from heedmap import open_run
run = open_run(sys.argv[1])
assert "pyarrow" not in sys.modules, "tables were loaded before they were asked for"
assert run.weights(0, 1, queries=slice(2, 9)).shape == (7, 12)
assert run.map(0, 0).shape == (5, 5)
assert run.table("query", layer=0, head=0).num_rows == 12
assert run.tokens.num_rows == 12
from heedmap.runs.writer import RunWriter
heavy = {"torch", "transformers", "matplotlib", "safetensors"} & set(sys.modules)
assert not heavy, heavy
"""


def test_a_run_opens_without_torch(dense: ModuleType, tmp_path: Path) -> None:
    run = dense.write_run(tmp_path / "run", dense.make_layer())
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(run.path)], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
