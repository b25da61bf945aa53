"""Ops of ``netcl`` are recorded; ops of ``netcl.ops`` are not."""

from __future__ import annotations

import warnings

import pytest

import netcl as nc
from netcl.core.errors import ForwardOnlyWarning, UnsupportedError


def test_an_op_of_the_front_has_a_gradient(handle):
    w = nc.ones(3, requires_grad=True)
    nc.exp(w).sum().backward()
    assert w.grad is not None
    assert nc.transpose(w.reshape(1, 3), 0, 1).requires_grad
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


def test_compile_takes_pytorchs_arguments(handle):
    x = nc.tensor([-1.0, 2.0], requires_grad=True)

    @nc.compile(fullgraph=True, dynamic=True, mode="max-autotune")
    def double(x):
        return nc.relu(x) * 2

    assert double(x).tolist() == [0.0, 4.0]
    double(x).sum().backward()
    assert x.grad.tolist() == [0.0, 2.0]

    def same(x):
        return x

    assert nc.compile(same, disable=True) is nc.compile(same, backend="eager") is same


@pytest.mark.level("capture")
def test_a_function_is_captured_on_request():
    calls = []

    @nc.no_grad()
    def double(x):
        calls.append(1)
        return nc.relu(x) * 2

    step = nc.compile(double, backend="cudagraphs")
    for start in range(5):
        assert step(nc.tensor([-1.0, start])).tolist() == [0.0, 2.0 * start]
    assert len(calls) == 3  # two calls and the capture
    assert step.replays == 3


@pytest.mark.level("capture")
def test_a_function_without_its_backward_is_not_captured():
    weight = nc.tensor([2.0], requires_grad=True)
    step = nc.compile(lambda x: (weight * x).square().mean(), backend="cudagraphs")
    with pytest.warns(UserWarning, match="a tensor before its backward pass"):
        step(nc.tensor([3.0]))
    for _ in range(3):
        step(nc.tensor([3.0])).backward()
    assert weight.grad.tolist() == [3 * 36.0]


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"backend": "openxla"}, UnsupportedError, "leave backend out"),
        ({"options": {"triton.cudagraphs": True}}, UnsupportedError, "fast_math=True"),
        ({"mode": "fastest"}, ValueError, "default, reduce-overhead"),
        ({"model": 3}, TypeError, "a function or a module, got int"),
    ],
)
def test_compile_says_what_to_write(arguments, error, said):
    with pytest.raises(error, match=said):
        nc.compile(**{"model": abs, **arguments})
