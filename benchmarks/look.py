"""A whole look against the same model's plain forward pass: SmolLM2, 8,192 tokens, all heads, inputs kept.

    python benchmarks/look.py --file TEXT [--model smollm2] [--tokens 8192]

Each side runs in a process of its own, after the model is loaded: a plain forward of the model's body with torch's own
attention (sdpa), and `look` on the same tokens, from text to finished run.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import harness

SHARED = """
import json, sys, time
from pathlib import Path
import torch
from heedmap.capture.models import resolve
from heedmap.machine import peak_memory
name, file, tokens, out = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
loaded = resolve(name)
text = Path(file).read_text(encoding="utf-8")
loaded_at = peak_memory()
"""
PLAIN = """
from heedmap.capture.tokens import tokenise
_, inputs = tokenise(loaded.tokenizer, text, max_tokens=tokens)
ids = inputs["input_ids"]
body = loaded.model.base_model
with torch.no_grad():
    body(ids[:, :64])
    began = time.perf_counter()
    body(ids, use_cache=False)
seconds = {"total": time.perf_counter() - began}
"""
LOOK = """
from heedmap import look
began = time.perf_counter()
run = look(text, loaded.model, loaded.tokenizer, max_tokens=tokens, out=out)
seconds = {"total": time.perf_counter() - began} | {"parts": run.meta["cost"]["seconds"]}
seconds["check"] = run.meta["self_check"]
"""
REPORT = """
peak = peak_memory()
print(json.dumps({"seconds": seconds, "peak_bytes": peak, "after_loading_bytes": loaded_at}))
"""


def run(code: str, given: argparse.Namespace, out: str) -> dict:
    return harness.child(SHARED + code + REPORT, given.model, given.file, given.tokens, out)


def main() -> None:
    options = harness.options(__doc__)
    options.add_argument("--file", type=harness.text_file, required=True, help="a text of at least as many tokens")
    options.add_argument("--model", default="smollm2")
    options.add_argument("--tokens", type=harness.count, default=8192)
    options.add_argument("--rounds", type=harness.count, default=2)
    given = options.parse_args()
    harness.ready()
    plain, looked, size = [], [], 0
    for _ in range(given.rounds):
        with tempfile.TemporaryDirectory() as folder:
            plain.append(run(PLAIN, given, folder))
            looked.append(run(LOOK, given, f"{folder}/run"))
            size = sum(path.stat().st_size for path in Path(folder, "run").iterdir())
    best = [min(side, key=lambda result: result["seconds"]["total"]) for side in (plain, looked)]
    ratio = best[1]["seconds"]["total"] / best[0]["seconds"]["total"]
    for name, result in zip(("plain sdpa forward", "look, inputs kept"), best, strict=True):
        print(f"{name:20} {result['seconds']['total']:7.1f} s   peak {result['peak_bytes'] / 1e9:.2f} GB")
    print(f"{'':20} {ratio:7.2f} ×   run folder {size / 1e6:.0f} MB")
    harness.finish({"benchmark": "look", "ratio": ratio, "run_bytes": size, "plain": best[0], "look": best[1]})


if __name__ == "__main__":
    main()
