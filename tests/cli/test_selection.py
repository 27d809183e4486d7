from __future__ import annotations

import pytest

from heedmap.cli.selection import parse_heads, parse_layers, parse_names
from heedmap.errors import InputError


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("0", [0]), ("0-5,8", [0, 1, 2, 3, 4, 5, 8]), (" 3 , 1-2,2 ", [1, 2, 3]), ("7-7", [7]), ("007", [7])],
)
def test_layers_are_numbers_and_ranges_with_both_ends(text: str, numbers: list[int]):
    assert parse_layers(text) == numbers


@pytest.mark.parametrize(
    ("text", "heads"),
    [
        ("0-3", [0, 1, 2, 3]),
        ("5.11", ["5.11"]),
        ("5.0-2", ["5.0", "5.1", "5.2"]),
        ("5.11,3.1", ["3.1", "5.11"]),
        ("1,5.11,0", [0, 1, "5.11"]),
    ],
)
def test_heads_are_numbers_in_every_layer_or_layer_dot_head(text: str, heads: list[int | str]):
    assert parse_heads(text) == heads


@pytest.mark.parametrize("text", ["", " ", ",", "1,", "a", "-1", "1-", "-", "1--2", "1.5.2", "1.5", "1e3", "0x1"])
def test_what_is_no_list_of_layers_is_refused_with_an_example(text: str):
    with pytest.raises(InputError, match=r"\[--layers\] expected something like 0-5,8, got"):
        parse_layers(text)


@pytest.mark.parametrize("text", ["", "a.1", "1.a", ".1", "1.", "1.2.3", "0-2.1", "1.-2"])
def test_what_is_no_list_of_heads_is_refused_with_an_example(text: str):
    with pytest.raises(InputError, match=r"\[--heads\] expected something like 0-3 \(in every layer\) or 5\.11"):
        parse_heads(text)


def test_a_range_that_runs_down_is_turned_round_in_the_advice():
    with pytest.raises(InputError, match=r"expected ranges that run upwards, got '5-2'; write 2-5"):
        parse_layers("5-2")


def test_a_range_without_end_is_refused_before_it_fills_the_memory():
    with pytest.raises(InputError, match="expected numbers up to 9999"):
        parse_layers("0-999999999")


def test_statistics_are_names_parted_by_commas():
    assert parse_names("default") == "default"
    assert parse_names("entropy, received,entropy") == ["entropy", "received"]
    with pytest.raises(InputError, match=r"\[--statistics\] expected something like"):
        parse_names("entropy,,received")
