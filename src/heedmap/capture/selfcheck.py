"""Every run checks itself: a crop of its weights against the model's own eager attention on the same inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from heedmap.attention.inputs import AttentionInputs
from heedmap.capture.formula import describe
from heedmap.capture.interface import InterfaceCall
from heedmap.capture.original import eager_function
from heedmap.capture.selection import Selection
from heedmap.capture.session import Call, Place, Session
from heedmap.capture.watch import configurations, opened
from heedmap.measure import sweep
from heedmap.measurements import Measurements
from heedmap.runs import formula as run_formula

CROP = 256
LARGEST_CROP = 1024
FLOOR = 1e-5
"""The smallest budget for a weight's error; larger scores and coarser dtypes get what rounding costs them."""
EPS32 = float(np.finfo(np.float32).eps)


def self_check(
    model: nn.Module,
    forward: Callable[[int], Tensor],
    length: int,
    layers: Selection,
    windows: list[int],
) -> dict[str, Any] | None:
    """Compare weights of every measured head with the model's own eager attention, over a crop of the text.

    The model runs the first tokens of the text eagerly. In each measured layer its eager function's weights are
    compared with those that a run gives for the same query and key: exp(s − m) / l from the kernel's row maximum m
    and row sum l and from the description of the mask. That the model takes the same path under our name as under
    "eager" is checked by its outputs, which must agree.

    Args:
        model: the watched model, in eval mode.
        forward: runs the model on the first n tokens and returns its hidden states `[1, n, width]`.
        length: tokens of the whole text.
        layers: the layers and heads that were measured.
        windows: sizes of windows and chunks among the masks; the crop is longer than those, up to 1,024 tokens.

    Returns:
        `part, layer, head` of the largest error, `rows, keys` of the crop, `max_abs_error`, `budget` (what
        rounding may cost, at least 1e-5), `passed`; `path_difference`, how far the
        outputs under our name are from eager ones, and `loaded_difference`, how far those of the implementation that
        the model was loaded with are, both relative to the largest output, with `loaded_agrees`; `output_finite`,
        whether the model's own output holds numbers only. None where a layer has no eager function to compare with.
    """
    crop = min(length, max(CROP, min(LARGEST_CROP, max(windows, default=0) + CROP // 2)))
    trial = _Trial()
    session = Session(model, layers, (), False, _ignore, compute=trial)
    modules = [module for module in model.modules() if id(module) in session.sites]
    if any(eager_function(module) is None for module in modules):
        return None
    with torch.no_grad():
        loaded = forward(crop)
        with _implementation(configurations(session), "eager"):
            eager = forward(crop)
        with opened(session):
            path = forward(crop)
    if trial.blind:
        return None
    eps = torch.finfo(eager.dtype).eps
    path_difference, loaded_difference = _relative(path, eager), _relative(loaded, eager)
    return trial.worst | {
        "rows": crop,
        "passed": trial.passed and path_difference <= max(FLOOR, eps),
        "path_difference": path_difference,
        "loaded_difference": loaded_difference,
        "loaded_agrees": loaded_difference <= eps**0.5,
        "output_finite": bool(torch.isfinite(eager).all()),
    }


class _Trial:
    """Computes every call by the model's eager function, and compares its weights with ours."""

    def __init__(self) -> None:
        self.worst: dict[str, Any] = {}
        self.passed = True
        self.blind = False
        self._share = -1.0

    def __call__(self, call: InterfaceCall, session: Session, place: Place) -> Tensor:
        output, weights = call.original_with_weights("eager")
        heads = session.selection.of_layer(place.layer, call.query.shape[1])
        if heads is None:
            return output
        session.report_layer(place.layer)
        if weights is None:  # some eager functions of earlier versions hand out none unless asked
            self.blind = True
            return output
        inputs = call.read(session, place).inputs(heads, with_value=False)
        measured = sweep(inputs, statistics=()).measurements
        for index, head in enumerate(heads):
            ours, budget = _weights(inputs, measured, index)
            theirs = weights[0, head, :, : inputs.key_len].detach().to("cpu", torch.float64).numpy()
            self._compare(place, head, float(np.abs(ours - theirs).max()), budget, inputs.key_len)
        return output

    def _compare(self, place: Place, head: int, error: float, budget: float, keys: int) -> None:
        share = error / budget if error == error else float("inf")  # an error of NaN is the worst of all
        self.passed = self.passed and share <= 1
        if share > self._share:
            self._share = share
            self.worst = {
                "part": place.part,
                "layer": place.layer,
                "head": head,
                "keys": keys,
                "max_abs_error": error,
                "budget": budget,
            }


def _weights(inputs: AttentionInputs, measured: Measurements, index: int) -> tuple[np.ndarray[Any, Any], float]:
    """One head's weights as a run would give them, float64 `[rows, keys]`, and the budget for their error.

    Eager code multiplies with an error of eps32 · |q| · |k| · scale at least, and rounds each score to its dtype.
    """
    group = inputs.query_heads // inputs.key_heads
    query, key = (_numbers(tensor[0]) for tensor in (inputs.query[:, index], inputs.key[:, index // group]))
    queries = np.arange(inputs.query_len) + inputs.query_offset
    keys = np.arange(inputs.key_len) + inputs.key_offset
    raw = run_formula.raw_scores(query, key)
    bound = inputs.scale * float(np.linalg.norm(query, axis=-1).max() * np.linalg.norm(key, axis=-1).max())
    largest = inputs.scale * float(np.abs(raw).max())
    rounding = EPS32 * bound + torch.finfo(inputs.query.dtype).eps * (1 + largest)
    mask = describe(inputs.mask)
    if run_formula.why_opaque(mask) is None:
        scored = run_formula.scores(raw, inputs.scale, inputs.softcap, run_formula.allowed(mask, queries, keys))
    else:
        may, bias = _opaque(inputs, index)
        everywhere = np.ones((1, 1), dtype=bool)
        scored = run_formula.scores(raw, inputs.scale, inputs.softcap, everywhere) + bias
        scored[~may] = -np.inf
    row_max, row_sum = (np.asarray(measured[name])[0, index] for name in ("row_max", "row_sum"))
    return run_formula.weights(scored, row_max, row_sum), max(FLOOR, rounding)


def _opaque(inputs: AttentionInputs, index: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Which pairs a mask that has no description allows, and what it adds, for one head: `[rows, keys]` both."""
    assert inputs.mask is not None
    device = inputs.query.device
    queries = torch.arange(inputs.query_len, device=device) + inputs.query_offset
    keys = torch.arange(inputs.key_len, device=device) + inputs.key_offset
    shape = (1, inputs.query_len, inputs.key_len)
    head = slice(index, index + 1)
    may = inputs.mask.allowed(0, queries, keys, head).expand(shape)[0]
    bias = inputs.mask.bias(0, queries, keys, head)
    added = torch.zeros(shape, device=device) if bias is None else bias.expand(shape)
    return may.cpu().numpy(), _numbers(added[0])


def _numbers(tensor: Tensor) -> np.ndarray[Any, Any]:
    return tensor.detach().to("cpu", torch.float64).numpy()


def _relative(values: Tensor, reference: Tensor) -> float:
    """The largest difference, relative to the largest value; infinite where only one of both is a number.

    What is no number in either (a broken weight behind the last attention) is no difference.
    """
    numbers = torch.isfinite(reference)
    if not torch.equal(numbers, torch.isfinite(values)):
        return float("inf")
    if not bool(numbers.any()):
        return 0.0
    values, reference = values[numbers].double(), reference[numbers].double()
    return float((values - reference).abs().max()) / (float(reference.abs().max()) or 1.0)


def _ignore(call: Call) -> None:
    """A trial measures nothing that anyone keeps."""


@contextmanager
def _implementation(configs: list[Any], name: str) -> Iterator[None]:
    before = [config._attn_implementation for config in configs]
    try:
        for config in configs:
            config._attn_implementation_internal = name
        yield
    finally:
        for config, implementation in zip(configs, before, strict=True):
            config._attn_implementation_internal = implementation
