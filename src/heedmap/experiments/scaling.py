"""Why √d_k: scores, softmax and gradients with and without the scale, measured beside their exact prediction."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, get_args

import torch

from heedmap.attention.reference import scaled_dot_product_attention
from heedmap.errors import InputError
from heedmap.experiments.components import LAWS, Components, Law
from heedmap.experiments.gaussian_softmax import RowMeans, over_spreads
from heedmap.experiments.intervals import Interval, student
from heedmap.machine import available_memory

WHERE = "scaling"
HEAD_DIMS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
N_BY_N, N_BY_D = 7, 12
"""Tables of n × n and of n × d_k numbers that one draw and its gradient hold at the most."""
TAKEN = 0.9
"""A row is saturated where one weight is larger than this."""

QUANTITIES: dict[str, str] = {
    "spread": "standard deviation of the scores",
    "entropy": "mean entropy of a row's weights, nats",
    "largest": "mean largest weight of a row",
    "jacobian": "norm of the softmax's Jacobian, root mean square over rows",
    "gradient": "norm of the gradient that reaches a query, root mean square over rows",
    "gradient_median": "the same, median over rows",
    "saturated": f"share of rows with a weight above {TAKEN}",
}
SQUARED = ("spread", "jacobian", "gradient")
"""Averaged as squares, which is what the prediction is exact for; given as roots."""


@dataclass(frozen=True)
class Settings:
    """What is drawn: `n` queries and keys for each of `repeats` draws of each seed, and each d_k."""

    head_dims: tuple[int, ...] = HEAD_DIMS
    n: int = 100
    seeds: int = 20
    repeats: int = 1
    law: Law = "gaussian"
    correlation: float = 0.1

    def __post_init__(self) -> None:
        for name, least, most in (("n", 2, 8192), ("seeds", 1, 10_000), ("repeats", 1, 10_000)):
            number = getattr(self, name)
            if not isinstance(number, int) or not least <= number <= most:
                raise InputError(WHERE, expected=f"{name} from {least} to {most:,}", got=f"{number!r}")
        if not self.head_dims or any(not isinstance(d, int) or not 1 <= d <= 65_536 for d in self.head_dims):
            raise InputError(WHERE, expected="head dimensions from 1 to 65,536", got=f"{list(self.head_dims)}")
        if len(set(self.head_dims)) < len(self.head_dims):
            raise InputError(WHERE, expected="each head dimension once", got=f"{list(self.head_dims)}")
        if self.law not in get_args(Law):
            raise InputError(WHERE, expected=f"components that are {', '.join(LAWS)}", got=repr(self.law))
        if not 0 <= self.correlation < 1:
            raise InputError(WHERE, expected="a correlation from 0 to below 1", got=f"{self.correlation!r}")

    @property
    def components(self) -> Components:
        return Components(self.law, self.correlation if self.law == "correlated" else 0.0)


@dataclass(frozen=True)
class Point:
    """One quantity at one d_k, raw or scaled: measured over seeds, and predicted where there is a formula."""

    head_dim: int
    form: str
    quantity: str
    measured: Interval
    predicted: float | None

    @property
    def agrees(self) -> bool | None:
        return None if self.predicted is None else self.measured.holds(self.predicted)


@dataclass(frozen=True)
class Scaling:
    """The experiment: its settings and a point for each d_k, form and quantity."""

    settings: Settings
    points: tuple[Point, ...]

    def point(self, head_dim: int, form: str, quantity: str) -> Point:
        return next(p for p in self.points if (p.head_dim, p.form, p.quantity) == (head_dim, form, quantity))

    def rows(self) -> list[dict[str, Any]]:
        """A flat table, one row a point."""
        return [
            {
                "head_dim": p.head_dim,
                "form": p.form,
                "quantity": p.quantity,
                "mean": p.measured.mean,
                "low": p.measured.low,
                "high": p.measured.high,
                "predicted": p.predicted,
            }
            for p in self.points
        ]

    def document(self) -> dict[str, Any]:
        """Everything as plain data, for JSON."""
        settings = asdict(self.settings) | {"head_dims": list(self.settings.head_dims)}
        return {
            "experiment": "scaling",
            "settings": settings | {"correlation": self.settings.components.correlation},
            "prediction_exact": self.settings.components.exact,
            "quantities": QUANTITIES,
            "points": self.rows(),
        }


def run_scaling(
    settings: Settings = Settings(),
    progress: Callable[[int], None] | None = None,
    into: list[Point] | None = None,
) -> Scaling:
    """Measure every quantity of `QUANTITIES` at every d_k, with scale 1 (raw) and 1/√d_k (scaled).

    Gradients are autograd's, through the float64 reference: of Σ output · g, with g of variance 1/d_k and values of
    variance 1, so that what each value contributes has variance 1 whatever d_k is. Intervals are over seeds.

    Args:
        progress: called with each d_k when it is done.
        into: gets the points of each d_k when it is done, so that an interruption keeps them.

    Raises:
        InputError: a draw that would not fit into the memory that can be had now.
    """
    _check_room(settings)
    components = settings.components
    laws = {d: components.row_law(d) for d in settings.head_dims}
    widest = max(float(law.spread.max()) for law in laws.values())
    curves = over_spreads(settings.n, widest)
    points: list[Point] = [] if into is None else into
    for head_dim in settings.head_dims:
        found = [_measure_seed(settings, head_dim, seed) for seed in range(settings.seeds)]
        measured: list[Point] = []
        for form, scale in (("raw", 1.0), ("scaled", 1 / math.sqrt(head_dim))):
            predicted = predict(components, head_dim, scale, curves)
            for quantity in QUANTITIES:
                interval = student([seed[form, quantity] for seed in found])
                interval = interval.root() if quantity in SQUARED else interval
                measured.append(Point(head_dim, form, quantity, interval, predicted.get(quantity)))
        points += measured
        if progress is not None:
            progress(head_dim)
    return Scaling(settings, tuple(points))


def _check_room(settings: Settings) -> None:
    n, head_dim = settings.n, max(settings.head_dims)
    needed = 8 * n * (N_BY_N * n + N_BY_D * head_dim)
    room = available_memory()
    if needed > room:
        raise InputError(
            WHERE,
            expected=f"a draw that fits into memory, of which {room / 1e9:,.1f} GB can be had",
            got=f"n = {n:,} and d_k = {head_dim:,}, which take about {needed / 1e9:,.1f} GB",
            do="lower --n or --dims",
        )


def predict(components: Components, head_dim: int, scale: float, curves: Callable[..., RowMeans]) -> dict[str, float]:
    """Expected values: a row's scores are Gaussian with the spread scale·√(qᵀΣq), averaged over queries.

    Var(scores) = scale² · ‖Σ‖²_F
    E‖∂/∂q‖² = scale² · ((d_k − a)·E‖J‖² + a·E[Σ w²(s − s̄)²]/σ²)     a: variance of keys along Σq
    """
    law = components.row_law(head_dim)
    rows = curves(scale * law.spread)
    jacobian = law.mean(rows.jacobian)
    gradient = law.mean((head_dim - law.along) * rows.jacobian + law.along * rows.along)
    return {
        "spread": scale * math.sqrt(components.score_variance(head_dim)),
        "entropy": law.mean(rows.entropy),
        "largest": law.mean(rows.largest),
        "jacobian": math.sqrt(max(jacobian, 0.0)),
        "gradient": scale * math.sqrt(max(gradient, 0.0)),
    }


def _measure_seed(settings: Settings, head_dim: int, seed: int) -> Mapping[tuple[str, str], float]:
    generator = torch.Generator().manual_seed(seed * 1_000_003 + head_dim)
    draws = [_measure_draw(settings, head_dim, generator) for _ in range(settings.repeats)]
    return {key: sum(draw[key] for draw in draws) / len(draws) for key in draws[0]}


def _measure_draw(settings: Settings, head_dim: int, generator: torch.Generator) -> dict[tuple[str, str], float]:
    components, n = settings.components, settings.n
    query, key = (components.draw(n, head_dim, generator) for _ in range(2))
    value, upstream = (torch.randn(n, head_dim, generator=generator, dtype=torch.float64) for _ in range(2))
    upstream = upstream / math.sqrt(head_dim)
    raw_scores = query @ key.T
    found: dict[tuple[str, str], float] = {}
    for form, scale in (("raw", 1.0), ("scaled", 1 / math.sqrt(head_dim))):
        query.requires_grad_().grad = None
        output, weights = scaled_dot_product_attention(query, key, value, scale=scale)
        (output * upstream).sum().backward()
        assert query.grad is not None
        reaching = query.grad.norm(dim=-1)
        weights = weights.detach()
        square = weights.square().sum(-1)
        jacobian = square - 2 * weights.pow(3).sum(-1) + square.square()
        largest = weights.amax(-1)
        rows = {
            "spread": scale**2 * raw_scores.var(),
            "entropy": torch.special.entr(weights).sum(-1).mean(),
            "largest": largest.mean(),
            "jacobian": jacobian.mean(),
            "gradient": reaching.square().mean(),
            "gradient_median": reaching.median(),
            "saturated": (largest > TAKEN).double().mean(),
        }
        found |= {(form, name): float(number) for name, number in rows.items()}
    return found


def head_dims_from(text: str) -> tuple[int, ...]:
    """`"1,2,64"` as numbers."""
    try:
        return tuple(int(piece) for piece in text.split(","))
    except ValueError:
        raise InputError(WHERE, expected="head dimensions such as 1,8,64", got=repr(text)) from None


def agreement(points: Sequence[Point]) -> tuple[int, int]:
    """How many predictions lie within the measured interval, and how many there are."""
    judged = [point.agrees for point in points if point.agrees is not None and math.isfinite(point.measured.half)]
    return sum(judged), len(judged)
