"""The sweep with a fused strip pass in C++, on a CPU.

One pass over the scores of a strip does it all: softmax, row terms, sums by key, by distance and by cell. The extension
multiplies too where it can and the mask adds nothing to the scores, else torch does. Statistics that the pass does not
know run through their torch terms on the same strip.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from heedmap.attention.inputs import AttentionInputs
from heedmap.kernels import gradients as in_torch
from heedmap.kernels import native_gradients
from heedmap.kernels.batch_item import BatchItem, summable
from heedmap.kernels.extension import extension, hidden, openmp_parallel, side_by_side
from heedmap.kernels.gradients import Gradients
from heedmap.kernels.hiding import bias_of, doubtful_segments, not_finite
from heedmap.kernels.packing import Packed, pack
from heedmap.kernels.plan import Block, Swept, Task, blocks
from heedmap.kernels.scores import product, weighted_values
from heedmap.statistics.argmax import ArgMax
from heedmap.statistics.base import Statistic
from heedmap.statistics.cells import Cells
from heedmap.statistics.concentration import Concentration
from heedmap.statistics.counts import MapArea, PairCount
from heedmap.statistics.distance_profile import DistanceProfile
from heedmap.statistics.entropy import Entropy
from heedmap.statistics.logsumexp import LogSumExp
from heedmap.statistics.maps import MapMax, MapSum
from heedmap.statistics.max_weight import MaxWeight
from heedmap.statistics.mean_distance import MeanDistance
from heedmap.statistics.received import Received
from heedmap.statistics.row_sums import RowMass, RowMax, RowSum
from heedmap.statistics.saturation import Saturation
from heedmap.statistics.skew import SkewBuffer
from heedmap.statistics.span_mass import Mass
from heedmap.statistics.strip import Segment, Strip

NAME = "native"
FUSED: tuple[type[Statistic], ...] = (
    RowMax,
    RowSum,
    Entropy,
    MaxWeight,
    ArgMax,
    LogSumExp,
    RowMass,
    Concentration,
    Saturation,
    MeanDistance,
    Received,
    DistanceProfile,
    MapSum,
    MapMax,
)
"""Statistics that the pass computes itself."""
COUNTS = (PairCount, MapArea)
"""Statistics that look at where pairs are hidden, and at no score or weight."""
TABLES = 4
"""Tables held where a statistic needs them: scores, weights, scratch, and what its term may add; else scores alone."""
LINE = 16  # floats of a cache line
_NOTHING = torch.empty(0, dtype=torch.float32)


def unsupported(inputs: AttentionInputs, statistics: Sequence[Statistic]) -> str | None:
    """Why this kernel cannot take the call, or None."""
    module = extension()
    if module is None:
        return "heedmap installed without its compiled part (see `heedmap doctor`)"
    if module.instruction_sets() == ["scalar"]:
        return "a processor without AVX2, AVX-512 or NEON, on which torch is faster"
    if inputs.query.device.type != "cpu":
        return f"tensors on {inputs.query.device}"
    if inputs.compute_dtype != torch.float32:
        return f"{inputs.query.dtype}, which this kernel would round to float32"
    return None


@torch.no_grad()
def sweep(task: Task, instruction_set: str | None = None) -> Swept:
    """Visit every strip once; see `Task` and `Swept`.

    `instruction_set` is one of the extension's `instruction_sets()`, by default the first of them.
    """
    inputs = task.inputs
    states = {statistic.name: statistic.start(inputs, task.grid) for statistic in task.statistics}
    others = [statistic for statistic in task.statistics if type(statistic) not in FUSED]
    riders = tuple(statistic for statistic in others if isinstance(statistic, Mass))
    riders = riders if _products(inputs, instruction_set) else ()
    with_tables = any(not isinstance(statistic, COUNTS) and statistic not in riders for statistic in others)
    output = None
    if task.with_output and inputs.value is not None:
        with_tables |= not summable(inputs.value, inputs.compute_dtype)
        shape = (inputs.batch, inputs.query_heads, inputs.query_len, inputs.value.shape[-1])
        output = torch.zeros(shape, dtype=inputs.query.dtype)
    kept = None
    if task.with_terms and _products(inputs, instruction_set):
        kept = torch.empty(4, inputs.batch, inputs.query_heads, inputs.query_len, dtype=torch.float32)
    with torch.autocast("cpu", enabled=False):
        item = BatchItem(inputs)
        room = _Room(task, states, item, with_tables, riders, instruction_set)
        tables = TABLES if with_tables else 1
        for block in blocks(task, tables, held=with_tables or not room.products):
            item.enter(block.batch)
            heads, rows = slice(block.head_start, block.head_stop), slice(block.row_start, block.row_stop)
            valid = task.valid(block.batch, heads, rows)
            if output is None and valid is not None and not bool(valid.any()):
                continue
            passed = room.take(block, valid, None if output is None else output[block.batch, heads, rows])
            if kept is not None:
                kept[:, block.batch, heads, rows] = passed.terms
            if not others:
                continue
            strip = passed.strip()
            if with_tables and valid is not None:
                strip.weights.masked_fill_(~valid[..., None], 0)
            for statistic in others:
                statistic.update(states[statistic.name], strip, task.grid)
    return Swept(states, output, kept)


def folds_padding(task: Task) -> bool:
    """Whether texts of different lengths may come as the heads of one (see `heedmap.kernels.folding`): where every sum
    leaves out hidden keys, so that it rounds as in the text alone, and none counts rows for all heads at once."""
    known = (*FUSED, PairCount, Mass)
    return _products(task.inputs, None) and all(isinstance(statistic, known) for statistic in task.statistics)


def gradients(task: Task, output: Tensor, flowing: Tensor, terms: Tensor | None) -> Gradients:
    """The backward pass of a sweep; see `heedmap.kernels.gradients.gradients`."""
    if terms is None:
        return in_torch.gradients(task, output, flowing)
    return native_gradients.gradients(task, output, flowing, terms)


@dataclass(frozen=True)
class _Passed:
    """A strip after the pass."""

    inputs: AttentionInputs
    block: Block
    valid: Tensor | None
    segments: tuple[Segment, ...]
    shifted: Tensor
    weights: Tensor
    """Without tables these are exponentials or nothing at all, and no statistic may look at them."""
    by_distance: Tensor
    scratch: Tensor
    terms: Tensor
    """Largest score, m, l, and what exponentials are times to be weights: `[4, heads, rows]`."""
    top: Tensor
    masses: dict[str, Tensor]
    """What rows give to sets of keys, by the name of the statistic: `[heads, rows, sets]`."""

    def strip(self) -> Strip:
        block, (top_score, row_max, row_sum, _) = self.block, self.terms.unbind()
        sink = None
        if self.inputs.sinks is not None:
            logits = self.inputs.sinks[block.head_start : block.head_stop, None]
            sink = logits - row_max.masked_fill(row_max == -torch.inf, 0)
        return Strip(
            inputs=self.inputs,
            batch=block.batch,
            head_start=block.head_start,
            head_stop=block.head_stop,
            row_start=block.row_start,
            row_stop=block.row_stop,
            key_start=block.key_start,
            key_stop=block.key_stop,
            shifted=self.shifted,
            weights=self.weights,
            by_distance=self.by_distance,
            scratch=self.scratch,
            top_score=top_score,
            row_max=row_max,
            row_sum=row_sum,
            sink=sink,
            top=self.top.clamp_min(0),
            empty=self.top < 0,
            valid=self.valid,
            segments=self.segments,
            cell_rows=block.cell_rows,
            _once=dict(self.masses),
        )


class _Room:
    """The running sweep of the extension, and memory that strips use again and again."""

    def __init__(
        self,
        task: Task,
        states: dict[str, Tensor],
        item: BatchItem,
        with_tables: bool,
        riders: tuple[Mass, ...],
        instruction_set: str | None,
    ) -> None:
        inputs = self._inputs = task.inputs
        self._item = item
        self._with_tables = with_tables
        self._riders = riders
        """Statistics whose columns stand beside the values', as more of the output."""
        self._texts = task.texts
        self._widths = [rider.columns(task.texts or inputs, slice(1)).shape[-1] for rider in riders]
        self._with_output = task.with_output and inputs.value is not None
        self._scores = self._weights = self._scratch = _NOTHING
        self._packed: Packed | None = None
        module = extension()
        assert module is not None
        self._sweep = module.Sweep(
            batch=inputs.batch,
            heads=inputs.query_heads,
            query_len=inputs.query_len,
            key_len=inputs.key_len,
            query_offset=inputs.query_offset,
            key_offset=inputs.key_offset,
            softcap=0.0 if inputs.softcap is None or _biased(inputs) else inputs.softcap,
            sinks=None if inputs.sinks is None else inputs.sinks.contiguous(),
            row_cells=_sizes(task.grid.rows),
            key_cells=_sizes(task.grid.keys),
            results={s.name: states[s.name] for s in task.statistics if type(s) in FUSED},
            instruction_set=instruction_set,
            openmp_parallel=openmp_parallel(),
        )
        self._panel: int = self._sweep.panel
        self.products = _products(inputs, instruction_set)
        """Whether the extension computes scores and output too, so that no table of scores is needed."""

    def take(self, block: Block, valid: Tensor | None, output: Tensor | None) -> _Passed:
        """Pass over a strip; `output [heads, rows, value_dim]`, where it is wanted, is written."""
        inputs = self._inputs
        heads, rows = block.head_stop - block.head_start, block.row_stop - block.row_start
        keys = block.key_stop - block.key_start
        segments = doubtful_segments(inputs, block)
        heads_of, rows_of = slice(block.head_start, block.head_stop), slice(block.row_start, block.row_stop)
        query = side_by_side(self._item.query(heads_of, rows_of))
        given: dict[str, Tensor | None] = {"scores": None}
        written: Tensor | None = None
        shared_dim = sum(self._widths)
        inside = output is not None and self.products and self._item.summable
        if self._with_tables or not self.products:
            given["scores"] = self._score_table(heads, rows, keys)
        if self.products:
            packed = self._pack(block.batch)
            given |= {"query": query, "packed_keys": packed.keys}
            value_dim = output.shape[-1] if inside and output is not None else 0
            if value_dim + shared_dim:
                direct = value_dim > 0 and not self._riders and output is not None and output.dtype == torch.float32
                columns = value_dim + shared_dim
                written = output if direct else torch.empty(heads, rows, columns, dtype=torch.float32)
                given |= {"packed_values": packed.values, "packed_shared": packed.shared, "output": written}
        else:
            self._torch_scores(block, query, given["scores"])
        shifted = weights = by_distance = scratch = _NOTHING if given["scores"] is None else given["scores"]
        if self._with_tables:
            skewed = SkewBuffer(self._weights_room(heads, rows, keys), heads, rows, keys)
            weights, by_distance = skewed.table, skewed.by_distance
            scratch = self._scratch[: heads * rows * keys].view(heads, rows, keys)
            given["weights"] = weights
        terms = torch.empty(4, heads, rows, dtype=torch.float32)
        top = torch.empty(heads, rows, dtype=torch.int64)
        spoiled = self._sweep.strip(
            batch=block.batch,
            heads=(block.head_start, block.head_stop),
            rows=(block.row_start, block.row_stop),
            keys=(block.key_start, block.key_stop),
            cell_rows=block.cell_rows,
            allowed=hidden(segments, block.key_start),
            valid=None if valid is None else valid.contiguous(),
            shared_dim=shared_dim,
            row_terms=terms,
            top=top,
            threads=torch.get_num_threads(),
            **given,
        )
        if spoiled is not None:
            raise not_finite(block.batch, *spoiled)
        masses = self._masses(written)
        passed = _Passed(inputs, block, valid, segments, shifted, weights, by_distance, scratch, terms, top, masses)
        if output is not None:
            if not inside:
                found = weighted_values(passed.strip(), self._item.value, self._item.spoiled_values)
                output.copy_(found if self._with_tables else found.mul_(terms[3][..., None]))
            elif written is not None and written is not output:
                output.copy_(written[..., : output.shape[-1]])
        return passed

    def _masses(self, written: Tensor | None) -> dict[str, Tensor]:
        """Of every rider, by name: the last columns of what was written."""
        if written is None or not self._riders:
            return {}
        found = written[..., -sum(self._widths) :].split(self._widths, dim=-1)
        return {rider.name: mass for rider, mass in zip(self._riders, found, strict=True)}

    def _torch_scores(self, block: Block, query: Tensor, scores: Tensor | None) -> None:
        assert scores is not None
        inputs = self._inputs
        product(query, self._item.key, block, inputs, out=scores)
        if _biased(inputs):
            if inputs.softcap is not None:
                scores.div_(inputs.softcap).tanh_().mul_(inputs.softcap)
            bias = bias_of(inputs, block)
            if bias is not None:
                scores.add_(bias)

    def _pack(self, batch: int) -> Packed:
        if self._packed is None or self._packed.batch != batch:
            columns = [_columns(rider, self._inputs, batch, self._texts) for rider in self._riders]
            self._packed = pack(batch, self._item, columns, self._panel, with_values=self._with_output)
        return self._packed

    def _score_table(self, heads: int, rows: int, keys: int) -> Tensor:
        """`[heads, rows, keys]`, uninitialised, whose rows start on cache lines and in different cache sets."""
        pitch = (keys + LINE - 1) // LINE * LINE + LINE if keys > LINE else keys
        if self._scores.numel() < heads * rows * pitch:
            self._scores = torch.empty(heads * rows * pitch, dtype=torch.float32)
        return self._scores[: heads * rows * pitch].view(heads, rows, pitch)[..., :keys]

    def _weights_room(self, heads: int, rows: int, keys: int) -> Tensor:
        elements = SkewBuffer.elements(heads, rows, keys)
        if self._weights.numel() < elements:
            self._weights, self._scratch = (torch.empty(elements, dtype=torch.float32) for _ in range(2))
        return self._weights


def _columns(rider: Mass, inputs: AttentionInputs, batch: int, texts: AttentionInputs | None) -> Tensor:
    """How much of each key is in each set, `[texts, key_len, sets]`: once for all heads, or for those of each text."""
    return rider.columns(inputs, slice(batch, batch + 1)) if texts is None else rider.columns(texts)


def _products(inputs: AttentionInputs, instruction_set: str | None) -> bool:
    module = extension()
    assert module is not None
    return module.panel(instruction_set) > 0 and not _biased(inputs)


def _biased(inputs: AttentionInputs) -> bool:
    return inputs.mask is not None and inputs.mask.biased


def _sizes(cells: Cells) -> tuple[int, int, int]:
    return cells.count, cells.size, cells.larger
