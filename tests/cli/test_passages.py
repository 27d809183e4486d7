from __future__ import annotations

from pathlib import Path

import pytest

from heedmap.cli.passages import read_passages
from heedmap.cli.source import Source
from heedmap.errors import InputError


def test_marks_are_taken_out_of_the_text_and_of_the_name_of_its_run() -> None:
    marked = "[[a]]Rome is old.[[/a]] [[q]]Is it?[[/q]]"
    source, passages = read_passages(Source(marked, "a-rome-is-old-a-q-is-it"), None, marked=True)
    assert source.text == "Rome is old. Is it?"
    assert passages == {"a": [(0, 12)], "q": [(13, 19)]}
    assert read_passages(Source(marked, "book"), None, marked=True)[0].name == "book"


def test_a_file_names_passages_by_words_and_places(tmp_path: Path) -> None:
    file = tmp_path / "spans.json"
    file.write_text('{"질문": "나는?", "a": [0, 4]}', encoding="utf-8")
    source = Source("text", "text")
    assert read_passages(source, str(file), marked=False) == (source, {"질문": "나는?", "a": [0, 4]})
    assert read_passages(source, None, marked=False) == (source, None)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "expected a JSON file, got .*No such file"),
        ("{", "expected JSON in .*, got"),
        ("[]", "expected an object of passages, .*got list"),
        ("{}", "got an empty one"),
    ],
)
def test_a_file_that_names_nothing_is_refused(tmp_path: Path, content: str | None, message: str) -> None:
    file = tmp_path / "spans.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(InputError, match=message):
        read_passages(Source("text", "text"), str(file), marked=False)


def test_marks_and_a_file_together_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="one of them, got both"):
        read_passages(Source("text", "text"), "f.json", marked=True)
