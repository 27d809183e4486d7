"""Which architectures of transformers can be watched, read from their source: the page `docs/architectures.md`.

`python -m heedmap.capture.survey > docs/architectures.md` writes it for the version that is installed.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import transformers

from heedmap.capture.layers import INTERFACE

TESTED = (
    "albert", "bart", "bert", "bloom", "clip", "cohere", "deberta_v2", "deepseek_v3", "deepseek_v32", "deit",
    "diffllama", "dinov2", "distilbert", "doge", "electra", "falcon", "gemma", "gemma2", "gemma3", "gpt2",
    "gpt_bigcode", "gpt_neo", "gpt_neox", "gpt_oss", "gptj", "granite", "hubert", "lfm2", "llama", "llama4", "llava",
    "longformer", "mamba", "marian", "mbart", "mistral", "mixtral", "modernbert", "mpnet", "mpt", "mt5", "olmo2",
    "olmoe", "opt", "paligemma", "pegasus", "phi", "phi3", "qwen2", "qwen3", "qwen3_moe", "roberta", "siglip",
    "smollm3", "stablelm", "starcoder2", "swin", "t5", "vit", "wav2vec2", "whisper", "xlm_roberta", "xlnet",
)  # fmt: skip
"""Architectures that a test runs with random weights, watched or refused."""

_SPARSE = {"indices", "block_indices"}
_MASKS = {"attention_mask", "causal_mask"}


_PAGE = """\
# Which models can be watched

Of transformers {version}, read from its source by `python -m heedmap.capture.survey`. A model can be watched where its
attention goes through transformers' attention interface. Rows that are **tested** are run with random weights: outputs
and statistics against the model's own eager attention, or the refusal by name. Other versions differ. Whatever this
page says: where attention cannot be seen, `watch` raises an error that names the model, and shows nothing in its place.

{counts[yes]} are watched, {counts[in part]} in part, {counts[as its parts]} are built from others,
{counts[refused]} are refused.

| architecture | watched | why not, or what not | tested |
|---|---|---|---|
{table}
"""


@dataclass(frozen=True)
class Architecture:
    """One folder of transformers' models.

    Attributes:
        name: the folder's name.
        through: classes that attend through the interface.
        own: classes that attend by code of their own, which cannot be seen.
        sparse: classes that choose keys by index, which is refused.
        reads_mask: classes that work on the mask themselves, which is refused.
        parts: it is built from other architectures.
    """

    name: str
    through: tuple[str, ...]
    own: tuple[str, ...]
    sparse: tuple[str, ...]
    reads_mask: tuple[str, ...]
    parts: bool

    @cached_property
    def watch(self) -> str:
        """What `watch` does: yes, in part, refused, as its parts, or no attention."""
        if self.sparse or self.reads_mask:
            return "refused"
        if self.through and not self.own:
            return "yes"
        if self.own:
            return "in part" if self.through or self.parts else "refused"
        return "as its parts" if self.parts else "no attention"

    @property
    def why(self) -> str:
        """The reason, where it is not a plain yes."""
        if self.sparse:
            return f"{_few(self.sparse)} attends to keys chosen by index"
        if self.reads_mask:
            return f"{_few(self.reads_mask)} works on its mask itself"
        if self.own:
            not_seen = "not seen: " if self.watch == "in part" else ""
            return f"{not_seen}{_few(self.own)}, with attention code of its own"
        return "built from other architectures: see those" if self.watch == "as its parts" else ""


def survey(folder: Path | None = None) -> list[Architecture]:
    """Every architecture of the installed transformers, by reading its source; none of it is imported."""
    folder = Path(transformers.__file__).parent / "models" if folder is None else folder
    found = [_read(path) for path in sorted(folder.iterdir()) if any(path.glob("modeling_*.py"))]
    return [one for one in found if one.watch != "no attention" or one.name in TESTED]


def markdown() -> str:
    """The page."""
    rows = survey()
    counts = {kind: sum(one.watch == kind for one in rows) for kind in ("yes", "in part", "as its parts", "refused")}
    table = [f"| {one.name} | {one.watch} | {one.why} | {'yes' if one.name in TESTED else ''} |" for one in rows]
    return _PAGE.format(version=transformers.__version__, counts=counts, table="\n".join(table))


def _read(folder: Path) -> Architecture:
    through, own, sparse, reads_mask = [], [], [], []
    parts = False
    for path in sorted(folder.glob("modeling_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        parts = parts or bool(names & {"AutoModel", "AutoModelForCausalLM", "AutoModelForSeq2SeqLM", "AutoBackbone"})
        imported = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level >= 2)
        parts = parts or any(".modeling_" in (node.module or "") for node in imported)
        for kind in (node for node in tree.body if isinstance(node, ast.ClassDef)):
            words = _words(kind)
            if INTERFACE in words:
                through.append(kind.name)
                if _SPARSE & {keyword.arg for call in _calls(kind) for keyword in call.keywords}:
                    sparse.append(kind.name)
                elif _works_on_mask(kind):
                    reads_mask.append(kind.name)
            elif ("Attention" in kind.name and "softmax" in words) or "MultiheadAttention" in words:
                own.append(kind.name)
    kinds = [tuple(dict.fromkeys(names)) for names in (through, own, sparse, reads_mask)]
    return Architecture(folder.name, kinds[0], kinds[1], kinds[2], kinds[3], parts)


def _words(kind: ast.ClassDef) -> set[str]:
    names = {node.id for node in ast.walk(kind) if isinstance(node, ast.Name)}
    return names | {node.attr for node in ast.walk(kind) if isinstance(node, ast.Attribute)}


def _calls(kind: ast.ClassDef) -> Iterator[ast.Call]:
    return (node for node in ast.walk(kind) if isinstance(node, ast.Call))


def _works_on_mask(kind: ast.ClassDef) -> bool:
    """Whether a class slices its mask, or computes a new one from it."""
    sliced = any(
        isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in _MASKS
        for node in ast.walk(kind)
    )
    chosen = any(
        isinstance(call.func, ast.Attribute)
        and call.func.attr in ("where", "masked_fill", "cat")
        and any(
            isinstance(node, ast.Name) and node.id in _MASKS for argument in call.args for node in ast.walk(argument)
        )
        for call in _calls(kind)
    )
    return sliced or chosen


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")


if __name__ == "__main__":
    sys.stdout.write(markdown())
