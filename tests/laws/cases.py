"""The attention calls that every kernel is held to: one list drives every law."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from heedmap.attention import AttentionInputs, masks
from heedmap.attention.masks import Mask


@dataclass(frozen=True)
class Case:
    """A named attention call; `build()` makes the same inputs every time."""

    name: str
    build: Callable[[], AttentionInputs]


def random_inputs(
    *,
    batch: int = 1,
    heads: int = 2,
    key_heads: int | None = None,
    query_len: int = 40,
    key_len: int | None = None,
    head_dim: int = 16,
    value_dim: int | None = None,
    dtype: torch.dtype = torch.float32,
    spread: float = 1.0,
    offset: float = 0.0,
    change: Callable[[Tensor, Tensor, Tensor], None] | None = None,
    seed: int = 1,
    **formula: object,
) -> AttentionInputs:
    """Gaussian query, key and value; `spread` stretches the scores, `offset` shifts all of them alike."""
    random = torch.Generator().manual_seed(seed)
    key_len = query_len if key_len is None else key_len
    key_heads = heads if key_heads is None else key_heads
    query = torch.randn(batch, heads, query_len, head_dim, generator=random) * spread
    key = torch.randn(batch, key_heads, key_len, head_dim, generator=random)
    value = torch.randn(batch, key_heads, key_len, value_dim or head_dim, generator=random)
    if offset:
        query[..., 0] = head_dim**0.5
        key[..., 0] = offset
    query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
    if change is not None:
        change(query, key, value)
    text = torch.randint(0, max(2, key_len // 4), (batch, key_len), generator=random)
    about = {
        "token_ids": text,
        "spans": {"first half": (torch.arange(key_len) < key_len // 2).expand(batch, -1), "even tokens": text % 2 == 0},
        "classes": {"special": text == 0},
        "parts": torch.rand(batch, key_len, 3, generator=random),
    }
    return AttentionInputs(query, key, value, **(about | formula))  # type: ignore[arg-type]


def moved(inputs: AttentionInputs, device: str) -> AttentionInputs:
    """The same call with its tensors on another device."""
    if device == "cpu":
        return inputs
    query, key, value = (None if t is None else t.to(device) for t in (inputs.query, inputs.key, inputs.value))
    assert query is not None
    assert key is not None
    names = ("scale", "mask", "softcap", "sinks", "query_offset", "key_offset", "valid_queries", "cross", "token_ids",
             "spans", "classes", "parts")  # fmt: skip
    return AttentionInputs(query, key, value, **{name: getattr(inputs, name) for name in names})


def _valid(*spans: tuple[int, int], length: int) -> Tensor:
    valid = torch.zeros(len(spans), length, dtype=torch.bool)
    for row, (start, stop) in zip(valid, spans, strict=True):
        row[start:stop] = True
    return valid


def _one_hot(query: Tensor, key: Tensor, value: Tensor) -> None:
    query.copy_(key.repeat_interleave(query.shape[1] // key.shape[1], 1)[:, :, : query.shape[2]] * 40)


def _all_equal(query: Tensor, key: Tensor, value: Tensor) -> None:
    query.zero_()


def _broken_padding(query: Tensor, key: Tensor, value: Tensor) -> None:
    key[:, :, 30:33] = torch.nan
    key[:, :, 33:36] = torch.inf
    value[:, :, 30:36] = torch.nan


def _checkerboard(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return (query + key + head) % 2 == 0


def _random_table(*shape: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(5)) < 0.5


def _bias_table(*shape: int) -> Tensor:
    table = torch.randn(*shape, generator=torch.Generator().manual_seed(6))
    return table.masked_fill(_random_table(*shape), -torch.inf)


MASKS: dict[str, Callable[[], Mask]] = {
    "everything": masks.everything,
    "causal": masks.causal,
    "causal-offset": lambda: masks.causal(3),
    "causal-strict": lambda: masks.causal(-1),
    "window": lambda: masks.causal() & masks.sliding_window(7),
    "window-of-one": lambda: masks.sliding_window(1),
    "window-both-sides": lambda: masks.sliding_window(4, both_sides=True),
    "chunked": lambda: masks.causal() & masks.chunked(9),
    "chunked-shifted": lambda: masks.chunked(9, start=[2, 5]),
    "prefix": lambda: masks.causal() | masks.prefix(6),
    "prefix-each": lambda: masks.causal() | masks.prefix([0, 11]),
    "left-padding": lambda: masks.causal() & masks.padding(_valid((0, 40), (13, 40), length=40)),
    "right-padding": lambda: masks.padding(_valid((0, 31), (0, 40), length=40)),
    "holes": lambda: masks.padding(_random_table(2, 40)),
    "no-key-at-all": lambda: masks.padding(torch.zeros(2, 40, dtype=torch.bool)),
    "packed": lambda: masks.causal() & masks.packed(torch.arange(40).div(11, rounding_mode="floor").expand(2, -1)),
    "packed-mixed": lambda: masks.packed(torch.arange(40).remainder(3)),
    "window-or-packed": lambda: masks.sliding_window(5) | masks.packed(torch.arange(40) // 20),
    "tensor": lambda: masks.from_tensor(_random_table(2, 4, 40, 40)),
    "tensor-broadcast": lambda: masks.from_tensor(_random_table(2, 1, 1, 40)),
    "tensor-for-each-head": lambda: masks.from_tensor(_random_table(4, 40, 40)),
    "bias": lambda: masks.from_tensor(_bias_table(1, 4, 40, 40)),
    "bias-and-causal": lambda: masks.causal() & masks.from_tensor(_bias_table(2, 1, 40, 40)),
    "constant-bias": lambda: masks.from_tensor(torch.full((40, 40), -10_000.0)),
    "function": lambda: masks.from_function(_checkerboard),
    "function-and-padding": lambda: masks.from_function(_checkerboard) & masks.padding(_random_table(2, 40)),
}


def _masked(make: Callable[[], Mask], **more: object) -> Callable[[], AttentionInputs]:
    return lambda: random_inputs(batch=2, heads=4, key_heads=2, mask=make(), **more)  # type: ignore[arg-type]


def _padded_rows() -> AttentionInputs:
    valid = _valid((0, 40), (9, 40), length=40)
    return random_inputs(batch=2, mask=masks.causal() & masks.padding(valid), valid_queries=valid)


def _right_padded_rows() -> AttentionInputs:
    valid = _valid((0, 33), (0, 1), length=40)
    return random_inputs(batch=2, mask=masks.padding(valid), valid_queries=valid)


def _sinks(value: float) -> Callable[[], AttentionInputs]:
    return lambda: random_inputs(heads=3, mask=masks.causal(), sinks=[value, 0.5, -value])


CASES: tuple[Case, ...] = (
    *(
        Case(f"length {n}", lambda n=n: random_inputs(query_len=n, mask=masks.causal()))
        for n in (1, 2, 3, 17, 63, 64, 65, 255, 256, 257, 300, 513, 1025)
    ),
    Case("length 4224", lambda: random_inputs(heads=1, query_len=4224, head_dim=8, mask=masks.causal())),
    *(
        Case(f"{q} queries, {k} keys", lambda q=q, k=k: random_inputs(query_len=q, key_len=k, mask=masks.causal()))
        for q, k in ((1, 300), (5, 1100), (37, 53), (300, 700))
    ),
    Case("more queries than keys", lambda: random_inputs(query_len=53, key_len=37)),
    Case("cross-attention", lambda: random_inputs(query_len=53, key_len=300, cross=True)),
    *(Case(f"head_dim {d}", lambda d=d: random_inputs(head_dim=d)) for d in (1, 8, 13, 64, 100, 256)),
    Case("value_dim differs", lambda: random_inputs(head_dim=8, value_dim=24)),
    *(
        Case(f"{h} heads over {g}", lambda h=h, g=g: random_inputs(heads=h, key_heads=g, query_len=70))
        for h, g in ((9, 3), (8, 1), (6, 6))
    ),
    Case("grouped heads, long rows", lambda: random_inputs(heads=6, key_heads=2, query_len=40, key_len=2100)),
    *(
        Case(f"{str(t).removeprefix('torch.')}", lambda t=t: random_inputs(dtype=t, query_len=130, mask=masks.causal()))
        for t in (torch.bfloat16, torch.float16, torch.float64)
    ),
    *(Case(f"mask {name}", _masked(make)) for name, make in MASKS.items()),
    *(Case(f"sharp, mask {name}", _masked(MASKS[name], spread=12)) for name in ("causal", "window", "tensor")),
    Case("left-padded rows", _padded_rows),
    Case("right-padded rows", _right_padded_rows),
    Case("scale", lambda: random_inputs(scale=0.7)),
    Case("softcap", lambda: random_inputs(spread=6, softcap=3.0, mask=masks.causal())),
    Case("softcap and sinks", lambda: random_inputs(spread=6, softcap=3.0, sinks=[1.0, -2.0], mask=masks.causal())),
    *(Case(f"sink {value}", _sinks(value)) for value in (0.0, 5.0, 90.0, 1e30)),
    Case("sink and no key", lambda: random_inputs(mask=masks.causal(-1), sinks=[0.0, 2.0])),
    Case("no sink by -inf", lambda: random_inputs(mask=masks.causal(-1), sinks=[float("-inf"), 1.0])),
    Case("scores + 1000", lambda: random_inputs(offset=1000.0)),
    Case("scores - 1000", lambda: random_inputs(offset=-1000.0, mask=masks.causal())),
    Case("scores near -1e6, some hidden", lambda: random_inputs(offset=-1e6, mask=masks.causal())),
    Case("all scores equal", lambda: random_inputs(change=_all_equal, mask=masks.causal())),
    Case("all scores equal, long", lambda: random_inputs(query_len=3, key_len=3000, change=_all_equal)),
    Case("one-hot rows", lambda: random_inputs(head_dim=32, change=_one_hot)),
    Case(
        "NaN and infinity in hidden keys",
        lambda: random_inputs(
            change=_broken_padding, mask=masks.padding(torch.arange(40).lt(30) | torch.arange(40).ge(36))
        ),
    ),
    Case("key offset", lambda: random_inputs(query_len=5, key_len=40, key_offset=100, mask=masks.sliding_window(16))),
    Case("query offset", lambda: random_inputs(query_len=5, key_len=40, query_offset=7, mask=masks.causal())),
)
