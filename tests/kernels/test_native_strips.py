"""The compiled pass takes strips of any layout, and does the same in every instruction set and for any threads."""

from __future__ import annotations

import pytest
import torch
from tests.kernels.strip_calls import SETS, Formula, assert_right, expected, run

EVERY_SET = pytest.mark.parametrize("instruction_set", SETS)


def scores_of(heads: int, rows: int, keys: int, spread: float = 3.0) -> torch.Tensor:
    return torch.randn(heads, rows, keys, generator=torch.Generator().manual_seed(3)) * spread


@EVERY_SET
@pytest.mark.parametrize("keys", [1, 2, 7, 15, 16, 17, 31, 33, 127, 128, 1023, 1024, 1025, 4100])
def test_rows_of_any_length(keys: int, instruction_set: str) -> None:
    scores = scores_of(2, 11, keys)
    wanted = expected(scores)
    assert_right(run(scores, instruction_set=instruction_set), wanted)


@EVERY_SET
@pytest.mark.parametrize("rows", [1, 2, 4, 7, 8, 9, 31, 32, 33, 70])
def test_any_number_of_rows(rows: int, instruction_set: str) -> None:
    scores = scores_of(3, rows, 100)
    wanted = expected(scores)
    assert_right(run(scores, instruction_set=instruction_set), wanted)


@EVERY_SET
@pytest.mark.parametrize("shift", [1, 2, 3, 5])
def test_a_misaligned_table(shift: int, instruction_set: str) -> None:
    scores = torch.empty(2 * 9 * 77 + shift)[shift:].view(2, 9, 77).copy_(scores_of(2, 9, 77))
    assert scores.data_ptr() % 64 != 0
    wanted = expected(scores)
    assert_right(run(scores, instruction_set=instruction_set), wanted)


@EVERY_SET
@pytest.mark.parametrize("pitch", [78, 1000, 300_000])
def test_rows_far_apart_leave_what_lies_between_them_untouched(pitch: int, instruction_set: str) -> None:
    whole = torch.full((2, 9, pitch), torch.nan)
    scores = whole[..., :77].copy_(scores_of(2, 9, 77))
    wanted = expected(scores)
    assert_right(run(scores, instruction_set=instruction_set), wanted)
    assert bool(whole[..., 77:].isnan().all())


@EVERY_SET
def test_heads_in_another_order_in_memory(instruction_set: str) -> None:
    whole = torch.empty(6, 9, 80)
    scores = whole[::2, :, :77].copy_(scores_of(3, 9, 77))
    wanted = expected(scores)
    assert_right(run(scores, instruction_set=instruction_set), wanted)


@EVERY_SET
@pytest.mark.parametrize("key_len", [1, 40])
def test_a_strip_without_keys_is_a_strip_of_rows_that_see_nothing(key_len: int, instruction_set: str) -> None:
    found = run(torch.empty(2, 5, 0), instruction_set=instruction_set, key_len=key_len)
    wanted = expected(torch.empty(2, 5, 0), key_len)
    for name in ("entropy", "row_mass", "max_weight", "mean_distance"):
        assert bool((found.results[name] == 0).all())
    assert torch.equal(found.results["argmax"][0], wanted["argmax"])
    assert bool((found.results["logsumexp"] == -torch.inf).all())
    assert bool((found.results["received"] == 0).all())


@EVERY_SET
def test_a_table_without_rows_or_heads_changes_nothing(instruction_set: str) -> None:
    from tests.kernels.strip_calls import native

    received = torch.zeros(1, 2, 8, dtype=torch.float64)
    sweep = native.Sweep(
        batch=1,
        heads=2,
        query_len=4,
        key_len=8,
        query_offset=0,
        key_offset=0,
        softcap=0.0,
        sinks=None,
        row_cells=(4, 1, 0),
        key_cells=(8, 1, 0),
        results={"received": received},
        instruction_set=instruction_set,
    )
    for heads, rows in ((0, 4), (2, 0)):
        sweep.strip(
            scores=torch.empty(heads, rows, 8),
            batch=0,
            heads=(0, heads),
            rows=(0, rows),
            keys=(0, 8),
            cell_rows=1,
            allowed=[],
            valid=None,
            weights=None,
            row_terms=torch.empty(4, heads, rows),
            top=torch.empty(heads, rows, dtype=torch.int64),
            threads=2,
        )
    assert bool((received == 0).all())


@EVERY_SET
@pytest.mark.parametrize("strided", [False, True])
def test_hidden_pairs_are_as_if_their_scores_were_minus_infinity(strided: bool, instruction_set: str) -> None:
    scores = scores_of(2, 20, 90)
    allowed = torch.rand(2, 20, 100, generator=torch.Generator().manual_seed(4)) < 0.4
    allowed[:, 3] = False
    left, right = allowed[..., :30], allowed[..., 30:90] if strided else allowed[:1, :, 30:90].contiguous()
    hidden = torch.cat([left, right.expand(2, -1, -1)], -1)
    wanted = expected(scores.masked_fill(~hidden, -torch.inf))
    scores[~hidden] = torch.nan  # hidden means hidden
    found = run(scores, Formula(allowed=[(0, left), (30, right)]), instruction_set=instruction_set)
    assert_right(found, wanted)
    assert bool((found.exponentials[~hidden] == 0).all())


@EVERY_SET
def test_ties_go_to_the_lowest_key(instruction_set: str) -> None:
    scores = torch.zeros(1, 8, 3000)
    for row in range(8):
        scores[0, row, 1 + 17 * row :: 100] = 1.0
    found = run(scores, instruction_set=instruction_set)
    assert found.results["argmax"][0, 0].tolist() == [1 + 17 * row for row in range(8)]


@EVERY_SET
def test_rows_that_do_not_count_leave_their_results_alone_and_add_nothing(instruction_set: str) -> None:
    scores = scores_of(2, 21, 64)
    valid = torch.arange(21) % 3 != 0
    scores[:, ~valid] = torch.nan
    wanted = expected(scores[:, valid])
    found = run(scores, Formula(valid=valid), instruction_set=instruction_set)
    assert found.spoiled is None
    torch.testing.assert_close(found.results["received"][0], wanted["received"], rtol=1e-6, atol=1e-6)
    assert bool(found.results["entropy"][0][:, ~valid].isnan().all())
    torch.testing.assert_close(found.results["entropy"][0][:, valid].double(), wanted["entropy"], rtol=1e-5, atol=1e-5)


@EVERY_SET
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_the_first_row_with_a_score_that_is_no_number_is_named(bad: float, instruction_set: str) -> None:
    scores = scores_of(3, 40, 64)
    scores[1, 35, 63] = scores[2, 0, 0] = bad
    assert run(scores, instruction_set=instruction_set).spoiled == (1, 35)


@EVERY_SET
def test_weights_are_written_where_they_are_asked_for(instruction_set: str) -> None:
    scores = scores_of(2, 10, 45)
    original = scores.clone()
    table = torch.full((2, 10, 50), torch.nan)
    found = run(scores, instruction_set=instruction_set, weights=table[..., :45])
    torch.testing.assert_close(table[..., :45], torch.softmax(original, -1), rtol=2e-6, atol=1e-7)
    assert bool(table[..., 45:].isnan().all())
    torch.testing.assert_close(found.exponentials, original - original.amax(-1, keepdim=True), rtol=0, atol=1e-6)


@pytest.mark.parametrize("rows", [5, 200])
@EVERY_SET
def test_the_number_of_threads_changes_no_bit(rows: int, instruction_set: str) -> None:
    one = run(scores_of(3, rows, 1100), instruction_set=instruction_set, threads=1)
    for threads in (2, 3, 8):
        other = run(scores_of(3, rows, 1100), instruction_set=instruction_set, threads=threads)
        for name, values in one.results.items():
            assert values.numpy().tobytes() == other.results[name].numpy().tobytes(), name
        assert one.exponentials.numpy().tobytes() == other.exponentials.numpy().tobytes()


@pytest.mark.parametrize("instruction_set", SETS[:-1])
def test_instruction_sets_agree(instruction_set: str) -> None:
    formula = Formula(softcap=4.0, sinks=torch.tensor([0.5, 30.0]))
    plain = run(scores_of(2, 50, 700), formula, instruction_set="scalar")
    other = run(scores_of(2, 50, 700), formula, instruction_set=instruction_set)
    for name, values in plain.results.items():
        torch.testing.assert_close(other.results[name], values, rtol=3e-6, atol=3e-6, msg=name)


@EVERY_SET
def test_the_exponential_is_right_to_two_units_in_the_last_place(instruction_set: str) -> None:
    from tests.kernels.strip_calls import native

    x = torch.cat([-torch.logspace(-8, 1.94, 200_001, dtype=torch.float64).float(), torch.tensor([0.0, -87.3, -87.68])])
    out = torch.empty_like(x)
    native.exponential(x, out, instruction_set=instruction_set)
    exact = x.double().exp()
    normal = exact > torch.finfo(torch.float32).tiny
    unit = torch.exp2(torch.floor(torch.log2(exact)) - 23)
    assert float(((out.double() - exact).abs() / unit)[normal].max()) < 2
    native.exponential(torch.tensor([-88.0, -1e4, -torch.inf, torch.nan]), out[:4], instruction_set=instruction_set)
    assert out[:3].tolist() == [0, 0, 0]
    assert bool(out[3].isnan())


@EVERY_SET
def test_softening_keeps_the_digits_of_small_scores(instruction_set: str) -> None:
    from tests.kernels.strip_calls import native

    x = torch.cat([torch.logspace(-6, 3, 50_001), -torch.logspace(-6, 3, 50_001)])
    wanted = 30 * torch.tanh(x.double() / 30)
    native.soften(x, 30.0, instruction_set=instruction_set)
    assert float(((x.double() - wanted) / wanted).abs().max()) < 4e-7


def test_tables_that_do_not_fit_are_refused() -> None:
    good = scores_of(2, 4, 8)
    with pytest.raises(ValueError, match="keys side by side"):
        run(good.transpose(1, 2))
    with pytest.raises(ValueError, match="rows that do not overlap"):
        run(torch.zeros(100).as_strided((2, 4, 8), (32, 3, 1)))
    with pytest.raises(ValueError, match="a segment within the strip"):
        run(good, Formula(allowed=[(5, torch.ones(1, 4, 8, dtype=torch.bool))]))
    with pytest.raises(ValueError, match="valid"):
        run(good, Formula(valid=torch.ones(5, dtype=torch.bool)))
    with pytest.raises(ValueError, match="no instruction set mmx"):
        run(good, instruction_set="mmx")
    with pytest.raises(TypeError):
        run(good.double())
