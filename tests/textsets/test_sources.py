"""Where texts come from: each with its place, one at a time, and whatever is wrong with one is its own affair."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heedmap.errors import InputError, UnsupportedError
from heedmap.textsets import source_files
from heedmap.textsets.records import Record, jobs_of
from heedmap.textsets.sources import Texts


def read(where: Path | str, **options: object) -> list[Record]:
    texts = Texts(str(where), **options)  # type: ignore[arg-type]
    texts.check()
    return list(texts)


def said(records: list[Record]) -> list[str | None]:
    return [record.text for record in records]


def test_json_lines_carry_line_and_offset(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = ['{"text": "héllo"}', "", '{"text": "two\\nlines"}']
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    records = read(path)
    assert said(records) == ["héllo", "two\nlines"]
    assert [(record.source, record.place) for record in records] == [("a.jsonl", 1), ("a.jsonl", 3)]
    content = path.read_bytes()
    for record in records:
        line = content[record.offset :].split(b"\r\n")[0].decode("utf-8-sig")
        assert json.loads(line)["text"] == record.text


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"text": 7}', "no text in 'text' but int"),
        (b'{"text": null}', "no text in 'text' but NoneType"),
        (b'{"body": "a"}', "no field 'text'; there are 'body'"),
        (b"[1]", "no JSON object but list"),
        (b"{", "no JSON: "),
        (b"[" * 100_000, "no JSON: "),
        (b'{"text": "\xff"}', "not UTF-8: byte 0xff at place 10"),
    ],
)
def test_a_bad_line_is_recorded_with_its_reason(tmp_path: Path, line: bytes, problem: str) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "before"}\n' + line + b'\n{"text": "after"}\n')
    before, bad, after = read(tmp_path / "a.jsonl")
    assert (before.text, after.text) == ("before", "after")
    assert bad.text is None
    assert bad.problem is not None
    assert bad.problem.startswith(problem)


def test_a_line_without_end_is_passed_over_and_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_files, "LONGEST_LINE", 20)
    (tmp_path / "a.txt").write_text("short\n" + "x" * 1000 + "\nand " + "y" * 9 + "\n" + "z" * 20)
    records = read(tmp_path / "a.txt")
    assert said(records) == ["short", None, "and yyyyyyyyy", "z" * 20]
    assert [record.offset for record in records] == [0, 6, 1007, 1021]
    assert records[1].problem == "a line of more than 20 bytes"


def test_plain_text_is_read_by_line_or_whole(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\r\n\r\n  two \r\n")
    assert said(read(tmp_path / "a.txt")) == ["one", "  two "]
    assert said(read(tmp_path / "a.txt", by="file")) == ["one\n\n  two "]


def test_a_folder_is_its_files_in_the_order_of_their_names(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "2.txt").write_text("second\nfile\n")
    (tmp_path / "a.txt").write_text("first")
    (tmp_path / "c.txt").write_bytes(b"\xff")
    (tmp_path / ".hidden.txt").write_text("no")
    (tmp_path / "picture.png").write_bytes(b"no")
    records = read(tmp_path)
    assert [(record.source, record.text) for record in records] == [
        ("a.txt", "first"),
        ("b/2.txt", "second\nfile"),
        ("c.txt", None),
    ]
    assert said(read(tmp_path, by="line")) == ["first", "second", "file", None]


def test_csv_and_tsv_have_columns_and_quotes(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'\xef\xbb\xbfid,body\n1,"a, b\nc"\n\n2,"\xff"\n3\n')
    records = read(tmp_path / "a.csv", column="body")
    assert said(records) == ["a, b\nc", None, None]
    assert [record.problem for record in records[1:]] == [
        "not UTF-8: byte 0xff at place 0",
        "a row of 1 fields, fewer than the header has",
    ]
    (tmp_path / "a.tsv").write_text("text\tlabel\nyes\t1\n")
    assert said(read(tmp_path / "a.tsv")) == ["yes"]


def test_parquet_has_typed_columns(tmp_path: Path) -> None:
    table = pa.table({"n": [1, 2, 3], "body": ["a", None, "c"], "kind": pa.array(["x", "y", "x"]).dictionary_encode()})
    pq.write_table(table, tmp_path / "a.parquet")
    records = read(tmp_path / "a.parquet", column="body")
    assert said(records) == ["a", None, "c"]
    assert said(read(tmp_path / "a.parquet", column="kind")) == ["x", "y", "x"]
    with pytest.raises(InputError, match=r"one of 'body', 'kind', got none named; name it with --column"):
        read(tmp_path / "a.parquet")
    with pytest.raises(InputError, match="'n', which holds something else"):
        read(tmp_path / "a.parquet", column="n")
    pq.write_table(table.select(["n"]), tmp_path / "b.parquet")
    with pytest.raises(InputError, match=r"a column of texts in b.parquet, got none: there is 'n', not of texts$"):
        read(tmp_path / "b.parquet")


def test_files_are_read_one_text_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with path.open("w") as file:
        for number in range(20_000):
            file.write(json.dumps({"text": f"text {number}"}) + "\n")
    stream = iter(Texts(str(path)))
    assert said(list(itertools.islice(stream, 2))) == ["text 0", "text 1"]
    assert len(read(path, limit=7)) == 7


@pytest.mark.parametrize(
    ("name", "options", "line"),
    [
        ("missing.jsonl", {}, "missing.jsonl, which does not exist; check the name"),
        ("missing/", {}, "which does not exist"),
        ("set", {}, "expected texts, got the set"),
        ("a.bin", {}, "a folder of these, or a Hugging Face data set, got"),
        ("empty", {}, "got none of these"),
        ("a.txt", {"column": "text"}, "a file with columns for --column, got plain text, a.txt"),
        ("a.jsonl", {"by": "line"}, "--by with plain text only, got --by line and a.jsonl"),
        ("a.jsonl", {"split": "train"}, "--split with a Hugging Face data set, got --split train with files"),
        ("a.csv", {}, "a header line in a.csv, got an empty file"),
        ("a.parquet", {}, "a file of texts that can be read, got a.parquet: "),
    ],
)
def test_what_cannot_be_read_is_one_line(tmp_path: Path, name: str, options: dict[str, str], line: str) -> None:
    for empty in ("a.bin", "a.txt", "a.jsonl", "a.csv", "a.parquet"):
        (tmp_path / empty).write_bytes(b"")
    (tmp_path / "empty").mkdir()
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "plan.json").write_text('{"format": "heedmap-set"}')
    with pytest.raises(InputError) as caught:
        read(f"{tmp_path}/{name}", **options)
    assert line in str(caught.value)


@pytest.mark.parametrize("content", ['text\na\n"b\nc\nd\n', 'text\na\n"b"c\nd\n'], ids=["left open", "within"])
def test_a_quote_without_its_pair_swallows_no_rows(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(InputError, match=r"quotes of a\.csv in pairs.* got in row 2: "):
        read(tmp_path / "a.csv")


@pytest.mark.parametrize("name", ["", " ", "a\0b", "x" * 5000 + ".txt"])
def test_a_name_that_no_file_can_have_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="expected a file"):
        read(name)


def test_without_the_library_a_data_set_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with pytest.raises(UnsupportedError, match=r'pip install "heedmap\[datasets\]"'):
        read("imdb")


def test_data_sets_on_disk_have_splits_and_columns(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="make test-ray installs it")
    made = datasets.Dataset.from_dict({"text": ["one", "two"], "label": [0, 1]})
    made.save_to_disk(tmp_path / "plain")
    datasets.DatasetDict(train=made, test=made.select([1])).save_to_disk(tmp_path / "splits")
    assert said(read(tmp_path / "plain")) == ["one", "two"]
    assert said(read(tmp_path / "splits")) == ["one", "two"]
    assert said(read(tmp_path / "splits", split="test")) == ["two"]
    with pytest.raises(InputError, match="one of train, test, got 'dev'"):
        read(tmp_path / "splits", split="dev")
    with pytest.raises(InputError, match="'label', which holds something else"):
        read(tmp_path / "plain", column="label")
    with pytest.raises(InputError, match="a file, a folder or a Hugging Face data set 'no/such-set'"):
        read("no/such-set")


def test_shards_follow_from_the_order_of_the_texts_alone() -> None:
    records = [Record("a", place, -1, "x" * place) for place in range(7)]
    jobs = list(jobs_of(iter(records), 3))
    assert [(job.number, job.first, len(job.records)) for job in jobs] == [(0, 0, 3), (1, 3, 3), (2, 6, 1)]
    assert [job.digest for job in jobs] == [job.digest for job in jobs_of(records, 3)]
    assert len({job.digest for job in jobs}) == 3
    long = [Record("a", place, -1, "x" * 3_000_000) for place in range(4)]
    assert [len(job.records) for job in jobs_of(long, 100)] == [2, 2]
