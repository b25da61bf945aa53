"""Weights as safetensors files, checked with the library's own reader."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import safetensors
import safetensors.numpy

from netcl import nn
from netcl.core import Tensor
from netcl.core.dtypes import SUPPORTED
from netcl.io import CheckpointError, load_safetensors, save_safetensors


def test_round(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2))
    path = tmp_path / "m.safetensors"
    save_safetensors(model, path, {"origin": "test"})
    theirs = safetensors.numpy.load_file(path)
    assert sorted(theirs) == sorted(model.state_dict())
    for name, tensor in model.state_dict().items():
        np.testing.assert_array_equal(theirs[name], tensor.to_host())
    with safetensors.safe_open(path, "numpy") as file:
        assert file.metadata()["origin"] == "test"
    other = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2))
    state = load_safetensors(path, other)
    assert state["1.num_batches_tracked"].dtype == "int64"
    np.testing.assert_array_equal(other[0].weight.to_host(), model[0].weight.to_host())


@pytest.mark.parametrize("dtype", SUPPORTED)
@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (2, 3)])
def test_every_dtype(dtype: str, shape: tuple[int, ...], tmp_path: Path, rng) -> None:
    values = rng.integers(0, 2, shape) if dtype == "bool" else rng.integers(0, 100, shape) * 1.0
    tensor = Tensor.from_host(values, dtype=dtype)
    save_safetensors({"x": tensor}, tmp_path / "x")
    (loaded,) = load_safetensors(tmp_path / "x").values()
    assert loaded.dtype == dtype
    assert loaded.shape == shape
    np.testing.assert_array_equal(loaded.to_host(), tensor.to_host())


def test_bfloat16_bits(tmp_path: Path) -> None:
    # 1.0, -2.5 and the largest finite value, as their two bytes.
    bits = np.array([0x3F80, 0xC020, 0x7F7F], np.uint16)
    header = b'{"x":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]}}     '
    header = header[: len(header) // 8 * 8]
    (tmp_path / "x").write_bytes(len(header).to_bytes(8, "little") + header + bits.tobytes())
    loaded = load_safetensors(tmp_path / "x")["x"]
    assert loaded.dtype == "bfloat16"
    np.testing.assert_array_equal(loaded.to_host()[:2], [1.0, -2.5])
    save_safetensors({"x": loaded}, tmp_path / "y")
    ((_, written),) = safetensors.deserialize((tmp_path / "y").read_bytes())
    assert written["dtype"] == "BF16"
    assert bytes(written["data"]) == bits.tobytes()


def test_what_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\xff" * 40)
    with pytest.raises(CheckpointError, match="damaged"):
        load_safetensors(tmp_path / "x")
    with pytest.raises(CheckpointError, match="No such file"):
        load_safetensors(tmp_path / "absent")
    safetensors.numpy.save_file({"x": np.zeros(3)}, tmp_path / "odd")
    (tmp_path / "odd").write_bytes((tmp_path / "odd").read_bytes().replace(b'"F64"', b'"C64"'))
    # A version of safetensors that does not know the dtype refuses the header itself.
    with pytest.raises(CheckpointError, match="'x': 'C64'|InvalidHeaderDeserialization"):
        load_safetensors(tmp_path / "odd")
    save_safetensors({"weight": Tensor.zeros((2, 2)), "bias": Tensor.zeros((3,))}, tmp_path / "wrong")
    layer = nn.Linear(2, 2)
    before = layer.weight.to_host()
    with pytest.raises(CheckpointError, match=r"wrong: [\s\S]*bias: \(3,\)"):
        load_safetensors(tmp_path / "wrong", layer)
    np.testing.assert_array_equal(layer.weight.to_host(), before)
