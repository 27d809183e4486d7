"""Write docs/benchmarks.md and the table of the README from what the benchmarks recorded.

    python benchmarks/tables.py            write them
    python benchmarks/tables.py --check    say whether they are as the records tell

Each benchmark keeps its last line in benchmarks/record/ when it is run with --record on a quiet machine.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RECORDS = ROOT / "benchmarks" / "record"
PAGE = ROOT / "docs" / "benchmarks.md"
READMES = {ROOT / "README.md": "en", ROOT / "README.ko.md": "ko"}
BEGIN, END = "<!-- benchmarks: begin -->", "<!-- benchmarks: end -->"
HEADINGS = {"en": ("of one causal call", "tokens"), "ko": ("causal 호출 한 번", "토큰")}
SHOWN = (1024, 8192, 65_536)
"""Lengths in the README."""


def record(name: str) -> dict[str, Any]:
    return json.loads((RECORDS / f"{name}.json").read_text(encoding="utf-8"))


def size(count: float) -> str:
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            number = count / factor
            return f"{number:,.0f} {unit}" if number >= 10 else f"{number:.1f} {unit}"
    return f"{count:,.0f} B"


def time(seconds: float) -> str:
    if seconds >= 100:
        return f"{seconds:,.0f} s"
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(row: dict[str, Any]) -> str:
    """A time with its ratio to sdpa, or why there is none."""
    if row["timing"] is None:
        words = {"would not fit": f"needs {size(row['needs_bytes'])}", "too long": "too long", "unsupported": "–"}
        return words[row["status"]]
    ratio = "" if row["to_sdpa"] is None or row["method"] == "sdpa" else f" ({row['to_sdpa']:.2f} ×)"
    return f"{time(row['timing']['median'])}{ratio}"


def calls(document: dict[str, Any], shown: Callable[[int], bool] = lambda n: True, first: str = "") -> str:
    """One table for each mask, head_dim and dtype: methods by lengths."""
    parts = []
    kinds = dict.fromkeys((row["mask"], row["head_dim"], row["dtype"]) for row in document["rows"])
    for kind in kinds:
        rows = [row for row in document["rows"] if (row["mask"], row["head_dim"], row["dtype"]) == kind]
        lengths = [n for n in dict.fromkeys(row["n"] for row in rows) if shown(n)]
        body = []
        for method in dict.fromkeys(row["method"] for row in rows):
            of_it = {row["n"]: row for row in rows if row["method"] == method}
            body.append([method, *(cell(of_it[n]) for n in lengths)])
        mask, dim, dtype = kind
        heads = document["cases"]["heads"]
        heads = f"{heads} head{'s' if heads > 1 else ''}"
        title = first or f"**{mask} mask, {heads}, head_dim {dim}, {dtype}**\n\n"
        parts.append(title + table(["", *(f"{n:,}" for n in lengths)], body))
    return "\n\n".join(parts)


def machine(document: dict[str, Any]) -> str:
    found = document["machine"]
    memory = f"{found['memory_bytes'] / 2**30:.0f} GiB"
    return f"{found['processor']}, {found['threads']} threads, {memory}, torch {found['torch']}"


def command(document: dict[str, Any]) -> str:
    """The call of `heedmap bench` that gives a record's cases."""
    cases = document["cases"]
    given = " ".join(
        f"--{name.replace('_', '-')} {','.join(map(str, cases[name]))}"
        for name in ("lengths", "head_dims", "masks", "dtypes")
    )
    return f"heedmap bench {given} --heads {cases['heads']} --rounds {cases['rounds']} --json"


def page() -> str:
    long = with_longest(record("bench-long"))
    parts = [
        "# Benchmarks",
        "Made by `python benchmarks/tables.py` from what `make bench FILE=book.txt` records, on a quiet machine "
        f"({machine(long)}) where nothing else is said.",
        "Methods take turns in one process; figures are medians; (×) is over torch's `scaled_dot_product_attention` on "
        "the same call. Before anything is timed each method is held to the textbook's form in float64. `measure` "
        "gives all default statistics, `attend` the output too; `eager` keeps the weights and gives no statistics.",
        "What won and what did not is in [LOG.md](../LOG.md). **CUDA is untested**: no GPU was at hand. "
        "`make test-cuda` holds the kernels to the reference there and times them. macOS, Windows and the speed on ARM "
        "are untested too.",
        "## One call, over lengths",
        f"`{command(long)}`; where one run was expected to take more than {long['cases']['seconds']:g} s, a method is "
        f"left out.{longest()}",
        calls(long),
    ]
    for name, section in SECTIONS.items():
        if (RECORDS / f"{name}.json").exists():
            found = record(name)
            heading, *told = section(found)
            elsewhere = [] if machine(found) == machine(long) else [f"On another machine ({machine(found)})."]
            parts += [heading, *elsewhere, *told]
    return "\n\n".join(parts) + "\n"


def with_longest(document: dict[str, Any]) -> dict[str, Any]:
    """The rows of some lengths from a record of their own, whose calls may take longer."""
    if not (RECORDS / "bench-longest.json").exists():
        return document
    own = {(row["method"], row["mask"], row["n"]): row for row in record("bench-longest")["rows"]}
    return document | {"rows": [own.get((row["method"], row["mask"], row["n"]), row) for row in document["rows"]]}


def sweep(document: dict[str, Any]) -> list[str]:
    ratios, found = document["ratio_to_sdpa"], document["machine"]
    rows = ([case, *(f"{ratios[mask][case]:.2f}" for mask in ratios)] for case in ratios["full"])
    (short, less), (long, more) = document["extra_bytes"].items()
    return [
        "## The sweep against torch's own attention",
        f"`python benchmarks/sweep.py`: 9 heads, {document['length']:,} tokens, head_dim 64, float32, all default "
        f"statistics, × `scaled_dot_product_attention`; heedmap's native kernel by {found['instructions']}, torch by "
        f"{found['capability']}.",
        table(["× torch's attention", *(f"{mask} mask" for mask in ratios)], rows),
        f"A sweep of one head takes {size(less)} beyond its inputs at {int(short):,} tokens and {size(more)} at "
        f"{int(long):,}.",
    ]


def window(document: dict[str, Any]) -> list[str]:
    kinds, ratios = document["kinds"], document["ratios"]
    return [
        "## Layers with a window",
        f"`python benchmarks/window.py`: {document['model']} over {document['tokens']:,} tokens, attention and default "
        f"statistics of one layer: {time(kinds['windowed']['seconds'])} with a window, "
        f"{time(kinds['full']['seconds'])} without ({ratios['seconds']:.3f} ×). A row of a window may see "
        f"{ratios['allowed']:.3f} of the keys of a full one; the strips visit {ratios['visited']:.3f}.",
    ]


def longest() -> str:
    """Where `with_longest` takes rows from another record: its call."""
    if not (RECORDS / "bench-longest.json").exists():
        return ""
    own = record("bench-longest")
    return f" The longest for some: `{command(own)}`, up to {own['cases']['seconds']:g} s."


def many(document: dict[str, Any]) -> list[str]:
    return [
        "## One call, head sizes, masks and dtypes",
        f"`{command(document)}`; a window of {document['window']} keys.",
        calls(document),
    ]


def models(document: dict[str, Any]) -> list[str]:
    rows = (
        [f"{row['tokens']:,}", row["way"], time(row["seconds"]), f"{row['to_plain']:.2f}", size(row["bytes"])]
        if "seconds" in row
        else [f"{row['tokens']:,}", row["way"], f"needs {size(row['weights_bytes'])}", "", ""]
        for row in document["rows"]
    )
    return [
        "## Whole models",
        f"`python benchmarks/models.py`: {document['rows'][0]['model']}, its body without the head for words.",
        table(["tokens", "way", "time", "× plain", "memory beyond the model"], rows),
    ]


def look(document: dict[str, Any]) -> list[str]:
    looked, plain = document["look"], document["plain"]
    return [
        "## A whole look",
        "`python benchmarks/look.py`: SmolLM2 at 8,192 tokens, inputs kept and the run written, took "
        f"{looked['seconds']['total']:.1f} s where the plain forward pass takes {plain['seconds']['total']:.1f} s "
        f"({document['ratio']:.2f} ×), and {size(looked['peak_bytes'])} of memory where that takes "
        f"{size(plain['peak_bytes'])}; the run folder holds {size(document['run_bytes'])}.",
    ]


def tools(document: dict[str, Any]) -> list[str]:
    rows = (
        [str(row["tokens"]), row["tool"], size(row["html_bytes"]), time(row["seconds"]), size(row["bytes"])]
        for row in document["rows"]
    )
    return [
        "## Whole tools",
        "`python benchmarks/tools.py`: all heads of MiniLM, from a text to an HTML file.",
        table(["tokens", "tool", "HTML", "time", "memory beyond the model"], rows),
    ]


def backward(document: dict[str, Any]) -> list[str]:
    (n, ours), (_, theirs) = (list(document["extra_bytes"][way].items())[-1] for way in ("attend", "eager"))
    ratios = document["ratio_to_sdpa"]
    return [
        "## Forward and backward",
        f"`python benchmarks/backward.py`: `attend` with all default statistics, {document['length']:,} tokens, "
        f"9 heads, × torch's forward and backward: {ratios['full']:.2f} (full), {ratios['causal']:.2f} (causal). "
        f"Memory of one head at {int(n):,} tokens: {size(ours)}, where the textbook's form takes {size(theirs)}.",
    ]


def million(document: dict[str, Any]) -> list[str]:
    n = document["length"]
    return [
        "## A million tokens",
        f"`python benchmarks/million.py`: one causal head over {n:,} tokens, a matrix of {n**2:,} cells, all default "
        f"statistics: {document['seconds']:,.0f} s, {size(document['peak_bytes'])} of memory in all, "
        f"{document['operations_per_second'] / 1e9:,.0f} GFLOP/s of Q·Kᵀ where torch's matrix product reaches "
        f"{document['product_operations_per_second'] / 1e9:,.0f} at its best; the keys receive "
        f"{document['received']:,.3f} of {n:,}.",
    ]


def scan(document: dict[str, Any]) -> list[str]:
    texts = {"novel": "a novel in 200 pieces", "sentences": "sentences of a treebank"}
    rows = (
        [title, f"{own['texts']:,}", f"{own['tokens']:,}", f"{own['threads']}", time(own["plain_seconds"]),
         time(own["scan_seconds"]), f"{own['share_of_plain']:.2f}"]
        for name, title in texts.items()
        for own in document[name]
    )  # fmt: skip
    workers, cost = document["workers"], document["cost"]
    least, most = document["memory"][0], document["memory"][-1]
    share = workers.get("share_of_plain")
    of_plain = "" if share is None else f", {share:.2f} of what plain passes on two threads reach"
    return [
        "## Many texts",
        f"`python benchmarks/scan.py`: {document['model']}, plain forward passes under torch's own attention against a "
        "whole scan of the same batches, from text to the bytes of its files.",
        table(["", "texts", "tokens", "threads", "plain", "scan", "plain / scan"], rows),
        f"Two workers are {workers['ratio']:.2f} × as fast as one (one thread each: {workers['two']:,.0f} and "
        f"{workers['one']:,.0f} texts a second{of_plain}). A scan of {least['texts']:,} texts holds "
        f"{size(least['peak_bytes'])} of memory, one of {most['texts']:,} {size(most['peak_bytes'])}. A text of "
        f"{cost['tokens_a_text']:.0f} tokens takes {time(cost['seconds_a_text'])} of one core and "
        f"{size(cost['heads_bytes_a_text'])} in `heads`, {size(cost['texts_bytes_a_text'])} in `texts`; a shard "
        f"{size(cost['sums_bytes_a_shard'])} in `sums` and {time(cost['merge_seconds_a_shard'])} when all are put "
        f"together; all tables over {cost['texts']:,} texts {size(cost['totals_bytes'])} and "
        f"{time(cost['finish_seconds'])}. Means of a set and over single looks differ "
        f"by at most {document['means_differ_by']:.0e}.",
    ]


SECTIONS: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "sweep": sweep,
    "window": window,
    "bench-many": many,
    "models": models,
    "look": look,
    "tools": tools,
    "backward": backward,
    "million": million,
    "scan": scan,
}
"""What each further record becomes on the page, in order."""


def excerpt(language: str) -> str:
    long = with_longest(record("bench-long"))
    causal = long | {"rows": [row for row in long["rows"] if row["mask"] == "causal"]}
    return (
        calls(causal, lambda n: n in SHOWN, first="\n").replace("|  |", f"| {HEADINGS[language][0]} |", 1).lstrip("\n")
    )


def files() -> dict[Path, str]:
    """What each file should hold."""
    found = {PAGE: page()}
    for readme, language in READMES.items():
        text = readme.read_text(encoding="utf-8")
        found[readme] = re.sub(
            f"{re.escape(BEGIN)}.*?{re.escape(END)}",
            lambda match, language=language: f"{BEGIN}\n{excerpt(language)}\n{END}",
            text,
            flags=re.DOTALL,
        )
    return found


def main() -> None:
    stale = [path for path, text in files().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if "--check" in sys.argv:
        sys.exit(f"[benchmark] expected tables as recorded, got others in {', '.join(map(str, stale))}" if stale else 0)
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
