"""`measure` and `attend`: choose a kernel, sweep, return what was found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

from heedmap.attention.checks import whole
from heedmap.attention.inputs import AttentionInputs
from heedmap.attention.masks import Mask
from heedmap.errors import InputError, UnsupportedError
from heedmap.kernels import native, strips
from heedmap.kernels.autograd import StripAttention
from heedmap.kernels.folding import fold, unfold, unfolded
from heedmap.kernels.hiding import NotFiniteError
from heedmap.kernels.plan import Swept, Task
from heedmap.kernels.uncompiled import uncompiled
from heedmap.measurements import DIMENSIONS, Measurements, Quantity, Ratio
from heedmap.statistics.base import Grid, Statistic
from heedmap.statistics.catalogue import choose
from heedmap.statistics.top_keys import TOP

KERNELS = (native, strips)
"""Kernels in order of preference: "auto" takes the first that supports the call."""
STRIP_BYTES = 64 * 2**20
MAP_SIZE = 256


@dataclass(frozen=True, eq=False)
class Attended:
    """Output of an attention call, and what its weights were like."""

    output: Tensor
    """`[batch, query_heads, query_len, value_dim]` in the query's dtype; padding rows are computed too."""
    measurements: Measurements


@uncompiled
def measure(
    query: Tensor,
    key: Tensor,
    *,
    scale: float | None = None,
    mask: Mask | Tensor | None = None,
    softcap: float | None = None,
    sinks: Tensor | Sequence[float] | None = None,
    query_offset: int | None = None,
    key_offset: int = 0,
    valid_queries: Tensor | None = None,
    cross: bool = False,
    token_ids: Tensor | None = None,
    spans: Mapping[str, Tensor] | None = None,
    classes: Mapping[str, Tensor] | None = None,
    parts: Tensor | None = None,
    statistics: str | Iterable[str] = "default",
    kernel: str = "auto",
    rows: tuple[int, int] | None = None,
    strip_bytes: int = STRIP_BYTES,
    map_size: int = MAP_SIZE,
    top: int = TOP,
) -> Measurements:
    """Exact statistics of every head's weights in memory linear in length; the n×n matrix is never stored.

    Args:
        query: `[batch, query_heads, query_len, head_dim]` in fp32, bf16, fp16 or fp64.
        key: `[batch, key_heads, key_len, head_dim]`.
        scale, mask, softcap, sinks, query_offset, key_offset, valid_queries, cross: see `AttentionInputs`.
        token_ids, spans, classes, parts: what `duplicate`, `induction`, `span_mass`, `class_mass` and `part_mass` need
            to know of the keys.
        statistics: "default", "all", or names (`heedmap.statistics.STATISTICS`).
        kernel: "auto", or the name of a kernel, which then runs or raises.
        rows: measure query rows `[start, stop)` only; parts of one call `merge` into the whole.
        strip_bytes: what the tables of one strip may take; at least one row at a time is held.
        map_size: at most this many cells along each side of the pooled maps.
        top: how many of the largest keys of each row `top_keys` keeps.

    Returns:
        `Measurements`: entropy in nats, distances in tokens, shares between 0 and 1; sums in float64.

    Raises:
        InputError: shapes, dtypes, names or numbers that do not fit; NaN or infinity that a query may see.
        UnsupportedError: the kernel asked for cannot take this call.
    """
    inputs = AttentionInputs(
        query,
        key,
        scale=scale,
        mask=mask,
        softcap=softcap,
        sinks=sinks,
        query_offset=query_offset,
        key_offset=key_offset,
        valid_queries=valid_queries,
        cross=cross,
        token_ids=token_ids,
        spans=spans,
        classes=classes,
        parts=parts,
    )
    return sweep(
        inputs, statistics, kernel, rows=rows, strip_bytes=strip_bytes, map_size=map_size, top=top
    ).measurements


@uncompiled
def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    scale: float | None = None,
    mask: Mask | Tensor | None = None,
    softcap: float | None = None,
    sinks: Tensor | Sequence[float] | None = None,
    query_offset: int | None = None,
    key_offset: int = 0,
    valid_queries: Tensor | None = None,
    cross: bool = False,
    token_ids: Tensor | None = None,
    spans: Mapping[str, Tensor] | None = None,
    classes: Mapping[str, Tensor] | None = None,
    parts: Tensor | None = None,
    statistics: str | Iterable[str] = "default",
    kernel: str = "auto",
    strip_bytes: int = STRIP_BYTES,
    map_size: int = MAP_SIZE,
    top: int = TOP,
) -> Attended:
    """Attention's output and the statistics of its weights, from the same strips; arguments as in `measure`.

        output = softmax(scale · query keyᵀ + mask) · value

    Args:
        value: `[batch, key_heads, key_len, value_dim]`.

    Gradients flow to query, key, value and sinks, once, in memory linear in length; a bias in the mask gets none.

    Raises:
        UnsupportedError: a mask, tensor or made of one, that requires a gradient.
    """
    if value is None:
        raise InputError("attend", expected="a value for each key", got="none", do="use measure where there are none")
    inputs = AttentionInputs(
        query,
        key,
        value,
        scale=scale,
        mask=mask,
        softcap=softcap,
        sinks=sinks,
        query_offset=query_offset,
        key_offset=key_offset,
        valid_queries=valid_queries,
        cross=cross,
        token_ids=token_ids,
        spans=spans,
        classes=classes,
        parts=parts,
    )
    if torch.is_grad_enabled() and inputs.mask is not None and inputs.mask.requires_grad:
        raise UnsupportedError(
            "attend", expected="a mask that needs no gradient", got="requires_grad=True", do="give mask.detach()"
        )
    prepared = _prepared(inputs, statistics, kernel, None, strip_bytes, map_size, top)
    logits = sinks if isinstance(sinks, Tensor) else None
    asking = any(tensor is not None and tensor.requires_grad for tensor in (query, key, value, logits))
    prepared = replace(prepared, task=replace(prepared.task, with_terms=asking and torch.is_grad_enabled()))
    swept: list[Swept] = []

    def run() -> Swept:
        swept.append(prepared.swept())
        return swept[0]

    output = StripAttention.apply(query, key, value, logits, prepared.task, run, prepared.kernel.gradients)
    return Attended(output, prepared.measurements(swept[0]))


@dataclass(frozen=True, eq=False)
class Found:
    """Results of `sweep`; `output` is None where there are no values."""

    output: Tensor | None
    measurements: Measurements


def sweep(
    inputs: AttentionInputs,
    statistics: str | Iterable[str] = "default",
    kernel: str = "auto",
    *,
    rows: tuple[int, int] | None = None,
    strip_bytes: int = STRIP_BYTES,
    map_size: int = MAP_SIZE,
    top: int = TOP,
    partly: bool = False,
) -> Found:
    """`measure` and `attend` for inputs that are already checked; no gradients.

    With `partly`, statistics that these inputs cannot tell are left out, asked for by name or not.
    """
    return _prepared(inputs, statistics, kernel, rows, strip_bytes, map_size, top, partly=partly).run()


@dataclass(frozen=True, eq=False)
class _Prepared:
    """A sweep about to run: the task, the kernel, and the ratios among its results."""

    task: Task
    kernel: ModuleType
    ratios: Mapping[str, Ratio]

    def run(self) -> Found:
        swept = self.swept()
        return Found(swept.output, self.measurements(swept))

    def swept(self) -> Swept:
        folded = fold(self.task, padded=self.kernel.folds_padding(self.task))
        if folded is None:
            return self.kernel.sweep(self.task)
        try:
            return unfold(self.kernel.sweep(folded), self.task)
        except NotFiniteError as error:
            raise unfolded(error, self.task) from None

    def measurements(self, swept: Swept) -> Measurements:
        return _measurements(self.task, swept, self.ratios, self.kernel.NAME)


def _prepared(
    inputs: AttentionInputs,
    statistics: str | Iterable[str],
    kernel: str,
    rows: tuple[int, int] | None,
    strip_bytes: int,
    map_size: int,
    top: int,
    *,
    partly: bool = False,
) -> _Prepared:
    start, stop = (0, inputs.query_len) if rows is None else _rows(rows)
    if not 0 <= start < stop <= inputs.query_len:
        raise InputError("measure", expected=f"rows within 0 to {inputs.query_len}", got=f"{rows}")
    for name, number in (("strip_bytes", strip_bytes), ("map_size", map_size), ("top", top)):
        whole("measure", name, number, least=1)
    chosen, ratios = choose(statistics, inputs, partly=partly)
    task = Task(inputs, chosen, Grid.of(inputs, map_size, top), (start, stop), strip_bytes, with_output=rows is None)
    return _Prepared(task, _kernel(kernel, inputs, chosen), ratios)


def _rows(rows: tuple[int, int]) -> tuple[int, int]:
    if not isinstance(rows, tuple | list) or len(rows) != 2:
        raise InputError("measure", expected="rows as (start, stop)", got=f"{rows!r}")
    return whole("measure", "a row", rows[0]), whole("measure", "a row", rows[1])


def kernels_for(inputs: AttentionInputs, statistics: str | Iterable[str] = "default") -> tuple[str, ...]:
    """Names of the kernels that take this call, in order of preference."""
    chosen, _ = choose(statistics, inputs)
    return tuple(kernel.NAME for kernel in KERNELS if kernel.unsupported(inputs, chosen) is None)


def _kernel(name: str, inputs: AttentionInputs, statistics: tuple[Statistic, ...]) -> ModuleType:
    if name == "auto":
        return next(kernel for kernel in KERNELS if kernel.unsupported(inputs, statistics) is None)
    for kernel in KERNELS:
        if name == kernel.NAME:
            reason = kernel.unsupported(inputs, statistics)
            if reason is not None:
                raise UnsupportedError("measure", expected=f"a call that kernel {name!r} supports", got=reason)
            return kernel
    known = ", ".join(repr(kernel.NAME) for kernel in KERNELS)
    raise InputError("measure", expected=f'kernel "auto" or one of {known}', got=repr(name))


def _measurements(task: Task, swept: Swept, ratios: Mapping[str, Ratio], kernel: str) -> Measurements:
    inputs = task.inputs
    start, stop = task.rows
    quantities = {
        statistic.name: statistic.finish(swept.states[statistic.name], inputs, task.grid)
        for statistic in task.statistics
    }
    valid = np.zeros((inputs.batch, inputs.query_len), dtype=bool)
    valid[:, start:stop] = True
    if inputs.valid_queries is not None:
        valid &= inputs.valid_queries.cpu().numpy()
    quantities["row_valid"] = Quantity(valid, ("batch", "query"), "query", "rows", "row")
    if any(statistic.axis == "distance" for statistic in task.statistics):
        first = inputs.query_offset - (inputs.key_offset + inputs.key_len - 1)
        distances = np.arange(first, first + inputs.query_len + inputs.key_len - 1)
        quantities["distances"] = Quantity(distances, DIMENSIONS["distance"][2:], "distance", "tokens", "fixed")
    return Measurements(quantities, ratios, kernel, (task.rows,))
