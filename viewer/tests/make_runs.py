"""Write one run for every kind of mask and formula, with the numbers that `run.weights` gives for it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch

from heedmap import masks
from heedmap.attention.masks import Mask
from heedmap.measure import measure
from heedmap.runs.reader import Run
from heedmap.runs.writer import RunWriter
from heedmap.view import profiles

LENGTH = 37
HEADS, KEY_HEADS, DIM = 4, 2, 16
profiles.BINS = 5  # so that each holds several positions


def cases() -> dict[str, dict[str, Any]]:
    valid = torch.ones(1, LENGTH, dtype=torch.bool)
    valid[0, :5] = False
    documents = torch.tensor([[0] * 12 + [1] * 15 + [2] * 10])
    return {
        "all": {"mask": None},
        "causal": {"mask": masks.causal()},
        "window": {"mask": masks.causal() & masks.sliding_window(7)},
        "window_both": {"mask": masks.sliding_window(5, both_sides=True)},
        "chunked": {"mask": masks.causal() & masks.chunked(8)},
        "prefix": {"mask": masks.causal() | masks.prefix(6)},
        "padding": {"mask": masks.causal() & masks.padding(valid), "valid_queries": valid},
        "packed": {"mask": masks.packed(documents)},
        "softcap_sinks": {"mask": masks.causal(), "softcap": 3.0, "sinks": torch.tensor([0.5, -1.0, 2.0, 0.0])},
        "bf16": {"mask": masks.causal(), "dtype": torch.bfloat16},
        "fp16": {"mask": masks.causal(), "dtype": torch.float16},
        "offset": {"mask": masks.causal(), "query_len": 11},
        "opaque": {"mask": masks.from_function(lambda b, h, q, k: (q - k) % 3 == 0)},
    }


def write(folder: Path, name: str, case: dict[str, Any]) -> None:
    generator = torch.Generator().manual_seed(7)
    dtype = case.pop("dtype", torch.float32)
    query_len = case.pop("query_len", LENGTH)
    query = (2 * torch.randn(1, HEADS, query_len, DIM, generator=generator)).to(dtype)
    key = torch.randn(1, KEY_HEADS, LENGTH, DIM, generator=generator).to(dtype)
    mask: Mask | None = case["mask"]
    measured = measure(query, key, **case)
    bf16 = dtype == torch.bfloat16
    sinks = case.get("sinks")
    entry = {
        "part": "self",
        "layer": 3,
        "module": "layers.3.attention",
        "query_heads": HEADS,
        "key_heads": KEY_HEADS,
        "heads": [0, 1, 2, 3],
        "head_dim": DIM,
        "query_len": query_len,
        "key_len": LENGTH,
        "query_offset": LENGTH - query_len,
        "key_offset": 0,
        "scale": DIM**-0.5,
        "softcap": case.get("softcap"),
        "sinks": None if sinks is None else sinks.tolist(),
        "mask": {"kind": "all"}
        if mask is None
        else (mask.describe() or {"kind": "opaque", "why": "made of a function"}),
        "cross": False,
        "kernel": measured.kernel,
    }
    with RunWriter(folder / name) as writer:
        writer.source("x" * LENGTH)
        writer.tokens(
            {
                "position": list(range(LENGTH)),
                "id": list(range(LENGTH)),
                "text": [f"t{i}" for i in range(LENGTH)],
                "start": list(range(LENGTH)),
                "end": [i + 1 for i in range(LENGTH)],
                "word": list(range(LENGTH)),
                "special": [i == 0 for i in range(LENGTH)],
                "segment": [0] * LENGTH,
            }
        )
        arrays = [(t[0].view(torch.uint16) if bf16 else t[0]).numpy() for t in (query, key)]
        writer.layer(entry, measured, *arrays, dtype="bf16" if bf16 else None)
        run = writer.finish({"model": {"name": name}})
    derived = run.path / "derived"
    derived.mkdir()
    (derived / "profiles.safetensors").write_bytes(profiles.profiles(run))
    (folder / f"{name}.json").write_text(json.dumps(expected(run, name != "opaque")))


def expected(run: Run, exact: bool) -> dict[str, Any]:
    head = 2
    table = run.table("query", layer=3, head=head)
    numbers: dict[str, Any] = {
        "raw": listed(run.raw_scores(3, head)),
        "entropy": listed(table.column("entropy").to_numpy()),
        "position": listed(table.column("position").to_numpy()),
        "map": listed(run.map(3, head)),
        "max": listed(run.map(3, head, kind="max")),
        "head_entropy": listed(run.table("head").column("entropy").to_numpy()),
    }
    if exact:
        numbers |= {"weights": listed(run.weights(3, head)), "scores": listed(run.scores(3, head))}
    return numbers


def listed(values: Any) -> Any:
    """Nested lists in which numbers that JSON lacks are text."""
    if values.ndim > 1:
        return [listed(row) for row in values]
    return [float(v) if abs(v) < float("inf") else str(float(v)) for v in values]


if __name__ == "__main__":
    for name, case in cases().items():
        write(Path(sys.argv[1]), name, case)
