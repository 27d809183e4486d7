from __future__ import annotations

import os
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from heedmap.errors import InputError, StorageError
from heedmap.figures.save import check_picture_path, save


@pytest.fixture
def figure() -> Figure:
    figure = Figure(figsize=(2, 1))
    figure.text(0.5, 0.5, "cat")
    return figure


def test_the_suffix_chooses_png_or_svg(figure: Figure, tmp_path: Path):
    assert save(figure, tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in save(figure, tmp_path / "a.SVG").read_text()


@pytest.mark.parametrize("name", ["a.jpg", "a.pdf", "a", "png", ".png"])
def test_another_suffix_is_refused_before_anything_is_written(figure: Figure, tmp_path: Path, name: str):
    with pytest.raises(
        InputError, match=r"\[figure\] expected a file name that ends in \.png or \.svg, got .*; write to"
    ):
        save(figure, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_no_place_for_a_picture(tmp_path: Path):
    (tmp_path / "a.png").mkdir()
    with pytest.raises(InputError, match="got the folder"):
        check_picture_path(tmp_path / "a.png")


def test_missing_folders_are_made(figure: Figure, tmp_path: Path):
    assert save(figure, tmp_path / "pictures" / "new" / "a.png").is_file()


def test_a_file_where_a_folder_is_needed_is_a_storage_error(figure: Figure, tmp_path: Path):
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file" / "a.png", tmp_path / "file" / "new" / "a.png"):
        with pytest.raises(
            StorageError, match=r"expected a place to write the picture to, got .*file, which is a file"
        ):
            check_picture_path(path)
        with pytest.raises(StorageError, match=r"\[figure\] expected a place to write the picture to, got"):
            save(figure, path)


def test_a_place_that_may_not_be_written_to_is_told_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "access", lambda place, mode: place != tmp_path)
    with pytest.raises(StorageError, match="which may not be written to"):
        check_picture_path(tmp_path / "new" / "a.png")
    with pytest.raises(StorageError, match="File name too long"):
        check_picture_path(tmp_path / f"{'a' * 300}.png")
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_the_old_picture_and_no_other_file(
    figure: Figure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = save(figure, tmp_path / "a.png")
    before = path.read_bytes()

    def fail(partial: Path, **_: object) -> None:
        Path(partial).write_bytes(b"half a pict")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(figure, "savefig", fail)
    with pytest.raises(StorageError, match="No space left on device"):
        save(figure, path)
    assert path.read_bytes() == before
    assert [item.name for item in tmp_path.iterdir()] == ["a.png"]


@pytest.mark.parametrize("name", ["a.png", "a.svg"])
def test_the_same_figure_gives_the_same_bytes(figure: Figure, tmp_path: Path, name: str):
    first = save(figure, tmp_path / name).read_bytes()
    assert save(figure, tmp_path / name).read_bytes() == first


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
def test_others_may_read_the_picture_as_any_new_file(figure: Figure, tmp_path: Path):
    (tmp_path / "plain").write_text("x")
    assert save(figure, tmp_path / "a.png").stat().st_mode == (tmp_path / "plain").stat().st_mode
