"""Gradients of gradients of every row of the op table, op by op and jitted, against central differences in float64.

The value that is differentiated is a loss plus the squares of the loss's gradient, so that an output has gradients from
both. The samples are the row's, and its values in shapes with axes of length one, for every axis.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.engine.registry import cpu_engine
from netcl.core.ops_table.dispatch import TABLE, call_row, row_of
from netcl.core.testing import Case, op_cases, run_case

# The gradient of ctc_loss has no gradient, as in PyTorch; the value of hinge_embedding_loss jumps at its targets.
WITHOUT = {"ctc_loss", "hinge_embedding_loss"}
NAMES = [
    name
    for name, row in TABLE.items()
    if row.domain.gradient and name not in WITHOUT and next(op_cases(name), None) is not None
]
SHAPES = ((), (1,), (3,), (4, 1), (1, 3), (2, 1, 3), (3, 2, 2))
BROADCAST = (((4, 1), (1, 3)), ((2, 1, 3), (3,)), ((1, 1), (4,)), ((), (2, 1)))


def arrays(case: Case) -> list[Any]:
    return [operand for operand in case.operands if isinstance(operand, np.ndarray) and operand.dtype.kind == "f"]


def size(case: Case) -> int:
    return sum(array.size for array in arrays(case))


def axes(rank: int) -> Iterator[Any]:
    yield None
    yield from range(-rank, rank)
    for count in range(2, rank + 1):
        yield from itertools.combinations(range(rank), count)
    if rank > 1:
        yield (-1, 0)


def variants(name: str) -> Iterator[Case]:
    """Samples of other shapes, with the values of a sample of one shape: for each axis if the op has one."""
    row = TABLE[name]
    for case in op_cases(name):
        floating = arrays(case)
        alone = len(floating) == len(case.operands) and len({array.shape for array in floating}) == 1
        if alone and floating[0].size >= 12:
            break
    else:
        return
    names = [attribute for attribute in ("axis", "axes") if attribute in row.attributes]
    if not names and row.expression is None:
        return
    given = [(shape,) * len(floating) for shape in SHAPES]
    if len(floating) == 2 and not names:
        given += [pair for wide, narrow in BROADCAST for pair in ((wide, narrow), (narrow, wide))]
    for shapes in given:
        operands = tuple(array.ravel()[: math.prod(shape)].reshape(shape) for array, shape in zip(floating, shapes))
        for axis in axes(len(shapes[0])) if names else (0,):
            if names and not isinstance(axis, int) and row.signature.parameters[names[0]].annotation == "int":
                continue
            attributes = {**case.attributes, **dict.fromkeys(names, axis)}
            for keepdims in (False, True) if "keepdims" in row.attributes else (None,):
                each = Case(operands, attributes if keepdims is None else {**attributes, "keepdims": keepdims})
                try:
                    run_case(name, each, cpu_engine(), "float64")
                except (ValueError, TypeError, IndexError):  # an axis or a length that the op does not take
                    continue
                yield each


VARIED = [name for name in NAMES if next(variants(name), None) is not None]


def weights(shape: tuple[int, ...]) -> Any:
    return 0.3 + np.cos(1.7 * np.arange(math.prod(shape))).reshape(shape)


def weighted(x: Tensor, values: Tensor) -> Tensor:
    return ag.sum(ag.mul(values, Tensor.from_host(weights(x.shape), "float64")))


def of(values: Any) -> Tensor:
    total = values[0]
    for more in values[1:]:
        total = ag.add(total, more)
    return total


Loss = Callable[[], Any]


def loss_of(placed: Any, linear: bool) -> Loss:
    """Returns a function of the leaves' sum: of the outputs, weighted, or of even functions of them."""

    def loss() -> Any:
        outputs = [out for out in placed.run() if out.requires_grad]
        terms = outputs if linear else [ag.mul(out, ag.tanh(out)) for out in outputs]
        return of([weighted(out, term) for out, term in zip(outputs, terms)]) if terms else None

    return loss


def penalized(loss: Loss, leaves: list[Tensor]) -> Callable[[], Any]:
    """Returns the loss with a tenth of the weighted squares of its gradient."""

    def total() -> Any:
        first = loss()
        if first is None:
            return None
        grads = ag.grad(first, leaves, create_graph=True, allow_unused=True)
        squares = [weighted(grad, ag.mul(grad, grad)) for grad in grads if grad is not None]
        return ag.add(first, ag.mul(of(squares), 0.1)) if squares else first

    return total


def slope(total: Callable[[], Any], leaves: list[Tensor], directions: list[Any], step: float = 1e-6) -> float:
    """Returns the derivative of ``total`` along the directions by central differences."""
    starts = [leaf.numpy() for leaf in leaves]
    sides = []
    for sign in (step, -step):
        for leaf, start, direction in zip(leaves, starts, directions):
            leaf.write(start + sign * direction)
        sides.append(float(total().numpy()))
    for leaf, start in zip(leaves, starts):
        leaf.write(start)
    return (sides[0] - sides[1]) / (2 * step)


# The loss, and what is jitted: the gradient of a linear loss is constant for ops that move elements.
QUICK = ((True, "op by op"), (False, "jitted"))
WIDE = tuple(itertools.product((False, True), ("op by op", "jitted", "jitted with its gradient")))


def second_derivatives(placed: Any, ways: Any) -> None:
    for linear, way in ways:
        agrees(loss_of(placed, linear), placed.leaves, way, (placed.name, placed.attributes, linear))


def agrees(loss: Loss, leaves: list[Tensor], way: str, about: Any = None) -> None:
    """Compares the gradient of the penalized loss with central differences."""
    rng = np.random.default_rng(4)
    directions = [rng.uniform(-1, 1, leaf.shape) for leaf in leaves]
    plain = penalized(loss, leaves)
    with np.errstate(all="ignore"):
        if plain() is None:
            return
        total = penalized(ag.jit_compile(loss), leaves) if way == "jitted" else plain
        total = ag.jit_compile(plain) if way == "jitted with its gradient" else total
        total().backward()
        grads = [(leaf.grad, direction) for leaf, direction in zip(leaves, directions) if leaf.grad is not None]
        found = sum(float(np.sum(grad.numpy() * direction)) for grad, direction in grads)
        wanted = slope(plain, leaves, directions)
    for leaf in leaves:
        leaf.grad = None
    # The variance of one value is NaN on both sides.
    assert found == pytest.approx(wanted, rel=2e-5, abs=1e-6, nan_ok=True), (way, about)


def samples(name: str, limit: int) -> list[Case]:
    return [case for case in op_cases(name) if 0 < size(case) < limit]


# Composites are made of these.
@pytest.mark.parametrize("name", [name for name in NAMES if TABLE[name].composite is None])
def test_of_a_sample(name: str, numpy_device: Any, place: Any) -> None:
    def order(case: Case) -> tuple[bool, int]:
        return not any(1 in array.shape and array.size > 1 for array in arrays(case)), abs(size(case) - 20)

    second_derivatives(
        place(name, min(samples(name, 300) or samples(name, 2000), key=order), numpy_device.queue), QUICK
    )


@pytest.mark.parametrize("name", [name for name in VARIED if "axis" in TABLE[name].attributes])
def test_of_the_last_axis(name: str, numpy_device: Any, place: Any) -> None:
    for case in variants(name):
        if arrays(case)[0].shape in ((2, 1, 3), (3, 2, 2)) and case.attributes["axis"] == -1:
            second_derivatives(place(name, case, numpy_device.queue), QUICK)


@pytest.mark.deep
@pytest.mark.parametrize("name", NAMES)
def test_of_every_sample(name: str, numpy_device: Any, place: Any) -> None:
    for case in samples(name, 300):
        second_derivatives(place(name, case, numpy_device.queue), WIDE)


@pytest.mark.deep
@pytest.mark.parametrize("name", VARIED)
def test_of_every_axis(name: str, numpy_device: Any, place: Any) -> None:
    for case in variants(name):
        second_derivatives(place(name, case, numpy_device.queue), WIDE)


# Functions of several ops, with the shape of their operand: a value inside of the fused region has axes of length one.
CHAINS: dict[str, tuple[tuple[int, ...], Callable[[Any], Any]]] = {
    "a column": ((4, 1), lambda x: ag.mean(ag.exp(-((x * 2) ** 2)))),
    "a column of a matrix": ((4, 6), lambda x: ag.mean(ag.exp(-(x[..., -1:] ** 2)))),
    "sums of rows": ((4, 3), lambda x: ag.mean(ag.exp(-(ag.sum(x, -1) ** 2)))),
    "sums of columns": ((2, 3, 2), lambda x: ag.mean(ag.exp(-(ag.sum(x, 1) ** 2)))),
    "variances": ((2, 1, 3), lambda x: ag.mean(ag.exp(-(ag.var(x, -1, correction=0) ** 2)))),
    "by lengths of columns": ((4, 1), lambda x: ag.mean(ag.sin(x * 2 / ag.sqrt(ag.sum(x * x, 0, keepdims=True))))),
    "logsumexp of rows": ((3, 4), lambda x: ag.mean(ag.logsumexp(ag.sin(x), -1) ** 2)),
    "the largest of columns": ((3, 4), lambda x: ag.sum(ag.topk(ag.sin(x), 2, axis=0)[0])),
    "an outer product": ((4, 1), lambda x: ag.mean(ag.exp(x * ag.permute(ag.tanh(x), (1, 0))))),
    "a scalar divisor": ((3, 2), lambda x: ag.sum(ag.matmul(x, x, transpose_b=True) / ag.sum(ag.exp(x)))),
    "a bias": ((3,), lambda x: ag.mean(ag.exp(-((ag.reshape(x, (3, 1)) * ag.tanh(x)) ** 2)))),
}


@pytest.mark.parametrize("way", ["op by op", "jitted", "jitted with its gradient"])
@pytest.mark.parametrize("name", CHAINS)
def test_of_chains(name: str, way: str, numpy_device: Any) -> None:
    shape, function = CHAINS[name]
    x = Tensor.from_host(np.linspace(-1, 1.3, math.prod(shape)).reshape(shape), "float64", requires_grad=True)
    agrees(lambda: function(x), [x], way)


def call(name: str, *args: Any) -> Any:
    return call_row(row_of(name), args, {}, True)


def bce(x: Any, **more: Any) -> Tensor:
    return ag.binary_cross_entropy_with_logits(x, Tensor.from_host(np.array(0.3), "float64"), **more)


# Points where a formula changes: the function, the point, its first and its second derivative there.
POINTS: dict[str, tuple[Callable[[Any], Any], float, float, float]] = {
    "huber_loss": (lambda x: ag.huber_loss(x, x.detach()), 0.5, 0.0, 1.0),
    "smooth_l1_loss": (lambda x: ag.smooth_l1_loss(x, x.detach(), beta=0.5), 0.5, 0.0, 2.0),
    "binary_cross_entropy_with_logits": (lambda x: bce(x), 0.0, 0.2, 0.25),
    "with pos_weight": (lambda x: bce(x, pos_weight=Tensor.from_host(np.array(2.0), "float64")), 0.0, 0.05, 0.325),
    "i0": (lambda x: call("i0", x), 0.0, 0.0, 0.5),
    "i1": (lambda x: call("i1", x), 0.0, 0.5, 0.0),
    "i1e": (lambda x: call("i1e", x), 0.0, 0.5, 0.0),
    "xlogy": (lambda x: call("xlogy", x, 2.0), 0.0, math.log(2.0), 0.0),
    "xlog1py": (lambda x: call("xlog1py", x, 1.0), 0.0, math.log(2.0), 0.0),
    "xlog1py by b": (lambda x: call("xlog1py", 1.0, x), 0.0, 1.0, -1.0),
    "x ** 0": (lambda x: call("pow", x, 0.0), 0.0, 0.0, 0.0),
    "atan2": (lambda x: call("atan2", x, x.detach()), 0.0, 0.0, 0.0),
    "fmod": (lambda x: x.fmod(2.0) + x * x, 0.0, 1.0, 2.0),
    "fmax": (lambda x: x.fmax(x.detach()) + x * x, 0.0, 1.0, 2.0),
    "fmin": (lambda x: x.fmin(x.detach()) + x * x, 0.0, 1.0, 2.0),
}


# Of ops that belong to the level front.
FRONT = ("i1", "i1e", "xlog1py", "xlog1py by b", "fmod", "fmax", "fmin")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.level("front") if name in FRONT else ()) for name in POINTS]
)
def test_at_points(name: str, numpy_device: Any) -> None:
    function, point, first, second = POINTS[name]
    x = Tensor.from_host(np.array(point), "float64", requires_grad=True)
    (slope,) = ag.grad(function(x), [x], create_graph=True)
    (curvature,) = ag.grad(ag.add(slope, ag.mul(x, 0.0)), [x])
    assert (float(slope), float(curvature)) == pytest.approx((first, second), abs=1e-12)


def test_logcumsumexp_of_large_values(numpy_device: Any) -> None:
    x = Tensor.from_host(np.array([900.0, 1.0, 899.0]), "float64", requires_grad=True)
    (slope,) = ag.grad(ag.sum(ag.logcumsumexp(x, 0)), [x], create_graph=True)
    (curvature,) = ag.grad(slope[0], [x])
    share = 1 / (1 + math.exp(-1.0))  # of the first in the last sum
    np.testing.assert_allclose(curvature.numpy(), [share * (1 - share), 0.0, -share * (1 - share)], atol=1e-12)
