"""The engines agree: every elementwise, reducing, scanning and sorting op on the extremes of its dtypes."""

from __future__ import annotations

import numpy as np
import pytest

from netcl import ops
from netcl.core import Tensor
from netcl.core.backend.registry import cpu_engine
from netcl.core.dtypes import SUPPORTED
from netcl.core.testing.extremes import agree, disagreement, extreme_ops, extremes, samples

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


def test_limits_out_of_range_are_refused(engine):
    x = Tensor.from_host(np.array([0, 255], np.uint8))
    assert ops.clamp(x, 3, 200).tolist() == [3, 200]
    for limits in ({"min": -1}, {"max": 300}):
        with pytest.raises(OverflowError, match="does not fit uint8"):
            ops.clamp(x, **limits)
    with pytest.raises(OverflowError, match="300 does not fit uint8"):
        Tensor.full((2,), 300, "uint8")
