"""The scale on real heads: how far scores spread, what the softmax makes of them, and if components are N(0, 1)."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from heedmap.attention.inputs import AttentionInputs
from heedmap.capture.watch import watch
from heedmap.errors import InputError
from heedmap.experiments.scaling import TAKEN
from heedmap.experiments.spreads import score_spreads
from heedmap.heads.student import student_quantile
from heedmap.measure import sweep

STATISTICS = ("entropy", "max_weight")
TEMPERATURES = (1e-6, 1e6)
NEAR = 0.2
"""A head keeps the textbook's claim where mean (in standard deviations) and variance are this close to 0 and 1."""


@dataclass(frozen=True)
class Side:
    """Components of one head's queries, or keys, over the tokens of a text."""

    mean: float
    variance: float
    """About each component's own mean."""
    mean_size: float
    """Root mean square of the components' means, in units of their standard deviation: 0 where the claim holds."""
    shifted: float
    """Share of components whose mean is not 0 at 95 % confidence, tokens taken as independent."""

    @property
    def near_claim(self) -> bool:
        return self.mean_size <= NEAR and abs(self.variance - 1) <= NEAR


@dataclass(frozen=True)
class Softmax:
    """What the softmax of one head makes of the same scores under one scale."""

    entropy: float
    largest: float
    saturated: float


@dataclass(frozen=True)
class Head:
    """One head over one text."""

    part: str
    layer: int
    head: int
    head_dim: int
    scale: float
    query: Side
    key: Side
    raw_spread: float
    """Standard deviation of q·k over all pairs that may attend; √head_dim if the claim held."""
    row_spread: float
    """The same within a row, root mean square: all that the softmax sees."""
    as_is: Softmax
    unscaled: Softmax
    tempered: tuple[tuple[float, Softmax], ...]

    @property
    def scaled_spread(self) -> float:
        return self.scale * self.raw_spread

    @property
    def saturates(self) -> bool:
        """Whether most rows put over 0.9 on one key, with the scale that the model uses."""
        return self.as_is.saturated > 0.5

    @property
    def saturates_unscaled(self) -> bool:
        return self.unscaled.saturated > 0.5

    def row(self) -> dict[str, Any]:
        """One flat row of a table."""
        flat: dict[str, Any] = {name: getattr(self, name) for name in ("part", "layer", "head", "head_dim", "scale")}
        for side in ("query", "key"):
            flat |= {f"{side}_{name}": value for name, value in asdict(getattr(self, side)).items()}
        flat |= {"raw_spread": self.raw_spread, "scaled_spread": self.scaled_spread, "row_spread": self.row_spread}
        for name, found in [("as_is", self.as_is), ("unscaled", self.unscaled)]:
            flat |= {f"{name}_{key}": value for key, value in asdict(found).items()}
        for temperature, found in self.tempered:
            flat |= {f"temperature_{temperature:g}_{key}": value for key, value in asdict(found).items()}
        return flat


@dataclass(frozen=True)
class Claim:
    """The textbook's claim, that components have mean 0 and variance 1, against all heads of a model."""

    heads: int
    kept: int
    """Heads whose queries and keys both come near it."""
    query_variance: tuple[float, float, float]
    """Least, median and largest over heads."""
    key_variance: tuple[float, float, float]
    query_shifted: float
    key_shifted: float
    """Median share of components whose mean is not 0."""
    raw_spread: tuple[float, float, float]
    promised: float
    """√head_dim, the median over heads."""

    @property
    def holds(self) -> bool:
        return self.kept * 2 > self.heads

    def sentence(self) -> str:
        """The answer in words."""
        answer = "Yes, mostly" if self.holds else "No"
        spread, query, key = (_words(numbers) for numbers in (self.raw_spread, self.query_variance, self.key_variance))
        return (
            f"{answer}: {self.kept} of {self.heads} heads have components of mean 0 and variance 1 (within {NEAR:g}). "
            f"The variance of a query's components is {query}, of a key's {key}; the mean is not 0 for "
            f"{self.query_shifted:.0%} of query and {self.key_shifted:.0%} of key components. So raw scores spread by "
            f"{spread}, where √d_k promises {_number(self.promised)}."
        )


def _words(numbers: tuple[float, float, float]) -> str:
    low, middle, high = map(_number, numbers)
    return f"{low} to {high} (median {middle})"


def _number(value: float) -> str:
    """Two digits that count, without an exponent."""
    return f"{float(f'{value:.2g}'):,g}"


@torch.no_grad()
def measure_heads(
    model: PreTrainedModel, inputs: dict[str, torch.Tensor], temperatures: Sequence[float] = ()
) -> list[Head]:
    """Run a model's body once and measure each head, its softmax also unscaled and at temperatures.

    Args:
        inputs: keyword arguments of the model, batch size 1.
        temperatures: scores are divided by each of these as well, on top of the model's own scale.

    Raises:
        InputError: a temperature at which scores are no numbers, or all the same.
        UnsupportedError: a model that cannot be watched.
    """
    for temperature in temperatures:
        check_temperature(temperature)
    heads: list[Head] = []
    body = model.get_encoder() if model.config.is_encoder_decoder else model.base_model
    named = inspect.signature(type(body).forward).parameters
    settings = {"use_cache": False} if "use_cache" in named else {}
    with watch(body, STATISTICS, keep_inputs=True) as seen:
        body(**{name: values for name, values in inputs.items() if name in named}, **settings)
    for call in seen.calls:
        assert call.inputs is not None
        heads += _heads_of(call.part, call.layer, call.inputs, call.heads, temperatures)
    return heads


def check_temperature(temperature: float) -> None:
    """Raise ``InputError`` for one at which scores in single precision are no numbers, or all the same."""
    least, most = TEMPERATURES
    if not least <= temperature <= most:
        raise InputError("scaling", expected=f"temperatures from {least:g} to {most:,.0f}", got=f"{temperature:g}")


def claim(heads: Sequence[Head]) -> Claim:
    """Hold the textbook's claim against these heads."""
    return Claim(
        heads=len(heads),
        kept=sum(head.query.near_claim and head.key.near_claim for head in heads),
        query_variance=_range(head.query.variance for head in heads),
        key_variance=_range(head.key.variance for head in heads),
        query_shifted=_range(head.query.shifted for head in heads)[1],
        key_shifted=_range(head.key.shifted for head in heads)[1],
        raw_spread=_range(head.raw_spread for head in heads),
        promised=_range(math.sqrt(head.head_dim) for head in heads)[1],
    )


def _heads_of(
    part: str, layer: int, inputs: AttentionInputs, measured: Sequence[int], temperatures: Sequence[float]
) -> list[Head]:
    scales = [inputs.scale, 1.0, *(inputs.scale / temperature for temperature in temperatures)]
    softmaxes = [_softmaxes(inputs, scale) for scale in scales]
    spreads = score_spreads(inputs)
    group = inputs.query_heads // inputs.key_heads
    queries = [_side(inputs.query[0, head]) for head in range(inputs.query_heads)]
    keys = [_side(inputs.key[0, head]) for head in range(inputs.key_heads)]
    return [
        Head(
            part=part,
            layer=layer,
            head=head,
            head_dim=inputs.head_dim,
            scale=inputs.scale,
            query=queries[head],
            key=keys[head // group],
            raw_spread=float(spreads.overall[head]),
            row_spread=float(spreads.within_row[head]),
            as_is=softmaxes[0][head],
            unscaled=softmaxes[1][head],
            tempered=tuple((t, softmaxes[2 + i][head]) for i, t in enumerate(temperatures)),
        )
        for head in measured
    ]


def _softmaxes(inputs: AttentionInputs, scale: float) -> list[Softmax]:
    """Each head's softmax with another scale, all else as it is."""
    changed = AttentionInputs(
        inputs.query,
        inputs.key,
        scale=scale,
        mask=inputs.mask,
        softcap=inputs.softcap,
        sinks=inputs.sinks,
        query_offset=inputs.query_offset,
        key_offset=inputs.key_offset,
        valid_queries=inputs.valid_queries,
        cross=inputs.cross,
    )
    found = sweep(changed, STATISTICS).measurements
    entropy, largest = found["entropy"][0], found["max_weight"][0]
    return [
        Softmax(float(np.nanmean(entropy[head])), float(np.nanmean(largest[head])),
                float(np.mean(largest[head][~np.isnan(largest[head])] > TAKEN)))
        for head in range(inputs.query_heads)
    ]  # fmt: skip


def _side(vectors: torch.Tensor) -> Side:
    """Components `[tokens, head_dim]` of one head's queries or keys."""
    values = vectors.double().cpu().numpy()
    means = values.mean(0)
    if len(values) < 2:
        return Side(float(means.mean()), math.nan, math.nan, math.nan)
    deviations = values.std(0, ddof=1)
    sizes = np.abs(means) / np.maximum(deviations, 1e-300)
    beyond = sizes * math.sqrt(len(values)) > student_quantile(len(values) - 1)
    return Side(
        float(means.mean()),
        float((deviations**2).mean()),
        float(np.sqrt((means**2).mean() / (deviations**2).mean())),
        float(beyond.mean()),
    )


def _range(values: Iterable[float]) -> tuple[float, float, float]:
    array = np.array(list(values))
    return float(np.nanmin(array)), float(np.nanmedian(array)), float(np.nanmax(array))
