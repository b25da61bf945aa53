"""Ops of ``netcl`` are recorded; those of ``netcl.ops`` are not."""

from __future__ import annotations

import warnings

import pytest

import netcl as nc
from netcl.core.errors import ForwardOnlyWarning


def test_an_op_of_the_front_has_a_gradient(handle):
    w = nc.ones(3, requires_grad=True)
    nc.exp(w).sum().backward()
    assert w.grad is not None
    assert nc.movedim(w.reshape(1, 3), 0, 1).requires_grad
    assert nc.multiply(w, 2).requires_grad
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # raised for each device, not once for the line
        with pytest.raises(ForwardOnlyWarning):
            nc.ops.exp(w)


def test_nothing_is_recorded_without_grad(handle):
    w = nc.ones(3, requires_grad=True)
    with nc.no_grad():
        assert not nc.exp(w).requires_grad
        assert not nc.is_grad_enabled()
        w -= 0.5 * w
    assert w.tolist() == [0.5, 0.5, 0.5]

    @nc.inference_mode()
    def evaluated() -> nc.Tensor:
        return nc.exp(w)

    assert not evaluated().requires_grad
