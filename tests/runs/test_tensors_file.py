"""Tensor files are written as a stream, take any number of tensors, and hold every dtype bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open

from heedmap.runs import tensors_file
from heedmap.runs.schema import MalformedError
from heedmap.runs.tensors_file import TensorFileWriter, numbers, open_tensors


@pytest.mark.parametrize("small", [0, 2**20])
@pytest.mark.parametrize("reserved", [64, 4096, 64 * 1024])
def test_a_header_larger_or_smaller_than_its_room_is_made_to_fit(
    reserved: int, small: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensors_file, "SMALL", small)
    arrays = {f"self.{index}.query": np.arange(index * 3, dtype=np.float32).reshape(index, 3) for index in range(40)}
    writer = TensorFileWriter(tmp_path / "file.safetensors", reserved)
    for name, array in arrays.items():
        writer.write(name, array)
    writer.close()
    assert [item.name for item in tmp_path.iterdir()] == ["file.safetensors"]
    size = (tmp_path / "file.safetensors").stat().st_size
    assert size - sum(array.nbytes for array in arrays.values()) < (64 * 1024 + 1 if small == 0 else 5000)
    read = open_tensors(tmp_path / "file.safetensors")
    with safe_open(tmp_path / "file.safetensors", "np") as file:
        assert set(file.keys()) == set(read) == set(arrays)
        for name, array in arrays.items():
            np.testing.assert_array_equal(read[name].array, array)
            np.testing.assert_array_equal(file.get_tensor(name), array)


def test_every_dtype_is_kept_bit_for_bit(tmp_path: Path) -> None:
    random = np.random.default_rng(0).standard_normal((3, 5, 7))
    bits = random.astype(np.float32).view(np.uint32)
    arrays = {str(kind): random.astype(kind) for kind in ("float16", "float32", "float64")}
    arrays["int32"] = np.arange(6, dtype=np.int32)
    writer = TensorFileWriter(tmp_path / "file.safetensors")
    writer.write("bf16", (bits >> 16).astype(np.uint16), "bf16")
    for name, array in arrays.items():
        writer.write(name, array)
    writer.write("swapped", random.astype(">f4"))
    writer.write("strided", random.transpose(2, 0, 1)[::2])
    writer.write("empty", np.zeros((0, 3), np.float32))
    writer.close()
    read = open_tensors(tmp_path / "file.safetensors")
    for name, array in arrays.items():
        np.testing.assert_array_equal(read[name].array, array)
    np.testing.assert_array_equal(read["swapped"].array, random.astype(np.float32))
    np.testing.assert_array_equal(read["strided"].array, random.transpose(2, 0, 1)[::2])
    assert read["empty"].array.shape == (0, 3)
    with safe_open(tmp_path / "file.safetensors", "pt") as file:
        expected = file.get_tensor("bf16")
    assert expected.dtype == torch.bfloat16
    np.testing.assert_array_equal(read["bf16"].numbers((slice(None),)), expected.float().numpy())
    np.testing.assert_array_equal(numbers(read["bf16"].array), expected.float().numpy())


def test_tensors_that_the_format_lacks_are_refused(tmp_path: Path) -> None:
    writer = TensorFileWriter(tmp_path / "file.safetensors")
    writer.write("a", np.zeros(3, np.float32))
    for name, array, dtype in (("a", np.zeros(3, np.float32), None), ("b", np.zeros(3, complex), None)):
        with pytest.raises(MalformedError):
            writer.write(name, array, dtype)
    for array, dtype in ((np.zeros(3, np.uint16), None), (np.zeros(3, np.float32), "bf16"), (np.zeros(3), "F64")):
        with pytest.raises(MalformedError):
            writer.write("c", array, dtype)
    writer.abandon()
    with pytest.raises(MalformedError):
        open_tensors(tmp_path / "file.safetensors")
