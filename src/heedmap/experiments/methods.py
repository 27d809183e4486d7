"""The ways to attend that `heedmap bench` compares: the textbook's, torch's, stock tricks, and heedmap's kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from heedmap.attention import AttentionInputs, masks
from heedmap.attention.masks import Mask
from heedmap.errors import UnsupportedError
from heedmap.experiments import point
from heedmap.measure import KERNELS, attend, kernels_for, measure

Results = Mapping[str, Tensor]
"""What a method found: `output` `[heads, n, head_dim]`, `received` `[heads, n]`, `entropy` `[heads, n]`, …"""
WINDOW = 512
CELLS = 256
CLASSES = 2
"""Classes of tokens whose share of each row the second stock trick finds."""


@dataclass(frozen=True)
class Call:
    """One attention call: query, key and value `[1, heads, n, head_dim]`, and a mask by name."""

    query: Tensor
    key: Tensor
    value: Tensor
    mask: str

    @property
    def n(self) -> int:
        return self.query.shape[-2]

    @property
    def lazy_mask(self) -> Mask | None:
        return {"full": None, "causal": masks.causal(), "window": masks.causal() & masks.sliding_window(WINDOW)}[
            self.mask
        ]

    def dense_mask(self) -> Tensor | None:
        """True = may attend, `[n, n]`; None where every query may see every key."""
        if self.mask == "full":
            return None
        at = torch.arange(self.n, device=self.query.device)
        behind = at[:, None] - at
        allowed = behind >= 0
        return allowed & (behind < WINDOW) if self.mask == "window" else allowed

    def classes(self) -> Tensor:
        """A made-up class of each key, as indicator columns `[n, CLASSES]`."""
        return functional.one_hot(torch.arange(self.n) % 7 % CLASSES, CLASSES).to(self.query)


@dataclass(frozen=True)
class Method:
    """A way to attend: `prepare` takes a call and gives what is then timed; it raises UnsupportedError where it cannot.

    `tables` counts the n×n float32 tables held at once, `masks` the n×n booleans, besides which all is linear in n.
    """

    name: str
    prepare: Callable[[Call], Callable[[], Results]]
    tables: int = 0
    masks: Callable[[str], bool] = lambda mask: False
    gives: str = ""
    compiles: bool = False
    """Whether its first run compiles code, which may fail where there is no compiler."""

    def predicted_bytes(self, n: int, heads: int, mask: str) -> int:
        """Bytes of n×n tables that a call would take."""
        return n * n * (4 * heads * self.tables + (1 if self.masks(mask) else 0))


def eager(call: Call) -> Callable[[], Results]:
    """The textbook's three lines, the weights kept, as `attn_implementation="eager"` does."""
    allowed = call.dense_mask()

    def run() -> Results:
        output, weights = point.eager(call.query, call.key, call.value, allowed)
        return {"output": output[0], "weights": weights[0]}

    return run


def eager_statistics(call: Call) -> Callable[[], Results]:
    """`eager`, and heedmap's default statistics from the kept weights in plain torch."""
    allowed, n, device = call.dense_mask(), call.n, call.query.device
    cells = min(n, CELLS)
    rows_of_cell = torch.arange(n) * cells // n
    edges = torch.searchsorted(rows_of_cell, torch.arange(cells + 1))

    def run() -> Results:
        scores = point.eager_scores(call.query, call.key, allowed)
        kept = torch.softmax(scores, dim=-1)
        output = kept @ call.value
        weights, scores = kept[0].float(), scores[0].float()
        largest = scores.amax(-1)
        squares = weights * weights
        concentration = squares.sum(-1)
        cubes = (squares * weights).sum(-1)
        at = torch.arange(n, device=device)
        distances = at[:, None] - at
        profile = torch.zeros(weights.shape[0], 2 * n - 1, device=device)
        profile.index_add_(1, (distances + n - 1).flatten(), weights.flatten(1))
        tall = torch.stack([weights[:, edges[i] : edges[i + 1]].sum(1) for i in range(cells)], 1)
        tallest = torch.stack([weights[:, edges[i] : edges[i + 1]].amax(1) for i in range(cells)], 1)
        return {
            "output": output[0],
            "entropy": -torch.special.xlogy(weights, weights).sum(-1),
            "max_weight": weights.amax(-1),
            "argmax": weights.argmax(-1),
            "logsumexp": torch.logsumexp(scores, -1),
            "row_mass": weights.sum(-1),
            "concentration": concentration,
            "saturation": (concentration - 2 * cubes + concentration**2).clamp(min=0).sqrt(),
            "mean_distance": (weights * distances).sum(-1),
            "received": weights.sum(-2),
            "distance_profile": profile,
            "map_mean": torch.stack([tall[:, :, edges[j] : edges[j + 1]].sum(-1) for j in range(cells)], -1),
            "map_max": torch.stack([tallest[:, :, edges[j] : edges[j + 1]].amax(-1) for j in range(cells)], -1),
            "max_score": largest,
        }

    return run


def sdpa(call: Call) -> Callable[[], Results]:
    """`F.scaled_dot_product_attention`, torch's fused attention: the output alone."""
    allowed = call.dense_mask() if call.mask == "window" else None
    query, key, value, causal = call.query, call.key, call.value, call.mask == "causal"
    return lambda: {
        "output": functional.scaled_dot_product_attention(query, key, value, attn_mask=allowed, is_causal=causal)[0]
    }


def sdpa_tricks(call: Call) -> Callable[[], Results]:
    """Two statistics from stock kernels: what each key receives, and each row's mass on classes of keys.

    The mass of a key is exp of the logsumexp of the transposed call whose bias is minus the first one's logsumexp;
    the mass on classes is attention's output for indicator columns as values.
    """
    if call.mask == "window" or call.query.device.type != "cpu":
        got = f"{call.mask} on {call.query.device.type}"
        raise UnsupportedError("bench", expected="a full or causal mask on the CPU", got=got)
    flash: Any = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
    query, key, value, causal = call.query, call.key, call.value, call.mask == "causal"
    n, dim = call.n, query.shape[-1]
    classes = functional.pad(call.classes(), (0, dim - CLASSES)).expand(1, query.shape[1], n, dim).contiguous()

    def run() -> Results:
        output, logsumexp = flash(query, key, value, 0.0, causal)
        bias = -logsumexp[:, :, None, :].to(query.dtype)
        if causal:  # the transposed call sees keys after it: both sequences are turned round
            turned = (key.flip(-2), query.flip(-2), value)
            column = flash(*turned, 0.0, True, attn_mask=bias.flip(-1).expand(-1, -1, n, n))[1].flip(-1)
        else:
            column = flash(key, query, value, 0.0, False, attn_mask=bias.expand(-1, -1, n, n))[1]
        mass = flash(query, key, classes, 0.0, causal)[0][..., :CLASSES]
        return {"output": output[0], "received": column[0].exp(), "class_mass": mass[0]}

    return run


def flex(call: Call) -> Callable[[], Results]:
    """torch's flex attention, compiled; the mask as its block mask. Compiling is not timed."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    query, key, value = call.query, call.key, call.value
    tests: dict[str, Any] = {
        "causal": lambda batch, head, row, column: row >= column,
        "window": lambda batch, head, row, column: (row >= column) & (row - column < WINDOW),
    }
    block = None
    if call.mask != "full":
        block = create_block_mask(tests[call.mask], None, None, call.n, call.n, device=query.device.type)
    torch.compiler.reset()  # it gives up on a function that it compiled for too many shapes
    compiled = torch.compile(flex_attention, dynamic=False)
    return lambda: {"output": compiled(query, key, value, block_mask=block)[0]}


def heedmap_attend(call: Call, *, kernel: str) -> Callable[[], Results]:
    """`attend`: output and all default statistics."""
    _check(call, kernel)

    def run() -> Results:
        found = attend(call.query, call.key, call.value, mask=call.lazy_mask, kernel=kernel)
        return {"output": found.output[0], **_statistics(found.measurements)}

    return run


def heedmap_measure(call: Call, *, kernel: str) -> Callable[[], Results]:
    """`measure`: all default statistics and no output."""
    _check(call, kernel)
    return lambda: _statistics(measure(call.query, call.key, mask=call.lazy_mask, kernel=kernel))


def _check(call: Call, kernel: str) -> None:
    if kernel not in kernels_for(AttentionInputs(call.query, call.key)):
        raise UnsupportedError(
            "bench", expected=f"a call that kernel {kernel} takes", got=f"one on {call.query.device}"
        )


def _statistics(measurements: Any) -> dict[str, Tensor]:
    names = ("entropy", "received", "row_mass", "max_weight", "concentration", "mean_distance", "distance_profile")
    return {name: torch.from_numpy(measurements[name][0]) for name in names}


METHODS = (
    Method("eager", eager, tables=2, masks=lambda mask: mask != "full", gives="output, weights"),
    Method(
        "eager + statistics", eager_statistics, tables=5, masks=lambda mask: mask != "full", gives="output, statistics"
    ),
    Method("sdpa", sdpa, masks=lambda mask: mask == "window", gives="output"),
    Method("sdpa + two tricks", sdpa_tricks, gives="output, two statistics"),
    Method("flex, compiled", flex, gives="output", compiles=True),
    *(
        Method(f"heedmap {what}, {kernel.NAME}", partial(body, kernel=kernel.NAME), gives=gives)
        for kernel in KERNELS
        for what, body, gives in (
            ("measure", heedmap_measure, "statistics"),
            ("attend", heedmap_attend, "output, statistics"),
        )
    ),
)
"""In the order of the table."""
