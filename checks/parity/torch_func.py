"""torch.func against PyTorch: derivatives of nested values, maps over a batch, calls of modules, and their errors."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import netcl.torch as ours

# PyTorch's forward mode compiles its decompositions.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
Pair = collections.namedtuple("Pair", ("first", "second"))
X = np.array([0.5, -1.5, 2.0])
M = np.random.default_rng(18).standard_normal((4, 3))


def x(m: Any, grad: bool = False) -> Any:
    return m.tensor(X, dtype=m.float64, requires_grad=grad)


def batch(m: Any) -> Any:
    return m.tensor(M, dtype=m.float64)


def cubes(v: Any) -> Any:
    return (v**3).sum()


def nested(v: Any) -> Any:
    return {"a": v.sin(), "b": (v.sum(), [v * v])}


def tree(p: Any) -> Any:
    return (p["w"] * p["b"][0]).sum() + p["b"][1].exp().sum()


def values(m: Any) -> Any:
    return {"w": x(m), "b": [x(m) * 2, x(m) / 3]}


def weighted(m: Any) -> Any:
    w = x(m, True)
    slope = m.func.grad(lambda v: (v * v * w).sum())(x(m))
    slope.sum().backward()
    return slope, w.grad


def closures(m: Any) -> Any:
    y = x(m)
    return m.func.grad(lambda v: m.func.grad(lambda u: (v * u * u).sum())(y).sum())(x(m))


def through(m: Any) -> Any:
    v = x(m, True)
    value, product = m.func.vjp(lambda u: u**3, v)
    (found,) = product(x(m))
    (value.sum() + found.sum()).backward()
    return value, found, v.grad


def forward_through(m: Any) -> Any:
    v = x(m, True)
    value, found = m.func.jvp(lambda u: u**3, (v,), (x(m),))
    found.sum().backward()
    return value, found, v.grad


def layers(m: Any) -> Any:
    made = [m.nn.Linear(3, 2) for _ in range(3)]
    with m.no_grad():
        for at, layer in enumerate(made):
            layer.weight.copy_(m.arange(6.0).reshape(2, 3) + at)
            layer.bias.copy_(m.arange(2.0) - at)
    return made


def ensemble(m: Any) -> Any:
    made = layers(m)
    parameters, buffers = m.func.stack_module_state(made)

    def call(p: Any, b: Any, v: Any) -> Any:
        return m.func.functional_call(made[0], (p, b), (v,))

    data = m.ones(4, 3)
    out = m.func.vmap(call, in_dims=(0, 0, None))(parameters, buffers, data)
    return out, parameters["weight"].requires_grad, sorted(parameters), buffers


def per_sample(m: Any) -> Any:
    layer = layers(m)[0]
    parameters = {name: p.detach() for name, p in layer.named_parameters()}

    def loss(p: Any, v: Any) -> Any:
        return m.func.functional_call(layer, p, (v,)).pow(2).sum()

    return m.func.vmap(m.func.grad(loss), in_dims=(None, 0))(parameters, m.tensor(M, dtype=m.float32))


# name -> function of the module
USES: dict[str, Callable[[Any], Any]] = {
    "grad": lambda m: m.func.grad(cubes)(x(m)),
    "grad of an argument that requires grad": lambda m: m.func.grad(cubes)(x(m, True)),
    "grad_and_value": lambda m: m.func.grad_and_value(cubes)(x(m)),
    "has_aux": lambda m: m.func.grad(lambda v: (cubes(v), {"s": v * 2}), has_aux=True)(x(m)),
    "value and aux": lambda m: m.func.grad_and_value(lambda v: (cubes(v), v * 2), has_aux=True)(x(m)),
    "grad of grad": lambda m: m.func.grad(lambda v: m.func.grad(cubes)(v).sum())(x(m)),
    "third": lambda m: m.func.grad(m.func.grad(m.func.grad(lambda v: v**5)))(m.tensor(2.0, dtype=m.float64)),
    "closure": weighted,
    "closures": closures,
    "argnums": lambda m: m.func.grad(lambda a, b: (a * b).sum(), argnums=(1, 0))(x(m), x(m) * 3),
    "argnums -1": lambda m: m.func.grad(lambda a, b: (a * b).sum(), argnums=-1)(x(m), x(m) * 3),
    "keyword": lambda m: m.func.grad(lambda a, k: (a * k).sum())(x(m), k=x(m)),
    "tree": lambda m: m.func.grad(tree)(values(m)),
    "named": lambda m: m.func.grad(lambda p: (p.first * p.second).sum())(Pair(x(m), x(m) * 2)),
    "unused": lambda m: m.func.grad(lambda a, b: a.sum(), argnums=(0, 1))(x(m), x(m)),
    "constant": lambda m: m.func.grad(lambda a: m.ones(()))(x(m)),
    "no_grad": lambda m: _without(m, lambda: m.func.grad(cubes)(x(m))),
    "vjp": lambda m: _vjp(m, m.sin, (x(m),), x(m)),
    "vjp nested": lambda m: _vjp(m, nested, (x(m),), {"a": x(m), "b": (m.ones((), dtype=m.float64), [x(m)])}),
    "vjp two": lambda m: _vjp(m, lambda a, b: (a * b, a), (x(m), x(m) + 1), (x(m), x(m))),
    "vjp identity": lambda m: _vjp(m, lambda a: a, (x(m),), x(m)),
    "vjp tree": lambda m: _vjp(m, tree, (values(m),), m.ones((), dtype=m.float64)),
    "vjp aux": lambda m: m.func.vjp(lambda a: (a * 2, a + 1), x(m), has_aux=True)[2],
    "vjp backward": through,
    "jvp": lambda m: m.func.jvp(m.sin, (x(m),), (x(m),)),
    "jvp nested": lambda m: m.func.jvp(nested, (x(m),), (x(m),)),
    "jvp tree": lambda m: m.func.jvp(tree, (values(m),), (values(m),)),
    "jvp aux": lambda m: m.func.jvp(lambda a: (a * a, a), (x(m),), (x(m),), has_aux=True),
    "jvp backward": forward_through,
    "jvp of grad": lambda m: m.func.jvp(m.func.grad(cubes), (x(m),), (x(m),)),
    "grad of jvp": lambda m: m.func.grad(lambda v: m.func.jvp(cubes, (v,), (x(m),))[1])(x(m)),
    "jacrev": lambda m: m.func.jacrev(m.sin)(x(m)),
    "jacrev nested": lambda m: m.func.jacrev(nested)(x(m)),
    "jacrev tree": lambda m: m.func.jacrev(tree)(values(m)),
    "jacrev argnums": lambda m: m.func.jacrev(lambda a, b: a * b.sum(), argnums=(0, 1))(x(m), x(m)),
    "jacrev one": lambda m: m.func.jacrev(lambda a, b: (a * b, b), argnums=(1,))(x(m), x(m)),
    "jacrev aux": lambda m: m.func.jacrev(lambda a: (a * a, a), has_aux=True)(x(m)),
    "jacfwd": lambda m: m.func.jacfwd(nested)(x(m)),
    "jacfwd argnums": lambda m: m.func.jacfwd(lambda a, b: a * b, argnums=(0, 1))(x(m), x(m)),
    "jacfwd jacrev": lambda m: m.func.jacfwd(m.func.jacrev(cubes))(x(m)),
    "hessian": lambda m: m.func.hessian(cubes)(x(m)),
    "hessian argnums": lambda m: m.func.hessian(lambda a, b: (a * a * b).sum(), argnums=(0, 1))(x(m), x(m) + 1),
    "hessian tree": lambda m: m.func.hessian(tree)(values(m)),
    "hessian of a vector": lambda m: m.func.hessian(m.sin)(x(m)),
    "vmap": lambda m: m.func.vmap(lambda v: v * 2)(batch(m)),
    "torch.vmap": lambda m: m.vmap(m.dot, in_dims=(0, None))(batch(m), x(m)),
    "vmap 1": lambda m: m.vmap(lambda v: v.sum(), in_dims=1)(batch(m)),
    "vmap -1": lambda m: m.vmap(lambda v: v * 2, in_dims=-1, out_dims=-1)(batch(m)),
    "vmap tree": lambda m: m.vmap(lambda p, v: p["a"] * v, in_dims=({"a": 0, "b": None}, 1))(
        {"a": batch(m), "b": 3.0}, batch(m).T
    ),
    "vmap out": lambda m: m.vmap(lambda v: (v, v.sum()), out_dims=(1, 0))(batch(m)),
    "vmap out tuple": lambda m: m.vmap(lambda v: v, out_dims=(1,))(batch(m)),
    "vmap out dict": lambda m: m.vmap(lambda v: {"s": v.sum(), "v": v})(batch(m)),
    "vmap out None": lambda m: m.vmap(lambda v, w: (v * w, w), in_dims=(0, None), out_dims=(0, None))(batch(m), x(m)),
    "vmap unbatched": lambda m: m.vmap(lambda v: x(m))(batch(m)),
    "vmap keyword": lambda m: m.vmap(lambda v, k: v * k)(batch(m), k=x(m)),
    "vmap vmap": lambda m: m.vmap(m.vmap(lambda v: v * v))(batch(m)),
    "vmap jacrev": lambda m: m.vmap(m.func.jacrev(m.sin))(batch(m)),
    "vmap same": lambda m: (lambda r: (r[0] == r[1]).all())(
        m.vmap(lambda v: v + m.rand(3), randomness="same")(m.zeros(2, 3))
    ),
    "vmap different": lambda m: (lambda r: (r[0] == r[1]).any())(
        m.vmap(lambda v: v + m.rand(3), randomness="different")(m.zeros(2, 3))
    ),
    "per sample": per_sample,
    "ensemble": ensemble,
}


def _vjp(m: Any, function: Any, primals: Any, cotangents: Any) -> Any:
    value, product = m.func.vjp(function, *primals)
    return value, product(cotangents)


def _without(m: Any, function: Any) -> Any:
    with m.no_grad():
        return function()


def same(one: Any, other: Any) -> None:
    if isinstance(other, torch.Tensor):
        assert one.shape == tuple(other.shape)
        assert one.dtype == str(other.dtype).removeprefix("torch.")
        assert one.requires_grad == other.requires_grad
        np.testing.assert_allclose(
            np.asarray(one.detach().tolist()), np.asarray(other.detach().tolist()), rtol=1e-6, atol=1e-9
        )
    elif isinstance(other, dict):
        assert one.keys() == other.keys()
        for key in other:
            same(one[key], other[key])
    elif isinstance(other, (tuple, list)):
        assert type(one) is type(other)
        assert len(one) == len(other)
        for first, second in zip(one, other):
            same(first, second)
    else:
        assert one == other


@pytest.mark.parametrize("name", sorted(USES))
def test_results_are_pytorchs(name: str) -> None:
    same(USES[name](ours), USES[name](torch))


# name -> function of the module that raises
WRONG: dict[str, Callable[[Any], Any]] = {
    "grad of a vector": lambda m: m.func.grad(lambda v: v)(x(m)),
    "grad of one element": lambda m: m.func.grad(lambda v: v[:1])(x(m)),
    "grad of a tuple": lambda m: m.func.grad(lambda v: (v.sum(), 1))(x(m)),
    "grad by a number": lambda m: m.func.grad(lambda v: v * 2)(3.0),
    "grad by integers": lambda m: m.func.grad(lambda v: v.sum())(m.tensor([1, 2])),
    "argnums": lambda m: m.func.grad(cubes, argnums=1)(x(m)),
    "argnums twice": lambda m: m.func.grad(lambda a, b: a.sum(), argnums=(0, 0))(x(m), x(m)),
    "aux": lambda m: m.func.grad(cubes, has_aux=True)(x(m)),
    "cotangent": lambda m: m.func.vjp(lambda v: v * 2, x(m))[1](m.ones(2)),
    "tangent": lambda m: m.func.jvp(lambda v: v * 2, (x(m),), (m.ones(2),)),
    "primals": lambda m: m.func.jvp(lambda v: v * 2, x(m), x(m)),
    "jacrev of a number": lambda m: m.func.jacrev(lambda v: 1.0)(x(m)),
    "chunk_size": lambda m: m.func.jacrev(cubes, chunk_size=0)(x(m)),
    "in_dims": lambda m: m.vmap(lambda v: v, in_dims=5)(x(m)),
    "in_dims None": lambda m: m.vmap(lambda v: v, in_dims=None)(x(m)),
    "in_dims all None": lambda m: m.vmap(lambda v: v, in_dims=(None,))(x(m)),
    "in_dims list": lambda m: m.vmap(lambda v: v, in_dims=[0])(x(m)),
    "in_dims too few": lambda m: m.vmap(lambda a, b: a, in_dims=(0,))(x(m), x(m)),
    "in_dims keys": lambda m: m.vmap(lambda p: p["a"], in_dims=({"b": 0},))({"a": x(m)}),
    "in_dims of a number": lambda m: m.vmap(lambda v, n: v * n)(x(m), 3.0),
    "sizes": lambda m: m.vmap(lambda a, b: a)(x(m), m.ones(2)),
    "no arguments": lambda m: m.vmap(lambda: 1)(),
    "result": lambda m: m.vmap(lambda v: 1.0)(x(m)),
    "out_dims": lambda m: m.vmap(lambda v: v, out_dims=3)(x(m)),
    "out_dims None": lambda m: m.vmap(lambda v: v * 2, out_dims=None)(x(m)),
    "out_dims too many": lambda m: m.vmap(lambda v: v, out_dims=(0, 0))(x(m)),
    "randomness": lambda m: m.vmap(lambda v: v, randomness="no")(x(m)),
    "random": lambda m: m.vmap(lambda v: v + m.rand(1))(x(m)),
    "chunk_size of vmap": lambda m: m.vmap(lambda v: v, chunk_size=0)(x(m)),
    "no models": lambda m: m.func.stack_module_state([]),
    "other models": lambda m: m.func.stack_module_state([m.nn.Linear(1, 1), m.nn.ReLU()]),
    "other modes": lambda m: m.func.stack_module_state([m.nn.Linear(1, 1), m.nn.Linear(1, 1).eval()]),
}


@pytest.mark.parametrize("name", sorted(WRONG))
def test_errors_are_raised_as_by_pytorch(name: str) -> None:
    with pytest.raises((RuntimeError, ValueError, IndexError, AttributeError)):
        WRONG[name](torch)
    with pytest.raises((RuntimeError, ValueError, TypeError, IndexError), match=r"."):
        WRONG[name](ours)
