"""Fills the numbers of the lessons from code, and draws their pictures.

    python docs/lessons/build.py            # fill the numbers into the texts, in both languages
    python docs/lessons/build.py --pictures # and draw docs/images/scaling*.png and complexity*.png
    python docs/lessons/build.py --measure  # and measure both .json anew, on a quiet machine (minutes)
    python docs/lessons/build.py --measure --out trial --case minilm:64 --longest 1024

The last is a trial: records, pictures and filled texts go into the folder `trial`, and the lessons stay as they are.
`--case` goes to `benchmarks/plan.py`, what else there is to `heedmap complexity`. A number of which a trial measures
nothing keeps its place in the text.

In a text a number stands before its name: `8.01<!--raw_spread-->`. The tests compute every number again and hold the
texts to them, and find no digit in the prose that has no name.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
IMAGES = HERE.parent / "images"
RECORD, PLANNED = "complexity.json", "plan.json"
NAMED = re.compile(r"(?P<number>[−-]?[0-9][0-9,]*(?:\.[0-9]+)?)(?P<after>\s?%?)<!--(?P<name>[a-z0-9_]+)-->")
DARK = "#14161c"
LONG = 8192
"""Tokens of the textbook's example."""
CAT = "The cat sat on the mat because it was tired"


@dataclass(frozen=True)
class Number:
    """A value, and how many decimals of it the texts show; `scale` 100 for per cent."""

    value: float
    decimals: int = 0
    scale: float = 1.0

    @property
    def text(self) -> str:
        return f"{self.value * self.scale:,.{self.decimals}f}".replace("-", "−")

    def agrees(self, text: str) -> bool:
        """Whether a printed number is this one, to one unit of its last digit."""
        printed = float(text.replace(",", "").replace("−", "-"))
        unit = 10.0 ** -len(text.partition(".")[2]) if self.decimals else 0.0
        return abs(printed - self.value * self.scale) <= unit + 1e-9 + (0.5 if not self.decimals else 0.0)


def numbers(records: Path = HERE) -> Mapping[str, Number]:
    """Every number of the lessons, computed now (but for those of the measurement that is recorded in a folder)."""
    return {**_computed(), **_once(_recorded(records))}


@cache
def _computed() -> Mapping[str, Number]:
    return _once(pair for part in (_cat, _scaling, _heads, _length, _paths) for pair in part())


def _once(pairs: Iterable[tuple[str, Number]]) -> dict[str, Number]:
    found: dict[str, Number] = {}
    for name, number in pairs:
        assert name not in found, name
        found[name] = number
    return found


def _cat() -> Iterator[tuple[str, Number]]:
    from heedmap import look

    run = look(CAT)
    words = run.tokens.column("text").to_pylist()
    it, cat, mat = words.index("it"), words.index("cat"), words.index("mat")
    weights, raw, scores = run.weights(5, 11), run.raw_scores(5, 11), run.scores(5, 11)
    yield "tokens", Number(len(words))
    yield "head_dim", Number(run.layer(5).head_dim)
    yield "heads", Number(len(run.heads))
    yield "scale", Number(run.layer(5).scale, 3)
    for name, place in (("cat", cat), ("mat", mat), ("it", it)):
        yield f"raw_it_{name}", Number(float(raw[it, place]), 1)
        yield f"score_it_{name}", Number(float(scores[it, place]), 2)
        yield f"weight_it_{name}", Number(float(weights[it, place]), 3)
    yield "row_of_it", Number(it)
    yield "row_sum_of_it", Number(float(weights[it].sum()), 3)
    entropy = run.table("query", layer=5, head=11, part="self").column("entropy").to_pylist()
    yield "entropy_of_it", Number(entropy[it], 2)
    yield "entropy_uniform", Number(math.log(len(words)), 2)
    count = len(words)
    previous, following, first = run.weights(0, 2), run.weights(1, 8), run.weights(2, 7)
    yield "previous_share", Number(sum(previous[i, i - 1] for i in range(1, count)) / (count - 1), 3)
    yield "next_share", Number(sum(following[i, i + 1] for i in range(count - 1)) / (count - 1), 3)
    yield "first_share", Number(float(first[:, 0].mean()), 3)


def _scaling() -> Iterator[tuple[str, Number]]:
    from heedmap.experiments.components import Components
    from heedmap.experiments.scaling import agreement

    found = _experiment()
    settings = found.settings

    def mean(head_dim: int, form: str, quantity: str) -> float:
        return found.point(head_dim, form, quantity).measured.mean

    yield "n", Number(settings.n)
    yield "seeds", Number(settings.seeds)
    yield "d", Number(64)
    yield "root_d", Number(8)
    yield "widest_d", Number(max(settings.head_dims))
    yield "log_n", Number(math.log(settings.n), 2)
    for form in ("raw", "scaled"):
        for quantity, decimals in (("spread", 2), ("entropy", 2), ("largest", 2), ("jacobian", 3), ("gradient", 2)):
            point = found.point(64, form, quantity)
            yield f"{form}_{quantity}", Number(point.measured.mean, decimals)
            assert point.predicted is not None
            yield f"{form}_{quantity}_predicted", Number(point.predicted, decimals)
    yield "warm_entropy", Number(math.log(settings.n) - 0.5, 2)
    yield "frozen_from", Number(math.sqrt(2 * math.log(settings.n)), 2)
    yield "saturated", Number(mean(64, "raw", "saturated"), 0, 100)
    yield "saturated_widest", Number(mean(1024, "raw", "saturated"), 0, 100)
    yield "median_raw_widest", Number(mean(1024, "raw", "gradient_median"), 3)
    yield "median_scaled_widest", Number(mean(1024, "scaled", "gradient_median"), 2)
    yield "gradient_raw_widest", Number(mean(1024, "raw", "gradient"), 1)
    within, judged = agreement(found.points)
    yield "within", Number(within)
    yield "judged", Number(judged)
    yield "correlation", Number(0.1, 1)
    yield "correlated_spread", Number(math.sqrt(Components("correlated", 0.1).score_variance(64)), 1)


@cache
def _experiment() -> Any:
    from heedmap.experiments.scaling import run_scaling

    return run_scaling()


def _heads() -> Iterator[tuple[str, Number]]:
    from heedmap.capture.models import resolve
    from heedmap.capture.tokens import tokenise
    from heedmap.experiments.scaling_heads import claim, measure_heads

    loaded = resolve("minilm")
    text = (ROOT / "LICENSE").read_text()
    tokens, inputs = tokenise(loaded.tokenizer, text, max_tokens=512)
    heads = measure_heads(loaded.model, inputs)
    found = claim(heads)
    yield "claim_tokens", Number(len(tokens))
    yield "claim_heads", Number(found.heads)
    yield "claim_kept", Number(found.kept)
    yield "query_variance_low", Number(found.query_variance[0], 1)
    yield "query_variance_median", Number(found.query_variance[1], 1)
    yield "query_variance_high", Number(found.query_variance[2], 0)
    yield "query_shifted", Number(found.query_shifted, 0, 100)
    yield "real_spread_low", Number(found.raw_spread[0], 1)
    yield "real_spread_median", Number(found.raw_spread[1], 0)
    yield "real_spread_high", Number(found.raw_spread[2], 0)
    yield "promised_spread", Number(found.promised, 1)
    yield "saturating", Number(sum(head.saturates for head in heads))
    yield "saturating_unscaled", Number(sum(head.saturates_unscaled for head in heads))


def _length() -> Iterator[tuple[str, Number]]:
    from heedmap.experiments.operations import Shape
    from heedmap.experiments.skeleton import Skeleton, config_of

    yield "long_n", Number(LONG)
    yield "long_cells", Number(Shape(LONG).cells)
    config, kind, _, name = config_of("smollm2")
    passed = Skeleton(config, kind, name).forward(LONG, 1)
    cells = sum(call.cells for call in passed.attended)
    yield "book_heads", Number(sum(call.shape.heads for call in passed.attended))
    yield "book_cells", Number(cells)
    yield "book_gigabytes", Number(4 * cells / 1e9, 1)


def _recorded(folder: Path) -> Iterator[tuple[str, Number]]:
    record = json.loads((folder / RECORD).read_text())
    product = record["product_operations_per_second"]
    yield "product_gigaflops", Number(product / 1e9)
    points = {point["method"]: point for point in record["points"] if point["n"] == LONG and point["bytes"]}
    if {"eager", "native"} <= set(points):
        yield "eager_megabytes", Number(points["eager"]["bytes"] / 1e6, 0)
        yield "sweep_megabytes", Number(points["native"]["bytes"] / 1e6, 0)
        yield "native_times_product", Number(points["native"]["operations_per_second"] / product, 2)
    for fit in record["exponents"]:
        if fit["quantity"] == "bytes":
            yield f"{fit['method']}_exponent", Number(fit["exponent"], 2)
    for case in json.loads((folder / PLANNED).read_text())["cases"]:
        if case["tokens"] in (512, LONG):
            yield f"plan_{case['model']}_tokens", Number(case["tokens"])
            yield f"plan_{case['model']}_predicted", Number(case["predicted_bytes"] / 1e6)
            yield f"plan_{case['model']}_measured", Number(case["peak_bytes"] / 1e6)


def _paths() -> Iterator[tuple[str, Number]]:
    from heedmap.experiments.path_length import attention_layers, convolution_layers, recurrence_steps

    yield "attention_path", Number(attention_layers(12))
    yield "recurrence_path", Number(recurrence_steps(12))
    yield "convolution_width", Number(3)
    yield "convolution_path", Number(convolution_layers(12, 3))


def texts() -> list[Path]:
    """The lessons, in both languages."""
    return sorted(HERE.glob("*.md"))


def filled(text: str, found: Mapping[str, Number]) -> str:
    """A lesson with its numbers as they are now; those that are not among the `found` stay."""

    def replace(match: re.Match[str]) -> str:
        number = found.get(match["name"])
        return match[0] if number is None else f"{number.text}{match['after']}<!--{match['name']}-->"

    return NAMED.sub(replace, text)


def missing(found: Mapping[str, Number]) -> list[str]:
    """Names in the lessons of which nothing was found."""
    named = {match["name"] for path in texts() for match in NAMED.finditer(path.read_text())}
    return sorted(named - set(found))


def main(arguments: list[str]) -> int:
    """See the top of the file."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--pictures", action="store_true")
    options.add_argument("--measure", action="store_true")
    options.add_argument("--out", type=Path, metavar="FOLDER")
    options.add_argument("--case", action="append", default=[], metavar="MODEL:TOKENS")
    given, of_complexity = options.parse_known_args(arguments)
    trial = given.out is not None
    if (trial or given.case or of_complexity) and not (given.measure and trial):
        options.error("expected --measure and --out FOLDER together, and other options only with them")
    folder, images = (given.out / "lessons", given.out / "images") if trial else (HERE, IMAGES)
    if given.measure:
        cases = [piece for case in given.case for piece in ("--case", case)]
        _measure(folder, of_complexity or ["--seconds", "60"], cases)
    found = numbers(folder)
    lacking = missing(found)
    if lacking and not trial:
        sys.exit(f"[lessons] expected a number for every name, got none for {', '.join(lacking)}")
    if given.pictures or given.measure:
        _draw(json.loads((folder / RECORD).read_text()), images)
    for path in texts():
        (folder / path.name).write_text(filled(path.read_text(), found))
    if lacking:
        sys.stdout.write(f"not measured in this trial: {', '.join(lacking)}\n")
    return 0


def _measure(folder: Path, complexity: list[str], plan: list[str]) -> None:
    """Write both records once both are measured."""
    documents = {
        RECORD: _last_line("-m", "heedmap", "complexity", *complexity, "--json"),
        PLANNED: _last_line(str(ROOT / "benchmarks" / "plan.py"), *plan),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document, indent=1) + "\n")


def _last_line(*command: str) -> Any:
    """The JSON document that is a command's last line."""
    done = subprocess.run([sys.executable, *command], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"[lessons] expected {command[-2]} {command[-1]} to end well, got exit code {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


def _draw(complexity: Any, images: Path) -> None:
    from heedmap.figures.complexity import complexity_figure
    from heedmap.figures.save import save
    from heedmap.figures.scaling import scaling_figure

    pictures: list[tuple[str, Callable[..., Any], Any]] = [
        ("scaling", scaling_figure, _experiment().document()),
        ("complexity", complexity_figure, complexity),
    ]
    for name, draw, document in pictures:
        save(draw(document), images / f"{name}.png")
        save(draw(document, facecolor=DARK), images / f"{name}-dark.png")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
