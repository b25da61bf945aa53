"""The front of netcl: functions that make tensors, dtypes and devices as objects, ops in their recording form."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import netcl as nc
from netcl.core import dtypes
from netcl.core.errors import DTypeError, ShapeError
from netcl.runtime.capture import capture


@pytest.mark.parametrize(
    ("made", "shape", "dtype"),
    [
        (lambda: nc.zeros(3), (3,), "float32"),
        (lambda: nc.ones(2, 3), (2, 3), "float32"),
        (lambda: nc.zeros((2, 3), dtype=nc.int64), (2, 3), "int64"),
        (lambda: nc.empty(0, 2), (0, 2), "float32"),
        (lambda: nc.full((2,), 7), (2,), "int64"),
        (lambda: nc.full((2,), 7.0), (2,), "float32"),
        (lambda: nc.tensor([1.0, 2.0]), (2,), "float32"),
        (lambda: nc.tensor([1, 2]), (2,), "int64"),
        (lambda: nc.tensor(True), (), "bool"),
        (lambda: nc.tensor(np.arange(3.0)), (3,), "float64"),
        (lambda: nc.tensor(np.arange(3, dtype=np.uint8)), (3,), "uint8"),
        (lambda: nc.tensor([np.float64(1), np.float64(2)]), (2,), "float64"),
        (lambda: nc.arange(10, step=3), (4,), "int64"),
        (lambda: nc.arange(0, 1, 0.25), (4,), "float32"),
        (lambda: nc.linspace(0, 1, 5), (5,), "float32"),
        (lambda: nc.eye(2, 3), (2, 3), "float32"),
        (lambda: nc.rand(2, 3), (2, 3), "float32"),
        (lambda: nc.randint(10, (4,)), (4,), "int64"),
        (lambda: nc.randint_like(nc.zeros(3), 5), (3,), "float32"),
        (lambda: nc.zeros_like(nc.ones(2, dtype="int8")), (2,), "int8"),
        (lambda: nc.normal(nc.zeros(3), 2.0), (3,), "float32"),
        (lambda: nc.multinomial(nc.tensor([0.1, 0.0, 0.7]), 2), (2,), "int64"),
        (lambda: nc.from_numpy(np.ones((2, 2))), (2, 2), "float64"),
    ],
)
def test_shapes_and_dtypes_are_pytorchs(handle, made, shape, dtype):
    found = made()
    assert found.shape == shape
    assert found.dtype == dtype
    assert found.device.selector == handle.selector


def test_a_tensor_of_a_tensor_is_a_copy(handle):
    x = nc.ones(3)
    y = nc.tensor(x)
    y.zero_()
    assert x.tolist() == [1, 1, 1]
    assert nc.as_tensor(x) is x


def test_the_default_dtype_can_be_set(handle):
    nc.set_default_dtype(nc.float64)
    try:
        assert nc.zeros(1).dtype == nc.tensor([1.0]).dtype == "float64"
    finally:
        nc.set_default_dtype("float32")
    with pytest.raises(DTypeError, match="not a floating dtype"):
        nc.set_default_dtype("int64")


def test_dtypes_and_devices_are_objects_and_names():
    assert nc.float32 == "float32"
    assert {nc.float32: 1}["float32"] == 1
    assert np.dtype(nc.float32) == np.float32
    assert (nc.long, nc.half, nc.double) == ("int64", "float16", "float64")
    assert (nc.bfloat16.itemsize, nc.bfloat16.is_floating_point) == (2, True)
    assert nc.device("opencl:0:1").type == "opencl"
    assert nc.device("opencl:0:1").index == 1
    assert nc.device("cpu") == nc.device(nc.device("cpu"))
    assert nc.zeros(1, device=nc.device("cpu")).device.backend == "cpu"


def test_the_dtype_of_a_tensor_is_an_object():
    x, n = nc.tensor([1.0, 2.0]), nc.tensor([1, 2])
    values = [x, n, x[0], x.reshape(2, 1), n.float(), x.bool(), x == 1, x @ x, n.sum(), *x.sort(), x.clone().add_(1)]
    values += [x + 1 for _ in range(4)]  # the warm call makes tensors by itself
    values += [pickle.loads(pickle.dumps(x)), copy.deepcopy(n), nc.Tensor(2), nc.tensor(np.float16([1]))]
    values += [nc.zeros(2, dtype=np.float64), nc.rand(2), nc.randint(0, 3, (2,)), nc.arange(3)]
    for value in values:
        assert value.dtype is dtypes.OBJECTS[value.dtype]
    assert (x.dtype.is_floating_point, n.dtype.is_floating_point, n.dtype.itemsize) == (True, False, 8)
    assert nc.get_default_dtype() is nc.float32
    assert pickle.loads(pickle.dumps(x.dtype)) is copy.deepcopy(x.dtype) is x.dtype
    assert repr(x.dtype) == "netcl.float32"
    assert f"{x.dtype}" == "float32"


def test_without_replacement_positions_differ_and_follow_the_probabilities():
    nc.ops.manual_seed(0)
    drawn = nc.multinomial(nc.tensor([[0.6, 0.3, 0.1]]).expand(2000, 3), 2).numpy()
    assert (drawn[:, 0] != drawn[:, 1]).all()
    assert abs((drawn[:, 0] == 0).mean() - 0.6) < 0.05


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: nc.randint(3), "needs a size"),
        (lambda: nc.arange(3, 0), "does not lead"),
        (lambda: nc.normal(0.0, 1.0), "needs a size"),
        (lambda: nc.multinomial(nc.tensor([1.0, 0.0]), 2), "need as many"),
        (lambda: nc.multinomial(nc.tensor([-1.0, 2.0]), 1), "not negative"),
        (lambda: nc.meshgrid(nc.zeros(2, 2)), "expected vectors"),
        (lambda: nc.from_numpy([1.0]), "write nc.tensor"),
        (lambda: nc.zeros(-1), "non-negative"),
        (lambda: nc.zeros(2, dtype="flaot32"), "unsupported dtype"),
        (lambda: nc.nothing, "no attribute 'nothing'"),
    ],
)
def test_bad_input_is_named(call, error):
    with pytest.raises((TypeError, ValueError, ShapeError, DTypeError, AttributeError), match=error):
        call()


@pytest.mark.parametrize("dtype", [None, "int32", "uint8", "float32", "float16", "bool"])
def test_arange_of_whole_numbers_in_a_captured_step(engine, dtype):
    step = capture(lambda x: x + nc.arange(1, 8, 3, dtype=dtype), nc.zeros(3, dtype="float32"))
    np.testing.assert_array_equal(step.replay(nc.ones(3)).numpy(), np.array([1, 4, 7]).astype(dtype or "int64") + 1)
    np.testing.assert_array_equal(nc.arange(5, -6, -2).numpy(), np.arange(5, -6, -2))
    big = nc.arange(2**62, 2**62 + 5, 2)
    assert big.tolist() == [2**62, 2**62 + 2, 2**62 + 4]
    assert nc.arange(3, 3).shape == (0,)
