"""Student's t: how far an interval of the mean of independent values reaches."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

CONFIDENCE = 0.95


@cache
def student_quantile(freedom: int) -> float:
    """How many standard errors the interval reaches to each side: with t = √ν tan θ, the density is cos^(ν−1) θ."""
    angle = np.linspace(0, np.pi / 2, 200_001)
    density = np.cos(angle) ** (freedom - 1)
    area = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return math.sqrt(freedom) * math.tan(float(np.interp(CONFIDENCE * area[-1], area, angle)))
