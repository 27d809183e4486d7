"""`heedmap doctor`: what is there, what is not, and what to do."""

from __future__ import annotations

import json
from types import ModuleType

import pytest

from heedmap.cli.main import main
from heedmap.kernels import extension


def findings(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, str]]:
    assert main(["doctor", "--json"]) == 0
    return {finding["part"]: finding for finding in json.loads(capsys.readouterr().out)}


def test_it_names_the_instructions_that_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = ModuleType("compiled")
    module.instruction_sets = lambda: ["avx2", "scalar"]  # type: ignore[attr-defined]
    monkeypatch.setattr(extension, "extension", lambda: module)
    kernel = findings(capsys)["kernel native"]
    assert kernel["well"]
    assert "by avx2 instructions (can also run scalar)" in kernel["found"]


def test_it_says_what_to_do_where_nothing_was_compiled(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(extension, "extension", lambda: None)
    kernel = findings(capsys)["kernel native"]
    assert not kernel["well"]
    assert "C++17 compiler" in kernel["do"]


def test_a_compiled_part_that_does_not_load_is_told_with_its_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> ModuleType:
        raise ImportError("undefined symbol: x")

    monkeypatch.setattr(extension, "extension", broken)
    assert "does not load: undefined symbol: x" in findings(capsys)["kernel native"]["found"]


def test_the_report_for_people_has_a_line_for_each_part(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for part in ("versions", "kernel native", "kernel strips", "threads", "model minilm", "cache"):
        assert sum(line[2:].startswith(part) for line in lines) == 1
