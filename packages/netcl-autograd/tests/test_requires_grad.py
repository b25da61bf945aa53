"""Only tensors of floating dtypes can require grad."""

from __future__ import annotations

import pytest

import netcl as nc
from netcl import autograd as ag

WAYS = {
    "method": lambda: nc.arange(3).requires_grad_(),
    "attribute": lambda: setattr(nc.arange(3), "requires_grad", True),
    "creation": lambda: nc.tensor([True, False], requires_grad=True),
    "zeros": lambda: nc.zeros(3, dtype="int32", requires_grad=True),
    "parameter": lambda: ag.Parameter(nc.arange(3)),
}


@pytest.mark.parametrize("way", WAYS)
def test_integers_and_bools_are_refused(way):
    with pytest.raises(RuntimeError, match="only tensors of floating dtypes can require grad, not (int64|int32|bool)"):
        WAYS[way]()


def test_the_flag_can_be_cleared_on_any_dtype():
    assert nc.arange(3).requires_grad_(False).requires_grad is False
    assert ag.Parameter(nc.arange(3), requires_grad=False).tolist() == [0, 1, 2]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_floating_dtypes_can(dtype):
    assert nc.ones(2, dtype=dtype).requires_grad_().requires_grad


def test_the_flag_belongs_to_leaves():
    y = nc.ones(2, requires_grad=True) * 2
    for change in (lambda: y.requires_grad_(False), lambda: setattr(y, "requires_grad", False), y.requires_grad_):
        with pytest.raises(RuntimeError, match="leaves of a graph"):
            change()
    assert y.requires_grad
    assert not y.detach_().requires_grad
    assert y.requires_grad_().requires_grad
