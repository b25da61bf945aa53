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


def test_a_number_of_the_cpu_gets_its_gradient_on_the_cpu(handle) -> None:
    x, number = nc.tensor([1.0, 2.0], device=handle), nc.tensor(2.0, device="cpu", requires_grad=True)
    (x * number + nc.mul(number, x)).sum().backward()
    assert number.grad is not None
    assert (number.grad.item(), number.grad.device) == (6.0, number.device)
