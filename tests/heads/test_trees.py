from __future__ import annotations

from pathlib import Path

import pytest

from heedmap.errors import InputError, StorageError
from heedmap.heads.trees import ROOT, Sentence, read_sentences


def read(tmp_path: Path, text: str | bytes, limit: int | None = None) -> list[Sentence]:
    path = tmp_path / "a.conllu"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return list(read_sentences(path, limit))


def line(number: str, form: str, head: str = "_", relation: str = "_", misc: str = "_") -> str:
    return "\t".join([number, form, form, "X", "_", "_", head, relation, "_", misc]) + "\n"


def covered(sentence: Sentence) -> list[str]:
    return [sentence.text[word.start : word.end] for word in sentence.words]


def test_words_have_their_place_head_and_relation(tmp_path: Path) -> None:
    (found,) = read(
        tmp_path,
        "# newdoc id = d1\n# global.Entity = GRP-minspan\n# newpar\n# sent_id = s-1\n# text = The cat sat.\n"
        + line("1", "The", "2", "det") + line("2", "cat", "3", "nsubj") + line("3", "sat", "0", "root", "SpaceAfter=No")
        + line("4", ".", "3", "punct"),
    )  # fmt: skip
    assert covered(found) == ["The", "cat", "sat", "."]
    assert [word.head for word in found.words] == [1, 2, ROOT, 2]
    assert [word.relation for word in found.words] == ["det", "nsubj", "root", "punct"]
    assert (found.name, found.document, found.paragraph, found.rebuilt) == ("s-1", "d1", True, False)
    assert found.entity == "GRP-minspan"
    assert found.has_tree


def test_words_of_a_multiword_token_get_their_part_of_it_or_the_whole(tmp_path: Path) -> None:
    (found,) = read(
        tmp_path,
        "# text = I don't zum Haus\n" + line("1", "I", "3", "nsubj") + line("2-3", "don't")
        + line("2", "do", "3", "aux") + line("3", "n't", "0", "root")
        + line("4-5", "zum") + line("4", "zu", "6", "case") + line("5", "dem", "6", "det")
        + line("6", "Haus", "3", "obl"),
    )  # fmt: skip
    assert covered(found) == ["I", "do", "n't", "zum", "zum", "Haus"]


def test_empty_nodes_are_no_words(tmp_path: Path) -> None:
    (found,) = read(
        tmp_path, "# text = a b\n" + line("1", "a", "0", "root") + line("1.1", "gone") + line("2", "b", "1", "dep")
    )
    assert covered(found) == ["a", "b"]


@pytest.mark.parametrize("heads", ["2 1 0", "0 3 4 2", "3 0 1"])
def test_heads_that_run_in_a_circle_are_refused(tmp_path: Path, heads: str) -> None:
    words = [line(str(number), "a", head, "dep") for number, head in enumerate(heads.split(), 1)]
    with pytest.raises(InputError, match="in sentence 2: words that govern one another in a circle"):
        read(tmp_path, line("1", "a", "0", "root") + "\n" + "".join(words))


def test_half_a_tree_is_no_circle(tmp_path: Path) -> None:
    (found,) = read(tmp_path, line("1", "a", "2", "dep") + line("2", "b") + line("3", "c", "0", "root"))
    assert [word.head for word in found.words] == [1, None, ROOT]


def test_without_its_text_a_sentence_is_put_together_with_its_spaces(tmp_path: Path) -> None:
    words = (
        line("1", "Say", "0", "root", r"SpacesAfter=\u00A0") + line("2", "it", "1", "obj", "SpaceAfter=No")
        + line("3", ",", "1", "punct", r"SpacesAfter=\s\s") + line("4", "now", "1", "advmod", r"SpacesAfter=\n")
    )  # fmt: skip
    (found,) = read(tmp_path, words)
    assert found.text == "Say\u00a0it,  now"
    assert found.rebuilt
    assert covered(found) == ["Say", "it", ",", "now"]
    (other,) = read(tmp_path, "# text = Something else\n" + words)
    assert other.text == found.text
    assert other.rebuilt


def test_any_white_space_may_stand_between_words_of_the_text(tmp_path: Path) -> None:
    (found,) = read(
        tmp_path, "# text = 10 000\u00a0m  high\n" + line("1", "10 000") + line("2", "m") + line("3", "high")
    )
    assert covered(found) == ["10 000", "m", "high"]
    assert not found.rebuilt
    assert not found.has_tree


def test_limit_line_ends_and_a_byte_order_mark(tmp_path: Path) -> None:
    text = (line("1", "a", "0", "root") + "\n").replace("\n", "\r\n") * 3
    assert len(read(tmp_path, b"\xef\xbb\xbf" + text.encode(), limit=2)) == 2
    assert [sentence.number for sentence in read(tmp_path, text)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected sentences in .*, got an empty file"),
        ("\n\n\n", "got an empty file"),
        ("It was a dark and stormy night.\n", "expected CoNLL-U .* got in sentence 1: Invalid line format"),
        ("a,b\tc\n1,2\t3\n", "in sentence 1"),
        ("1\tonly\tthree\n", "3 columns or no ID"),
        (line("2", "a", "0", "root"), "not numbered 1, 2, 3"),
        (line("1", "a", "7", "dep"), "head 7 in a sentence of 1 words"),
        (line("1", "a", "-1", "dep"), "head -1"),
        (line("1", "a", "1", "dep"), "word 1 as its own head"),
        (line("1", "a", "x", "dep"), "not a valid value"),
        (line("1-2", "ab"), "no word"),
        ("# text = nothing but this\n", "no word"),
        (line("1", "a", "0", "root") + "\n" + line("x", "b"), "in sentence 2: .*not a valid ID"),
        (b"\xff\xfe\x00binary", "expected text in UTF-8 .* other bytes at 0"),
    ],
)
def test_what_is_no_treebank_is_refused_in_one_line(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="nowhere"):
        list(read_sentences(tmp_path / "nowhere.conllu"))
