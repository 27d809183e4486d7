"""A whole model three ways: its plain forward pass, with all weights kept by eager attention, and watched.

    python benchmarks/models.py --file TEXT [--model smollm2] [--lengths 512,2048] [--rounds 3]

Each measurement is a process of its own, after the model is loaded; the three take turns. Weights that would not fit
in memory are left out and told by their size.
"""

from __future__ import annotations

import statistics

import harness

from heedmap.machine import available_memory

SHARED = """
import json, sys, time
from pathlib import Path
import torch
import heedmap
from heedmap.capture.models import resolve
from heedmap.capture.tokens import tokenise
from heedmap.machine import peak_memory
name, file, tokens, way = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
loaded = resolve(name)
_, inputs = tokenise(loaded.tokenizer, Path(file).read_text(encoding="utf-8"), max_tokens=tokens)
body, ids = loaded.model.base_model, inputs["input_ids"]
held = peak_memory()
if way == "eager":
    body.set_attn_implementation("eager")
def run(ids):
    settings = {} if body.config.is_encoder_decoder or not hasattr(body.config, "use_cache") else {"use_cache": False}
    if way == "watch":
        with heedmap.watch(body) as seen:
            body(ids, **settings)
        return seen
    return body(ids, output_attentions=way == "eager", **settings)
with torch.no_grad():
    run(ids[:, :64])
    began = time.perf_counter()
    kept = run(ids)
    seconds = time.perf_counter() - began
print(json.dumps({"seconds": seconds, "bytes": peak_memory() - held, "tokens": ids.shape[1]}))
"""
WAYS = {"plain": "plain sdpa forward", "watch": "heedmap watch", "eager": "eager, output_attentions"}


def weights_bytes(model: str, tokens: int) -> int:
    """Bytes of all weights of a model, in float32, with the table of scores that is held beside them."""
    from heedmap.experiments.skeleton import config_of

    config = config_of(model)[0]
    heads = config.num_attention_heads
    return 4 * tokens**2 * heads * (config.num_hidden_layers + 2)


def main() -> None:
    options = harness.options(__doc__)
    options.add_argument("--file", type=harness.text_file, required=True, help="a text of at least as many tokens")
    options.add_argument("--model", default="smollm2")
    options.add_argument("--lengths", default="512,2048,8192")
    options.add_argument("--rounds", type=harness.count, default=3)
    given = options.parse_args()
    harness.ready()
    rows = []
    for tokens in map(int, given.lengths.split(",")):
        needs = weights_bytes(given.model, tokens)
        ways = [way for way in WAYS if way != "eager" or needs < 0.7 * available_memory()]
        found = {way: [] for way in ways}
        for _ in range(given.rounds):
            for way in ways:
                found[way].append(harness.child(SHARED, given.model, given.file, tokens, way))
        plain = statistics.median(one["seconds"] for one in found["plain"])
        for way, name in WAYS.items():
            row = {"model": given.model, "tokens": tokens, "way": name, "weights_bytes": needs}
            if way in found:
                seconds = statistics.median(one["seconds"] for one in found[way])
                taken = statistics.median(one["bytes"] for one in found[way])
                row |= {"seconds": seconds, "to_plain": seconds / plain, "bytes": taken}
                told = f"{seconds:7.2f} s  {seconds / plain:5.2f} ×  {taken / 1e6:8,.0f} MB"
            else:
                told = f"left out: {needs / 1e9:,.0f} GB of weights"
            rows.append(row)
            print(f"{given.model} {tokens:6,} tokens  {name:26} {told}")
    harness.finish({"benchmark": "models", "rounds": given.rounds, "rows": rows})


if __name__ == "__main__":
    main()
