from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from heedmap.errors import InputError
from heedmap.heads.findings import About
from heedmap.heads.intervals import Bootstrap
from heedmap.heads.showing import sentence_to_show
from heedmap.heads.syntax import OFFSETS, READINGS, Arc, Lost, Tally, arcs_of, hits_of, pointed, relation_of
from heedmap.heads.syntax_findings import chosen, findings, interval
from heedmap.heads.trees import ROOT, Sentence, Word, read_sentences
from heedmap.heads.units import Units, align

ABOUT = About("m", None, "d", 1, 0, "c")


@pytest.fixture(scope="module")
def gold() -> ModuleType:
    spec = spec_from_file_location("gold_texts", Path(__file__).parents[1] / "gold_texts.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def bank(gold: ModuleType, tmp_path: Path) -> list[tuple[Sentence, Units, list[Arc]]]:
    """Sixty sentences, a token a word."""
    (tmp_path / "bank.conllu").write_text(gold.treebank(60))
    found = []
    for sentence in read_sentences(tmp_path / "bank.conllu"):
        spans = [(word.start, word.end) for word in sentence.words]
        units = align(spans, list(spans))
        found.append((sentence, units, arcs_of(sentence, units, Lost())))
    return found


def planted(units: int, arcs: list[Arc], noise: np.random.Generator) -> np.ndarray:
    """Heads of known deeds, `[6, units, units]`: the gold head; the gold dependent (the first); the transposed gold
    head; one word to the left; one to the right; nothing on any other word."""
    weights = noise.uniform(0, 0.01, (6, units, units))
    for arc in reversed(arcs):
        weights[0, arc.dependent, arc.head] = 1
        weights[1, arc.head] = noise.uniform(0, 0.01, units)
        weights[1, arc.head, arc.dependent] = 1
        weights[2, arc.head, arc.dependent] = 1
    for row in range(units):
        for head, step in ((3, -1), (4, 1)):
            weights[head, row] = 0
            if 0 <= row + step < units:
                weights[head, row, row + step] = 1
    weights[5] = np.eye(units)
    return weights


NAMES = tuple(("self", 0, head) for head in range(6))


def tally(bank: list[tuple[Sentence, Units, list[Arc]]], noise: int = 0) -> Tally:
    random_numbers = np.random.default_rng(noise)
    found = Tally(NAMES)
    for sentence, units, arcs in bank:
        found.add(sentence.number, arcs, planted(len(units), arcs, random_numbers))
    return found


def test_a_head_that_points_to_the_gold_head_is_always_right(bank) -> None:
    for relation in tally(bank).scores():
        accuracy = relation.accuracy()
        assert accuracy[0, 0] == 1.0
        assert accuracy[2, 2] == 1.0
        assert accuracy[0, 5] == accuracy[1, 5] == accuracy[2, 5] == 0.0  # it points nowhere
        best = relation.best()
        assert (best.accuracy, best.low, best.high, best.chosen) == (1.0, 1.0, 1.0, 1.0)
    (det,) = [relation for relation in tally(bank).scores() if relation.name == "det"]
    assert det.accuracy()[1, 1] == 1.0  # a noun has one determiner, the first of its dependents


def test_a_head_of_one_offset_does_exactly_what_the_offset_does(bank) -> None:
    for relation in tally(bank).scores():
        left, right = relation.accuracy()[0, 3], relation.accuracy()[0, 4]
        offsets = relation._offsets.mean(0)  # pyright: ignore[reportPrivateUsage]
        assert left == offsets[OFFSETS.tolist().index(-1)]
        assert right == offsets[OFFSETS.tolist().index(1)]
        assert relation.accuracy()[1, 3] == right  # from the head's row a step to the left is one to the right
        assert relation.accuracy()[2, 3] == right


def test_the_best_are_chosen_on_even_sentences_and_scored_on_odd_ones(bank) -> None:
    found = Tally(NAMES[:2])
    for sentence, units, arcs in bank:
        weights = planted(len(units), arcs, np.random.default_rng(0))[[5, 0]]
        found.add(sentence.number, arcs, weights if sentence.number % 2 == 0 else weights[::-1])
    for relation in found.scores():
        best = relation.best(READINGS[0])
        assert best.head == 1  # perfect on even sentences, and pointing nowhere on odd ones
        assert (best.chosen, best.accuracy) == (1.0, 0.0)


def test_random_weights_find_arcs_by_chance_alone(bank) -> None:
    """No reading, relation or direction leaks the gold: hits are binomial about the mean of 1 / (other words)."""
    heads, random_numbers = 200, np.random.default_rng(3)
    found = Tally(tuple(("self", 0, head) for head in range(heads)))
    chances: dict[str, list[float]] = {}
    for sentence, units, arcs in bank:
        found.add(sentence.number, arcs, random_numbers.dirichlet(np.ones(len(units)), (heads, len(units))))
        for arc in arcs:
            chances.setdefault(arc.relation, []).append(1 / (len(units) - 1))
    for relation in found.scores():
        p = np.array(chances[relation.name])
        error = np.sqrt((p * (1 - p)).sum() / heads) / len(p)
        for accuracy in relation.accuracy().mean(1):
            assert abs(accuracy - p.mean()) < 4 * error, relation.name


def test_ties_go_to_the_first_and_no_weight_points_nowhere() -> None:
    weights = np.array([[[0.9, 0.0, 0.0], [0.4, 0.2, 0.4], [0.1, 0.3, 0.6]]])
    assert pointed(weights).tolist() == [[-1, 0, 1]]
    assert pointed(weights.swapaxes(1, 2)).tolist() == [[1, 2, 1]]


def test_an_offset_outside_the_sentence_is_wrong() -> None:
    hits = hits_of(np.ones((1, 2, 2)) - np.eye(2), [Arc(0, 1, "x")])
    assert hits[:, 0, 0].tolist() == [True]
    found = Tally((("self", 0, 0),))
    for number in range(4):
        found.add(number, [Arc(0, 1, "x"), Arc(1, 0, "y")], np.ones((1, 2, 2)))
    by_name = {relation.name: relation.baseline() for relation in found.scores()}
    assert (by_name["x"].offset, by_name["y"].offset) == (1, -1)


def test_arcs_that_cannot_be_told_are_counted_with_their_reason() -> None:
    words = tuple(
        Word(form, start, end, head, relation, "X")
        for form, start, end, head, relation in [
            ("I", 0, 1, 3, "nsubj"), ("do", 2, 4, 3, "aux"), ("n't", 4, 7, 3, "advmod"), ("go", 8, 10, -1, "root"),
            ("!", 10, 11, 3, "punct:x"), ("?", 11, 12, None, "dep"), ("so", 13, 15, 3, ""),
        ]
    )  # fmt: skip
    sentence = Sentence(0, "0", "I don't go!? so", words)
    units = align([(word.start, word.end) for word in words], [(0, 1), (2, 5), (5, 7), (8, 10), None, (11, 12)])
    lost = Lost()
    assert arcs_of(sentence, units, lost) == [Arc(0, 2, "nsubj")]
    assert (lost.sharing_a_token, lost.without_token) == (2, 1)


@pytest.mark.parametrize(
    ("label", "name"),
    [("nsubj:pass", "nsubj"), ("nmod:poss", "nmod:poss"), ("compound:prt", "compound:prt"), ("nmod:desc", "nmod"),
     ("det", "det")],
)  # fmt: skip
def test_subtypes_are_cut_but_two(label: str, name: str) -> None:
    assert relation_of(label) == name


def test_the_bootstrap_is_that_of_whole_sentences() -> None:
    bootstrap = Bootstrap.of(400, seed=1)
    items = np.full(400, 2)
    right = np.where(np.arange(400) % 2 == 0, 2, 0)  # both arcs of a sentence, or none: 400 draws and not 800
    low, high = bootstrap.interval(right, items)
    assert low < 0.5 < high
    assert high - low == pytest.approx(2 * 1.96 * np.sqrt(0.25 / 400), rel=0.1)
    assert bootstrap.interval(right, items) == Bootstrap.of(400, seed=1).interval(right, items)
    assert bootstrap.interval(right, items) != Bootstrap.of(400, seed=2).interval(right, items)
    assert all(np.isnan(bootstrap.interval(np.zeros(400), np.zeros(400))))
    assert all(np.isnan(bootstrap.interval(np.eye(400)[3], np.eye(400)[3]))), "one sentence says nothing of others"


def test_a_causal_model_is_noticed(bank) -> None:
    found = Tally(NAMES)
    for sentence, units, arcs in bank:
        found.add(sentence.number, arcs, np.tril(planted(len(units), arcs, np.random.default_rng(0))))
    assert found.causal
    assert not tally(bank).causal
    notes = findings(found.scores(), ABOUT, causal=True)[0].notes
    assert "No head of this model sees a later word" in notes[1]


def test_tables_have_a_row_for_each_relation_reading_and_head(bank) -> None:
    relations = tally(bank).scores()
    best, by_reading, every = findings(relations, ABOUT, causal=False)
    assert len(best) == len(relations)
    assert len(by_reading) == 3 * len(relations)
    assert len(every) == 3 * len(NAMES) * len(relations)
    row = {str(row["relation"]): row for row in best}["nsubj"]
    assert row["head"] == "0.0"
    assert row["accuracy"] == 1.0
    assert row["interval"] == "100.0–100.0"
    gain, baseline = row["gain"], row["baseline"]
    assert isinstance(gain, float)
    assert isinstance(baseline, float)
    assert gain == pytest.approx(1 - baseline)
    assert row["beats_offset"] is (gain > 0.1)
    assert [interval(-0.01, 0.2, sign=True), interval(float("nan"), 1.0)] == ["-1.0 to +20.0", ""]


def test_relations_are_chosen_by_name_or_by_number_of_arcs(bank) -> None:
    relations = tally(bank).scores()
    assert [relation.name for relation in chosen(relations, ["obj", "det"])] == ["obj", "det"]
    assert {relation.name for relation in chosen(relations, None)} == {"det", "amod", "advmod", "nsubj", "obj"}
    with pytest.raises(
        InputError, match=r"expected relations among .*, got 'nsubj:pass'; subtypes are cut: take nsubj"
    ):
        chosen(relations, ["nsubj:pass"])
    few = tally(bank[:4]).scores()
    with pytest.raises(InputError, match="at least 20 arcs in the even and in the odd sentences"):
        chosen(few, None)


def test_the_shown_sentence_is_an_odd_one_and_its_arrows_are_judged(bank) -> None:
    relations = tally(bank).scores()
    shown = sentence_to_show(relations, bank)
    assert shown is not None
    assert bank[shown.index][0].number % 2 == 1
    assert len(shown.labels) in range(5, 15)
    weights = planted(len(shown.labels), shown.arcs, np.random.default_rng(0))
    arrows = shown.arrows(weights[shown.head[2]])
    asked = [arrow for arrow in arrows if arrow[3] is not None]
    assert len(asked) == sum(arc.relation == shown.relation for arc in shown.arcs)
    assert all(right for *_, right in asked)
    assert all(not right for *_, right in shown.arrows(weights[5]))
    assert sentence_to_show(relations, [(sentence, units, []) for sentence, units, _ in bank]) is None


def test_the_shown_relation_is_surely_above_its_offset_not_once_by_chance() -> None:
    found, bank = Tally(NAMES), []
    for number in range(40):
        arcs = [Arc(0, 3, "obj") if number // 2 % 2 else Arc(3, 0, "obj")]
        if number < 2:  # one odd arc that the head finds and the offset does not
            arcs.append(Arc(1, 2 + number, "list"))
        found.add(number, arcs, planted(5, arcs, np.random.default_rng(number)))
        words = tuple(Word("w", 2 * place, 2 * place + 1, ROOT, "root", "X") for place in range(5))
        spans = [(word.start, word.end) for word in words]
        bank.append((Sentence(number, str(number), "w w w w w", words), align(spans, list(spans)), arcs))
    gains = {one.name: one.gain(one.best(), one.baseline()) for one in found.scores()}
    assert gains["list"][0] > gains["obj"][0]
    shown = sentence_to_show(found.scores(), bank)
    assert shown is not None
    assert shown.relation == "obj"


def test_nothing_to_score_and_foreign_weights_are_refused() -> None:
    with pytest.raises(InputError, match="none that can be scored"):
        Tally(NAMES).scores()
    with pytest.raises(InputError, match="weights of 6 heads, got 1"):
        Tally(NAMES).add(0, [], np.zeros((1, 2, 2)))


def test_one_sentence_has_no_odd_half() -> None:
    found = Tally(NAMES[:1])
    found.add(0, [Arc(0, 1, "x")], np.ones((1, 2, 2)))
    (relation,) = found.scores()
    assert np.isnan(relation.best().accuracy)
    assert (relation.even_items, relation.odd_items) == (1, 0)
