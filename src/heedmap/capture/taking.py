"""Writes what a session measures into a run, layer by layer."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch

from heedmap.attention.inputs import AttentionInputs
from heedmap.capture.layers import decodes
from heedmap.capture.session import Call
from heedmap.runs.writer import RunWriter


class Progress(Protocol):
    """Told what `look` is at: `stage` is "load", "tokenise", "generate", "forward", "check" or "write", `done` of
    `total` steps."""

    def __call__(self, stage: str, done: int, total: int) -> None: ...


class Taker:
    """Writes each measured layer and forgets it."""

    def __init__(self, writer: RunWriter, tell: Progress, *, decoding: bool = False) -> None:
        self._decoding = decoding
        self._writer = writer
        self._tell = tell
        self._done = 0
        self._total = 0
        self.windows: list[int] = []
        """Sizes of windows and chunks among the masks."""

    def expect(self, total: int) -> None:
        """So many layers will come."""
        self._total = total
        self._tell("forward", 0, total)

    def __call__(self, call: Call) -> None:
        entry = call.formula.entry(call.part, call.layer, call.module, call.heads)
        if self._decoding and decodes(call.part):
            entry |= {"query_sequence": "target", "key_sequence": "text" if call.formula.cross else "target"}
        entry["kernel"] = call.measurements.kernel
        inputs = {} if call.inputs is None else _arrays(call.inputs)
        self._writer.layer(entry, call.measurements, **inputs)
        self.windows.extend(sizes(call.formula.mask))
        self._done += 1
        self._tell("forward", self._done, max(self._done, self._total))


def _arrays(inputs: AttentionInputs) -> dict[str, Any]:
    query, key = (tensor[0].detach().cpu().contiguous() for tensor in (inputs.query, inputs.key))
    arrays: dict[str, Any] = {}
    if inputs.value is not None:
        precise = torch.promote_types(inputs.value.dtype, torch.float32)
        norms = torch.linalg.vector_norm(inputs.value[0].detach(), dim=-1, dtype=precise)
        arrays["value_norm"] = norms.float().cpu().numpy()
    if query.dtype == torch.bfloat16:
        bits = [tensor.view(torch.int16).numpy().view(np.uint16) for tensor in (query, key)]
        return arrays | {"query": bits[0], "key": bits[1], "dtype": "bf16"}
    return arrays | {"query": query.numpy(), "key": key.numpy()}


def sizes(mask: dict[str, Any]) -> list[int]:
    """The windows and chunks in a mask's description."""
    return [size for part in mask.get("of", ()) for size in sizes(part)] + ([mask["size"]] if "size" in mask else [])
