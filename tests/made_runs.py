"""Runs with weights of our choice, measured and written by heedmap itself.

With key the identity and query the logarithm of the weights, the scores are the logarithms and the softmax gives the
weights back: what a head does in a test is written down as a matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from heedmap.attention import masks
from heedmap.measure import measure
from heedmap.runs.reader import Run
from heedmap.runs.writer import RunWriter

META: dict[str, Any] = {
    "model": {"name": "made", "class": "BertModel", "dtype": "float32", "layers": 2, "initialised": 0},
    "self_check": {
        "layer": 0,
        "head": 1,
        "rows": 3,
        "keys": 4,
        "max_abs_error": 6e-8,
        "budget": 1e-5,
        "passed": True,
    },
    "cost": {
        "seconds": {"load": 0.5, "tokenise": 0.01, "forward": 0.2, "total": 0.75},
        "peak_bytes": 345_000_000,
        "output_attentions_bytes": 41_472,
    },
}


def make_run(
    path: Path,
    weights: np.ndarray,
    labels: Sequence[str] | None = None,
    *,
    special: Sequence[int] = (),
    words: Sequence[int] | None = None,
    segment: Sequence[int] | None = None,
    text: str | None = None,
    text_pair: str | None = None,
    causal: bool = False,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    parts: Sequence[str] = ("self",),
    statistics: str | Sequence[str] = "default",
    meta: dict[str, Any] | None = None,
    keep_inputs: bool = True,
    ids: Sequence[int] | None = None,
    places: tuple[Sequence[int], Sequence[int]] | None = None,
    spans: dict[str, Sequence[bool]] | None = None,
) -> Run:
    """A run whose head [i, j] has the weights ``weights[i, j]`` ``[tokens, tokens]``; every part has the same ones."""
    count, n = weights.shape[1], weights.shape[2]
    labels = list(labels) if labels is not None else [f"token{i}" for i in range(n)]
    chosen = list(range(count)) if heads is None else list(heads)
    with RunWriter(path, keep_inputs=keep_inputs) as writer:
        writer.source(text if text is not None else " ".join(labels), text_pair)
        writer.tokens(
            {
                "position": list(range(n)),
                "id": list(range(n)) if ids is None else list(ids),
                "text": labels,
                "start": [-1] * n if places is None else list(places[0]),
                "end": [-1] * n if places is None else list(places[1]),
                "word": list(range(n)) if words is None else list(words),
                "special": [i in special for i in range(n)],
                "segment": [0] * n if segment is None else list(segment),
            }
        )
        for part in parts:
            for number, layer in zip(layers or range(len(weights)), weights, strict=True):
                query = torch.tensor(np.log(np.maximum(layer, 1e-38)), dtype=torch.float32)[chosen]
                key = torch.eye(n).expand(len(chosen), n, n).contiguous()
                measured = measure(
                    query[None],
                    key[None],
                    scale=1.0,
                    mask=masks.causal() if causal else None,
                    spans=None if spans is None else {name: torch.tensor([marks]) for name, marks in spans.items()},
                    statistics=statistics if spans is None else [statistics, "span_mass"],
                )
                entry = {
                    "part": part,
                    "layer": number,
                    "module": f"encoder.layer.{number}.attention",
                    "query_heads": count,
                    "key_heads": count,
                    "heads": chosen,
                    "head_dim": n,
                    "query_len": n,
                    "key_len": n,
                    "query_offset": 0,
                    "key_offset": 0,
                    "scale": 1.0,
                    "softcap": None,
                    "sinks": None,
                    "mask": {"kind": "causal", "offset": 0} if causal else {"kind": "all"},
                    "cross": False,
                    "kernel": measured.kernel,
                }
                all_keys = torch.eye(n).expand(count, n, n).contiguous()
                writer.layer(entry, measured, query.numpy(), all_keys.numpy())
        return writer.finish(META | (meta or {}))


def uniform(n: int) -> np.ndarray:
    return np.full((n, n), 1.0 / n)


def shifted(n: int, by: int) -> np.ndarray:
    """Every token looks at the token ``by`` places before it, and where there is none at itself."""
    at = np.arange(n) - by
    return np.eye(n)[np.where((at >= 0) & (at < n), at, np.arange(n))]


def on(n: int, key: int) -> np.ndarray:
    """Every token looks at one token."""
    return np.eye(n)[np.full(n, key)]
