"""Writes `run-v1/`, the run folder that pins format version 1. Run it from anywhere: `python tests/golden/make_run.py`.

A new format version gets a new folder; the folders of earlier versions stay as they are, for readers must open them.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "runs"))

import dense  # noqa: E402 — the folder that holds it is named above
import numpy as np  # noqa: E402

from heedmap.runs.reader import Run  # noqa: E402
from heedmap.runs.writer import RunWriter  # noqa: E402

TEXT = "나는 the cat"
TOKENS = {
    "position": [0, 1, 2, 3, 4, 5, 0, 1, 2],
    "id": [2, 70, 71, 72, 73, 1, 2, 90, 1],
    "text": ["[CLS]", "나 ½", "나 ½", "는", "the cat", "[SEP]", "[CLS]", "a", "[SEP]"],
    "start": [-1, 0, 0, 1, 3, -1, -1, 0, -1],
    "end": [-1, 1, 1, 2, 10, -1, -1, 1, -1],
    "word": [-1, 0, 0, 0, 1, -1, -1, 0, -1],
    "special": [True, False, False, False, False, True, True, False, True],
    "segment": [0, 0, 0, 0, 0, 0, 0, 0, 0],
    "sequence": ["text"] * 6 + ["source"] * 3,
}
META = dense.META | {
    "created": "2026-01-01T00:00:00+00:00",
    "heedmap": "0.1.0",
    "command": ["heedmap", "look", "나는 the cat"],
    "self_check": {
        "layer": 0,
        "head": 1,
        "rows": 6,
        "keys": 6,
        "max_abs_error": 1e-7,
        "budget": 1e-5,
        "passed": True,
    },
}


def layers() -> list[dense.Layer]:
    """Grouped heads under a causal mask; bfloat16 with sinks, softcap and a window; cross-attention."""
    window = {"kind": "and", "of": [dense.CAUSAL, {"kind": "sliding_window", "size": 3, "both_sides": False}]}
    return [
        dense.make_layer(dense.CAUSAL, lambda q, k: k <= q, layer=0, query_len=6, key_len=6, head_dim=4, map_size=4),
        dense.make_layer(
            window,
            lambda q, k: 0 <= q - k < 3,
            layer=2,
            query_len=6,
            key_len=6,
            head_dim=4,
            map_size=4,
            heads=[1, 3],
            softcap=5.0,
            sinks=[0.5, -np.inf, 1.0, 2.0],
            valid=np.array([False, True, True, True, True, True]),
            dtype="bf16",
            seed=1,
        ),
        dense.make_layer(
            part="cross",
            layer=0,
            query_len=6,
            key_len=3,
            head_dim=4,
            map_size=4,
            cross=True,
            key_sequence="source",
            seed=2,
        ),
    ]


def write(path: Path) -> Run:
    """The golden run at another place."""
    with RunWriter(path) as writer:
        writer.source(TEXT)
        writer.tokens(TOKENS)
        for layer in layers():
            writer.layer(layer.entry, layer.measurements, layer.query, layer.key, dtype=layer.dtype)
        return writer.finish(META)


if __name__ == "__main__":
    shutil.rmtree(HERE / "run-v1", ignore_errors=True)
    write(HERE / "run-v1")
