"""What our mask function hands to a model in place of a dense mask: an object that says what the mask is."""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch import Tensor
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, causal_mask_function

from heedmap.attention import masks
from heedmap.attention.masks.base import Mask
from heedmap.attention.masks.structured import Causal, Everything
from heedmap.capture.mask_functions import MaskFunction, Window, read_function
from heedmap.errors import UnsupportedError


class MaskTouchedError(UnsupportedError, AttributeError):
    """A model worked on the mask itself, which is no tensor here; an AttributeError, so that `hasattr` stays honest."""


class LazyMask:
    """A mask that stays a description: O(n) memory where a model's own mask is `[batch, 1, query_len, key_len]`.

    Models pass it through to the attention function untouched. It answers the few questions that they ask of a mask
    on the way (`ndim`, `shape`, `device`, `to`); whatever would read it as a table raises `MaskTouchedError`.
    """

    ndim = 4
    dtype = torch.bool

    def __init__(
        self,
        *,
        batch_size: int,
        q_length: int,
        kv_length: int,
        q_offset: int,
        kv_offset: int,
        mask_function: MaskFunction,
        attention_mask: Tensor | None,
        one_by_one: bool,
        device: torch.device | str,
        keywords: dict[str, Any],
        owner: str,
    ) -> None:
        self.owner = owner
        self.batch_size = batch_size
        self.query_len = q_length
        self.key_len = kv_length
        self.query_offset = q_offset
        self.key_offset = kv_offset
        self.device = torch.device(device)
        self._function = mask_function
        self._real = None if attention_mask is None else attention_mask.to(torch.bool)
        self._one_by_one = one_by_one
        self._keywords = keywords
        self._structures: dict[tuple[int, int], Mask] = {}
        self._masks: dict[int, Mask] = {}
        self._dense: dict[str, Any] = {}

    # --- the face that models look at ---------------------------------------------------------------------------

    @property
    def shape(self) -> torch.Size:
        return torch.Size((self.batch_size, 1, self.query_len, self.key_len))

    def dim(self) -> int:
        return 4

    def size(self, dim: int | None = None) -> torch.Size | int:
        return self.shape if dim is None else self.shape[dim]

    def to(self, *args: object, **kwargs: object) -> LazyMask:
        return self

    def contiguous(self) -> LazyMask:
        return self

    def __repr__(self) -> str:
        return f"LazyMask({list(self.shape)}, queries from {self.query_offset}, keys from {self.key_offset})"

    # --- what it stands for ------------------------------------------------------------------------------------

    def mask(self, key_len: int) -> Mask:
        """heedmap's mask over the first `key_len` of the keys, padding included."""
        if key_len not in self._masks:
            mask = self._structure(key_len)
            if self._real is not None:
                real = Window(self.key_offset, self.key_offset + key_len).cut(self._real)
                if not bool(real.all()):
                    padding = masks.padding(real)
                    mask = padding if isinstance(mask, Everything) else mask & padding
            self._masks[key_len] = mask
        return self._masks[key_len]

    def _structure(self, key_len: int) -> Mask:
        return self.structure(self.key_offset, self.key_offset + key_len)

    def structure(self, start: int, stop: int) -> Mask:
        """The mask without padding, over the key positions `[start, stop)`."""
        if (start, stop) not in self._structures:
            keys = Window(start, stop)
            self._structures[start, stop] = read_function(self._function, keys, one_by_one=self._one_by_one)
        return self._structures[start, stop]

    def real(self, start: int, stop: int) -> Tensor | None:
        """Which of the positions `[start, stop)` are no padding: bool `[batch or 1, positions]`, None where all are."""
        return None if self._real is None else Window(start, stop).cut(self._real)

    def unpadded(self) -> LazyMask:
        """The same mask for texts without padding; what padding there is is not read."""
        bare = object.__new__(LazyMask)
        bare.__dict__.update(self.__dict__, _real=None, _masks={})
        return bare

    def plain(self) -> bool:
        """Whether this is nothing but causal, or nothing at all: other implementations then build no dense mask."""
        return isinstance(self.mask(self.key_len), Causal | Everything)

    def causal(self) -> bool:
        """Whether this is causal and nothing else."""
        return isinstance(self.mask(self.key_len), Causal)

    def live_keys(self) -> int:
        """How many of the keys exist: behind the last query a causal mask leaves only a static cache's empty slots."""
        last = self.query_offset + self.query_len
        start, stop = self.key_offset, self.key_offset + self.key_len
        if not start < last < stop:
            return self.key_len
        bounds = self._structure(self.key_len).bounds(0, self.query_offset, last, start, stop)
        return last - start if bounds.visit_stop <= last else self.key_len

    def real_queries(self) -> Tensor | None:
        """Which query rows are no padding, by the 2-D mask: bool `[batch, query_len]`, None where all are real."""
        if self._real is None:
            return None
        rows = self._real[:, self.query_offset : self.query_offset + self.query_len]
        if rows.shape[1] != self.query_len or bool(rows.all()):
            return None
        return rows.expand(self.batch_size, -1)

    def dense(self, implementation: str) -> Any:
        """The mask as another attention implementation would have made it: a tensor, a block mask, or None."""
        if implementation not in self._dense:
            make = ALL_MASK_ATTENTION_FUNCTIONS.get(implementation)
            if make is None:
                raise UnsupportedError(
                    "watch",
                    expected="an attention implementation with a mask function of its own",
                    got=repr(implementation),
                    do="load the model with attn_implementation='eager' or 'sdpa'",
                )
            self._dense[implementation] = make(**self._keywords)
        return self._dense[implementation]

    # --- what it is not ------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        self._touched(f"mask.{name}")

    def __getitem__(self, index: object) -> NoReturn:
        self._touched("a slice of the mask")

    def __setitem__(self, index: object, value: object) -> NoReturn:
        self._touched("a write into the mask")

    def __len__(self) -> NoReturn:
        self._touched("the length of the mask")

    def __iter__(self) -> NoReturn:
        self._touched("the rows of the mask")

    def __bool__(self) -> bool:
        return True

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> NoReturn:
        given = [*args, *(kwargs or {}).values()]
        flat = [item for value in given for item in (value if isinstance(value, list | tuple) else [value])]
        mask = next(item for item in flat if isinstance(item, cls))
        mask._touched(f"torch's {getattr(function, '__name__', function)} on the mask")

    def _touched(self, what: str) -> NoReturn:
        raise MaskTouchedError(
            "watch",
            expected="a model that hands its mask to the attention function untouched",
            got=f"{self.owner}, which asks for {what}",
            do="load this model with attn_implementation='eager' and use output_attentions=True",
        )


def _operator(name: str) -> Any:
    def refuse(self: LazyMask, *others: object) -> NoReturn:
        self._touched(f"mask.{name}")

    return refuse


for _name in ("add", "sub", "mul", "truediv", "and", "or", "xor"):
    setattr(LazyMask, f"__{_name}__", _operator(f"__{_name}__"))
    setattr(LazyMask, f"__r{_name}__", _operator(f"__r{_name}__"))
for _name in ("invert", "neg", "lt", "le", "gt", "ge"):
    setattr(LazyMask, f"__{_name}__", _operator(f"__{_name}__"))


def lazy_mask(
    batch_size: int,
    q_length: int | None = None,
    kv_length: int = 0,
    q_offset: int | Tensor = 0,
    kv_offset: int | Tensor = 0,
    mask_function: MaskFunction = causal_mask_function,
    attention_mask: Any = None,
    **keywords: Any,
) -> LazyMask:
    """Our entry in transformers' mask interface: the keywords that every mask function gets become a `LazyMask`.

    Offsets are read now: a static cache's is a live tensor that has moved on when attention runs. transformers below
    5.10 gives `cache_position`, the queries' positions, in place of `q_length` and `q_offset`.
    """
    if isinstance(attention_mask, LazyMask):  # made ahead of the model by generate() with a static cache
        return attention_mask
    given = dict(keywords, batch_size=batch_size, kv_length=kv_length, mask_function=mask_function)
    if (cache_position := keywords.get("cache_position")) is not None:
        q_length, q_offset = int(cache_position.shape[0]), cache_position[0]
    elif q_length is None:
        raise UnsupportedError("watch", expected="q_length or cache_position from transformers", got="neither")
    else:
        given |= {"q_length": q_length, "q_offset": int(q_offset)}
    given |= {"kv_offset": int(kv_offset), "attention_mask": attention_mask}
    if attention_mask is not None and attention_mask.ndim != 2:
        raise UnsupportedError(
            "watch",
            expected="an attention mask [batch, key] or [batch, heads, query, key]",
            got=f"{list(attention_mask.shape)}",
        )
    return LazyMask(
        batch_size=batch_size,
        q_length=q_length,
        kv_length=kv_length,
        q_offset=int(q_offset),
        kv_offset=int(kv_offset),
        mask_function=mask_function,
        attention_mask=attention_mask,
        one_by_one=bool(keywords.get("use_vmap", False)),
        device=keywords.get("device", "cpu"),
        keywords=given,
        owner=type(keywords.get("config")).__name__.removesuffix("Config"),
    )
