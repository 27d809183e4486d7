"""The pictures of the measured lessons: what stands in them is what was measured, in whatever order it came."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.text import Text

from heedmap.figures.complexity import complexity_figure
from heedmap.figures.scaling import scaling_figure

RECORD = Path(__file__).parents[2] / "docs" / "lessons" / "complexity.json"


def _document(dims: list[int], seeds: int = 3) -> dict[str, Any]:
    quantities = ("spread", "entropy", "largest", "jacobian", "gradient", "gradient_median", "saturated")
    points = [
        {"head_dim": d, "form": form, "quantity": quantity, "mean": 0.9 / d, "low": None, "high": None,
         "predicted": None}
        for d in dims for form in ("raw", "scaled") for quantity in quantities
    ]  # fmt: skip
    settings = {"head_dims": dims, "n": 100, "seeds": seeds, "law": "gaussian", "correlation": 0.0}
    return {"settings": settings, "points": points, "prediction_exact": True}


def test_lines_run_from_small_to_large_d_k_whatever_their_order() -> None:
    drawn = [
        [np.asarray(line.get_xydata()).tolist() for axes in scaling_figure(_document(dims)).axes for line in axes.lines]
        for dims in ([1, 8, 64], [64, 1, 8])
    ]
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize(("seeds", "told"), [(1, "  1 seed  "), (20, "  20 seeds  ")])
def test_the_picture_says_how_many_seeds(seeds: int, told: str) -> None:
    assert any(told in text.get_text() for text in scaling_figure(_document([1, 8], seeds)).texts)


def test_the_picture_of_length_tells_every_exponent_that_is_any_sure() -> None:
    record = json.loads(RECORD.read_text())
    told = " ".join(text.get_text() for text in complexity_figure(record).findobj(Text))
    sure = [fit for fit in record["exponents"] if fit["high"] - fit["low"] < 2]
    assert len(sure) > len(record["exponents"]) / 2
    for fit in sure:
        assert f"{{{fit['exponent']:.2f}}}$ ({fit['low']:.2f} to {fit['high']:.2f})" in told


def test_the_picture_of_length_stands_without_any_exponent() -> None:
    record = json.loads(RECORD.read_text())
    record["points"] = [point for point in record["points"] if point["n"] <= 1024]
    record["exponents"] = []
    assert len(complexity_figure(record, facecolor="#14161c").axes) == 2
