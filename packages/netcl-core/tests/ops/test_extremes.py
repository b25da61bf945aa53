"""The engines agree: every elementwise, reducing, scanning and sorting op on the extremes of its dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl import ops
from netcl.core import Tensor
from netcl.core.backend.cpu import window
from netcl.core.dtypes import SUPPORTED
from netcl.core.engine.registry import cpu_engine
from netcl.core.ops_table.dispatch import TABLE
from netcl.core.testing import op_cases
from netcl.core.testing.extremes import agree, disagreement, extreme_ops, extremes, samples
from netcl.core.testing.special_values import UNDEFINED, special_cases, special_disagreement, special_ops

_USUAL = ("float32",)  # a kernel for each op


@pytest.mark.parametrize("dtype", SUPPORTED)
@pytest.mark.parametrize("name", extreme_ops())
def test_numpys_engine_computes_the_extremes_as_numpy(name, dtype):
    assert disagreement(name, cpu_engine(), dtype) == ""


@pytest.mark.parametrize(
    "dtype", [pytest.param(name, marks=[] if name in _USUAL else pytest.mark.deep) for name in SUPPORTED]
)
def test_every_engine_computes_the_extremes_alike(dtype, engine):
    if dtype == "float64" and not engine.handle.profile.has_fp64:
        pytest.skip("this device has no float64")
    faults = [fault for name in extreme_ops() if (fault := disagreement(name, engine, dtype))]
    assert faults == []


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", sorted(set(special_ops()) - set(UNDEFINED)))
def test_numpys_engine_computes_special_values_as_the_reference(name, dtype):
    assert special_disagreement(name, cpu_engine(), dtype, 3) == ""


@pytest.mark.timeout(600)  # kernels for some hundred ops
@pytest.mark.parametrize(
    "dtype", [pytest.param(name, marks=[] if name in _USUAL else pytest.mark.deep) for name in SUPPORTED]
)
def test_every_engine_computes_special_values_alike(dtype, engine):
    """Of contractions, windows, norms and all other rows with a kernel; composites are made of these."""
    if engine is cpu_engine():
        pytest.skip("needs an OpenCL device: NumPy is what is compared with")
    if dtype == "float64" and not engine.handle.profile.has_fp64:
        pytest.skip("this device has no float64")
    if dtype == "bool":
        pytest.skip("needs an OpenCL device of numbers: bool has two values, which extremes covers")
    names = [name for name in special_ops() if TABLE[name].composite is None]
    faults = [fault for name in names if (fault := special_disagreement(name, engine, dtype))]
    assert faults == []


def test_both_tables_hold_every_row_with_floating_operands():
    covered = {*extreme_ops(), *special_ops()}
    left_out = {"uniform", "normal", "poisson", "binomial", "cached_attention"}  # random, or without float64
    for name in TABLE:
        arrays = [
            o for case in op_cases(name) for o in case.operands if isinstance(o, np.ndarray) and o.dtype.kind == "f"
        ]
        assert not arrays or name in covered | left_out, name
    assert len(covered) > 300


def test_special_cases_hold_what_they_say():
    cases = dict(special_cases("matmul", "float32"))
    (first, _) = cases["infinity in operand 0, {}"].operands
    assert np.isinf(first).sum() == 1
    (_, second) = cases["both infinities in operand 1, {}"].operands
    assert set(second[np.isinf(second)]) == {np.inf, -np.inf}
    (least, _) = dict(special_cases("matmul", "int8"))["the least in operand 0, {}"].operands
    assert least.dtype == np.int8
    assert (least == -128).sum() == 1


def test_a_kernel_that_loses_a_nan_is_seen(monkeypatch):
    """Of windows: the largest of a window with NaN is NaN."""
    inner = window._max
    monkeypatch.setattr(window, "_max", lambda x, *rest: inner(np.nan_to_num(x), *rest))
    assert "NaN in operand 0" in special_disagreement("max_pool", cpu_engine(), "float32")


def test_the_check_sees_a_planted_fault(engine, monkeypatch):
    """A quotient of infinity that is infinite instead of NaN, and a zero of the wrong sign."""
    top, bottom = (Tensor.from_host(np.array(values, np.float32)) for values in ([np.inf, 0.0], [2.0, -2.0]))
    right = ops.floor_divide(top, bottom).numpy()
    assert agree(right, np.array([np.nan, -0.0], np.float32), "float32") is None
    assert agree(right, np.array([np.inf, -0.0], np.float32), "float32")[0] == 0
    assert agree(right, np.array([np.nan, 0.0], np.float32), "float32")[0] == 1


def test_the_samples_hold_the_extremes():
    values = extremes("float32")
    assert np.isnan(values).any()
    assert np.isinf(values).sum() == 2
    assert ((values == 0) & np.signbit(values)).any()
    assert np.float32(2.0**-149) in values
    assert set(extremes("int8").tolist()) >= {-128, 127, -1, 0}
    first, empty, single = samples("add", "int8")
    pairs = set(zip(*(operand.tolist() for operand in first.operands)))
    assert (-128, -1) in pairs
    assert empty.operands[0].size == 0
    assert single.operands[0].shape == ()


def test_numpys_special_values_of_quotients(engine):
    top = np.array([np.inf, 1.0, -1.0, 0.0, -0.0, 1.0, 3.0, -3.0], np.float32)
    bottom = np.array([2.0, -np.inf, np.inf, -2.0, 2.0, 0.1, np.inf, -np.inf], np.float32)
    x, y = Tensor.from_host(top), Tensor.from_host(bottom)
    with np.errstate(all="ignore"):
        for found, wanted in ((x // y, top // bottom), (x % y, top % bottom)):
            np.testing.assert_array_equal(found.numpy(), wanted)
            zeros = wanted == 0
            np.testing.assert_array_equal(np.signbit(found.numpy()[zeros]), np.signbit(wanted[zeros]))


@pytest.mark.parametrize("dtype", ["int32", "int64", "int8"])
def test_the_least_integer_by_minus_one_and_zero_does_not_end_the_process(dtype, engine):
    least = np.iinfo(dtype).min
    x = Tensor.from_host(np.array([least, least, 7, -7], dtype))
    y = Tensor.from_host(np.array([-1, 0, 0, -1], dtype))
    assert (x // y).tolist() == [least, 0, 0, 7]
    assert (x % y).tolist() == [0, 0, 0, 0]
    assert (x // -1).tolist() == [least, least, -7, 7]


def test_limits_out_of_range_saturate_and_other_numbers_are_refused(engine):
    x = Tensor.from_host(np.array([0, 255], np.uint8))
    assert ops.clamp(x, 3, 200).tolist() == [3, 200]
    assert ops.clamp(x, min=-1).tolist() == ops.clamp(x, max=300).tolist() == [0, 255]
    with pytest.raises(OverflowError, match="300 does not fit uint8"):
        Tensor.full((2,), 300, "uint8")


def test_the_bessel_function_of_the_largest_number_is_infinite(engine):
    x = Tensor.from_host(np.array([3.4e38, np.inf, -np.inf, 1e4, np.nan], np.float32))
    np.testing.assert_array_equal(ops.i0(x).numpy(), [np.inf, np.nan, np.nan, np.inf, np.nan])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_bins_of_a_range_that_is_not_finite_are_refused(value, engine):
    """PyTorch and NumPy refuse it, too; with a range the elements outside are not counted."""
    x = Tensor.from_host(np.array([1.0, value, 2.0], np.float32))
    for function in (ops.histogram, ops.histc):
        with pytest.raises(ValueError, match="histogram: the range of the elements is not finite; pass range="):
            function(x, bins=4)[0].numpy()
    assert ops.histc(x, 4, 0, 2).tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_a_huge_number_leaves_its_neighbours_as_they_are(handle: Any, name: str) -> None:
    """Vectors of a driver's library take another way if one of their numbers is huge."""
    small = np.array([2.5e-4, -1e-8, 0.007, -0.0078, 0.0079, 0.3, -2.0], np.float32)
    for huge in (1e30, np.inf, np.nan):
        given = np.concatenate([[huge], small]).astype(np.float32)
        found = getattr(nc, name)(nc.tensor(given, device=handle)).numpy()[1:]
        np.testing.assert_allclose(found, getattr(np, name)(small.astype(np.float64)), rtol=1e-6)
