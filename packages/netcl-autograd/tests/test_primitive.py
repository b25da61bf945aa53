"""AutogradPrimitive: an op written as text, fused like any other, with a gradient that is derived or given."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.errors import ExpressionError
from netcl.core.ops_table.dispatch import TABLE

pytestmark = pytest.mark.level("programs")


@pytest.fixture(autouse=True)
def names() -> Iterator[None]:
    """Takes away what a test registers."""
    from netcl.autograd.compiler import primitive
    from netcl.autograd.derive.closed_forms import CLOSED_FORMS

    before = set(TABLE)
    yield
    for name in set(TABLE) - before:
        TABLE.pop(name)
        primitive._primitives.pop(name, None)
        CLOSED_FORMS.pop(name, None)
        primitive.NOT_FUSIBLE.discard(name)
        for module in (ag, ag.ops):
            vars(module).pop(name, None)


def leaf(*values: float) -> ag.Node:
    return ag.tensor(Tensor.from_host(np.array(values, np.float32), requires_grad=True))


def test_five_lines_make_a_fusible_op(handle):
    swish3 = ag.register_primitive("swish3", "v0 * sigmoid(v1 * v0)")

    @ag.jit_compile
    def fn(x):
        return swish3(x * 2.0, 3.0) + 1.0

    x = leaf(-1.0, 0.5)
    y = fn(x)
    y.sum().backward()
    t = x.numpy().astype(np.float64) * 2
    s = 1 / (1 + np.exp(-3 * t))
    assert np.allclose(y.numpy(), t * s + 1, rtol=1e-5)
    assert np.allclose(x.grad.numpy(), 2 * (s + 3 * t * s * (1 - s)), rtol=1e-5)
    assert handle.backend == "cpu" or len(fn.kernels(x)) == 2


def test_a_gradient_that_is_given_is_used(numpy_device):
    ste = ag.AutogradPrimitive("straight_round", "rint(v0) * v1", ("grad * v1", "grad * v0"))
    x, w = leaf(0.4, 1.6), leaf(2.0)
    for fn in (ste, ag.jit_compile(lambda x, w: ste(x, w) * 1.0)):
        x.grad = w.grad = None
        y = fn(x, w)
        assert y.tolist() == [0.0, 4.0]
        y.backward(Tensor.from_host(np.array([1.0, 10.0], np.float32)))
        assert x.grad.tolist() == [2.0, 20.0]
        assert w.grad.tolist() == pytest.approx([16.4])
    for fn in (ste, ag.jit_compile(lambda x, w: ste(x, w) * 1.0)):  # numbers in the place of tensors
        x.grad = w.grad = None
        (fn(2.0, w) + fn(x, 3.0)).sum().backward()
        assert x.grad.tolist() == [3.0, 3.0]
        assert w.grad.tolist() == [4.0]
    assert ag.straight_round(x, w).op_name == "straight_round"
    assert ag.get_primitive("straight_round") is ste


def test_second_gradients_follow_from_the_texts(numpy_device):
    cube = ag.AutogradPrimitive("cube", "v0 * v0 * v0", "grad * 3 * v0 * v0")
    x = leaf(2.0, -1.0)
    (first,) = ag.grad(cube(x).sum(), x, create_graph=True)
    (second,) = ag.grad(first.sum(), x)
    assert first.tolist() == [12.0, 3.0]
    assert second.tolist() == [12.0, -6.0]
    through = ag.AutogradPrimitive("through_output", "exp(v0)", "grad * out")
    (first,) = ag.grad(through(x).sum(), x, create_graph=True)
    (second,) = ag.grad(first.sum(), x)
    assert np.allclose(second.numpy(), np.exp(x.numpy()))


def test_what_is_not_fusible_stays_on_its_own(handle):
    apart = ag.AutogradPrimitive("apart", "v0 + 1", fusible=False)
    fn = ag.jit_compile(lambda x: apart(x * 2.0) * 3.0)
    x = Tensor.from_host(np.array([1.0], np.float32))
    assert fn(x).tolist() == [9.0]
    assert handle.backend == "cpu" or [kernel.program for kernel in fn.kernels(x)] == ["mul", "mul"]


def test_mistakes_are_named():
    with pytest.raises(ExpressionError, match=r"unknown function 'sinq'(.|\n)*\^"):
        ag.AutogradPrimitive("bad", "sinq(v0)")
    with pytest.raises(ExpressionError, match="unknown name 'g'"):
        ag.AutogradPrimitive("bad", "v0 * 2", "g * 2")
    with pytest.raises(ExpressionError, match="1 gradients for 2 inputs"):
        ag.AutogradPrimitive("bad", "v0 * v1", "grad * v1")
    with pytest.raises(ExpressionError, match="does not use all of its 2 inputs"):
        ag.AutogradPrimitive("bad", "v0", ("grad", "grad"), arity=2)
    with pytest.raises(ValueError, match="no name"):
        ag.AutogradPrimitive("not a name", "v0")
    with pytest.raises(ValueError, match="'relu' exists"):
        ag.register_primitive("relu", "v0")
    with pytest.raises(KeyError, match="'relu' is an op of the table"):
        ag.get_primitive("relu")
