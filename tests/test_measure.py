"""The face of the sweep: what `measure`, `attend` and `merge` refuse, each as one clear error."""

from __future__ import annotations

import pytest
import torch

import heedmap
from heedmap import Measurements, attend, masks
from heedmap.errors import InputError
from heedmap.measure import KERNELS

Q, K = torch.randn(1, 4, 6, 8), torch.randn(1, 2, 6, 8)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"statistics": None}, '"default", "all", a name or a list of names, got NoneType'),
        ({"statistics": 5}, "a list of names, got int"),
        ({"statistics": "entropie"}, "names among row_max, .*, got 'entropie'"),
        ({"statistics": "induction"}, "inputs with token_ids for induction"),
        ({"kernel": "fast"}, "kernel \"auto\" or one of .*, got 'fast'"),
        ({"rows": (2, 2)}, r"rows within 0 to 6, got \(2, 2\)"),
        ({"rows": (0, 7)}, "rows within 0 to 6"),
        ({"rows": 3}, r"rows as \(start, stop\), got 3"),
        ({"rows": (1,)}, r"rows as \(start, stop\)"),
        ({"rows": (0.5, 2)}, "a whole number as a row, got 0.5"),
        ({"strip_bytes": 0}, "strip_bytes of 1 or more, got 0"),
        ({"map_size": 1.5}, "map_size of 1 or more, got 1.5"),
        ({"top": "ten", "statistics": "top_keys"}, "top of 1 or more, got 'ten'"),
    ],
)
def test_bad_input_is_one_clear_error(more: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        heedmap.measure(Q, K, **more)  # type: ignore[arg-type]


def test_attend_needs_a_value() -> None:
    with pytest.raises(InputError, match="a value for each key, got none; use measure"):
        heedmap.attend(Q, K, None)  # type: ignore[arg-type]


def test_only_measurements_of_other_rows_merge() -> None:
    part = heedmap.measure(Q, K, rows=(0, 3))
    with pytest.raises(InputError, match=r"rows 0 to 2 in both; add up passes over different texts by first\.pooled"):
        part.merge(part)
    with pytest.raises(InputError, match="Measurements of other query rows, got NoneType"):
        part.merge(None)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"row_max of one shape, got \[1, 4, 6\] and \[1, 2, 6\]"):
        part.merge(heedmap.measure(Q[:, :2], K, rows=(3, 6)))


@pytest.mark.filterwarnings("ignore")
def test_compiled_code_calls_measure_and_attend_as_they_are() -> None:
    def step(query: torch.Tensor, key: torch.Tensor) -> tuple[torch.Tensor, object]:
        return heedmap.attend(query * 2, key, key).output * 3, heedmap.measure(query * 2, key)["entropy"]

    query = Q.clone().requires_grad_()
    (output, entropy), (wanted, same) = torch.compile(step, backend="eager")(query, K), step(query, K)
    assert torch.equal(output, wanted)
    assert (entropy == same).all()
    found, expected = (torch.autograd.grad(out.sum(), query)[0] for out in (output, wanted))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("kernel", [kernel.NAME for kernel in KERNELS])
def test_torchs_default_dtype_changes_nothing(dtype: torch.dtype, kernel: str) -> None:
    def step() -> tuple[list[torch.Tensor], Measurements]:
        leaves = [tensor.detach().clone().requires_grad_() for tensor in (Q, K, K + 1)]
        real = torch.tensor([[1, 1, 1, 1, 1, 0]])
        found = attend(*leaves, mask=masks.causal() & masks.padding(real), valid_queries=real.bool(), kernel=kernel)
        found.output.square().sum().backward()
        gradients = [leaf.grad for leaf in leaves if leaf.grad is not None]
        return [found.output, *gradients], found.measurements

    tensors, measured = step()
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        again, measured_again = step()
    finally:
        torch.set_default_dtype(before)
    assert len(again) == 4
    assert all(torch.equal(one, other) for one, other in zip(tensors, again, strict=True))
    for name, quantity in measured.quantities.items():
        assert quantity.values.tobytes() == measured_again.quantities[name].values.tobytes(), name
