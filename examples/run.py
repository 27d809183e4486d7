"""Runs the notebooks of this folder and keeps what their cells show; no notebook server is needed.

    python examples/run.py                 # run every notebook here and store the outputs in it
    python examples/run.py scaling.ipynb   # only this one

A cell is run as Python, its last expression is shown as text, HTML or, for a figure, as a picture.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PICTURE_DPI = 110


def run_notebook(notebook: dict[str, Any]) -> dict[str, Any]:
    """Run all code cells in one namespace; returns the notebook with their outputs. What a cell raises is raised."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells: list[dict[str, Any]] = []
    count = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            count += 1
            outputs = _run_cell("".join(cell["source"]), names, f"cell {count}", count)
            cell = {**cell, "outputs": outputs, "execution_count": count}
        cells.append(cell)
    return {**notebook, "cells": cells}


def _run_cell(source: str, names: dict[str, Any], title: str, count: int) -> list[dict[str, Any]]:
    tree = ast.parse(source, title)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    told = io.StringIO()
    value = None
    with contextlib.redirect_stdout(told):
        exec(compile(tree, title, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), title, "eval"), names)
    outputs: list[dict[str, Any]] = []
    if told.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": told.getvalue().splitlines(keepends=True)})
    if value is not None:
        outputs.append(
            {"output_type": "execute_result", "execution_count": count, "metadata": {}, "data": _shown(value)}
        )
    return outputs


def _shown(value: Any) -> dict[str, Any]:
    if hasattr(value, "savefig"):
        picture = io.BytesIO()
        value.savefig(picture, format="png", dpi=PICTURE_DPI)
        return {"text/plain": ["a figure"], "image/png": base64.b64encode(picture.getvalue()).decode()}
    shown: dict[str, Any] = {"text/plain": repr(value).splitlines(keepends=True)}
    if hasattr(value, "_repr_html_"):
        shown["text/html"] = value._repr_html_().splitlines(keepends=True)
    return shown


def main(arguments: list[str]) -> int:
    """See the top of the file."""
    for path in [HERE / name for name in arguments] or sorted(HERE.glob("*.ipynb")):
        done = run_notebook(json.loads(path.read_text()))
        path.write_text(json.dumps(done, indent=1, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
