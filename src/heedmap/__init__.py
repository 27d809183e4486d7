"""heedmap: the exact attention of every head over a text, in memory linear in its length.

This door is the only public one. Each name is loaded when it is first used (PEP 562), so that ``import heedmap`` and
``heedmap --help`` bring in neither torch nor transformers.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

__version__ = "0.1.0"

# public name → the module it lives in; None as attribute: the module itself
_HOMES: dict[str, tuple[str, str | None]] = {
    "look": ("heedmap.capture.look", "look"),
    "watch": ("heedmap.capture.watch", "watch"),
    "ablate": ("heedmap.capture.ablation", "ablate"),
    "Known": ("heedmap.capture.known", "Known"),
    "measure": ("heedmap.measure", "measure"),
    "attend": ("heedmap.measure", "attend"),
    "Attended": ("heedmap.measure", "Attended"),
    "Measurements": ("heedmap.measurements", "Measurements"),
    "AttentionInputs": ("heedmap.attention.inputs", "AttentionInputs"),
    "masks": ("heedmap.attention.masks", None),
    "scaled_dot_product_attention": ("heedmap.attention.reference", "scaled_dot_product_attention"),
    "SelfAttention": ("heedmap.attention.modules", "SelfAttention"),
    "MultiHeadSelfAttention": ("heedmap.attention.modules", "MultiHeadSelfAttention"),
    "Gauge": ("heedmap.capture.gauge", "Gauge"),
    "AttentionCallback": ("heedmap.capture.callback", "AttentionCallback"),
    "Run": ("heedmap.runs.reader", "Run"),
    "open_run": ("heedmap.runs.reader", "open_run"),
    "scan": ("heedmap.textsets.scan", "scan"),
    "TextSet": ("heedmap.sets.reader", "TextSet"),
    "open_set": ("heedmap.sets.reader", "open_set"),
    "HeedmapError": ("heedmap.errors", "HeedmapError"),
    "HeedmapWarning": ("heedmap.errors", "HeedmapWarning"),
}

__all__ = [
    "Attended",
    "AttentionCallback",
    "AttentionInputs",
    "Gauge",
    "HeedmapError",
    "HeedmapWarning",
    "Known",
    "Measurements",
    "MultiHeadSelfAttention",
    "Run",
    "SelfAttention",
    "TextSet",
    "ablate",
    "attend",
    "look",
    "masks",
    "measure",
    "open_run",
    "open_set",
    "scaled_dot_product_attention",
    "scan",
    "watch",
]

if TYPE_CHECKING:
    from heedmap.attention import masks
    from heedmap.attention.inputs import AttentionInputs
    from heedmap.attention.modules import MultiHeadSelfAttention, SelfAttention
    from heedmap.attention.reference import scaled_dot_product_attention
    from heedmap.capture.ablation import ablate
    from heedmap.capture.callback import AttentionCallback
    from heedmap.capture.gauge import Gauge
    from heedmap.capture.known import Known
    from heedmap.capture.look import look
    from heedmap.capture.watch import watch
    from heedmap.errors import HeedmapError, HeedmapWarning
    from heedmap.measure import Attended, attend, measure
    from heedmap.measurements import Measurements
    from heedmap.runs.reader import Run, open_run
    from heedmap.sets.reader import TextSet, open_set
    from heedmap.textsets.scan import scan


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'heedmap' has no attribute {name!r}")
    module_name, attribute = _HOMES[name]
    module = import_module(module_name)
    value = module if attribute is None else getattr(module, attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Door(ModuleType):
    """Keeps a public name for what it stands for: importing ``heedmap.measure`` must not hide the function behind
    the module of the same name, which the import system would otherwise bind here."""

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, ModuleType) and _HOMES.get(name, ("", None))[1] is not None:
            return
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Door
