"""netcl.autograd.functional against closed forms in float64."""

from __future__ import annotations

import numpy as np
import pytest

import netcl.autograd as ag
from netcl.autograd.functional import hessian, hvp, jacobian, jvp, vhp, vjp
from netcl.core import Tensor
from netcl.core.errors import ShapeError

A = np.array([[1.0, -2.0, 0.5], [0.3, 1.5, -1.0]])
X = np.array([0.2, -0.7, 1.1])
V = np.array([1.0, 0.5, -2.0])
U = np.array([0.4, -1.2])


def tensor(values):
    return Tensor.from_host(np.asarray(values), dtype="float64")


def waves(x):
    """Returns sin(A x), with Jacobian cos(A x) A."""
    return ag.sin(ag.matmul(tensor(A), x))


def cubes(x):
    """Returns the sum of x^3, with second derivatives 6 x on the diagonal."""
    return ag.sum(ag.mul(ag.mul(x, x), x))


JACOBIAN = np.cos(A @ X)[:, None] * A


def test_a_jacobian_is_that_of_the_closed_form():
    np.testing.assert_allclose(jacobian(waves, tensor(X)).numpy(), JACOBIAN, rtol=1e-12)


def test_a_jacobian_of_several_inputs_and_outputs_has_a_block_for_each_pair():
    def both(x, y):
        return waves(x), ag.mul(y, y)

    blocks = jacobian(both, (tensor(X), tensor(U)))
    np.testing.assert_allclose(blocks[0][0].numpy(), JACOBIAN, rtol=1e-12)
    np.testing.assert_allclose(blocks[1][1].numpy(), np.diag(2 * U), rtol=1e-12)
    assert not blocks[0][1].numpy().any()
    assert blocks[1][0].shape == (2, 3)


def test_products_with_a_jacobian():
    value, found = vjp(waves, tensor(X), tensor(U))
    np.testing.assert_allclose(value.numpy(), np.sin(A @ X), rtol=1e-12)
    np.testing.assert_allclose(found.numpy(), U @ JACOBIAN, rtol=1e-12)
    _, found = jvp(waves, tensor(X), tensor(V))
    np.testing.assert_allclose(found.numpy(), JACOBIAN @ V, rtol=1e-12)


def test_second_derivatives():
    np.testing.assert_allclose(hessian(cubes, tensor(X)).numpy(), np.diag(6 * X), rtol=1e-12)
    for product in (hvp, vhp):
        value, found = product(cubes, tensor(X), tensor(V))
        np.testing.assert_allclose(value.numpy(), (X**3).sum(), rtol=1e-12)
        np.testing.assert_allclose(found.numpy(), 6 * X * V, rtol=1e-12)


def test_results_keep_a_graph_only_on_request():
    x = tensor(X)
    assert not jacobian(waves, x).requires_grad
    x.requires_grad = True
    kept = jacobian(waves, x, create_graph=True)
    (slope,) = ag.grad(ag.sum(kept), [x])
    expected = -(np.sin(A @ X) * A.sum(1)) @ A
    np.testing.assert_allclose(slope.numpy(), expected, rtol=1e-12)


def test_wrong_vectors_functions_and_inputs_are_refused():
    with pytest.raises(ValueError, match="vjp: give v"):
        vjp(waves, tensor(X))
    with pytest.raises(ShapeError, match="v has shapes"):
        jvp(waves, tensor(X), tensor(U))
    with pytest.raises(ShapeError, match="one tensor of one element"):
        hessian(waves, tensor(X))
    with pytest.raises(TypeError, match="inputs: expected tensors, got ndarray"):
        vjp(waves, X)
    with pytest.raises(RuntimeError, match="do not depend on input 0"):
        jacobian(lambda x: tensor(U), tensor(X), strict=True)
    assert not jacobian(lambda x: tensor(U), tensor(X)).numpy().any()
