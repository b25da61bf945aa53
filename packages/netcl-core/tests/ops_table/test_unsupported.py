"""A dtype that an op does not take is refused before any launch; the error names the op, the dtype, the device."""

from __future__ import annotations

import numpy as np
import pytest

import netcl.ops
from netcl.core import Tensor
from netcl.core.dtypes import SUPPORTED
from netcl.core.errors import DTypeError, UnsupportedError
from netcl.core.ops_table.dispatch import TABLE
from netcl.core.testing import masked, op_cases, refusal

ROWS = [name for name in TABLE if next(op_cases(name), None) is not None]


def refused(engine):
    found = {(name, dtype): refusal(name, dtype, engine) for name in ROWS for dtype in SUPPORTED}
    return {pair: error for pair, error in found.items() if error is not None}


@pytest.fixture(scope="module")
def host():
    from netcl.core.backend.registry import cpu_engine

    return cpu_engine()


@pytest.fixture(scope="module")
def found(host):
    return refused(host)


def test_every_op_takes_a_dtype_or_names_it(host, found):
    assert len(found) > 100
    assert not [pair for pair in found if pair[1] in ("float32", "float16", "bfloat16", "float64")]
    for (name, dtype), error in found.items():
        assert error.op in TABLE, name
        assert error.op in str(error)
        assert dtype in str(error)
        assert host.device_label in str(error)


def test_a_device_refuses_what_numpy_refuses(host, found, engine):
    """Before a kernel is built: all of it takes no time."""
    if engine is host:
        pytest.skip("needs an OpenCL device: NumPy is what is compared with")
    for (name, dtype), error in found.items():
        there = refusal(name, dtype, engine)
        assert there is not None, (name, dtype)
        assert type(there) is type(error), (name, dtype)
        assert engine.device_label in str(there)


def test_bool_is_no_number_for_kernels_that_add_or_compare(engine):
    x = Tensor.from_host(np.ones((1, 1, 2, 2), bool))
    with pytest.raises(UnsupportedError, match=r"max_pool computes on numbers, not bool.*bool on ") as caught:
        netcl.ops.max_pool2d(x, 2)
    assert isinstance(caught.value, DTypeError)
    assert isinstance(caught.value, ValueError)


def test_double_precision_is_refused_by_a_device_without_it(handle):
    if handle.backend == "cpu":
        pytest.skip("needs an OpenCL device: NumPy has float64")
    with masked(handle, has_fp64=False) as seen, pytest.raises(UnsupportedError, match="float64") as caught:
        Tensor.zeros((3,), "float64", queue=seen.queue)
    assert handle.device_name in str(caught.value)
