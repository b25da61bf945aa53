"""Functions of the front that are no ops: makers of tensors, dtypes, other names, formats, printing, settings."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl.core import config
from netcl.core.errors import DeviceNotFoundError, DTypeError, ShapeError
from netcl.core.tensor.methods import FUNCTIONS

# -- makers ------------------------------------------------------------------------------------------------------------


def test_asarray_shares_what_it_can() -> None:
    x = nc.zeros(3, device="cpu")
    assert nc.asarray(x).untyped_storage() == x.untyped_storage()
    assert nc.asarray(x, copy=True).untyped_storage() != x.untyped_storage()
    array = np.arange(4, dtype=np.float32)
    with nc.device("cpu"):
        shared = nc.asarray(array)
        array[0] = 7
        assert shared.tolist() == [7, 1, 2, 3]
        assert nc.asarray(array, dtype="float64").dtype == "float64"
        assert nc.asarray([1.5]).dtype == "float32"
        with pytest.raises(ValueError, match="copy=False forbids it"):
            nc.asarray([1.5], copy=False)
        with pytest.raises(ValueError, match="copy=False forbids it"):
            nc.asarray(array, dtype="float64", copy=False)


def test_buffers_and_files(tmp_path: Path) -> None:
    data = bytearray(np.arange(6, dtype=np.int16).tobytes())
    with nc.device("cpu"):
        x = nc.frombuffer(data, dtype="int16", count=2, offset=4)
        assert x.tolist() == [2, 3]
        data[4] = 9
        assert x.tolist() == [9, 3]
        assert nc.frombuffer(bytes(data), dtype="int16").tolist() == [0, 1, 9, 3, 4, 5]
        assert nc.frombuffer(bytes([0x80, 0x3F]), dtype="bfloat16").tolist() == [1.0]
        with pytest.raises(ValueError, match="offset"):
            nc.frombuffer(data, dtype="int16", offset=99)
        file = tmp_path / "numbers"
        np.arange(4, dtype=np.float32).tofile(file)
        assert nc.from_file(file, size=3).tolist() == [0, 1, 2]
        with pytest.raises(ValueError, match="expected 9 elements of float32 in .*, got 4"):
            nc.from_file(file, size=9)
        mapped = nc.from_file(file, shared=True, size=5, dtype=nc.float32)
        mapped.fill_(2.5)
        del mapped
    assert np.fromfile(file, np.float32).tolist() == [2.5] * 5


def test_ranges_with_their_end() -> None:
    assert nc.range(1, 4).tolist() == [1, 2, 3, 4]
    assert nc.range(3).tolist() == [0, 1, 2, 3]
    assert nc.range(1, 0, -0.5).tolist() == [1, 0.5, 0]
    with pytest.raises(ValueError, match="does not lead from"):
        nc.range(1, 4, -1)


def test_types_of_old_programs() -> None:
    assert nc.FloatTensor([1, 2]).dtype == "float32"
    assert nc.LongTensor(2, 3).shape == (2, 3)
    assert nc.ByteTensor().shape == (0,)
    assert nc.DoubleTensor((2, 3)).tolist() == [2.0, 3.0]
    assert nc.HalfTensor(nc.Size((2, 1))).shape == (2, 1)
    assert isinstance(nc.zeros(2), nc.FloatTensor)
    assert not isinstance(nc.zeros(2), nc.LongTensor)
    try:
        nc.set_default_tensor_type("nc.DoubleTensor")
        assert nc.zeros(2).dtype == "float64"
    finally:
        nc.set_default_tensor_type(nc.FloatTensor)
    with pytest.raises(TypeError, match="write nc.set_default_dtype"):
        nc.set_default_tensor_type("torch.cuda.FloatTensor")
    with pytest.raises(LookupError, match="cuda"):
        nc.zeros(2).type("torch.cuda.LongTensor")  # "cuda" is a name of devices under PyTorch's names alone


# -- dtypes, shapes, names ---------------------------------------------------------------------------------------------


def test_dtypes_of_operands() -> None:
    assert nc.promote_types("int8", "uint8") == nc.int16
    assert nc.result_type(nc.zeros(2, dtype="int8"), 2.5) == nc.float32
    assert nc.result_type(nc.zeros(2, dtype="float16"), nc.zeros((), dtype="float64")) == nc.float16
    assert nc.result_type(1, True) == nc.int64
    assert nc.can_cast("float32", "float16")
    assert not nc.can_cast("float32", "int8")
    with pytest.raises(DTypeError, match="uint64"):
        nc.promote_types("uint64", "int8")
    with pytest.raises(TypeError, match="tensors and numbers, got str"):
        nc.result_type("float32", 1)


def test_shapes_and_types_as_text() -> None:
    assert nc.broadcast_shapes((3, 1), (2, 1, 4), 4) == (2, 3, 4)
    assert nc.broadcast_shapes() == ()
    with pytest.raises(ShapeError, match="broadcast_shapes"):
        nc.broadcast_shapes((2,), (3,))
    assert nc.typename(nc.zeros(2)) == "netcl.FloatTensor"
    assert nc.typename(3) == "int"
    assert nc.typename(np.float32) == "numpy.float32"
    assert nc.is_storage(nc.zeros(2).untyped_storage())
    assert not nc.is_storage(nc.zeros(2))


def test_functions_that_write_into_their_operand(engine: Any) -> None:
    x = nc.tensor([-1.0, 2.0])
    assert nc.relu_(x) is x
    assert x.tolist() == [0, 2]
    assert nc.zero_(input=x) is x
    assert x.tolist() == [0, 0]
    names = [name for name in FUNCTIONS if name.endswith("_")]
    assert len(names) > 60
    for name in names:
        assert hasattr(nc, name)


def test_members_of_sets() -> None:
    x = nc.tensor([[1, 2], [3, 4]])
    assert nc.isin(x, nc.tensor([2, 9])).tolist() == [[False, True], [False, False]]
    assert nc.isin(3, x).tolist() is True
    assert nc.isin(nc.tensor([float("nan")]), nc.tensor([float("nan")])).tolist() == [False]
    with pytest.raises(TypeError, match="is a tensor"):
        nc.isin(1, 2)


def test_refusals_of_functions() -> None:
    x = nc.ones(2, 3)
    with pytest.raises(TypeError, match="trapezoid: expected either x or dx, got both"):
        nc.trapezoid(x, nc.ones(3), dx=2.0)
    with pytest.raises(ShapeError, match=r"trapezoid: x \(4,\)"):
        nc.trapezoid(x, nc.ones(4))
    with pytest.raises(ValueError, match="expected edge_order 1 or 2"):
        nc.gradient(x, edge_order=3)
    with pytest.raises(ShapeError, match="fewer than 3 samples"):
        nc.gradient(x, edge_order=2)
    with pytest.raises(ShapeError, match="3 spacings for 2 axes"):
        nc.gradient(x, spacing=[1.0, 2.0, 3.0])
    with pytest.raises(ShapeError, match="block_diag: expected matrices"):
        nc.block_diag(nc.ones(2, 2, 2))
    with pytest.raises(ShapeError, match="vander: expected a vector"):
        nc.vander(x)
    with pytest.raises(DTypeError, match="unravel_index: expected whole numbers as indices"):
        nc.unravel_index(x, (2, 3))
    with pytest.raises(ShapeError, match="fill: value"):
        nc.fill(x, nc.ones(2))
    with pytest.raises(ValueError, match="expected modes 0, 1 or 2"):
        nc.grid_sampler(nc.ones(1, 1, 2, 2), nc.ones(1, 2, 2, 2), 3, 0, False)
    with pytest.raises(ValueError, match="poisson: means are not negative"):
        nc.poisson(nc.tensor([-1.0]))
    with pytest.raises(DTypeError, match="poisson: expected floating numbers, got int64"):
        nc.poisson(nc.tensor([1]))
    with pytest.raises(ValueError, match="binomial: counts are not negative"):
        nc.binomial(nc.tensor([3.0]), nc.tensor([1.5]))


def test_histograms_of_points() -> None:
    x = nc.tensor([[0.5, 0.5], [0.5, 1.5], [2.0, 2.0], [9.0, 0.0], [float("nan"), 1.0]])
    found, edges = nc.histogramdd(x, 2, (0.0, 2.0, 0.0, 2.0))
    assert found.tolist() == [[1, 1], [0, 1]]
    assert [edge.tolist() for edge in edges] == [[0, 1, 2], [0, 1, 2]]
    with pytest.raises(ShapeError, match="histogramdd: 3 bins and range None for 2 axes"):
        nc.histogramdd(x, (2, 2, 2))
    with pytest.raises(ShapeError, match=r"histogramdd: x \(3,\)"):
        nc.histogramdd(nc.ones(3), 2)
    with pytest.raises(DTypeError, match="expected floating dtypes, got int64"):
        nc.histogramdd(nc.tensor([[1, 2]]), 2)


def test_host_draws_follow_the_seed() -> None:
    rate = nc.full((50,), 4.0)
    first = nc.poisson(rate, nc.Generator().manual_seed(3)).tolist()
    assert nc.poisson(rate, nc.Generator().manual_seed(3)).tolist() == first
    generator = nc.Generator().manual_seed(3)
    nc.poisson(rate, generator)
    assert nc.poisson(rate, generator).tolist() != first


# -- formats and printing ----------------------------------------------------------------------------------------------


def test_memory_formats_change_no_result() -> None:
    x = nc.randn(2, 3, 4, 5)
    for format in (nc.channels_last, nc.contiguous_format, nc.preserve_format):
        assert x.contiguous(memory_format=format) is x
        assert x.to(memory_format=format) is x
        assert (x.clone(memory_format=format) == x).all()
        assert nc.empty_like(x, memory_format=format).stride() == x.stride()
    assert x.is_contiguous(memory_format=nc.contiguous_format)
    assert not x.is_contiguous(memory_format=nc.channels_last)
    assert nc.ones(2, 1, 4, 5).is_contiguous(memory_format=nc.channels_last)
    assert x.layout is nc.strided
    assert nc.zeros(2, layout=nc.strided, pin_memory=True).tolist() == [0, 0]
    assert pickle.loads(pickle.dumps(nc.channels_last)) is nc.channels_last
    with pytest.raises(TypeError, match="expected a memory_format such as nc.channels_last, got 'nhwc'"):
        x.contiguous(memory_format="nhwc")
    with pytest.raises(TypeError, match="expected the layout nc.strided"):
        nc.zeros(2, layout="sparse")
    with pytest.raises(TypeError, match=r"zeros\(\) got an unexpected keyword argument 'names'"):
        nc.zeros(2, names=("a",))  # type: ignore[call-arg]


@pytest.fixture
def printing() -> Iterator[None]:
    yield
    nc.set_printoptions(precision=4, threshold=64, edgeitems=3, linewidth=75)


def test_printed_digits_and_elements(printing: None) -> None:
    x = nc.tensor([1.23456, 2000.0])
    nc.set_printoptions(precision=2)
    assert "1.23" in repr(x) and "1.2346" not in repr(x)  # noqa: PT018
    nc.set_printoptions(sci_mode=True)
    assert "1.23e+00" in repr(x)
    nc.set_printoptions(sci_mode=False, precision=3)
    assert "2000.000" in repr(x)
    nc.set_printoptions(threshold=5, edgeitems=1)
    assert "..." in repr(nc.arange(9))
    nc.set_printoptions(profile="full")
    assert "..." not in repr(nc.arange(2000))
    with pytest.raises(ValueError, match="expected a profile of default, short, full"):
        nc.set_printoptions(profile="long")
    with pytest.raises(ValueError, match="precision -1 must not be negative"):
        nc.set_printoptions(precision=-1)


# -- settings ----------------------------------------------------------------------------------------------------------


def test_the_default_device_is_that_of_new_tensors() -> None:
    before = nc.zeros(1).device
    try:
        nc.set_default_device("cpu")
        assert nc.get_default_device() == nc.device("cpu")
        assert nc.zeros(1).device.backend == "cpu"
        with pytest.raises(DeviceNotFoundError):
            nc.set_default_device("accel:7")
    finally:
        nc.set_default_device(None)
    assert nc.zeros(1).device is before


def test_deterministic_algorithms_are_the_variable() -> None:
    before = nc.are_deterministic_algorithms_enabled()
    try:
        nc.use_deterministic_algorithms(True, warn_only=True)
        assert config.get("DETERMINISTIC") is True
        assert nc.is_deterministic_algorithms_warn_only_enabled()
        assert nc.get_deterministic_debug_mode() == 1
        nc.set_deterministic_debug_mode("default")
        assert not nc.are_deterministic_algorithms_enabled()
        with pytest.raises(ValueError, match="set_deterministic_debug_mode"):
            nc.set_deterministic_debug_mode("loud")
    finally:
        nc.use_deterministic_algorithms(before)


def test_threads_are_counted() -> None:
    before = nc.get_num_threads()
    try:
        nc.set_num_threads(1)
        assert nc.get_num_threads() in (1, before)  # NumPy's library may have no such setting
    finally:
        nc.set_num_threads(before)
    for wrong in (0, True, 1.5):
        with pytest.raises(ValueError, match="expected a whole number from 1"):
            nc.set_num_threads(wrong)  # type: ignore[arg-type]
    assert nc.get_num_interop_threads() == 1
    assert nc.set_flush_denormal(True) is False


def test_modes_of_the_thread() -> None:
    assert not nc.is_inference_mode_enabled()
    with nc.inference_mode():
        assert nc.is_inference_mode_enabled()
        assert not nc.is_grad_enabled()
        with nc.inference_mode(False):
            assert not nc.is_inference_mode_enabled()
    assert not nc.is_inference_mode_enabled()

    @nc.inference_mode()
    def inside() -> bool:
        return nc.is_inference_mode_enabled()

    assert inside()
    assert nc.is_grad_enabled()
    nc.set_anomaly_enabled(True)
    assert nc.is_anomaly_enabled()
    nc.set_anomaly_enabled(False)
    with pytest.raises(ValueError, match="check_nan"):
        nc.set_anomaly_enabled(True, check_nan=False)
