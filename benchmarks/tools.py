"""heedmap's page beside those of other tools: one text, all heads of MiniLM, from its tokens to an HTML file.

    pip install --no-deps --target build/tools bertviz==1.4.1 circuitsvis==1.43.3 attnview==0.5.1
    pip install --target build/tools importlib-metadata ipython
    python benchmarks/tools.py [--lengths 12,128,512]

Each tool runs in a process of its own after the model is loaded: the forward pass, what the tool does with the weights,
and writing. The others take the weights of the eager attention; heedmap looks, and exports with its default budget.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import harness

TOOLS = Path(__file__).resolve().parent.parent / "build" / "tools"
SHARED = """
import json, sys, tempfile, time
from pathlib import Path
import torch
from heedmap.capture.models import resolve
from heedmap.machine import peak_memory
tokens = int(sys.argv[1])
loaded = resolve("minilm")
sentence = "The cat sat on the mat because it was tired"
words = (sentence.split() * tokens)[:tokens - 2]
text = " ".join(words)
folder = Path(tempfile.mkdtemp())
page = folder / "page.html"
held = peak_memory()
began = time.perf_counter()
def weights():
    loaded.model.set_attn_implementation("eager")
    inputs = loaded.tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        found = loaded.model(**inputs, output_attentions=True).attentions
    return found, loaded.tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])
"""
REPORT = """
seconds = time.perf_counter() - began
peak = peak_memory() - held
import shutil
size = page.stat().st_size
shutil.rmtree(folder)
print(json.dumps({"seconds": seconds, "bytes": peak, "html_bytes": size}))
"""
PAGES = {
    "BertViz model_view": """
from bertviz import model_view
found, labels = weights()
page.write_text(model_view(found, labels, html_action="return").data)
""",
    "CircuitsVis": """
import circuitsvis
found, labels = weights()
page.write_text(str(circuitsvis.attention.attention_heads(torch.cat(found, 1)[0], labels)))
""",
    "attnview": """
import attnview
found, labels = weights()
cache = {f"blocks.{at}.attn.hook_pattern": layer[0] for at, layer in enumerate(found)}
attnview.export_cache(cache, page, tokens=labels)
""",
    "heedmap": """
import heedmap
from heedmap.view.export import export
run = heedmap.look(text, loaded.model, loaded.tokenizer, out=folder / "run")
export([run], page)
""",
}


def main() -> None:
    options = harness.options(__doc__)
    options.add_argument("--lengths", default="12,128,512", help="tokens, up to 512")
    given = options.parse_args()
    harness.ready()
    if not (TOOLS / "bertviz").is_dir():
        sys.exit(f"[benchmark] expected other tools in {TOOLS}, got none; install them as --help says")
    os.environ["PYTHONPATH"] = str(TOOLS)
    rows = []
    for tokens in map(int, given.lengths.split(",")):
        for name, code in PAGES.items():
            row = {"tool": name, "tokens": tokens} | harness.child(SHARED + code + REPORT, tokens)
            rows.append(row)
            print(
                f"{tokens:4} tokens  {name:20} {row['html_bytes'] / 1e6:9,.1f} MB of HTML  {row['seconds']:6.1f} s"
                f"  {row['bytes'] / 1e6:8,.0f} MB of memory"
            )
    harness.finish({"benchmark": "tools", "rows": rows})


if __name__ == "__main__":
    main()
