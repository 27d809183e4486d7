"""Scans of a small set that are killed (SIGKILL) at random times, until each is whole: is it the set of one without?

    python benchmarks/interrupted.py [--kills 50] [--seed 1]

The model is tiny and random, made here. Not a matter of speed: it may run on a busy machine.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.made_sets import json_lines, model_folder, texts

from heedmap.textsets.scan import scan


def content(folder: Path) -> dict[str, Any]:
    """Every file of a set; of its JSON all but when it was made and how long that took."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            document = json.loads(path.read_bytes()) if path.suffix == ".json" else None
            found[path.relative_to(folder).as_posix()] = path.read_bytes() if document is None else timeless(document)
    return found


def timeless(document: Any) -> Any:
    if not isinstance(document, dict):
        return document
    return {name: timeless(value) for name, value in document.items() if name not in ("created", "seconds")}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--kills", type=int, default=50)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    draw = random.Random(given.seed)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["heedmap.textsets.scan", "transformers.models.bert.modeling_bert"])
    with tempfile.TemporaryDirectory() as above:
        folder = Path(above)
        arguments = {
            "texts": json_lines(folder / "texts.jsonl", texts(60, 25)),
            "model": str(model_folder(folder / "model")),
            "shard_texts": 7,
            "threads": 1,
        }

        def begun(out: Path) -> Any:
            process = context.Process(target=scan, kwargs=arguments | {"out": out})
            process.start()
            return process

        begun(folder / "first").join()
        began = time.monotonic()
        begun(folder / "whole").join()
        duration = time.monotonic() - began
        wanted = content(folder / "whole")
        assert wanted == content(folder / "first")
        kills = finished = 0
        out = folder / "set"
        while kills < given.kills or out.exists():
            process = begun(out)
            if kills < given.kills:
                process.join(draw.uniform(0.1, 1.0) * duration)
                if process.exitcode is None:
                    process.kill()
                    kills += 1
            process.join()
            if process.exitcode == 0:
                assert content(out) == wanted, "another set"
                finished += 1
                shutil.rmtree(out)
        print(
            f"{kills} scans were killed; {finished} sets came to their end, each the same as one without interruption"
        )


if __name__ == "__main__":
    main()
