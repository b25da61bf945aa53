"""The memory that a gradient graph keeps: of a view that a gradient needs the elements, and not its base."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import netcl.autograd as ag
from netcl.core import Tensor, manager
from netcl.core.device import device


@pytest.fixture(params=["cpu", "pocl"], autouse=True)
def on_each_engine(request):
    with device(manager.default(request.param)):
        yield


def _parts():
    """Returns a leaf, the result of an op on it, and two squares of halves of that result."""
    values = np.arange(12, dtype=np.float32).reshape(2, 6)
    x = Tensor.from_host(values)
    x.requires_grad = True
    base = ag.mul(x, 2.0)
    left, right = base[:, :3], base[:, 3:]
    return values, x, base, ag.mul(left, left), ag.mul(right, right)


def test_the_base_is_freed_while_its_views_are_saved():
    values, x, base, left, right = _parts()
    memory = weakref.ref(base._storage)
    del base
    gc.collect()
    assert memory() is None, "only the copies of the views are kept"
    ag.sum(ag.add(left, right)).backward()
    np.testing.assert_array_equal(x.grad.to_host(), 8 * values)


def test_a_program_that_keeps_the_base_or_a_view_keeps_both():
    values, x, base, left, right = _parts()
    view = base[:, 1:]
    memory = weakref.ref(base._storage)
    del base
    assert memory() is not None
    np.testing.assert_array_equal(view.to_host(), 2 * values[:, 1:])
    ag.sum(ag.add(left, right)).backward()
    np.testing.assert_array_equal(x.grad.to_host(), 8 * values)
