"""Findings as files: Parquet, CSV and LaTeX, each whole or not at all, each with what it was found on.

Parquet holds the facts as key–value metadata of the file: `SELECT decode(key), decode(value) FROM
parquet_kv_metadata('syntax.parquet')` in DuckDB. CSV holds them in lines that begin with `#`, above the header; LaTeX
in comments and under the table.
"""

from __future__ import annotations

import csv
import io
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet

from heedmap.errors import StorageError
from heedmap.heads.findings import Cell, Column, Findings

_ARROW = {"string": pa.string(), "int64": pa.int64(), "float64": pa.float64(), "bool": pa.bool_()}
_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "→": r"$\rightarrow$", "←": r"$\leftarrow$", "−": r"$-$",
    "±": r"$\pm$", "×": r"$\times$", "≥": r"$\geq$", "≤": r"$\leq$", "…": r"\ldots{}", "–": "--", "·": r"$\cdot$",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "√": r"$\surd$", "Δ": r"$\Delta$",
}  # fmt: skip


def arrow_table(findings: Findings) -> pa.Table:
    """The findings as an Arrow table, facts in the schema's metadata."""
    fields = [
        pa.field(column.name, _ARROW[column.kind], metadata={"unit": column.unit} if column.unit else None)
        for column in findings.columns
    ]
    metadata = {"title": findings.title, **findings.about.entries(), "notes": "\n".join(findings.notes)}
    arrays = [
        pa.array(findings.column(column.name), field.type)
        for column, field in zip(findings.columns, fields, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields, metadata=metadata))


def csv_text(findings: Findings) -> str:
    """The findings as CSV below lines of facts that begin with `#`; no value leaves its cell empty."""
    out = io.StringIO()
    for name, value in {"title": findings.title, **findings.about.entries()}.items():
        out.write(f"# {name}: {' '.join(value.split())}\n")
    for note in findings.notes:
        out.write(f"# {' '.join(note.split())}\n")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([column.name for column in findings.columns])
    writer.writerows([[_plain(row[column.name]) for column in findings.columns] for row in findings.rows])
    return out.getvalue()


def _plain(value: Cell) -> Cell:
    if value is None or (isinstance(value, float) and value != value):
        return ""
    return str(value).lower() if isinstance(value, bool) else value


def latex_text(findings: Findings) -> str:
    r"""The listed columns as a LaTeX table (needs `\usepackage{booktabs}`), facts in comments and under it."""
    columns, rows = findings.shown()
    facts = findings.about.entries()
    lines = [f"% {name}: {' '.join(value.split())}" for name, value in facts.items()]
    lines += [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"  \centering",
        f"  \\caption{{{latex(findings.title)}}}",
        f"  \\label{{tab:{findings.name}}}",
        f"  \\begin{{tabular}}{{{''.join(_align(column) for column in columns)}}}",
        r"    \toprule",
        f"    {' & '.join(latex(column.title) for column in columns)} \\\\",
        r"    \midrule",
        *(f"    {' & '.join(latex(cell) for cell in row)} \\\\" for row in rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"  \par\footnotesize",
        f"  {latex(_sentence(facts))}",
        *(f"  {latex(note)}" for note in findings.notes),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _align(column: Column) -> str:
    return "l" if column.kind in ("string", "bool") else "r"


def _sentence(facts: dict[str, str]) -> str:
    return (
        f"Model {facts['model']} (revision {facts['revision']}); data {facts['data']}; {facts['items']}; "
        f"seed {facts['seed']}."
    )


def latex(text: str) -> str:
    """The text with LaTeX's special characters, and signs that its default fonts lack, written out."""
    return "".join(_LATEX.get(letter, letter) for letter in " ".join(text.split()))


def write_findings(findings: Findings, folder: str | os.PathLike[str]) -> list[Path]:
    """Write NAME.parquet, NAME.csv and NAME.tex into a folder, which is made where it is missing.

    Each file appears whole or not at all; earlier ones of the same name are replaced. Raises StorageError.
    """
    place = Path(folder)
    table = arrow_table(findings)
    writers: dict[str, Callable[[Path], object]] = {
        "parquet": lambda path: parquet.write_table(table, path),
        "csv": lambda path: path.write_text(csv_text(findings), encoding="utf-8"),
        "tex": lambda path: path.write_text(latex_text(findings), encoding="utf-8"),
    }
    return [_write(place / f"{findings.name}.{suffix}", write) for suffix, write in writers.items()]


def _write(path: Path, write: Callable[[Path], object]) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f".{path.stem}.", suffix=path.suffix, dir=path.parent)
        os.close(descriptor)
        try:
            write(Path(name))
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as problem:
        raise StorageError(
            "--out",
            expected="a place to write tables to",
            got=f"{problem.strerror or problem} ({path})",
            do="choose another folder",
        ) from problem
    return path
