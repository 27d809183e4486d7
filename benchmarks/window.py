"""What layers with a window cost against full ones, in one forward pass: Gemma 3, 16,384 tokens, every layer measured.

    python benchmarks/window.py --file TEXT [--model gemma3-270m] [--tokens 16384]

Each attention call of the pass is timed where heedmap computes and measures it (default statistics, output, all heads),
so that both kinds of layer run under the same conditions. Beside the medians stands what to expect: the keys that rows
may see, and the keys that the strips of the sweep visit (a strip of rows visits the windows of all its rows).
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import harness
import torch
from torch import Tensor

from heedmap.capture.interface import InterfaceCall
from heedmap.capture.models import resolve
from heedmap.capture.selection import Selection
from heedmap.capture.session import Call, Place, Session
from heedmap.capture.tokens import tokenise
from heedmap.capture.views import View
from heedmap.capture.watch import opened
from heedmap.kernels.plan import Block, blocks
from heedmap.measure import KERNELS

WARM_UP = 256  # tokens of a first pass that is not counted


@dataclass(frozen=True)
class Layer:
    """One layer of the pass: keys of its window (None: all before), seconds, and weights by head and row."""

    layer: int
    window: int | None
    seconds: float
    allowed: int
    visited: int
    kernel: str


class Watch:
    """Times the attention calls of one forward pass, and counts the scores that their strips hold."""

    def __init__(self, model: Any) -> None:
        self.layers: list[Layer] = []
        self._call: Call | None = None
        self._visited = 0
        everything = Selection.of(None, None)
        self._session = Session(model, everything, "default", False, self._take, compute=self._timed)
        for kernel in KERNELS:
            vars(kernel)["blocks"] = self._counted

    def run(self, view: View, tokens: int) -> list[Layer]:
        """One pass over so many tokens."""
        self.layers.clear()
        with opened(self._session), torch.no_grad():
            view.forward(tokens)
        return list(self.layers)

    def _counted(self, *given: Any, **more: Any) -> Iterator[Block]:
        for block in blocks(*given, **more):
            rows, heads = block.row_stop - block.row_start, block.head_stop - block.head_start
            self._visited += rows * heads * (block.key_stop - block.key_start)
            yield block

    def _take(self, call: Call) -> None:
        self._call = call

    def _timed(self, call: InterfaceCall, session: Session, place: Place) -> Tensor:
        self._visited = 0
        began = time.perf_counter()
        output = call.measure(session, place, list(range(call.query.shape[1])), with_output=True)
        seconds = time.perf_counter() - began
        found = self._call
        assert output is not None
        assert found is not None
        heads = call.query.shape[1]
        allowed = int(found.measurements["rows_that_may_see"].sum()) * heads
        window = _window(found.formula.mask)
        self.layers.append(Layer(place.layer, window, seconds, allowed, self._visited, found.measurements.kernel))
        return output


def _window(mask: Any) -> int | None:
    if mask["kind"] == "sliding_window":
        return int(mask["size"])
    return next((size for part in mask.get("of", ()) if (size := _window(part)) is not None), None)


def main() -> None:
    options = harness.options(__doc__)
    options.add_argument("--file", type=harness.text_file, required=True, help="a text of at least as many tokens")
    options.add_argument("--model", default="gemma3-270m", help="a model with windowed and full layers")
    options.add_argument("--tokens", type=harness.count, default=16_384)
    given = options.parse_args()
    harness.ready()
    loaded = resolve(given.model)
    text = Path(given.file).read_text(encoding="utf-8")
    tokens, inputs = tokenise(loaded.tokenizer, text, max_tokens=given.tokens)
    if len(tokens) < given.tokens:
        sys.exit(f"[benchmark] expected a text of {given.tokens:,} tokens, got {len(tokens):,}")
    view, watch = View(loaded.model, inputs), Watch(loaded.model)
    watch.run(view, min(WARM_UP, given.tokens))
    layers = watch.run(view, given.tokens)
    kinds = {"windowed": [one for one in layers if one.window is not None and one.window < given.tokens]}
    kinds["full"] = [one for one in layers if one not in kinds["windowed"]]
    if not all(kinds.values()):
        sys.exit("[benchmark] expected layers with a window shorter than the text, and layers without")
    found = {}
    for name, own in kinds.items():
        found[name] = {key: statistics.median(getattr(one, key) for one in own)
                       for key in ("seconds", "allowed", "visited")} | {"layers": len(own)}  # fmt: skip
        windows = sorted({one.window for one in own if one.window is not None})
        print(f"{name:9} {len(own):3} layers   {found[name]['seconds']:8.3f} s   "
              f"{found[name]['allowed']:.3g} weights, {found[name]['visited']:.3g} scores in strips"
              + (f"   window {', '.join(map(str, windows))}" if name == "windowed" else ""))  # fmt: skip
    ratios = {key: found["windowed"][key] / found["full"][key] for key in ("seconds", "allowed", "visited")}
    print(
        f"a windowed layer takes {ratios['seconds']:.3f} of a full one; its rows may see {ratios['allowed']:.3f} of "
        f"its keys, its strips visit {ratios['visited']:.3f}"
    )
    harness.finish({
        "benchmark": "window", "model": loaded.name, "tokens": given.tokens, "kinds": found, "ratios": ratios,
        "layers": [vars(one) for one in layers],
    })  # fmt: skip


if __name__ == "__main__":
    main()
