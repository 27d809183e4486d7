from __future__ import annotations

import hashlib
import io
import json
import sys
from pathlib import Path

import pytest

from heedmap.cli.source import Source, read_pair, read_source, run_folder, slug
from heedmap.errors import InputError


def _written(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


def test_a_text_is_taken_as_it_is():
    assert read_source("The cat", None) == Source("The cat", "the-cat")


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"one\ntwo\n", id="Unix"),
        pytest.param(b"one\r\ntwo\r\n", id="Windows"),
        pytest.param(b"one\rtwo\r", id="old Mac"),
        pytest.param(b"one\ntwo", id="no last line end"),
        pytest.param(b"\xef\xbb\xbfone\r\ntwo\r\n", id="byte order mark"),
    ],
)
def test_files_of_every_system_give_the_same_text(tmp_path: Path, content: bytes):
    assert read_source(None, _written(tmp_path / "lines.txt", content)) == Source("one\ntwo", "lines")


def test_only_the_last_line_end_goes():
    assert read_source("\n one \n\n", None).text == "\n one \n"


def test_standard_input_is_a_file_named_minus(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("고양이\n".encode())))
    assert read_source(None, "-") == Source("고양이", "고양이")


@pytest.mark.parametrize(
    ("text", "file", "message"),
    [
        (None, None, r"\[look\] expected a text to look at, got none; try: heedmap look"),
        ("a", "b.txt", r"\[look\] expected a text or --file, one of them, got both"),
        ("", None, r"expected a text with at least one word, got nothing in the text"),
        (" \n\t", None, r"expected a text with at least one word, got only white space in the text"),
        ("a\0b", None, r"got a NUL character at place 1 of the text"),
        ("a\udc80b", None, r"expected text in UTF-8, got half a character at place 1 of the text"),
        (None, "no/such/file.txt", r"expected a text file, got no/such/file\.txt, which does not exist"),
        (None, "a\0b", r"expected a file that can be read, got"),
    ],
)
def test_what_is_no_text_is_one_clear_error(text: str | None, file: str | None, message: str):
    with pytest.raises(InputError, match=message):
        read_source(text, file)


def test_a_folder_is_no_text_file(tmp_path: Path):
    with pytest.raises(InputError, match=r"expected a text file, got the folder .*; name a file in it"):
        read_source(None, str(tmp_path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(
            "café".encode("latin-1"), r"got byte 0xe9 at place 3 of .*; convert it: iconv -f LATIN1", id="Latin"
        ),
        pytest.param("cat".encode("utf-16"), r"got UTF-16 in .*; convert it: iconv -f UTF-16", id="UTF-16"),
        pytest.param("cat".encode("utf-32"), r"got UTF-32 in .*; convert it: iconv -f UTF-32", id="UTF-32"),
        pytest.param(b"PNG\0\xff\xfe", r"got data of another kind in .*; name a text file", id="binary"),
        pytest.param(b"", r"got nothing in", id="empty"),
        pytest.param(b"\xef\xbb\xbf", r"got nothing in", id="only a byte order mark"),
        pytest.param(b"\r\n\r\n", r"got only white space in", id="only line ends"),
        pytest.param(b"a\0b", r"got a NUL character", id="NUL"),
    ],
)
def test_a_file_that_is_no_text_is_one_clear_error(tmp_path: Path, content: bytes, message: str):
    with pytest.raises(InputError, match=message):
        read_source(None, _written(tmp_path / "file.txt", content))


def test_a_file_that_may_not_be_read_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(InputError, match=r"expected a file that can be read, got .*file\.txt: Permission denied"):
        read_source(None, str(tmp_path / "file.txt"))


def test_a_name_that_no_file_can_have_is_one_clear_error():
    with pytest.raises(InputError, match=r"expected a file that can be read, got a{300}: File name too long"):
        read_source(None, "a" * 300)


def test_a_closed_standard_input_is_one_clear_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match="got none, it is closed"):
        read_source(None, "-")


def test_the_second_text_is_held_to_the_same_rules():
    assert read_pair(None) is None
    assert read_pair("two\r\nlines") == "two\nlines"
    with pytest.raises(InputError, match="got nothing in the text of --pair"):
        read_pair("")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("The cat sat on the mat because it was tired", "the-cat-sat-on-the-mat"),
        ("고양이는 피곤했다", "고양이는-피곤했다"),
        ("C'est l'été!", "c-est-l-été"),
        ("../../etc/passwd", "etc-passwd"),
        ("😀 …", "text"),
        ("internationalisation" * 5, "internationalisationinte"),
        ("e\u0301te\u0301", "été"),
    ],
)
def test_a_run_is_named_by_the_first_words_in_their_own_script(text: str, name: str):
    assert slug(text) == name


def _run_of(path: Path, text: str) -> Path:
    path.mkdir(parents=True)
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    (path / "run.json").write_text(json.dumps({"format": "heedmap-run", "version": 1, "text": {"sha256": sha256}}))
    return path


def test_another_look_at_the_same_text_replaces_its_run(tmp_path: Path):
    source = Source("The cat", "the-cat")
    assert run_folder(tmp_path, source, None, None) == tmp_path / "the-cat"
    _run_of(tmp_path / "the-cat", "The cat")
    assert run_folder(tmp_path, source, None, None) == tmp_path / "the-cat"


def test_another_text_or_a_strangers_folder_of_the_same_name_stays(tmp_path: Path):
    _run_of(tmp_path / "the-cat", "The cat!")
    (tmp_path / "the-cat-2").mkdir()
    assert run_folder(tmp_path, Source("The cat", "the-cat"), None, None) == tmp_path / "the-cat-3"


def test_the_model_and_the_second_text_are_in_the_name(tmp_path: Path):
    assert run_folder(tmp_path, Source("a", "a"), "models/Some Model/", "b c").name == "a+b-c.some-model"
    assert run_folder(tmp_path, Source("a", "a"), "smollm2", None).name == "a.smollm2"
