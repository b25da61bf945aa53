"""Distributions against PyTorch: log probabilities, moments, entropies, divergences, gradients and parameters."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import torch

import netcl.autograd as ag
from netcl import distributions as ours
from netcl.core import Tensor

theirs = torch.distributions
RNG = np.random.default_rng(1)


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.uniform(0.2, 0.9, shape).astype(np.float32)


def real(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype(np.float32)


def counts(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.integers(0, 5, shape).astype(np.float32)


def simplex(*shape: int) -> np.ndarray[Any, Any]:
    values = RNG.uniform(0.2, 0.9, shape)
    return (values / values.sum(-1, keepdims=True)).astype(np.float32)


def definite(*shape: int) -> np.ndarray[Any, Any]:
    """Positive definite matrices."""
    factor = RNG.standard_normal((*shape, shape[-1]))
    return (factor @ np.swapaxes(factor, -1, -2) + np.eye(shape[-1])).astype(np.float32)


# Parameters (by name, of two distributions) and values.
CASES: list[tuple[str, dict[str, Any], dict[str, Any], np.ndarray[Any, Any]]] = [
    ("Normal", {"loc": real(3), "scale": numbers(3)}, {"loc": real(3), "scale": numbers(3)}, real(4, 3)),
    ("Laplace", {"loc": real(3), "scale": numbers(3)}, {"loc": real(3), "scale": numbers(3)}, real(4, 3)),
    ("Cauchy", {"loc": real(3), "scale": numbers(3)}, {}, real(4, 3)),
    ("Gumbel", {"loc": real(3), "scale": numbers(3)}, {}, real(4, 3)),
    ("LogNormal", {"loc": real(3), "scale": numbers(3)}, {"loc": real(3), "scale": numbers(3)}, numbers(4, 3)),
    ("HalfNormal", {"scale": numbers(3)}, {}, numbers(4, 3)),
    ("HalfCauchy", {"scale": numbers(3)}, {}, numbers(4, 3)),
    ("Uniform", {"low": -numbers(3), "high": numbers(3) + 1}, {"low": -numbers(3) - 1, "high": numbers(3) + 2},
     numbers(4, 3)),
    ("Exponential", {"rate": numbers(3)}, {"rate": numbers(3)}, numbers(4, 3)),
    ("Bernoulli", {"probs": numbers(3)}, {"probs": numbers(3)}, (numbers(4, 3) > 0.5).astype(np.float32)),
    ("Bernoulli", {"logits": real(3)}, {"logits": real(3)}, (numbers(4, 3) > 0.5).astype(np.float32)),
    ("Geometric", {"probs": numbers(3)}, {"probs": numbers(3)}, np.arange(12, dtype=np.float32).reshape(4, 3)),
    ("Categorical", {"probs": numbers(3, 5)}, {"probs": numbers(3, 5)}, RNG.integers(0, 5, (4, 3))),
    ("Categorical", {"logits": real(3, 5)}, {"logits": real(3, 5)}, RNG.integers(0, 5, (4, 3))),
    ("OneHotCategorical", {"logits": real(3, 5)}, {"logits": real(3, 5)},
     np.eye(5, dtype=np.float32)[RNG.integers(0, 5, (4, 3))]),
    ("Poisson", {"rate": numbers(3) * 4}, {"rate": numbers(3)}, np.arange(12, dtype=np.float32).reshape(4, 3)),
    ("Gamma", {"concentration": numbers(3) * 4, "rate": numbers(3)}, {"concentration": numbers(3), "rate": numbers(3)},
     numbers(4, 3)),
    ("Chi2", {"df": numbers(3) * 5}, {"df": numbers(3) * 3}, numbers(4, 3)),
    ("Beta", {"concentration1": numbers(3) * 2, "concentration0": numbers(3) * 3},
     {"concentration1": numbers(3), "concentration0": numbers(3)}, numbers(4, 3)),
    ("Dirichlet", {"concentration": numbers(3, 5) * 2}, {"concentration": numbers(3, 5)}, simplex(4, 3, 5)),
    ("StudentT", {"df": numbers(3) * 3 + 2.1, "loc": real(3), "scale": numbers(3)}, {}, real(4, 3)),
    ("StudentT", {"df": numbers(3) * 2, "loc": real(3), "scale": numbers(3)}, {}, real(4, 3)),
    ("Pareto", {"scale": numbers(3), "alpha": numbers(3) + 2.2}, {"scale": numbers(3) / 9, "alpha": numbers(3)},
     numbers(4, 3) + 1),
    ("Weibull", {"scale": numbers(3), "concentration": numbers(3) * 2}, {}, numbers(4, 3)),
    ("Binomial", {"total_count": 5, "probs": numbers(3)}, {"total_count": 5, "probs": numbers(3)}, counts(4, 3)),
    ("Binomial", {"total_count": 5, "logits": real(3)}, {"total_count": 5, "logits": real(3)}, counts(4, 3)),
    ("NegativeBinomial", {"total_count": 4, "probs": numbers(3)}, {}, counts(4, 3)),
    ("NegativeBinomial", {"total_count": 4.5, "logits": real(3)}, {}, counts(4, 3)),
    ("Multinomial", {"total_count": 6, "probs": numbers(3, 4)}, {},
     RNG.multinomial(6, [0.1, 0.2, 0.3, 0.4], (4, 3)).astype(np.float32)),
    ("MultivariateNormal", {"loc": real(3, 2), "covariance_matrix": definite(3, 2)},
     {"loc": real(3, 2), "covariance_matrix": definite(3, 2)}, real(4, 3, 2)),
    ("MultivariateNormal", {"loc": real(2), "precision_matrix": definite(3, 2)},
     {"loc": real(3, 2), "precision_matrix": definite(3, 2)}, real(4, 3, 2)),
    ("MultivariateNormal", {"loc": real(3, 2), "scale_tril": np.linalg.cholesky(definite(3, 2))},
     {"loc": real(2), "scale_tril": np.linalg.cholesky(definite(2))}, real(4, 3, 2)),
    ("RelaxedBernoulli", {"temperature": numbers(1), "logits": real(3)}, {}, numbers(4, 3)),
    ("RelaxedBernoulli", {"temperature": numbers(1), "probs": numbers(3)}, {}, numbers(4, 3)),
    ("RelaxedOneHotCategorical", {"temperature": numbers(1), "logits": real(3, 5)}, {}, simplex(4, 3, 5)),
    ("OneHotCategoricalStraightThrough", {"logits": real(3, 5)}, {"logits": real(3, 5)},
     np.eye(5, dtype=np.float32)[RNG.integers(0, 5, (4, 3))]),
]  # fmt: skip
NAMES = [f"{case[0]}-{'-'.join(case[1])}" for case in CASES]


def close(a: Tensor, b: torch.Tensor) -> None:
    assert a.shape == tuple(b.shape)
    np.testing.assert_allclose(a.to_host(), b.detach().numpy(), rtol=2e-4, atol=1e-5)


def pair(name: str, options: dict[str, Any]) -> tuple[Any, Any, dict[str, Any], dict[str, Any]]:
    arrays = {key: value for key, value in options.items() if isinstance(value, np.ndarray)}
    a = {key: ag.Parameter(Tensor.from_host(value)) for key, value in arrays.items()}
    b = {key: torch.tensor(value, requires_grad=True) for key, value in arrays.items()}
    return getattr(ours, name)(**{**options, **a}), getattr(theirs, name)(**{**options, **b}), a, b


# No closed form in PyTorch.
NO_ENTROPY = ("Poisson", "NegativeBinomial", "RelaxedBernoulli", "RelaxedOneHotCategorical")
NO_MOMENTS = ("Categorical", "RelaxedBernoulli", "RelaxedOneHotCategorical")


@pytest.mark.parametrize(("name", "options", "other", "values"), CASES, ids=NAMES)
def test_values_and_gradients(name: str, options: Any, other: Any, values: Any) -> None:
    p, q, a, b = pair(name, options)
    x, y = p.log_prob(Tensor.from_host(values)), q.log_prob(torch.tensor(values))
    close(x, y)
    ag.sum(x).backward(), y.sum().backward()
    for key in a:
        if b[key].grad is not None and (a[key].grad is not None or b[key].grad.any()):
            close(a[key].grad, b[key].grad)
    assert (p.batch_shape, p.event_shape) == (tuple(q.batch_shape), tuple(q.event_shape))
    assert p.has_rsample == q.has_rsample
    if name not in NO_ENTROPY:
        close(p.entropy(), q.entropy())
    try:
        mode = q.mode
    except NotImplementedError:
        with pytest.raises(TypeError, match="no mode"):
            p.mode  # noqa: B018
    else:
        close(p.mode, mode)
    if name not in NO_MOMENTS:
        close(p.mean, q.mean)
        close(p.variance, q.variance)
    if other:
        p2, q2, _, _ = pair(name, other)
        close(ours.kl_divergence(p, p2), theirs.kl_divergence(q, q2))
    for one in (ours.Independent, theirs.Independent):
        assert list(inspect.signature(one).parameters)[:2] == ["base_distribution", "reinterpreted_batch_ndims"]
    if not p.event_shape:
        joint = ours.Independent(p, 1).log_prob(Tensor.from_host(values))
        close(joint, theirs.Independent(q, 1).log_prob(torch.tensor(values)))


@pytest.mark.parametrize("name", [name for name in ours.__all__ if isinstance(getattr(ours, name), type)])
def test_signatures(name: str) -> None:
    mine, other = (inspect.signature(getattr(library, name)).parameters for library in (ours, theirs))
    assert list(mine) == list(other)
    assert [p.default for p in mine.values()] == [
        () if isinstance(p.default, torch.Size) else p.default for p in other.values()
    ]


@pytest.mark.parametrize(("name", "options", "other", "values"), CASES, ids=NAMES)
def test_samples(name: str, options: Any, other: Any, values: Any) -> None:
    """Means of many samples, and the gradient of a sample for parameters of location and scale."""
    p, q, a, _ = pair(name, options)
    sample = p.sample((20000,))
    assert sample.shape == tuple(q.sample((20000,)).shape)
    assert not sample.requires_grad
    drawn = sample.to_host().astype(np.float64)
    if name == "Categorical":
        shares = np.stack([(drawn == k).mean(0) for k in range(5)], -1)
        np.testing.assert_allclose(shares, q.probs.detach().numpy(), atol=0.02)
    elif name in NO_MOMENTS or name == "StudentT" and options["df"].min() < 2:
        wanted = q.sample((20000,)).numpy()  # medians
        np.testing.assert_allclose(np.median(drawn, 0), np.median(wanted, 0), atol=0.04)
    elif "Cauchy" in name:
        wanted = 0.75 if name == "HalfCauchy" else 0.5
        point = q.icdf(torch.full((3,), wanted)).detach().numpy()
        np.testing.assert_allclose((drawn < point).mean(0), wanted, atol=0.02)
    else:
        spread = q.stddev.detach().numpy()
        np.testing.assert_allclose(drawn.mean(0), q.mean.detach().numpy(), atol=0.05 * spread.max())
    if p.has_rsample:
        ag.sum(p.rsample((2,))).backward()
        assert all(t.grad is not None for t in a.values())


@pytest.mark.parametrize(("name", "options", "other", "values"), CASES, ids=NAMES)
def test_expanded_distributions(name: str, options: Any, other: Any, values: Any) -> None:
    p, q, _, _ = pair(name, options)
    wide, theirs_wide = p.expand((2, 4, 3)), q.expand((2, 4, 3))
    assert (wide.batch_shape, wide.event_shape) == ((2, 4, 3), tuple(theirs_wide.event_shape))
    close(wide.log_prob(Tensor.from_host(values)), theirs_wide.log_prob(torch.tensor(values)).expand(2, 4, 3))
    assert wide.sample((5,)).shape == tuple(theirs_wide.sample((5,)).shape)
    if name not in NO_MOMENTS:
        close(wide.mean, theirs_wide.mean)
    with pytest.raises(ValueError, match="broadcast"):
        p.expand((2, 5))
