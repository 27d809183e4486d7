"""The format of a set as data: file names, tables, bins, kinds of token. `docs/sets.md` is its prose."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from heedmap.heads.types import TYPES

FORMAT = "heedmap-set"
VERSION = 1

SET_JSON = "set.json"
PLAN_JSON = "plan.json"
TEXTS, HEADS, SUMS, SHARDS, TOTALS, RUNS = "texts", "heads", "sums", "shards", "totals", "runs"
MAPS = "maps.safetensors"
TABLES = ("means", "deciles", "tops", "profiles", "entropies", "kinds", "types")
"""The tables over the whole set, each a file in `totals/`."""

CELLS = 32
"""Cells along each side of the mean map, in relative positions: cell i is the part [i/32, (i+1)/32) of a text."""
ENTROPY_STEP = 0.1
ENTROPY_BINS = 160
"""Nats of one bin of the histogram of entropies; the last bin holds all above."""
TOPS = 10
"""Texts kept at each end of a statistic, for each head."""
SAMPLE = 65_536
"""Texts up to which deciles are those of all texts; beyond, of so many drawn by the hash of their number."""
DECILES = tuple(range(11))

KINDS = {
    "first": "the first token of the text, whatever it is: where heads with nothing to say look",
    "special": "later special tokens: [SEP], end, chat marks",
    "punctuation": "nothing but punctuation (Unicode categories P)",
    "number": "holds a digit and no letter",
    "word": "the first token of a word",
    "piece": "a later token of a word",
    "other": "symbols, white space, parts of characters",
}
"""Every token is of one kind, the first of these that fits."""

_EXACT = 8
_OCTAVE = 4
_OCTAVES = 19
_LARGEST = 2**31 - 1

_FAR = [round(_EXACT * 2 ** (step / _OCTAVE)) for step in range(1, _OCTAVES * _OCTAVE + 1)]
REACHES = np.array([*range(1, _EXACT + 1), *_FAR], dtype=np.int64)
"""First distance of each bin on one side: each of 1 … 8 alone, then four bins an octave to 2²², and all beyond."""
STARTS = np.concatenate([1 - np.append(REACHES[1:], _LARGEST)[::-1], [0], REACHES])
"""First distance of every bin, from the furthest ahead (negative) over 0 to the furthest behind."""
STOPS = np.append(STARTS[1:], _LARGEST)
"""One more than the last distance of every bin."""

UNITS = {name: kind.unit for name, kind in TYPES.items()}
EXCERPT = 200
"""Characters of a text that the table of texts holds."""


def way_back(folder: Path, file: Path) -> str:
    """How a damaged file of a set, of its right size, is made again: what says that it stands is taken away first."""
    name = next((part for part in file.relative_to(folder).parts if part.startswith("shard=")), None)
    says = folder / (SET_JSON if name is None else f"{SHARDS}/{name.split('.')[0]}.json")
    return f"remove {says} and run its `heedmap scan` again: it is made again"


def shard_name(number: int) -> str:
    """`7` → `shard=00007`, as hive-partitioned data sets name a folder."""
    return f"shard={number:05d}"
