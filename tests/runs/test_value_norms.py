"""The length of each value, kept beside query and key: optional, small, and the same for every head of a group."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from heedmap.errors import InputError, RunError
from heedmap.runs.reader import Run, open_run
from heedmap.runs.writer import RunWriter

GOLDEN = Path(__file__).parents[1] / "golden" / "run-v1"
NORMS = np.random.default_rng(0).random((2, 12)).astype(np.float32)


def write(dense: ModuleType, path: Path, norms: np.ndarray, *, keep_inputs: bool = True) -> Run:
    layer = dense.make_layer()
    with RunWriter(path, keep_inputs=keep_inputs) as writer:
        writer.source(dense.TEXT)
        writer.tokens(dense.token_columns(12))
        writer.layer(layer.entry, layer.measurements, layer.query, layer.key, value_norm=norms)
        return writer.finish(dense.META)


def test_lengths_of_values_come_back_by_head_and_position(dense: ModuleType, tmp_path: Path) -> None:
    run = open_run(write(dense, tmp_path / "run", NORMS).path)
    for head in range(4):
        norms = run.value_norms(0, head)
        assert norms is not None
        np.testing.assert_array_equal(norms, NORMS[head // 2])
    some = run.value_norms(0, 3, [5, -1])
    assert some is not None
    np.testing.assert_array_equal(some, NORMS[1, [5, 11]])


def test_a_run_of_an_earlier_writer_has_none() -> None:
    assert open_run(GOLDEN).value_norms(0, 1) is None


def test_a_run_without_its_inputs_says_so(dense: ModuleType, tmp_path: Path) -> None:
    run = write(dense, tmp_path / "run", NORMS, keep_inputs=False)
    with pytest.raises(RunError, match="--no-inputs"):
        run.value_norms(0, 1)


def test_lengths_of_another_shape_are_refused(dense: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"value_norm \[key_heads, key_len\] = \[2, 12\], got \[4, 12\]"):
        write(dense, tmp_path / "run", np.ones((4, 12)))
    assert not (tmp_path / "run").exists()
