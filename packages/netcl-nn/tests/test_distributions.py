"""Distributions against their formulas in NumPy float64, and what they refuse."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
from netcl import distributions as d
from netcl.core import Tensor
from netcl.core.errors import UnsupportedError

X = np.array([0.2, 0.9, 2.5])
COUNTS = np.array([0.0, 1.0, 3.0])

CASES: list[tuple[d.Distribution, np.ndarray, Callable[[Any], Any]]] = [
    (d.Normal(0.5, 2.0), X, lambda x: -0.5 * ((x - 0.5) / 2) ** 2 - math.log(2 * math.sqrt(2 * math.pi))),
    (d.LogNormal(0.5, 2.0), X,
     lambda x: -0.5 * ((np.log(x) - 0.5) / 2) ** 2 - np.log(2 * x * math.sqrt(2 * math.pi))),
    (d.Laplace(0.5, 2.0), X, lambda x: -np.abs(x - 0.5) / 2 - math.log(4)),
    (d.Cauchy(0.5, 2.0), X, lambda x: -np.log(math.pi * 2 * (1 + ((x - 0.5) / 2) ** 2))),
    (d.Gumbel(0.5, 2.0), X, lambda x: -(x - 0.5) / 2 - np.exp(-(x - 0.5) / 2) - math.log(2)),
    (d.HalfNormal(2.0), X, lambda x: math.log(2) - 0.5 * (x / 2) ** 2 - math.log(2 * math.sqrt(2 * math.pi))),
    (d.HalfCauchy(2.0), X, lambda x: -np.log(math.pi * (1 + (x / 2) ** 2))),
    (d.Uniform(0.0, 1.5), X, lambda x: np.where(x < 1.5, -math.log(1.5), -np.inf)),
    (d.Exponential(3.0), X, lambda x: math.log(3) - 3 * x),
    (d.Bernoulli(0.3), np.array([0.0, 1.0]), lambda x: np.where(x == 1, math.log(0.3), math.log(0.7))),
    (d.Geometric(0.3), COUNTS, lambda x: x * math.log(0.7) + math.log(0.3)),
    (d.Gamma(1.7, 2.0), X, lambda x: 1.7 * math.log(2) + 0.7 * np.log(x) - 2 * x - math.lgamma(1.7)),
    (d.Chi2(3.0), X, lambda x: -1.5 * math.log(2) + 0.5 * np.log(x) - x / 2 - math.lgamma(1.5)),
    (d.Beta(2.0, 3.0), X[:2], lambda x: math.log(12) + np.log(x) + 2 * np.log(1 - x)),
    (d.StudentT(1.0, 0.5, 2.0), X, lambda x: -np.log(math.pi * 2 * (1 + ((x - 0.5) / 2) ** 2))),
    (d.Pareto(0.1, 3.0), X, lambda x: math.log(3) + 3 * math.log(0.1) - 4 * np.log(x)),
    (d.Weibull(2.0, 1.5), X, lambda x: math.log(0.75) + 0.5 * np.log(x / 2) - (x / 2) ** 1.5),
    (d.Binomial(3, 0.3), COUNTS, lambda x: np.log([0.343, 0.441, 0.027])),
    (d.NegativeBinomial(2.0, 0.3), COUNTS, lambda x: np.log((x + 1) * 0.49 * 0.3**x)),
    (d.Poisson(2.5), COUNTS, lambda x: x * math.log(2.5) - 2.5 - np.array([0, 0, math.log(6)])),
]  # fmt: skip


@pytest.mark.parametrize(("distribution", "x", "formula"), CASES, ids=[type(case[0]).__name__ for case in CASES])
def test_log_probabilities(distribution: d.Distribution, x: Any, formula: Any) -> None:
    found = distribution.log_prob(Tensor.from_host(x.astype(np.float32))).to_host()
    np.testing.assert_allclose(found, formula(x), rtol=1e-5, atol=1e-6)


def test_a_policy_gradient() -> None:
    logits = ag.Parameter(Tensor.from_host(np.array([[0.1, 0.4, -0.3], [1.0, 0.0, 2.0]], np.float32)))
    policy = d.Categorical(logits=logits)
    action = policy.sample()
    assert (action.shape, action.dtype) == ((2,), "int64")
    ag.sum(policy.log_prob(action)).backward()
    chosen = np.eye(3)[action.to_host()]
    exact = np.exp(logits.to_host()) / np.exp(logits.to_host()).sum(1, keepdims=True)
    np.testing.assert_allclose(logits.grad.to_host(), chosen - exact, rtol=1e-4, atol=1e-6)


def test_the_gradient_of_a_sample_is_that_of_its_formula() -> None:
    loc, scale = (ag.Parameter(Tensor.from_host(np.array([v], np.float32))) for v in (0.5, 2.0))
    sample = d.Normal(loc, scale).rsample((4,))
    ag.sum(sample).backward()
    assert loc.grad.item() == pytest.approx(4.0)
    assert scale.grad.item() == pytest.approx(((sample.to_host() - 0.5) / 2).sum(), rel=1e-4, abs=1e-5)


def test_divergences() -> None:
    p, q = d.Normal(0.0, 1.0), d.Normal(1.0, 2.0)
    assert d.kl_divergence(p, q).item() == pytest.approx(math.log(2) + (1 + 1) / 8 - 0.5, rel=1e-5)
    whole = d.Independent(d.Normal(Tensor.zeros((3, 2)), Tensor.ones((3, 2))), 1)
    assert whole.batch_shape == (3,)
    assert whole.event_shape == (2,)
    np.testing.assert_allclose(d.kl_divergence(whole, whole).to_host(), np.zeros(3), atol=1e-6)
    with pytest.raises(UnsupportedError, match="register_kl"):
        d.kl_divergence(p, d.Poisson(1.0))


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="scale must be above 0, got -1"):
        d.Normal(0.0, -1.0)
    with pytest.raises(ValueError, match="probs or logits"):
        d.Bernoulli()
    with pytest.raises(ValueError, match="rate"):
        d.Exponential(Tensor.zeros((2,)), validate_args=True)
    with pytest.raises(TypeError, match="log_prob"):
        d.Bernoulli(0.5).rsample()
    with pytest.raises(ValueError, match="concentration must be above 0, got -1"):
        d.Gamma(-1.0, 1.0)
    with pytest.raises(ValueError, match="values of Beta must be in"):
        d.Beta(1.0, 2.0, validate_args=True).log_prob(Tensor.from_host([2.0]))
    with pytest.raises(ValueError, match="the sum 1"):
        d.Dirichlet(Tensor.ones((2,)), validate_args=True).log_prob(Tensor.from_host([0.2, 0.2]))
    with pytest.raises(ValueError, match="one of covariance_matrix"):
        d.MultivariateNormal(Tensor.zeros((2,)))
    with pytest.raises(ValueError, match="Transform"):
        d.TransformedDistribution(d.Normal(0.0, 1.0), [abs])  # type: ignore[list-item]
    with pytest.raises(UnsupportedError, match="int"):
        d.Multinomial(Tensor.ones((2,)), Tensor.ones((2, 3)))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Categorical"):
        d.MixtureSameFamily(d.Normal(0.0, 1.0), d.Normal(0.0, 1.0))  # type: ignore[arg-type]


def _moments(distribution: d.Distribution) -> tuple[Any, Any]:
    drawn = distribution.sample((20000,)).to_host().astype(np.float64)
    return drawn.mean(0), drawn.var(0)


@pytest.mark.parametrize(
    ("distribution", "mean", "variance"),
    [
        (d.Gamma(0.3, 2.0), 0.15, 0.075),
        (d.Gamma(40.0, 2.0), 20.0, 10.0),
        (d.Chi2(3.0), 3.0, 6.0),
        (d.Beta(2.0, 3.0), 0.4, 0.04),
        (d.StudentT(9.0, 1.0, 2.0), 1.0, 36 / 7),
        (d.Weibull(2.0, 2.0), math.sqrt(math.pi), 4 - math.pi),
        (d.Pareto(1.0, 9.0), 9 / 8, 9 / 448),
        (d.Binomial(5, 0.3), 1.5, 1.05),
        (d.NegativeBinomial(4.0, 0.25), 4 / 3, 16 / 9),
        (d.Multinomial(6, Tensor.from_host(np.array([0.5, 0.5], np.float32))), 3.0, 1.5),
    ],
    ids=lambda value: type(value).__name__,
)
def test_moments(distribution: d.Distribution, mean: float, variance: float) -> None:
    found = _moments(distribution)
    np.testing.assert_allclose(distribution.mean.to_host(), mean, rtol=1e-4)
    np.testing.assert_allclose(distribution.variance.to_host(), variance, rtol=1e-3)
    np.testing.assert_allclose(found[0], mean, atol=4 * math.sqrt(variance / 20000) + 1e-3)
    np.testing.assert_allclose(found[1], variance, rtol=0.15)


def test_the_gradient_of_a_gamma_number_is_implicit() -> None:
    """-dP(a, x) / da / p(x), by sums over a fine grid of the density's derivative."""
    alpha = ag.Parameter(Tensor.from_host(np.array([1.0, 2.5, 6.0], np.float32)))
    drawn = d.Gamma(alpha, 1.0).rsample()
    ag.sum(drawn).backward()
    for a, x, slope in zip(alpha.to_host().astype(float), drawn.to_host().astype(float), alpha.grad.to_host()):
        t = (np.arange(200000) + 0.5) / 200000 * x
        digamma = (math.lgamma(a + 1e-5) - math.lgamma(a - 1e-5)) / 2e-5
        change = np.sum(np.exp((a - 1) * np.log(t) - t) * (np.log(t) - digamma)) * x / 200000
        assert slope == pytest.approx(-change / math.exp((a - 1) * math.log(x) - x), rel=1e-3)


def test_a_transformed_distribution_has_the_density_of_its_formula() -> None:
    squashed = d.TransformedDistribution(
        d.Normal(Tensor.zeros((2,)), Tensor.ones((2,))), [d.TanhTransform(), d.AffineTransform(1.0, 2.0)]
    )
    y = np.array([[0.2, 2.5], [1.0, -0.5]])
    x = np.arctanh((y - 1) / 2)
    wanted = -0.5 * x**2 - 0.5 * math.log(2 * math.pi) - np.log(1 - np.tanh(x) ** 2) - math.log(2)
    np.testing.assert_allclose(squashed.log_prob(Tensor.from_host(y.astype(np.float32))).to_host(), wanted, rtol=1e-4)
    assert squashed.rsample((3,)).shape == (3, 2)


def test_stick_breaking_gives_shares() -> None:
    transform = d.StickBreakingTransform()
    x = Tensor.from_host(np.array([[0.0, 0.0, 0.0], [1.0, -2.0, 3.0]], np.float32))
    y = transform(x)
    np.testing.assert_allclose(y.to_host().sum(1), 1, rtol=1e-6)
    np.testing.assert_allclose(y.to_host()[0], 0.25, rtol=1e-6)
    np.testing.assert_allclose(transform.inv(y).to_host(), x.to_host(), atol=1e-5)


def test_supports_and_constraints() -> None:
    values = Tensor.from_host(np.array([-1.0, 0.0, 0.5, 2.0], np.float32))
    assert d.Gamma(1.0, 1.0).support.check(values).tolist() == [False, True, True, True]
    assert d.Binomial(1, 0.5).support.check(values).tolist() == [False, True, False, False]
    assert d.constraints.is_dependent(d.Uniform.arg_constraints["low"])
    assert d.Independent(d.Normal(Tensor.zeros((4,)), 1.0), 1).support.check(values).tolist() is True
    with pytest.raises(ValueError, match="from an object"):
        d.constraints.dependent.check(values)


def test_a_rate_of_0_gives_0() -> None:
    counts = d.Poisson(0.0)
    assert counts.sample((3,)).to_host().tolist() == [0.0] * 3
    assert counts.log_prob(Tensor.from_host(np.float32([0.0, 1.0]))).to_host().tolist() == [0.0, -np.inf]
