"""A scan against the plain forward passes of the same batches, two workers against one, memory, bytes, merging.

    python benchmarks/scan.py [--data ../shared/data] [--model minilm] [--most 10000]

Texts are the novel cut into 200 pieces and the sentences of the English treebank. Throughput: one process, one shard,
the same batches: plain forward passes of the model's body under torch's own attention (sdpa), tokenised beforehand,
against everything that a scan does of a shard, from text to the bytes of its files; on one thread, as each of several
workers has, on two and on all. Workers: whole scans of many small shards with one thread each, counted from when every
worker has finished one to the last; two of them also against the plain passes on two threads. Memory: the peak of
processes that scan 100 texts and many. Costs: of the largest of these scans, its seconds and bytes a text, and what a
shard takes when all are put together. Means: those of a set against the means over single looks. Some eight minutes on
two quiet cores.
"""

from __future__ import annotations

import itertools
import json
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import harness

SHARED = """
import json, sys, time
from pathlib import Path
from heedmap.machine import peak_memory
from heedmap.textsets.scan import scan
source, model, out, workers = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
marks = []
def tell(stage, shards, texts):
    if stage == "measure":
        marks.append((time.perf_counter(), texts))
if __name__ == "__main__":
    began = time.perf_counter()
    found = scan(source, model, out=out, shard_texts=int(sys.argv[5]), workers=workers, threads=1, progress=tell)
    (first, some), (last, every) = marks[min(workers, len(marks)) - 1], marks[-1]
    print(json.dumps({
        "texts": found.meta["texts"], "tokens": found.meta["tokens"], "seconds": time.perf_counter() - began,
        "rate": (every - some) / (last - first) if every > some else None,
        "merge_seconds": time.perf_counter() - last, "peak_bytes": peak_memory(),
    }))
"""


def novel(data: Path, pieces: int = 200) -> list[str]:
    """The novel in pieces of equal length, cut between words."""
    words = (data / "text" / "alice.txt").read_text(encoding="utf-8").split()
    size = len(words) / pieces
    return [" ".join(words[round(at * size) : round((at + 1) * size)]) for at in range(pieces)]


def sentences(data: Path) -> list[str]:
    """The sentences of the treebank."""
    lines = (data / "dependencies" / "en_ewt-ud-dev.conllu").read_text(encoding="utf-8").splitlines()
    return [line.removeprefix("# text = ") for line in lines if line.startswith("# text = ")]


def throughput(texts: list[str], model: str, rounds: int, threads: int) -> dict[str, float]:
    """Seconds of plain forward passes and of a scan, over the same batches."""
    import torch

    from heedmap.capture.views import View
    from heedmap.textsets.batches import BUDGET, batches_of
    from heedmap.textsets.measurer import Measurer
    from heedmap.textsets.prepared import Prepared, Reader, prepare, stacked
    from heedmap.textsets.records import Job, Record
    from heedmap.textsets.settings import Settings

    measurer = Measurer(Settings(model=model), threads=threads)
    job = Job(1, 0, tuple(Record("texts", place, -1, text) for place, text in enumerate(texts)))
    reader = Reader(measurer.loaded)
    ready = [prepare(place, record, reader, Counter()) for place, record in enumerate(job.records)]
    good = [text for text in ready if isinstance(text, Prepared)]
    batches = [stacked(batch, 0) for batch in batches_of(good, BUDGET)]

    def plain() -> None:
        with torch.no_grad():
            for batch in batches:
                view = View(measurer.loaded.model, batch)
                view.forward(view.length)

    timed = harness.in_turn({"plain": plain, "scan": lambda: measurer.shard(job)}, rounds)
    seconds = {name: timing["median"] for name, timing in timed.items()}
    return {
        "threads": threads,
        "texts": len(good),
        "tokens": sum(map(len, good)),
        "batches": len(batches),
        "plain_seconds": seconds["plain"],
        "scan_seconds": seconds["scan"],
        "share_of_plain": seconds["plain"] / seconds["scan"],
    }


def whole(code: str, texts: list[str], model: str, workers: int, shard_texts: int, folder: Path) -> dict[str, Any]:
    """A whole scan in a process of its own."""
    source = folder / "texts.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    program = folder / "program.py"
    program.write_text(code)
    launch = "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    return harness.child(launch, program, source, model, folder / "set", workers, shard_texts)


def cost(folder: Path, scanned: dict[str, Any], rounds: int) -> dict[str, float]:
    """Seconds and bytes of a text, bytes of a shard, and what adding shards up takes."""
    from heedmap.sets.examples import deciles
    from heedmap.sets.finishing import merged
    from heedmap.sets.shards import finished

    sizes = {
        name: sum(file.stat().st_size for file in (folder / "set" / name).rglob("*") if file.is_file())
        for name in ("texts", "heads", "sums", "totals")
    }
    numbers = range(len(list((folder / "set" / "shards").iterdir())))
    shards = [shard for number in numbers if (shard := finished(folder / "set", number)) is not None]
    seconds, reading = [], []
    for _ in range(rounds):
        began = time.perf_counter()
        sums = merged(folder / "set", shards)
        between = time.perf_counter()
        deciles(folder / "set", shards, sums)
        seconds.append(between - began)
        reading.append(time.perf_counter() - between)
    count = scanned["texts"]
    return {
        "texts": count,
        "tokens_a_text": scanned["tokens"] / count,
        "shards": len(shards),
        "seconds_a_text": 1 / scanned["rate"],
        "heads_bytes_a_text": sizes["heads"] / count,
        "texts_bytes_a_text": sizes["texts"] / count,
        "sums_bytes_a_shard": sizes["sums"] / len(shards),
        "totals_bytes": sizes["totals"],
        "merge_seconds_a_shard": statistics.median(seconds) / len(shards),
        "deciles_seconds_a_text": statistics.median(reading) / count,
        "finish_seconds": scanned["merge_seconds"],
    }


def means(texts: list[str], model: str, folder: Path) -> float:
    """The largest difference between means of a set and means over single looks."""
    import numpy as np

    from heedmap.capture.look import look
    from heedmap.capture.models import resolve
    from heedmap.textsets.scan import scan

    loaded = resolve(model)
    source = folder / "few.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    found = scan(source, loaded.model, loaded.tokenizer, out=folder / "few")
    tables = [look(text, loaded.model, loaded.tokenizer).table("head") for text in texts]
    largest = 0.0
    for row in found.table("means").to_pylist():
        if row["statistic"] in tables[0].column_names:
            place = found.heads.index((row["part"], row["layer"], row["head"]))
            alone = np.mean([table.column(row["statistic"])[place].as_py() for table in tables])
            if row["unit"] != "tokens":
                largest = max(largest, abs(alone - row["mean"]))
    return largest


def main() -> None:
    options = harness.options(__doc__)
    options.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    options.add_argument("--model", default="minilm")
    options.add_argument(
        "--most", type=harness.count, default=10_000, help="texts of the largest scan, several shards of them"
    )
    options.add_argument("--shard-texts", type=harness.count, default=1024)
    options.add_argument("--rounds", type=harness.count, default=3)
    given = options.parse_args()
    if given.most < 2 * given.shard_texts or given.shard_texts < 4:
        options.error("--most has to fill two shards, of four texts or more")
    harness.ready()
    import torch

    texts = {"novel": novel(given.data), "sentences": sentences(given.data)}
    document: dict[str, Any] = {"benchmark": "scan", "model": given.model}
    most_threads = torch.get_num_threads()
    for (name, own), threads in itertools.product(texts.items(), sorted({1, min(2, most_threads), most_threads})):
        found = throughput(own, given.model, given.rounds, threads)
        document.setdefault(name, []).append(found)
        print(f"{name:10} {found['texts']:6,} texts {found['tokens']:8,} tokens, {threads} threads: plain "
              f"{found['plain_seconds']:6.1f} s   scan {found['scan_seconds']:6.1f} s   "
              f"{found['share_of_plain']:.2f} of plain")  # fmt: skip
    with tempfile.TemporaryDirectory() as above:

        def scanned(name: str, own: list[str], workers: int, shard_texts: int) -> dict[str, Any]:
            folder = Path(above, name)
            folder.mkdir()
            return whole(SHARED, own, given.model, workers, shard_texts, folder)

        some = list(itertools.islice(itertools.cycle(texts["sentences"]), given.most // 2))
        one, two = (scanned(f"workers{count}", some, count, given.shard_texts // 4)["rate"] for count in (1, 2))
        document["workers"] = {"one": one, "two": two, "ratio": two / one}
        print(f"one thread each: {one:.1f} texts a second, two workers {two:.1f}, {two / one:.2f} ×")
        for plain in document["sentences"]:
            if plain["threads"] == 2:
                share = document["workers"]["share_of_plain"] = two * plain["plain_seconds"] / plain["texts"]
                print(f"two workers against plain passes on two threads: {share:.2f} of plain")
        document["memory"] = []
        for count in (100, given.most):
            few = list(itertools.islice(itertools.cycle(texts["sentences"]), count))
            result = scanned(f"memory{count}", few, 1, given.shard_texts)
            document["memory"].append(result)
            print(f"{count:6,} texts: peak {result['peak_bytes'] / 1e6:.0f} MB")
        found = document["cost"] = cost(Path(above, f"memory{given.most}"), document["memory"][-1], given.rounds)
        document["means_differ_by"] = means(texts["sentences"][:30], given.model, Path(above))
    print(f"{1000 * found['seconds_a_text']:.1f} ms, {found['heads_bytes_a_text']:.0f} + "
          f"{found['texts_bytes_a_text']:.0f} bytes a text; {found['sums_bytes_a_shard'] / 1e6:.2f} MB and "
          f"{1000 * found['merge_seconds_a_shard']:.1f} ms of putting together a shard")  # fmt: skip
    print(f"means of a set and over single looks differ by at most {document['means_differ_by']:.1e}")
    harness.finish(document)


if __name__ == "__main__":
    main()
