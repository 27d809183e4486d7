"""The page of benchmarks and the README's table say what the benchmarks recorded, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
RECORDS = sorted((ROOT / "benchmarks" / "record").glob("*.json"))


def lengths(name: str) -> dict[str, set[int]]:
    """The lengths at which each method stands in a record, with a time or with the reason why it has none."""
    rows: list[dict[str, Any]] = json.loads((ROOT / "benchmarks" / "record" / name).read_text())["rows"]
    found: dict[str, set[int]] = {}
    for row in rows:
        assert (row["timing"] is not None) == (row["status"] == "measured"), row
        found.setdefault(row["method"], set()).add(row["n"])
    return found


def test_the_tables_are_made_of_the_records() -> None:
    command = [sys.executable, "benchmarks/tables.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.stem)
def test_a_record_names_its_machine(record: Path) -> None:
    machine = json.loads(record.read_text())["machine"]
    assert machine["processor"]
    assert machine["threads"] >= 1
    assert machine["torch"]


def test_every_method_has_a_word_at_every_length() -> None:
    found = lengths("bench-long.json")
    assert {"eager", "sdpa", "heedmap measure, native", "heedmap attend, strips"} <= found.keys()
    assert all({1024, 8192, 65_536} <= own for own in found.values())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sweep.py", "--length", "0"], "expected a number from 1, got 0"),
        (["look.py", "--file", "nowhere.txt"], "expected a text, got no file 'nowhere.txt'"),
        (["sweep.py", "--bus"], "unrecognized arguments: --bus"),  # an option cut short would be half obeyed
    ],
)
def test_odd_options_of_a_benchmark_are_one_clear_error(arguments: list[str], words: str) -> None:
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT / "benchmarks", capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith(words)
