"""What `heedmap plan` predicts of memory and disk, against what `heedmap look` then takes, in processes of their own.

    python benchmarks/plan.py [--case minilm:512 --case smollm2:8192] [--file TEXT]

Memory does not depend on who else is at work, so a busy machine will do; 4 GB of it must be free for SmolLM2. Without
a file the text is this project's licence, over and over. Exit code 1 where a prediction is off by more than 15 %.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import harness

WITHIN = 0.15
LICENCE = Path(__file__).parents[1] / "LICENSE"
LOOK = """
import json, sys
from heedmap.cli.main import main
code = main(["look", "--file", sys.argv[1], "--model", sys.argv[2], "--tokens", sys.argv[3], "--out", sys.argv[4]])
from heedmap.machine import peak_memory
print(json.dumps({"code": code, "peak_bytes": peak_memory()}))
"""


def run(*command: str) -> dict:
    done = subprocess.run([sys.executable, *command], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def case(model: str, tokens: str, file: str) -> dict:
    """Predict and measure one model at one length."""
    plan = run("-m", "heedmap", "plan", model, "--tokens", tokens, "--json")
    cost = next(cost for cost in plan["costs"] if cost["tokens"] == int(tokens))
    with tempfile.TemporaryDirectory() as folder:
        looked = run("-c", LOOK, file, model, tokens, f"{folder}/run")
        meta = json.loads(Path(folder, "run", "run.json").read_text())
        size = sum(path.stat().st_size for path in Path(folder, "run").iterdir())
    if looked["code"] != 0 or meta["text"]["tokens"] != int(tokens):
        sys.exit(f"[benchmark] expected a look at {tokens} tokens, got {meta['text']['tokens']}; give a longer --file")
    return {
        "model": model,
        "tokens": int(tokens),
        "predicted_bytes": cost["sweep_peak_bytes"],
        "peak_bytes": looked["peak_bytes"],
        "predicted_run_bytes": cost["run_bytes"],
        "run_bytes": size,
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--case", action="append", metavar="MODEL:TOKENS")
    options.add_argument("--file", type=harness.text_file, help="a text of at least as many tokens")
    given = options.parse_args()
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as text:
        text.write(LICENCE.read_text() * 5)
        text.flush()
        cases = [one.split(":") for one in given.case or ("minilm:512", "smollm2:2048", "smollm2:8192")]
        found = [case(model, tokens, given.file or text.name) for model, tokens in cases]
    off = []
    print(f"{'':18}{'memory predicted':>18}{'measured':>11}{'':8}{'run predicted':>16}{'measured':>11}")
    for row in found:
        memory = row["predicted_bytes"], row["peak_bytes"]
        disk = row["predicted_run_bytes"], row["run_bytes"]
        errors = [predicted / measured - 1 for predicted, measured in (memory, disk)]
        sizes = [f"{size / 1e6:,.0f} MB" for size in (*memory, *disk)]
        print(
            f"{row['model']:9}{row['tokens']:>9,}{sizes[0]:>18}{sizes[1]:>11}{errors[0]:>+8.1%}"
            f"{sizes[2]:>16}{sizes[3]:>11}{errors[1]:>+8.1%}"
        )
        off += map(abs, errors)
    harness.finish({"benchmark": "plan", "cases": found, "within": max(off)})
    sys.exit(0 if max(off) <= WITHIN else 1)


if __name__ == "__main__":
    main()
