"""torch.func and torch.autograd under netcl.torch, against closed forms in float64."""

from __future__ import annotations

import numpy as np
import pytest

import netcl.torch as torch
from netcl.torch.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)

X = np.array([0.5, -1.5, 2.0])


def x64():
    return torch.tensor(X)


def cubes(x):
    return (x**3).sum()


def test_gradients_of_gradients():
    np.testing.assert_allclose(grad(cubes)(x64()).numpy(), 3 * X**2, rtol=1e-6)
    np.testing.assert_allclose(grad(lambda x: grad(cubes)(x).sum())(x64()).numpy(), 6 * X, rtol=1e-6)
    slope, value = grad_and_value(cubes)(x64())
    np.testing.assert_allclose(value.item(), (X**3).sum(), rtol=1e-6)
    assert not slope.requires_grad
    slope, aux = grad(lambda x: (cubes(x), "aux"), has_aux=True)(x64())
    assert aux == "aux"


def test_gradients_by_nested_arguments():
    found = grad(lambda p: (p["a"] * p["b"][0]).sum())({"a": x64(), "b": [x64() * 2]})
    np.testing.assert_allclose(found["a"].numpy(), 2 * X)
    np.testing.assert_allclose(found["b"][0].numpy(), X)
    both = grad(lambda x, y: (x * y).sum(), argnums=(0, 1))(x64(), x64() * 3)
    np.testing.assert_allclose(both[1].numpy(), X)


def test_jacobians_and_second_derivatives():
    for jacobian in (jacrev, jacfwd):
        np.testing.assert_allclose(jacobian(torch.sin)(x64()).numpy(), np.diag(np.cos(X)), rtol=1e-6)
    np.testing.assert_allclose(hessian(cubes)(x64()).numpy(), np.diag(6 * X), rtol=1e-6)
    value, product = vjp(torch.sin, x64())
    np.testing.assert_allclose(value.numpy(), np.sin(X), rtol=1e-6)
    np.testing.assert_allclose(product(x64())[0].numpy(), X * np.cos(X), rtol=1e-6)
    np.testing.assert_allclose(jvp(torch.sin, (x64(),), (x64(),))[1].numpy(), X * np.cos(X), rtol=1e-6)


def test_a_map_over_a_batch_stacks_the_results():
    matrix, vectors = torch.arange(6.0).reshape(2, 3), torch.arange(12.0).reshape(4, 3)
    found = vmap(lambda v: matrix @ v)(vectors)
    np.testing.assert_allclose(found.numpy(), vectors.numpy() @ matrix.numpy().T)
    assert vmap(torch.dot, in_dims=(0, None))(vectors, vectors[1]).shape == (4,)
    assert vmap(lambda v: v * 2, out_dims=1)(vectors).shape == (3, 4)
    slopes = vmap(grad(lambda v: (v**2).sum()))(vectors)
    np.testing.assert_allclose(slopes.numpy(), 2 * vectors.numpy())
    with pytest.raises(ValueError, match="one size"):
        vmap(torch.add)(vectors, matrix)


def test_modules_are_called_with_other_parameters_and_stacked():
    layers = [torch.nn.Linear(3, 2) for _ in range(3)]
    parameters, buffers = stack_module_state(layers)
    x = torch.ones(3)
    found = vmap(lambda p: functional_call(layers[0], p, (x,)))(parameters)
    assert buffers == {}
    np.testing.assert_allclose(found.numpy(), np.stack([layer(x).detach().numpy() for layer in layers]), rtol=1e-6)


def test_variables_backward_and_gradcheck():
    x = torch.autograd.Variable(torch.ones(2), requires_grad=True)
    torch.autograd.backward([x * 2, x * 3], [torch.ones(2), torch.ones(2)])
    assert x.grad.tolist() == [5.0, 5.0]
    assert torch.autograd.gradcheck(torch.sin, (torch.tensor(X, requires_grad=True),))
    wrong = torch.tensor(X, requires_grad=True)
    assert not torch.autograd.gradcheck(lambda y: y.detach() * y, (wrong,), raise_exception=False)
    assert torch.autograd.functional.hessian(cubes, x64()).shape == (3, 3)


def test_gradients_depend_on_the_tensors_that_a_function_closes_over():
    w = torch.tensor(X, requires_grad=True)
    slope = grad(lambda v: (v * v * w).sum())(x64())
    slope.sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), 2 * X)
    found = grad(lambda v: grad(lambda u: (v * u * u).sum())(x64()).sum())(x64())
    np.testing.assert_allclose(found.numpy(), 2 * X)
    assert not found.requires_grad
    with torch.no_grad():
        assert not grad(lambda v: (v * w).sum())(x64()).requires_grad


def test_structures_of_results_and_arguments_are_kept():
    def f(v):
        return {"a": v.sin(), "b": (v.sum(), [v * v])}

    jacobian = jacrev(f)(x64())
    assert (jacobian["a"].shape, jacobian["b"][0].shape, jacobian["b"][1][0].shape) == ((3, 3), (3,), (3, 3))
    value, product = vjp(f, x64())
    (found,) = product({"a": x64(), "b": (torch.ones((), dtype=torch.float64), [x64()])})
    np.testing.assert_allclose(found.numpy(), X * np.cos(X) + 1 + 2 * X * X)
    _, moved = jvp(f, (x64(),), (x64(),))
    np.testing.assert_allclose(moved["b"][1][0].numpy(), 2 * X * X)
    second = hessian(lambda p: (p["a"] * p["a"] * p["b"]).sum())({"a": x64(), "b": x64() + 1})
    np.testing.assert_allclose(second["a"]["b"].numpy(), np.diag(2 * X))
    assert not value["a"].requires_grad


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: grad(lambda v: v)(x64()), RuntimeError, "0 axes, not a tensor of shape"),
        (lambda: grad(cubes)(3.0), TypeError, "expected tensors.*got float"),
        (lambda: grad(cubes)(torch.tensor([1])), RuntimeError, "floating dtypes, not int64"),
        (lambda: grad(cubes, argnums=1)(x64()), RuntimeError, "names no argument"),
        (lambda: vjp(torch.sin, x64())[1](torch.ones(2)), ValueError, r"shapes \[\(2,\)\]; expected \[\(3,\)\]"),
        (lambda: vmap(cubes, in_dims=2)(x64()), ValueError, "axis 2 of a tensor of shape"),
        (lambda: vmap(cubes, in_dims=[0])(x64()), ValueError, "in_dims is an int or a tuple"),
        (lambda: vmap(torch.mul)(x64(), 2.0), ValueError, "in_dims is 0 for a float; write None"),
        (lambda: vmap(lambda v: 1.0)(x64()), ValueError, "out_dims is 0 for a float"),
        (lambda: vmap(lambda v: v * 2, out_dims=None)(x64()), ValueError, "differs from element to element"),
        (lambda: vmap(lambda v: v + torch.rand(()))(x64()), RuntimeError, "draws random numbers; write randomness="),
        (lambda: vmap(cubes, randomness="none")(x64()), RuntimeError, "'error', 'different' or 'same'"),
        (lambda: vmap(cubes)(torch.ones(0, 2)), ValueError, "size 0"),
        (lambda: stack_module_state([torch.nn.ReLU(), torch.nn.Linear(1, 1)]), RuntimeError, "same class"),
    ],
)
def test_wrong_calls_say_what_to_write(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_random_numbers_of_a_map_differ_or_are_the_same():
    zeros = torch.zeros(3, 4)
    same = vmap(lambda v: v + torch.rand(4), randomness="same")(zeros).numpy()
    other = vmap(lambda v: v + torch.rand(4), randomness="different")(zeros).numpy()
    assert (same[0] == same[1]).all()
    assert (same[0] == same[2]).all()
    assert (other[0] != other[1]).all()
