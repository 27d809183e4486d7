"""Exact weights of a run's layers, a strip of rows at a time: what studies of several heads at once read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from heedmap.errors import InputError, RunError
from heedmap.runs.checks import check_known
from heedmap.runs.formula import allowed

if TYPE_CHECKING:
    from heedmap.runs.manifest import LayerInfo
    from heedmap.runs.reader import Run

STRIP = 2**21
"""Weights of one head in a strip: 16 MB in float64, whatever the length of the text."""


def layers_of(run: Run, part: str | None, where: str) -> list[LayerInfo]:
    """The layers of one part in which a text attends to itself; None for the only such part.

    Raises:
        InputError: no such part, several of them and none named, or one that reads another text.
    """
    own = list(dict.fromkeys(info.part for info in run.layers if not info.cross))
    parts = list(dict.fromkeys(info.part for info in run.layers))
    if part is None:
        if len(own) != 1:
            raise InputError(
                where,
                expected="one part in which a text attends to itself",
                got=", ".join(own) or f"{', '.join(parts)} only",
                do="name one with --part" if own else None,
            )
        part = own[0]
    if part not in own:
        what = "which reads another text" if part in parts else "which is not there"
        raise InputError(where, expected=f"a part among {', '.join(own) or 'none'}", got=f"{part!r}, {what}")
    return [info for info in run.layers if info.part == part]


def check_exact(run: Run, layers: Sequence[LayerInfo], where: str) -> None:
    """Raise RunError for a layer without its inputs, UnsupportedError for a formula that the run does not describe."""
    for info in layers:
        if not info.inputs:
            raise RunError(
                where,
                expected="a run with its inputs (query and key)",
                got=f"{run.path}, written without those of {info.part} layer {info.layer}",
                do="look at the text again without --no-inputs",
            )
        check_known(info, where)


def strips(info: LayerInfo, rows: np.ndarray) -> Iterator[np.ndarray]:
    """Text positions of query rows, cut so that a strip has at most `STRIP` weights a head (one row at least)."""
    step = max(1, STRIP // info.key_len)
    for start in range(0, len(rows), step):
        yield rows[start : start + step]


def seen_by(info: LayerInfo, rows: np.ndarray) -> range:
    """The stretch of keys beyond which the mask hides all from these rows: half the work where it is causal."""
    keys = np.arange(info.key_len) + info.key_offset
    seen = np.flatnonzero(np.broadcast_to(allowed(info.mask, rows, keys), (len(rows), len(keys))).any(0))
    if not len(seen):
        return range(info.key_offset, info.key_offset)
    return range(int(seen[0]) + info.key_offset, int(seen[-1]) + info.key_offset + 1)


def mean_weights(run: Run, info: LayerInfo, rows: np.ndarray) -> tuple[np.ndarray, range]:
    """Weights of some rows, the mean over the layer's heads: float64 `[rows, keys]`, and which keys these are.

    Rows that were left out as padding are 0.
    """
    keys = seen_by(info, rows)
    total = np.zeros((len(rows), len(keys)))
    if len(keys):
        for head in info.heads:
            total += np.nan_to_num(
                run.weights(info.layer, head, rows, slice(keys.start, keys.stop), part=info.part), copy=False
            )
    return total / len(info.heads), keys
