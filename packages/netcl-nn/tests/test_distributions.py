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
    with pytest.raises(ValueError, match="scale is above 0, not -1"):
        d.Normal(0.0, -1.0)
    with pytest.raises(ValueError, match="probs or logits"):
        d.Bernoulli()
    with pytest.raises(ValueError, match="rate"):
        d.Exponential(Tensor.zeros((2,)), validate_args=True)
    with pytest.raises(TypeError, match="log_prob"):
        d.Bernoulli(0.5).rsample()
