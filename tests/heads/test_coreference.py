from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from heedmap.errors import InputError
from heedmap.heads.coreference import BASELINES, CLASSES, Item, Place, Tally, hits_of, items_of
from heedmap.heads.coreference_findings import chain_findings, verdict
from heedmap.heads.findings import About
from heedmap.heads.mentions import Document, documents_of
from heedmap.heads.trees import read_sentences

ENTITY = "GRP-etype-minspan-link"


def line(number: int, form: str, head: int, pos: str = "NOUN", entity: str = "") -> str:
    return "\t".join(
        [str(number), form, form, pos, "_", "_", str(head), "dep", "_", f"Entity={entity}" if entity else "_"]
    )


def document(*lines: str, name: str = "d", parts: str | None = ENTITY) -> str:
    comments = [f"# newdoc id = {name}"] + ([] if parts is None else [f"# global.Entity = {parts}"])
    return "\n".join([*comments, *lines]) + "\n\n"


def read(tmp_path: Path, text: str) -> list[Document]:
    (tmp_path / "a.conllu").write_text(text)
    return documents_of(read_sentences(tmp_path / "a.conllu"), "a")


def test_chains_heads_and_kinds(tmp_path: Path) -> None:
    (found,) = read(
        tmp_path,
        document(
            line(1, "The", 3, "DET", "(7-person-2,3-new"), line(2, "old", 3, "ADJ"), line(3, "King", 4, entity="7)"),
            line(4, "saw", 0, "VERB"), line(5, "Ada", 4, "PROPN", "(8-person-1-new"),
            line(6, "Byron", 5, "PROPN", "8)"), line(7, "and", 4),
            line(8, "his", 9, "PRON", "(9-object-2-new(7-person-1-ana)"), line(9, "dog", 4, entity="9)"),
        ),
    )  # fmt: skip
    mentions = {(mention.chain, mention.words): mention for mention in found.mentions}
    assert {key: (one.head, one.kind, one.word) for key, one in mentions.items()} == {
        ("7", (0, 1, 2)): (2, "nominal", "king"),  # of old and King the one that governs
        ("8", (4, 5)): (4, "proper", "ada"),
        ("7", (7,)): (7, "pronoun", "his"),
        ("9", (7, 8)): (8, "nominal", "dog"),
    }
    assert [(one.chain, one.head) for one in found.anaphors] == [("7", 7)]


def test_brackets_nest_touch_and_come_in_pieces(tmp_path: Path) -> None:
    (found,) = read(
        tmp_path,
        document(
            line(1, "a", 0, entity="(1-x-1-new(2-x-1-new(3-x-1-new)2)"), line(2, "b", 1, entity="1)(4[1/2]-x-2-new)"),
            line(3, "c", 1), line(4, "d", 2, entity="(4[2/2]-x-2-new)"),
            line(5, "e", 1, entity="(1-x-1-new(1-x-1-new"), line(6, "f", 1, entity="1)"), line(7, "g", 1, entity="1)"),
        ),
    )  # fmt: skip
    assert [(one.chain, one.words) for one in found.mentions] == [
        ("1", (0, 1)), ("3", (0,)), ("2", (0,)), ("4", (1, 3)), ("1", (4, 5, 6)), ("1", (4, 5)),
    ]  # fmt: skip
    assert found.mentions[3].head == 3  # the second word of the pieces together


def test_empty_nodes_count_in_a_mention_and_make_none_alone(tmp_path: Path) -> None:
    gone = line(1, "_", 0, entity="(1-x-1-new)").replace("1", "2.1", 1)
    opened = line(1, "_", 0, entity="(2-x-3-new").replace("1", "2.2", 1)
    (found,) = read(
        tmp_path,
        document(
            line(1, "a", 0, entity="(1-x-1-new)"), line(2, "b", 1), gone, opened, line(3, "c", 1),
            line(4, "d", 1, entity="2)"), line(5, "e", 1, entity="(1-x-1-new)"),
        ),
    )  # fmt: skip
    assert [(one.chain, one.words, one.head) for one in found.mentions] == [
        ("1", (0,), 0), ("2", (2, 3), 3), ("1", (4,), 4),
    ]  # fmt: skip
    assert found.unsaid == 1
    assert [one.head for one in found.anaphors] == [4]


def test_parts_go_by_the_names_of_the_document(tmp_path: Path) -> None:
    # CorefUD: eid-etype-head-other; the identity at the end may hold dashes of its own
    text = document(
        line(1, "Anna", 0, "PROPN", "(e1-person-1-some-thing)"), line(2, "she", 1, "PRON", "(e1--1-)"),
        parts="eid-etype-head-other",
    )  # fmt: skip
    (found,) = read(tmp_path, text)
    assert [(one.chain, one.head, one.kind) for one in found.mentions] == [("e1", 0, "proper"), ("e1", 1, "pronoun")]


def test_without_a_span_of_heads_the_tree_says_which_word(tmp_path: Path) -> None:
    text = document(line(1, "big", 2, entity="(1"), line(2, "house", 3, entity="1)"), line(3, "is", 0), parts=None)
    (found,) = read(tmp_path, text)
    assert found.mentions[0].head == 1


def test_documents_begin_where_the_file_says(tmp_path: Path) -> None:
    one = line(1, "a", 0, entity="(1-x-1-new)")
    found = read(tmp_path, document(one, name="x") + one + "\n\n" + document(one, name="y"))
    assert [(each.name, len(each.sentences), len(each.mentions)) for each in found] == [("x", 2, 2), ("y", 1, 1)]
    assert found[0].starts == (0, 1)
    assert [mention.head for mention in found[0].anaphors] == [1]


@pytest.mark.parametrize(
    ("entity", "message"),
    [
        ("(1-x-1-new", "a mention of '1' without its end"),
        ("1)", "an end of '1' that never began"),
        ("(1-x", "without its end"),
        ("1-x-new", "'1-x-new' in sentence"),
        ("((1)", r"'\(\(1\)' in sentence"),
        ("(1[1/2]-x-1-new)", "without its last piece"),
        ("", "expected coreference chains .* got none"),
    ],
)
def test_broken_chains_are_refused(entity: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, document(line(1, "a", 0, entity=entity)))


def place(chain: str, word: str, kind: str = "nominal") -> Place:
    return Place(frozenset(chain.split(",")), kind, word)


def test_items_baselines_and_what_is_lost() -> None:
    places = [place("a", "king"), place("b", "dog"), place("a", "he", "pronoun"), place("c", "king"), place("b", "dog")]
    items, lost = items_of(places, [(2, "a"), (3, "c"), (4, "b")])
    assert lost == 1  # c stands nowhere before
    he, dog = items
    assert he.right.tolist() == [True, False]
    assert (he.kind, he.same_word, he.baselines) == ("pronoun", False, (False, False, False, True))
    assert dog.right.tolist() == [False, True, False, False]
    assert (dog.same_word, dog.baselines) == (True, (False, True, True, False))
    (nearest,), _ = items_of([place("a", "x"), place("a", "y")], [(1, "a")])
    assert nearest.baselines == (True, False, True, True)


def test_a_head_is_right_where_its_largest_weight_on_earlier_places_is() -> None:
    item = Item(2, np.array([True, False]), "nominal", False, (False, False, False, True))
    weights = np.zeros((4, 4, 4))
    weights[0, 2] = [0.3, 0.2, 0.9, 0.9]  # what stands later does not count
    weights[1, 2] = [0.2, 0.3, 0.0, 0.0]
    weights[2, 2] = [0.0, 0.0, 0.5, 0.5]  # nothing on any candidate
    assert hits_of(weights, [item]).tolist() == [[True, False, False, False]]


def made(documents: int = 12, heads: int = 4, seed: int = 0) -> tuple[Tally, float]:
    """Windows of 12 places of 4 chains; head 0 looks at the right one, head 1 at the nearest, head 2 at the same word,
    the others anywhere. Also the mean chance of a guess."""
    chance, noise = random.Random(seed), np.random.default_rng(seed)
    tally = Tally(tuple(("self", 0, head) for head in range(heads)))
    guesses = []
    for number in range(documents):
        places = [
            place(
                chance.choice("abcd"),
                chance.choice(["king", "dog", "he", "tree"]),
                chance.choice(["pronoun", "proper"]),
            )
            for _ in range(12)
        ]
        first = {next(iter(one.chains)): at for at, one in reversed(list(enumerate(places)))}
        asked = [(at, chain) for at, one in enumerate(places) for chain in one.chains if first[chain] < at]
        items, lost = items_of(places, asked)
        assert lost == 0
        weights = noise.dirichlet(np.ones(12), (heads, 12))
        for item in items:
            weights[0, item.place, : item.place] += item.right
            weights[1, item.place, item.place - 1] += 1
            same = [at for at in range(item.place) if places[at].word == places[item.place].word]
            if same:
                weights[2, item.place, same[-1]] += 1
            else:
                weights[2, item.place, : item.place] = 0
            guesses.append(item.right.mean())
        tally.add(number, items, weights)
    return tally, float(np.mean(guesses))


def test_planted_heads_score_as_what_they_do() -> None:
    tally, _ = made()
    found = tally.scores()
    assert [(one.name, one.apart) for one in found] == [(name, apart) for name in CLASSES for apart in (False, True)]
    for one in found:
        if not one.odd_items:
            continue
        assert one.of_head(0) == (1.0, 1.0, 1.0)
        assert one.best() == 0
        assert one.of_head(1)[0] == one.of_baseline("nearest")
        assert one.of_head(2)[0] == one.of_baseline("same word")
        assert one.accuracy("even")[1] <= 1
        if one.apart:
            assert one.of_baseline("same word") == 0
            assert one.of_baseline(BASELINES[2]) == one.of_baseline("nearest")


def test_random_weights_guess() -> None:
    heads = 300
    tally, chance = made(20, heads, seed=5)
    every = tally.scores()[0]
    error = np.sqrt(chance * (1 - chance) / (every.items * (heads - 3)))
    assert abs(every.accuracy()[3:].mean() - chance) < 4 * error


def test_the_verdict_tells_a_head_that_only_finds_the_same_word() -> None:
    about = About("m", None, "d", 1, 0, "c")
    whole, _ = made(60)
    table, every = chain_findings(whole.scores(), about)
    assert len(table) == 8
    assert len(every) == 8 * 4
    assert table.rows[0]["head"] == "0.0"
    assert "so it does more than to find the same word" in table.notes[2]
    assert "pronoun (head 0.0, 100.0%; the nearest mention" in table.notes[2]
    only = Tally((("self", 0, 2),))
    for one in (0, 1):
        places = [place("a", "king"), place("b", "dog"), place("a", "king"), place("b", "hound"), place("b", "dog")]
        items, _ = items_of(places, [(2, "a"), (3, "b"), (4, "b")])
        weights = np.zeros((1, 5, 5))
        weights[0, 2, 0] = weights[0, 4, 1] = 1
        only.add(one, items, weights)
    said = verdict(only.scores())
    assert "right in 0.0%" in said
    assert "not shown to do more than to find the same word" in said
    assert "No kind of mention has one." in said


def test_one_document_is_not_enough() -> None:
    tally, _ = made(1)
    with pytest.raises(InputError, match="two documents at least"):
        tally.scores()
    with pytest.raises(InputError, match="weights of 4 heads, got 1"):
        tally.add(0, [], np.zeros((1, 2, 2)))
