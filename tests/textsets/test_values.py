"""Each text of a set has the numbers of its own run, and the set has their means."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from tests.made_sets import json_lines, texts

from heedmap.capture.look import look
from heedmap.capture.models import resolve
from heedmap.heads.evidence import type_heads
from heedmap.sets.schema import STARTS
from heedmap.textsets.scan import scan

LONG = " ".join(texts(40, 20)[-30:])


@pytest.fixture(scope="module", params=["bert", "llama", "gpt_oss"])
def scanned(request, model_folder, tmp_path_factory):
    """A set with texts short, equal and long in three shards, and the run of each text alone."""
    folder = tmp_path_factory.mktemp("scan")
    given = [*texts(8), "cat", "cat dog", LONG, *texts(4, 60, seed=9)]
    model = resolve(model_folder(request.param))
    found = scan(
        json_lines(folder / "texts.jsonl", given),
        model_folder(request.param),
        out=folder / "set",
        shard_texts=6,
        statistics=["induction", "duplicate"],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runs = [
            look(text, model.model, model.tokenizer, out=folder / f"run{number}",
                 statistics=["default", "induction", "duplicate"])
            for number, text in enumerate(given)
        ]  # fmt: skip
    return found, runs


def of_texts(found, name):
    """One value of a set, `[heads, texts]`."""
    table = found.table("heads", columns=["part", "layer", "head", "text", name]).to_pandas()
    table = table.sort_values(["part", "layer", "head", "text"])
    return table[name].to_numpy().reshape(len(found.heads), -1)


def test_a_long_text_is_among_them(scanned):
    found, _ = scanned
    assert max(found.table("texts").column("tokens").to_pylist()) > 256


def test_every_statistic_of_rows_is_that_of_the_text_s_own_run(scanned):
    found, runs = scanned
    checked = 0
    for name in found.values:
        tables = [run.table("head") for run in runs]
        if name not in tables[0].column_names or name in ("induction", "duplicate"):
            continue
        alone = np.stack([table.column(name).to_numpy() for table in tables], 1)
        np.testing.assert_allclose(of_texts(found, name), alone, atol=2e-5, err_msg=name)
        checked += 1
    assert checked >= 6


def test_copies_are_those_of_the_text_s_own_run(scanned):
    found, runs = scanned
    for name in ("induction", "duplicate"):
        alone = np.stack([run.table("head").column(name).to_numpy(zero_copy_only=False) for run in runs], 1)
        np.testing.assert_allclose(of_texts(found, name), alone.astype(float), atol=2e-5, err_msg=name)


def test_every_type_of_head_has_the_number_of_the_text_s_own_run(scanned):
    found, runs = scanned
    typed = [type_heads(run) for run in runs]
    for name in (
        "previous",
        "next",
        "self",
        "first",
        "separator",
        "punctuation",
        "sink",
        "local",
        "positional",
        "broad",
    ):
        alone = np.array([[head.values.get(name, np.nan) for head in one.heads] for one in typed], dtype=float).T
        np.testing.assert_allclose(of_texts(found, name), alone, atol=2e-5, err_msg=name)


def test_types_are_counted_over_the_texts_that_can_be_judged(scanned):
    found, runs = scanned
    typed = [type_heads(run) for run in runs]
    table = found.table("types").to_pylist()
    assert {row["type"] for row in table} >= {"previous", "first", "sink", "induction"}
    for row in table:
        place = found.heads.index((row["part"], row["layer"], row["head"]))
        values = [one.heads[place].values.get(row["type"], np.nan) for one in typed]
        assert row["texts"] == int(np.isfinite(values).sum())
        near = sum(abs(value - row["bar"]) < 1e-4 for value in values)
        assert abs(row["texts_of_type"] - sum(row["type"] in one.heads[place].types for one in typed)) <= near


def test_means_over_the_set_are_the_means_of_single_looks(scanned):
    found, runs = scanned
    table = found.table("means").to_pylist()
    for row in table:
        if row["statistic"] not in ("entropy", "max_weight", "concentration", "saturation"):
            continue
        place = found.heads.index((row["part"], row["layer"], row["head"]))
        alone = np.array([run.table("head").column(row["statistic"])[place].as_py() for run in runs])
        assert row["texts"] == len(runs)
        assert row["mean"] == pytest.approx(alone.mean(), abs=1e-6)
        assert row["deviation"] == pytest.approx(alone.std(ddof=1), abs=1e-5)
        assert row["least"] == pytest.approx(alone.min(), abs=1e-5)
        assert row["low"] < row["mean"] < row["high"]


def test_profiles_are_the_sums_of_single_looks(scanned):
    found, runs = scanned
    part, layer, head = found.heads[-1]
    weight, pairs = np.zeros(len(STARTS)), np.zeros(len(STARTS), dtype=int)
    for run in runs:
        table = run.table("distance", part=part, layer=layer, head=head)
        bins = np.searchsorted(STARTS, table.column("distance").to_numpy(), side="right") - 1
        np.add.at(weight, bins, table.column("distance_profile").to_numpy())
        np.add.at(pairs, bins, table.column("distance_pairs").to_numpy())
    own = found.table("profiles", part=part, layer=layer, head=head)
    np.testing.assert_array_equal(own.column("distance_from"), STARTS[pairs > 0])
    np.testing.assert_array_equal(own.column("pairs"), pairs[pairs > 0])
    np.testing.assert_allclose(own.column("weight"), weight[pairs > 0], atol=1e-4)


def test_kinds_and_entropies_account_for_every_row(scanned):
    found, runs = scanned
    rows = sum(run.tokens.num_rows for run in runs)
    for part, layer, head in found.heads:
        chosen = {"part": part, "layer": layer, "head": head}
        mass = sum(float(run.table("key", columns=["received"], **chosen).column(0).to_numpy().sum()) for run in runs)
        kinds = found.table("kinds", **chosen)
        assert sum(kinds.column("received").to_pylist()) == pytest.approx(mass, abs=1e-3)
        assert sum(kinds.column("tokens").to_pylist()) == rows
        assert sum(found.table("entropies", **chosen).column("rows").to_pylist()) == rows


def test_kinds_of_tokens_are_told_apart_by_what_they_cover(scanned):
    found, runs = scanned
    counts = dict.fromkeys(("first", "punctuation", "number", "word", "other", "special"), 0)
    for run in runs:
        for token in run.tokens.to_pylist():
            text = token["text"].strip("␣")
            kind = (
                "first" if token["position"] == 0 else "special" if token["special"] else
                "number" if text.isdigit() else "word" if text.isalpha() else "punctuation"
            )  # fmt: skip
            counts[kind] += 1
    part, layer, head = found.heads[0]
    kinds = found.table("kinds", part=part, layer=layer, head=head).to_pylist()
    assert {row["kind"]: row["tokens"] for row in kinds} == {k: n for k, n in counts.items() if n}


def test_the_map_is_the_mean_of_single_maps_in_relative_positions(scanned):
    found, runs = scanned
    part, layer, head = found.heads[1]
    total = np.zeros((32, 32))
    for run in runs:
        n = run.tokens.num_rows
        weights = run.weights(layer, head, part=part).astype(np.float64)
        pieces = np.arange(32 * n)  # each token as 32 pieces, n of which make a thirty-second of the text
        shared = np.zeros((32, n))
        np.add.at(shared, (pieces // n, pieces // 32), 1)
        total += shared @ weights @ shared.T / 32 / n
    expected = total / len(runs)
    np.testing.assert_allclose(found.map(layer, head, part), expected, atol=1e-6)


def test_tops_and_deciles_are_the_ranked_texts(scanned):
    found, _ = scanned
    values = of_texts(found, "entropy")
    for place, (part, layer, head) in enumerate(found.heads):
        order = np.argsort(values[place], kind="stable")
        rows = found.table("tops", part=part, layer=layer, head=head).to_pylist()
        own = [row for row in rows if row["statistic"] == "entropy"]
        assert [row["text"] for row in own if row["side"] == "lowest"][:3] == order[:3].tolist()
        assert {row["text"] for row in own if row["side"] == "highest"} == set(order[-10:].tolist())
        deciles = found.table("deciles", part=part, layer=layer, head=head).to_pylist()
        own = [row for row in deciles if row["statistic"] == "entropy"]
        assert [row["decile"] for row in own] == list(range(11))
        last = len(order) - 1
        assert [row["text"] for row in own] == [int(order[round(d / 10 * last)]) for d in range(11)]
        assert own[0]["value"] == pytest.approx(values[place].min())


def test_the_set_checks_itself(scanned):
    found, _ = scanned
    assert found.meta["self_check"]["passed"]


def test_padding_and_company_change_nothing(model_folder, tmp_path: Path):
    source = json_lines(tmp_path / "texts.jsonl", texts(30))
    together = scan(source, model_folder(), out=tmp_path / "together")
    alone = scan(source, model_folder(), out=tmp_path / "alone", budget=1)
    for name in together.values:
        np.testing.assert_allclose(of_texts(together, name), of_texts(alone, name), atol=2e-5, err_msg=name)
