"""An error is one line that says where, what was expected, what came, and what to do."""

from __future__ import annotations

import pickle

import pytest

from heedmap.errors import HeedmapError, InputError, ModelError, RunError, StorageError, UnsupportedError

KINDS = [HeedmapError, InputError, ModelError, UnsupportedError, RunError, StorageError]


@pytest.mark.parametrize("kind", KINDS)
def test_the_message_says_where_what_and_what_to_do(kind: type[HeedmapError]) -> None:
    error = kind("strips", expected="key and value of equal length", got="512 and 500", do="cut the longer one")
    assert str(error) == "[strips] expected key and value of equal length, got 512 and 500; cut the longer one"
    assert (error.where, error.expected, error.got, error.do) == (
        "strips",
        "key and value of equal length",
        "512 and 500",
        "cut the longer one",
    )


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_way_out_the_message_ends_after_what_came(kind: type[HeedmapError]) -> None:
    assert str(kind("look", expected="a text", got="nothing")) == "[look] expected a text, got nothing"


@pytest.mark.parametrize("kind", KINDS)
def test_the_message_is_one_line_whatever_it_quotes(kind: type[HeedmapError]) -> None:
    assert str(kind("look", expected="a name", got="'two\nlines\r\n  and\ttabs'")) == (
        "[look] expected a name, got 'two lines and tabs'"
    )


@pytest.mark.parametrize(
    ("quoted", "shown"),
    [
        ("red\x1b[31m", r"red\x1b[31m"),
        ("a\0b\x07", r"a\x00b\x07"),
        ("a\u202eb", r"a\u202eb"),
        ("a\ud800", r"a\ud800"),
        ("می\u200cخواهم 👩\u200d🔬 Größe", "می\u200cخواهم 👩\u200d🔬 Größe"),
    ],
)
def test_the_message_commands_no_terminal(quoted: str, shown: str) -> None:
    message = str(HeedmapError("look", expected="a name", got=quoted))
    assert message == f"[look] expected a name, got {shown}"
    message.encode()


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_survives_pickling(kind: type[HeedmapError]) -> None:
    error = pickle.loads(pickle.dumps(kind("run", expected="a folder", got="a file", do="move it")))
    assert type(error) is kind
    assert str(error) == "[run] expected a folder, got a file; move it"
    assert error.do == "move it"


@pytest.mark.parametrize(
    ("kind", "builtin"), [(InputError, ValueError), (UnsupportedError, NotImplementedError), (StorageError, OSError)]
)
def test_code_that_knows_only_builtin_errors_catches_ours(kind: type[HeedmapError], builtin: type[Exception]) -> None:
    with pytest.raises(builtin, match=r"\[here\] expected this, got that"):
        raise kind("here", expected="this", got="that")


@pytest.mark.parametrize("kind", KINDS)
def test_one_except_clause_catches_every_kind(kind: type[HeedmapError]) -> None:
    with pytest.raises(HeedmapError):
        raise kind("here", expected="this", got="that")
