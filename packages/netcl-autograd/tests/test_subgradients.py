"""Conventions for gradients at kinks, ties and zeros, as in PyTorch; one line for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import netcl
import netcl.autograd as ag
from netcl.autograd.levels import LEVELS
from netcl.core import Tensor
from netcl.core.errors import UnsupportedError

NAN, INF = float("nan"), float("inf")


def gradient(function: Callable[..., Any], *values: Any) -> list[Any]:
    """Returns the gradients of the sum of ``function(*values)``."""
    nodes = [ag.Parameter(Tensor.from_host(np.asarray(value, np.float64), "float64")) for value in values]
    found = ag.grad(ag.sum(function(*nodes)), nodes, allow_unused=True)
    return [None if each is None else each.numpy() for each in found]


@pytest.fixture(autouse=True)
def _here(numpy_device: Any) -> None:
    """Runs on NumPy: all of this is one expression on every device."""


POINTS: dict[str, tuple[Callable[..., Any], float, float]] = {
    "abs at 0": (ag.abs, 0.0, 0.0),
    "sign at 0": (lambda x: ag.mul(ag.sign(x), x), 0.0, 0.0),
    "relu at 0": (ag.relu, 0.0, 0.0),
    "relu of NaN": (ag.relu, NAN, 1.0),
    "relu6 at 0": (ag.relu6, 0.0, 0.0),
    "relu6 at 6": (ag.relu6, 6.0, 0.0),
    "leaky_relu at 0": (ag.leaky_relu, 0.0, 0.01),
    "prelu at 0": (lambda x: ag.prelu(x, Tensor.from_host(np.array(0.25), "float64")), 0.0, 0.25),
    "elu at 0": (lambda x: ag.elu(x, alpha=2.0), 0.0, 2.0),
    "celu at 0": (lambda x: ag.celu(x, alpha=2.0), 0.0, 1.0),
    "selu at 0": (ag.selu, 0.0, 1.0507009873554805 * 1.6732632423543772),
    "softplus at 0": (ag.softplus, 0.0, 0.5),
    "logsigmoid at 0": (ag.logsigmoid, 0.0, 0.5),
    "softsign at 0": (ag.softsign, 0.0, 1.0),
    "hard_tanh at its lower bound": (ag.hard_tanh, -1.0, 0.0),
    "hard_tanh at its upper bound": (ag.hard_tanh, 1.0, 0.0),
    "hard_sigmoid at -3": (ag.hard_sigmoid, -3.0, 0.0),
    "hard_sigmoid at 3": (ag.hard_sigmoid, 3.0, 0.0),
    "hard_swish at -3": (ag.hard_swish, -3.0, 0.0),
    "hard_swish at 3": (ag.hard_swish, 3.0, 1.0),
    "threshold at its threshold": (lambda x: ag.threshold(x, threshold=0.5, value=1.0), 0.5, 0.0),
    "softshrink at its bound": (ag.softshrink, 0.5, 0.0),
    "hardshrink at its bound": (ag.hardshrink, -0.5, 0.0),
    "clamp at its lower bound": (lambda x: ag.clamp(x, min=0.25, max=1.0), 0.25, 1.0),
    "clamp at its upper bound": (lambda x: ag.clamp(x, min=0.25, max=1.0), 1.0, 1.0),
    "clamp below": (lambda x: ag.clamp(x, min=0.25, max=1.0), 0.2, 0.0),
    "hard_swish of infinity": (ag.hard_swish, INF, 1.0),
    "threshold of NaN": (lambda x: ag.threshold(x, threshold=0.5, value=1.0), NAN, 1.0),
    "logit at 0": (ag.logit, 0.0, INF),
    "logit beyond 1": (ag.logit, 2.0, NAN),
    "digamma at 0": (ag.digamma, 0.0, INF),
    "digamma of infinity": (ag.digamma, INF, 0.0),
    "i0 where it overflows": (ag.i0, -1000.0, -INF),
    "floor": (ag.floor, 1.5, 0.0),
    "round": (ag.round, 1.0, 0.0),
    "sqrt at 0": (ag.sqrt, 0.0, INF),
    "pow to 0 at 0": (lambda x: ag.pow(x, 0.0), 0.0, 0.0),
    "pow to 1 at 0": (lambda x: ag.pow(x, 1.0), 0.0, 1.0),
    "pow of 0": (lambda x: ag.pow(Tensor.from_host(np.array(0.0), "float64"), x), 2.0, 0.0),
    "xlogy-like: 0 * log(0) by a mask": (
        lambda x: ag.where(ag.gt(x, 0.0), ag.log(ag.maximum(x, 1e-30)), 0.0),
        0.0,
        0.0,
    ),
}


@pytest.mark.parametrize("name", POINTS)
def test_at_a_point(name: str) -> None:
    function, at, wanted = POINTS[name]
    (found,) = gradient(function, at)
    assert float(0.0 if found is None else found) == pytest.approx(wanted, rel=1e-12, nan_ok=True)


PAIRS: dict[str, tuple[Callable[..., Any], float, float, tuple[float, float]]] = {
    "maximum of equals": (ag.maximum, 2.0, 2.0, (0.5, 0.5)),
    "minimum of equals": (ag.minimum, 2.0, 2.0, (0.5, 0.5)),
    "maximum of NaN": (ag.maximum, NAN, 2.0, (1.0, 1.0)),
    "minimum of NaN": (ag.minimum, 2.0, NAN, (1.0, 1.0)),
    "huber_loss of infinity": (lambda a, b: ag.huber_loss(a, b, delta=2.0), INF, 1.0, (2.0, -2.0)),
    "binary_cross_entropy of a wrong 0": (ag.binary_cross_entropy, 0.0, 1.0, (-1e12, 100.0)),
    "logaddexp of equals": (ag.logaddexp, 2.0, 2.0, (0.5, 0.5)),
    "hypot of nothing": (ag.hypot, 0.0, 0.0, (NAN, NAN)),
    "atan2 on the axis": (ag.atan2, 0.0, 2.0, (0.5, 0.0)),
    "mod of a multiple": (ag.mod, 4.0, 2.0, (1.0, -2.0)),
    "nextafter": (ag.nextafter, 4.0, 2.0, (1.0, 0.0)),
    "nextafter of equals": (ag.nextafter, 2.0, 2.0, (0.0, 0.0)),
    "a quotient rounded to the floor": (lambda a, b: a * a.div(b, rounding_mode="floor"), 7.0, 2.0, (3.0, 0.0)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_of_a_pair(name: str) -> None:
    function, a, b, wanted = PAIRS[name]
    with np.errstate(all="ignore"):
        found = [0.0 if each is None else float(each) for each in gradient(function, a, b)]
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


TIES = [3.0, 1.0, 3.0, 3.0]
REDUCTIONS: dict[str, tuple[Callable[..., Any], list[float], list[float]]] = {
    "max over one axis: the first": (lambda x: ag.max(x, axis=0).values, TIES, [1, 0, 0, 0]),
    "max over a negative axis: the first": (lambda x: ag.max(x, axis=-1).values, TIES, [1, 0, 0, 0]),
    "max over all: shared": (ag.max, TIES, [1 / 3, 0, 1 / 3, 1 / 3]),
    "amax over one axis: shared": (lambda x: ag.amax(x, axis=0), TIES, [1 / 3, 0, 1 / 3, 1 / 3]),
    "min over one axis: the first": (lambda x: ag.min(x, axis=0).values, [2.0, 1.0, 1.0], [0, 1, 0]),
    "amin over one axis: shared": (lambda x: ag.amin(x, axis=0), [2.0, 1.0, 1.0], [0, 0.5, 0.5]),
    "max with NaN: the NaN": (lambda x: ag.max(x, axis=0).values, [1.0, NAN, 2.0], [0, 1, 0]),
    "prod with one zero": (ag.prod, [2.0, 0.0, 3.0], [0, 6, 0]),
    "prod with two zeros": (ag.prod, [0.0, 0.0, 3.0], [0, 0, 0]),
    "norm of zeros": (ag.norm, [0.0, 0.0], [0, 0]),
    "1-norm with a zero": (lambda x: ag.norm(x, p=1), [0.0, -2.0], [0, -1]),
    "inf-norm of a tie: shared": (lambda x: ag.norm(x, p=INF), [2.0, -2.0, 1.0], [0.5, -0.5, 0]),
    "half-norm with a zero": (lambda x: ag.norm(x, p=0.5), [0.0, 4.0], [0, 1]),
    "3-norm of zeros": (lambda x: ag.norm(x, p=3), [0.0, 0.0], [0, 0]),
    "a norm of negative order with a zero": (lambda x: ag.norm(x, p=-1), [0.0, 2.0], [0, 0]),
    "median over all: shared": (ag.median, TIES, [1 / 3, 0, 1 / 3, 1 / 3]),
    "max_unpool of equal positions: each": (
        lambda x: (
            ag.max_unpool1d(x.reshape(1, 1, 3), Tensor.from_host(np.array([[[0, 2, 0]]])), 2, 2)
            * Tensor.from_host(np.arange(1.0, 7.0))
        ),
        [1.0, 2.0, 3.0],
        [1, 3, 1],
    ),
    "std of equals": (ag.std, [2.0, 2.0, 2.0], [0, 0, 0]),
    "l2_normalize of zeros": (lambda x: ag.mul(ag.l2_normalize(x), 1e-12), [0.0, 0.0], [1, 1]),
    "logsumexp with -inf": (ag.logsumexp, [-INF, 0.0], [0, 1]),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_of_a_reduction(name: str) -> None:
    function, values, wanted = REDUCTIONS[name]
    np.testing.assert_allclose(gradient(function, values)[0], wanted, rtol=1e-12)


def test_the_zero_norm_counts_and_has_no_slope() -> None:
    x = ag.Parameter(Tensor.from_host(np.array([0.0, 2.0, -1.0])))
    count = ag.norm(x, p=0)
    assert float(count) == 2
    assert count.dtype == "float32"


REFUSED: dict[str, Callable[..., Any]] = {
    "floor_divide": lambda x: ag.floor_divide(x, 2.0),
    "floor_divide, as an operator": lambda x: x // 2.0,
    "floor_divide, by its divisor": lambda x: 3.0 // x,
    "heaviside": lambda x: ag.heaviside(x, 0.5),
    "heaviside, by its value at 0": lambda x: ag.heaviside(1.0, x),
}
if "tracing" in LEVELS:
    REFUSED["floor_divide, in a function that is traced"] = ag.jit_compile(lambda x: ag.floor_divide(x, 2.0) * x)


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_gradient_is_refused_only_backwards(name: str) -> None:
    """A gradient of zero would pass in silence; PyTorch refuses the same functions."""
    x = ag.Parameter(Tensor.from_host(np.array([3.0, -1.0])))
    out = REFUSED[name](x)
    assert out.shape == (2,)
    with pytest.raises(UnsupportedError, match=f"{name.split(',')[0]} has no gradient; detach\\(\\)"):
        ag.grad(ag.sum(out), [x])
    (found,) = ag.grad(ag.sum(out.detach() * x), [x])
    np.testing.assert_array_equal(found.numpy(), out.numpy())


def test_the_remainder_has_a_second_derivative_of_zero() -> None:
    a, b = (ag.Parameter(Tensor.from_host(np.array([value]), "float64")) for value in (7.0, 2.0))
    (by_b,) = ag.grad(ag.sum(ag.mul(ag.mod(a, b), b)), [b], create_graph=True)
    assert float(by_b) == 1 - 3 * 2
    (second,) = ag.grad(ag.sum(by_b), [b])
    assert float(second) == -3 - 3


def test_distinct_elements_pass_their_gradient_to_the_first_of_equals() -> None:
    for function, wanted in ((ag.unique, [1, 1, 0, 0]), (ag.unique_consecutive, [1, 1, 1, 0])):
        x = ag.Parameter(Tensor.from_host(np.array([3.0, 1.0, 3.0, 3.0])))
        (found,) = ag.grad(ag.sum(function(x)), [x])
        assert found.tolist() == wanted


SMOOTH = ("softplus", "logsigmoid", "mish", "silu", "gelu", "tanhshrink", "sigmoid", "erfc", "asinh")


@pytest.mark.parametrize("name", SMOOTH)
def test_second_derivatives_at_zero(name: str) -> None:
    """If a formula has an inner kink that the function does not have, both derivatives are right at it."""
    x = ag.Parameter(Tensor.from_host(np.zeros(1), "float64"))
    assert ag.gradcheck(getattr(ag, name), x)
    assert ag.gradgradcheck(getattr(ag, name), x)


def test_logaddexp_is_smooth_where_its_operands_meet() -> None:
    a, b = (ag.Parameter(Tensor.from_host(np.array([0.5, -1.0]), "float64")) for _ in range(2))
    assert ag.gradgradcheck(ag.logaddexp, (a, b))


def test_the_second_derivative_of_digamma_between_its_poles() -> None:
    """At -1/2 it is that at 1/2, -14 zeta(3), less the term 16 of the recurrence."""
    x = ag.Parameter(Tensor.from_host(np.array([-0.5]), "float64"))
    (first,) = ag.grad(ag.sum(ag.digamma(x)), [x], create_graph=True)
    (second,) = ag.grad(ag.sum(first), [x])
    assert float(second) == pytest.approx(16 - 14 * 1.2020569031595942, rel=1e-8)


@pytest.mark.level("front")
@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_the_incomplete_gamma_functions_have_a_gradient_by_their_limit_alone(name: str) -> None:
    function = getattr(netcl.special, name)
    order, limit = (Tensor.from_host(np.array(values), "float64") for values in ([0.5, 3.0, 25.0], [0.7, 2.0, 24.0]))
    x = ag.Parameter(limit)
    assert ag.gradcheck(lambda x: function(order, x), (x,))
    assert ag.gradgradcheck(lambda x: function(order, x), (x,))
    with pytest.raises(UnsupportedError, match="by the first operand"):
        gradient(function, 2.0, 1.0)


@pytest.mark.parametrize("include_self", [True, False])
def test_a_product_with_two_zeros_has_the_second_derivative_of_the_others(include_self: bool) -> None:
    x, source = np.full((3, 2), 1.5), np.full((4, 2), 1.25)
    x[0, 0] = source[0, 0] = 0.0
    leaves = [ag.Parameter(Tensor.from_host(values, "float64")) for values in (x, source)]
    index = Tensor.from_host(np.array([0, 1, 2, 0]))
    assert ag.gradgradcheck(lambda x, y: ag.index_reduce(x, 0, index, y, "prod", include_self=include_self), leaves)


def test_losses_pass_nan_on() -> None:
    nan, one = Tensor.from_host(np.array([NAN])), Tensor.from_host(np.array([1.0]))
    for loss in (
        ag.hinge_embedding_loss(nan, -one),
        ag.margin_ranking_loss(nan, one, one),
        ag.hinge_loss(nan, one),
        ag.kl_div(nan, one * 0),
        ag.gaussian_nll_loss(one, one, nan),
    ):
        assert np.isnan(loss.item())


@pytest.mark.level("front")
@pytest.mark.parametrize("shape", [(5, 3), (2, 1, 5, 3)])
def test_a_product_of_no_reflections_has_a_gradient_of_zeros(shape: tuple[int, ...]) -> None:
    tau = Tensor.from_host(np.ones((*shape[:-2], 0)))
    (by_x,) = gradient(lambda x: netcl.linalg.householder_product(x, tau), np.full(shape, NAN))
    np.testing.assert_array_equal(by_x, np.zeros(shape))
