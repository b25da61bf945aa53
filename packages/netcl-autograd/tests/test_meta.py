"""Gradients of tensors of the device "meta", which have a shape and no values."""

from __future__ import annotations

import pytest

import netcl as nc

pytestmark = pytest.mark.level("front")


def test_gradients_have_shapes_too() -> None:
    w = nc.empty((3, 2), device="meta", requires_grad=True)
    (nc.empty((4, 3), device="meta") @ w).relu().sum().backward()
    assert w.grad is not None
    assert (w.grad.shape, w.grad.is_meta) == ((3, 2), True)
