"""A dtype that an op does not take is refused before any launch; the error names the op, the dtype, the device."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

import numpy as np
import pytest

import netcl.ops
from netcl.core import Tensor
from netcl.core.dtypes import SUPPORTED, is_floating
from netcl.core.engine.registry import cpu_engine
from netcl.core.errors import DTypeError, UnsupportedError
from netcl.core.ops_table.dispatch import TABLE
from netcl.core.testing import masked, op_cases, refusal


@cache
def rows():
    """Returns the rows of netcl.ops with cases: other packages that are imported in this process add theirs to the
    table.
    """
    modules = [import_module(found.name) for found in pkgutil.iter_modules(netcl.ops.__path__, "netcl.ops.")]
    own = {value.row.name for module in modules for value in vars(module).values() if hasattr(value, "row")}
    return [name for name in TABLE if name in own and next(op_cases(name), None) is not None]


@cache
def refused(dtype):
    """Returns the refusals of a dtype by NumPy's engine, by row."""
    found = {name: refusal(name, dtype, cpu_engine()) for name in rows()}
    return {name: error for name, error in found.items() if error is not None}


@pytest.mark.parametrize("dtype", SUPPORTED)
def test_every_op_takes_a_dtype_or_names_it(dtype):
    found = refused(dtype)
    if is_floating(dtype):
        assert set(found) == ({"cached_attention"} if dtype == "float64" else set())  # caches have at most 32 bits
    else:
        assert found
    for name, error in found.items():
        assert error.op in TABLE, name
        assert error.op in str(error)
        assert dtype in str(error)
        assert cpu_engine().device_label in str(error)


def test_the_rows_are_those_of_this_package():
    assert len(rows()) > 250
    assert "mse_loss" not in rows()


@pytest.mark.parametrize("dtype", [dtype for dtype in SUPPORTED if not is_floating(dtype)])
def test_a_device_refuses_what_numpy_refuses(dtype, engine):
    """Before a kernel is built: all of it takes no time."""
    if engine is cpu_engine():
        pytest.skip("needs an OpenCL device: NumPy is what is compared with")
    for name, error in refused(dtype).items():
        there = refusal(name, dtype, engine)
        assert there is not None, (name, dtype)
        assert type(there) is type(error), (name, dtype)
        assert engine.device_label in str(there)


def test_bool_is_no_number_for_kernels_that_add_or_compare(engine):
    x = Tensor.from_host(np.ones((1, 1, 2, 2), bool))
    with pytest.raises(UnsupportedError, match=r"max_pool: expected numbers, got bool.*bool on ") as caught:
        netcl.ops.max_pool2d(x, 2)
    assert isinstance(caught.value, DTypeError)
    assert isinstance(caught.value, ValueError)


def test_double_precision_is_refused_by_a_device_without_it(handle):
    if handle.backend == "cpu":
        pytest.skip("needs an OpenCL device: NumPy has float64")
    with masked(handle, has_fp64=False) as seen, pytest.raises(UnsupportedError, match="float64") as caught:
        Tensor.zeros((3,), "float64", queue=seen.queue)
    assert handle.device_name in str(caught.value)
