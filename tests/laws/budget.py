"""How far a kernel may be from the float64 oracle: twice as far as the plain implementation of its dtype is."""

from __future__ import annotations

import numpy as np

from heedmap.attention import AttentionInputs

FLOOR = 1e-5
"""What fp32 is always allowed, in units of the statistic's largest value (at least 1)."""


def error(found: np.ndarray, oracle: np.ndarray) -> float:
    """Largest absolute difference where both are finite; everything else must be equal (−∞, NaN in the same places)."""
    assert found.shape == oracle.shape
    finite = np.isfinite(oracle)
    np.testing.assert_array_equal(np.isfinite(found), finite)
    np.testing.assert_array_equal(found[~finite], oracle[~finite].astype(found.dtype))
    return float(np.abs(found[finite] - oracle[finite]).max(initial=0.0))


def budget(plain: np.ndarray, oracle: np.ndarray, inputs: AttentionInputs) -> float:
    """What `error` may be, from the error that the plain implementation in the compute dtype makes."""
    finite = np.isfinite(oracle) & np.isfinite(plain)
    size = float(np.abs(oracle[finite]).max(initial=1.0))
    floor = (FLOOR if inputs.compute_dtype.itemsize == 4 else 1e-13) * size
    factor = 3 if inputs.softcap is not None else 2
    return max(factor * float(np.abs(plain[finite] - oracle[finite]).max(initial=0.0)), floor)
