"""``heedmap doctor``: what this installation has, and what to do about what it lacks."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict, dataclass
from importlib import metadata

import click

import heedmap

LIBRARIES = ("torch", "transformers", "tokenizers", "numpy", "pyarrow", "safetensors", "matplotlib")
REBUILD = (
    "install a C++17 compiler (Debian, Ubuntu: apt install g++; macOS: xcode-select --install; Windows: Visual Studio "
    "Build Tools), then: pip install --force-reinstall --no-deps --no-cache-dir heedmap (in a clone: make install)"
)


@dataclass(frozen=True)
class Finding:
    """One line of the report: a part of the installation, what was found, and what to do where that is too little."""

    part: str
    found: str
    well: bool = True
    do: str | None = None


@click.command(short_help="Say what this installation has, and what to do about what it lacks.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead.")
def command(as_json: bool) -> None:
    """Say which kernels run here and with which instructions, which models are at hand, and what is missing.

    \b
    heedmap doctor
    heedmap doctor --json
    """
    findings = [_versions(), *_kernels(), _threads(), *_models(), _cache()]
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings], ensure_ascii=False, indent=2))
        return
    width = max(len(finding.part) for finding in findings)
    for finding in findings:
        click.echo(f"{'✓' if finding.well else '–'} {finding.part:<{width}}  {finding.found}")
        if finding.do is not None:
            click.echo(f"  {'':<{width}}  → {finding.do}")


def _versions() -> Finding:
    libraries = ", ".join(f"{name} {metadata.version(name)}" for name in LIBRARIES)
    return Finding("versions", f"heedmap {heedmap.__version__}, Python {platform.python_version()}, {libraries}")


def _kernels() -> list[Finding]:
    import torch

    from heedmap.kernels.extension import extension

    devices = "CPU and CUDA" if torch.cuda.is_available() else "CPU"
    strips = Finding("kernel strips", f"torch, on {devices}")
    try:
        module = extension()
    except ImportError as error:
        return [Finding("kernel native", f"compiled, but does not load: {error}", well=False, do=REBUILD), strips]
    if module is None:
        found = "not compiled; the strips kernel does its work, more slowly"
        return [Finding("kernel native", found, well=False, do=REBUILD), strips]
    first, *others = module.instruction_sets()
    known = f" (can also run {', '.join(others)})" if others else ""
    return [Finding("kernel native", f"C++, on the CPU, float32, by {first} instructions{known}"), strips]


def _threads() -> Finding:
    import torch

    from heedmap.kernels.extension import openmp_parallel

    shared = openmp_parallel() != 0
    whose = "torch's own, which the native kernel shares" if shared else "torch's; the native kernel has as many"
    return Finding("threads", f"{torch.get_num_threads()}, {whose}")


def _models() -> list[Finding]:
    from heedmap.capture.packaged import DEFAULT, PACKAGED, installed

    found = installed()
    return [
        Finding(f"model {name}", f"{model.title}{', the default' if name == DEFAULT else ''}")
        if name in found
        else Finding(f"model {name}", f"not installed: {model.title}", well=False, do=model.install)
        for name, model in PACKAGED.items()
    ]


def _cache() -> Finding:
    from heedmap.capture.converted import cache_folder

    folder = cache_folder()
    files = [path.stat().st_size for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    return Finding("cache", f"{folder}, {sum(files) / 1e6:,.0f} MB: converted GGUF models; may be deleted at any time")
