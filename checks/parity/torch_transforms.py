"""Transforms, constraints, divergences of all pairs and implicit gradients of distributions, against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributions.kl import _KL_REGISTRY

import netcl as nc
import netcl.autograd as ag
from netcl import distributions as ours
from netcl.core import Tensor
from netcl.core.errors import UnsupportedError
from netcl.distributions.gamma import _log_slope
from netcl.distributions.kl import _registered

theirs = torch.distributions
RNG = np.random.default_rng(3)


def close(a: Tensor, b: torch.Tensor, rtol: float = 2e-4, atol: float = 1e-5) -> None:
    assert a.shape == tuple(b.shape)
    np.testing.assert_allclose(a.detach().to_host(), b.detach().numpy(), rtol=rtol, atol=atol)


def real(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def inside(*shape: int) -> Any:
    return RNG.uniform(0.1, 0.9, shape).astype(np.float32)


# name -> transform of the library, argument
TRANSFORMS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "exp": (lambda d: d.ExpTransform(), real(3, 4)),
    "sigmoid": (lambda d: d.SigmoidTransform(), real(3, 4)),
    "tanh": (lambda d: d.TanhTransform(), real(3, 4)),
    "softplus": (lambda d: d.SoftplusTransform(), real(3, 4)),
    "power": (lambda d: d.PowerTransform(of(d, 2.5)), inside(3, 4)),
    "falling power": (lambda d: d.PowerTransform(of(d, -1.5)), inside(3, 4)),
    "affine": (lambda d: d.AffineTransform(0.5, -2.0), real(3, 4)),
    "affine of vectors": (lambda d: d.AffineTransform(0.5, 2.0, event_dim=1), real(3, 4)),
    "stick breaking": (lambda d: d.StickBreakingTransform(), real(3, 4)),
    "inverse": (lambda d: d.ExpTransform().inv, inside(3, 4)),
    "independent": (lambda d: d.IndependentTransform(d.TanhTransform(), 1), real(3, 4)),
    "compose": (lambda d: d.ComposeTransform([d.AffineTransform(0.5, 2.0), d.SigmoidTransform()]), real(3, 4)),
    "compose with vectors": (
        lambda d: d.ComposeTransform([d.AffineTransform(0.5, 2.0), d.StickBreakingTransform()]),
        real(3, 4),
    ),
    "identity": (lambda d: d.identity_transform, real(3, 4)),
}


def of(library: Any, value: float) -> Any:
    """A number, which PyTorch's PowerTransform takes as a tensor."""
    return torch.tensor(value) if library is theirs else value


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name: str) -> None:
    make, x = TRANSFORMS[name]
    mine, other = make(ours), make(theirs)
    a, b = nc.tensor(x), torch.tensor(x)
    y, z = mine(a), other(b)
    close(y, z)
    close(mine.inv(y), other.inv(z), atol=1e-4)
    close(mine.inv(y), b, rtol=1e-3, atol=1e-4)
    if name != "identity":  # a number in PyTorch
        close(mine.log_abs_det_jacobian(a, y), other.log_abs_det_jacobian(b, z))
    assert mine.bijective == other.bijective
    assert mine.forward_shape((3, 4)) == tuple(other.forward_shape((3, 4)))
    assert (mine.domain.event_dim, mine.codomain.event_dim) == (other.domain.event_dim, other.codomain.event_dim)
    if "stick" not in name and "vectors" not in name:
        assert float(mine.sign) == float(other.sign)
    assert (mine == make(ours)) == (other == make(theirs))


@pytest.mark.parametrize("name", ["AbsTransform", "SoftmaxTransform"])
def test_transforms_without_an_inverse(name: str) -> None:
    x = real(3, 4)
    mine, other = getattr(ours, name)(), getattr(theirs, name)()
    close(mine(nc.tensor(x)), other(torch.tensor(x)))
    close(mine.inv(mine(nc.tensor(x))), other.inv(other(torch.tensor(x))))
    with pytest.raises(UnsupportedError, match="no log_abs_det_jacobian"):
        mine.log_abs_det_jacobian(nc.tensor(x), nc.tensor(x))


def test_a_cache_gives_the_argument_back() -> None:
    cached = ours.TanhTransform(cache_size=1)
    x = nc.tensor([20.0])
    assert cached.inv(cached(x)) is x


def affine(d: Any, m: Any) -> Any:
    return d.AffineTransform(m.tensor([0.5, -1.0, 2.0]), m.tensor([1.0, 2.0, 0.5]))


# name -> distribution of the library, values
TRANSFORMED: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "logistic": (
        lambda d, m: d.TransformedDistribution(
            d.Uniform(m.zeros(3), m.ones(3)), [d.SigmoidTransform().inv, affine(d, m)]
        ),
        real(4, 3),
    ),
    "tanh of normal": (
        lambda d, m: d.TransformedDistribution(d.Normal(m.zeros(3), m.ones(3)), d.TanhTransform()),
        inside(4, 3),
    ),
    "falling": (
        lambda d, m: d.TransformedDistribution(d.Exponential(m.ones(3)), [d.AffineTransform(1.0, -2.0)]),
        -1 - inside(4, 3),
    ),
    "parameters longer than the base": (
        lambda d, m: d.TransformedDistribution(d.Normal(m.tensor(0.0), m.tensor(1.0)), affine(d, m)),
        real(4, 3),
    ),
    "stick breaking": (
        lambda d, m: d.TransformedDistribution(d.Normal(m.zeros(2, 3), m.ones(2, 3)), d.StickBreakingTransform()),
        (lambda v: (v / v.sum(-1, keepdims=True)).astype(np.float32))(RNG.uniform(0.2, 0.9, (5, 2, 4))),
    ),
    "of an independent base": (
        lambda d, m: d.TransformedDistribution(
            d.Independent(d.Normal(m.zeros(3), m.ones(3)), 1), [d.ExpTransform(), affine(d, m)]
        ),
        3 + inside(4, 3),
    ),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_transformed_distributions(name: str) -> None:
    make, values = TRANSFORMED[name]
    nc.manual_seed(0)
    torch.manual_seed(0)
    p, q = make(ours, nc), make(theirs, torch)
    assert (p.batch_shape, p.event_shape) == (tuple(q.batch_shape), tuple(q.event_shape))
    close(p.log_prob(nc.tensor(values)), q.log_prob(torch.tensor(values)), atol=1e-4)
    drawn = p.sample((20000,)).numpy()
    wanted = q.sample((20000,)).numpy()
    assert drawn.shape == wanted.shape
    np.testing.assert_allclose(np.median(drawn, 0), np.median(wanted, 0), atol=0.08)
    if name in ("logistic", "tanh of normal", "falling"):
        close(p.cdf(nc.tensor(values)), q.cdf(torch.tensor(values)))
        chances = inside(4, 3)
        close(p.icdf(nc.tensor(chances)), q.icdf(torch.tensor(chances)), atol=1e-4)


@pytest.mark.parametrize("name", ["Normal", "Laplace", "Cauchy", "Gumbel", "LogNormal", "HalfNormal", "HalfCauchy"])
def test_distribution_functions(name: str) -> None:
    options = {"scale": inside(3)} if name.startswith("Half") else {"loc": real(3), "scale": inside(3)}
    p = getattr(ours, name)(**{key: nc.tensor(value) for key, value in options.items()})
    q = getattr(theirs, name)(**{key: torch.tensor(value) for key, value in options.items()})
    values, chances = inside(4, 3), inside(4, 3)
    close(p.cdf(nc.tensor(values)), q.cdf(torch.tensor(values)))
    close(p.icdf(nc.tensor(chances)), q.icdf(torch.tensor(chances)), rtol=1e-3, atol=1e-4)


def make(m: Any, d: Any, name: str, which: int) -> Any:
    """A distribution of the class for a test of divergences; ``which``: of p, of q, or of a q that has p inside."""
    t = m.tensor
    made: dict[str, Callable[[], Any]] = {
        "Bernoulli": lambda: d.Bernoulli(t([0.3, 0.6][which])),
        "Beta": lambda: d.Beta(t([1.5, 2.5]), t(0.8 + which)),
        "Binomial": lambda: d.Binomial(4, t([0.3, 0.6][which])),
        "Categorical": lambda: d.Categorical(t([[0.3, 0.7], [0.6, 0.4]][which])),
        "Cauchy": lambda: d.Cauchy(t([0.3, 0.6]), t(1.0 + which)),
        "Dirichlet": lambda: d.Dirichlet(t([[0.3, 0.7, 2.0], [0.6, 0.4, 1.0]][which])),
        "Exponential": lambda: d.Exponential(t([0.7, 1.6 + which])),
        "Gamma": lambda: d.Gamma(t([0.7, 1.6 + which]), t(1.0 + which)),
        "Geometric": lambda: d.Geometric(t([0.3, 0.6][which])),
        "Gumbel": lambda: d.Gumbel(t([0.3, 0.6]), t(0.6 + which)),
        "HalfNormal": lambda: d.HalfNormal(t([0.3, 0.6 + which])),
        "Independent": lambda: d.Independent(d.Normal(t([0.3, 0.6]), t(1.0 + which)), 1),
        "Laplace": lambda: d.Laplace(t([0.3, 0.6]), t(0.5 + which)),
        "MultivariateNormal": lambda: d.MultivariateNormal(t([0.3, 0.6 + which]), t([[1.0 + which, 0.2], [0.2, 0.7]])),
        "Normal": lambda: d.Normal(t([0.3, 0.6]), t(0.5 + which)),
        "OneHotCategorical": lambda: d.OneHotCategorical(t([[0.3, 0.7], [0.6, 0.4]][which])),
        "Pareto": lambda: d.Pareto(t([[0.7, 1.3], [0.3, 1.0]][which]), t(2.5 + which)),
        "Poisson": lambda: d.Poisson(t([0.3, 0.6 + which])),
        "TransformedDistribution": lambda: d.LogNormal(t([0.3, 0.6]), t(1.0 + which)),
        "Uniform": lambda: d.Uniform(t([[0.4, -0.5], [-0.2, 0.1]][which]), t([[0.9, 0.8], [1.5, 1.2]][which])),
    }
    return made[name]()


ABSENT = {"ContinuousBernoulli", "ExponentialFamily", "LowRankMultivariateNormal"}
PAIRS = sorted(
    (a.__name__, b.__name__) for a, b in _KL_REGISTRY if not {a.__name__, b.__name__} & ABSENT
)  # fmt: skip


def test_all_pairs_of_pytorch_are_registered() -> None:
    assert set(PAIRS) <= {(a.__name__, b.__name__) for a, b in _registered}


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_divergences(pair: tuple[str, str]) -> None:
    mine = ours.kl_divergence(make(nc, ours, pair[0], 0), make(nc, ours, pair[1], 1))
    wanted = theirs.kl_divergence(make(torch, theirs, pair[0], 0), make(torch, theirs, pair[1], 1))
    close(mine, wanted, rtol=1e-3, atol=1e-5)


def test_classes_that_are_not_comparable_have_no_divergence() -> None:
    one, other = ours.LogNormal(0.0, 1.0), ours.Normal(0.0, 1.0)
    with pytest.raises(UnsupportedError, match="LogNormal and Normal"):
        ours.kl_divergence(one, other)
    with pytest.raises(UnsupportedError, match="same transforms"):
        ours.kl_divergence(one, ours.TransformedDistribution(other, ours.TanhTransform()))


VALUES = np.array([-1.0, -0.5, 0.0, 0.3, 1.0, 2.0, 2.5, np.nan], np.float32)
# PyTorch checks definiteness only if all matrices are symmetric.
MATRICES = np.array([[[2.0, 0.5], [0.5, 1]], [[1, 2], [2, 1]], [[1, 0], [2, 3]], [[1, 2], [0, 3]]], np.float32)
SHARES = np.array([[0.5, 0.5], [0.7, 0.5], [1, 0], [-0.5, 1.5], [1, 1]], np.float32)


@pytest.mark.parametrize(
    ("name", "bounds", "values"),
    [
        *((name, None, VALUES) for name in ("boolean", "nonnegative_integer", "positive_integer", "real", "positive",
                                            "nonnegative", "unit_interval")),
        *((name, (0.3,), VALUES) for name in ("greater_than", "greater_than_eq", "less_than")),
        *((name, (0, 2), VALUES) for name in ("interval", "half_open_interval", "integer_interval")),
        *((name, None, SHARES) for name in ("simplex", "one_hot", "real_vector")),
        *((name, None, MATRICES) for name in ("lower_triangular", "lower_cholesky", "square", "symmetric")),
        *((name, None, MATRICES[:2]) for name in ("positive_definite", "positive_semidefinite")),
        ("multinomial", (1,), SHARES),
    ],
)  # fmt: skip
def test_constraints(name: str, bounds: Any, values: Any) -> None:
    mine, other = getattr(ours.constraints, name), getattr(theirs.constraints, name)
    if bounds:
        mine, other = mine(*bounds), other(*bounds)
    assert mine.check(nc.tensor(values)).tolist() == other.check(torch.tensor(values)).tolist()
    assert (mine.is_discrete, mine.event_dim) == (other.is_discrete, other.event_dim)


def test_parameters_have_the_constraints_of_pytorch() -> None:
    for name in ours.__all__:
        mine, other = getattr(ours, name), getattr(theirs, name, None)
        if isinstance(mine, type) and issubclass(mine, ours.Distribution) and isinstance(other.arg_constraints, dict):
            assert set(mine.arg_constraints) == set(other.arg_constraints), name


@pytest.mark.parametrize("concentration", [0.02, 0.3, 1.0, 4.0, 60.0, 1000.0])
def test_implicit_gradients_of_gamma_numbers(concentration: float) -> None:
    """Against PyTorch's approximation, and in float64 against differences of the distribution function."""
    chances = torch.linspace(0.02, 0.98, 25, dtype=torch.float64)
    alpha = torch.full((25,), concentration, dtype=torch.float64)
    low, high = torch.full((25,), -800.0, dtype=torch.float64), torch.full((25,), 9.0, dtype=torch.float64)
    for _ in range(200):  # log(x) with these chances, by bisection
        middle = (low + high) / 2
        above = torch.special.gammainc(alpha, middle.exp()) > chances
        low, high = torch.where(above, low, middle), torch.where(above, middle, high)
    x = middle.exp()
    found = (_log_slope(nc.tensor(alpha.numpy()), nc.tensor(middle.numpy())) * nc.tensor(x.numpy())).numpy()
    np.testing.assert_allclose(found, torch._standard_gamma_grad(alpha, x).numpy(), rtol=5e-3)
    step = 1e-5 * concentration
    rise = torch.special.gammainc(alpha + step, x) - torch.special.gammainc(alpha - step, x)
    density = ((alpha - 1) * middle - x - torch.lgamma(alpha)).exp()
    np.testing.assert_allclose(found, -(rise / (2 * step) / density).numpy(), rtol=2e-4)


def test_gradients_of_samples_are_those_of_their_mean() -> None:
    """d E[f(x)] / d parameters, of 40000 samples, where the mean is known."""
    a = nc.tensor([0.4, 3.0], requires_grad=True)
    b = nc.tensor([1.5, 0.7], requires_grad=True)
    ours.Beta(a, b).rsample((40000,)).mean(0).sum().backward()
    total = (a + b).detach().numpy()
    np.testing.assert_allclose(a.grad.numpy(), b.detach().numpy() / total**2, rtol=0.05)
    np.testing.assert_allclose(b.grad.numpy(), -a.detach().numpy() / total**2, rtol=0.05)
    c = nc.tensor([0.5, 2.0, 1.0], requires_grad=True)
    (ours.Dirichlet(c).rsample((40000,)).mean(0) * nc.tensor([1.0, 0.0, 0.0])).sum().backward()
    np.testing.assert_allclose(c.grad.numpy(), np.array([3.0, -0.5, -0.5]) / 3.5**2, rtol=0.08)
    g = nc.tensor([0.3, 5.0], requires_grad=True)
    ours.Gamma(g, 2.0).rsample((40000,)).mean(0).sum().backward()
    np.testing.assert_allclose(g.grad.numpy(), [0.5, 0.5], rtol=0.05)


def test_small_concentrations_give_finite_numbers() -> None:
    drawn = ours.Dirichlet(nc.full((4,), 1e-3)).sample((2000,)).numpy()
    assert np.isfinite(drawn).all()
    np.testing.assert_allclose(drawn.sum(-1), 1, atol=1e-5)
    assert (ours.Gamma(1e-3, 1.0).sample((2000,)).numpy() > 0).all()


def test_mixtures() -> None:
    weights, loc, scale = inside(3, 4), real(3, 4), inside(3, 4)
    p = ours.MixtureSameFamily(ours.Categorical(nc.tensor(weights)), ours.Normal(nc.tensor(loc), nc.tensor(scale)))
    q = theirs.MixtureSameFamily(
        theirs.Categorical(torch.tensor(weights)), theirs.Normal(torch.tensor(loc), torch.tensor(scale))
    )
    x = real(5, 3)
    close(p.log_prob(nc.tensor(x)), q.log_prob(torch.tensor(x)))
    close(p.cdf(nc.tensor(x)), q.cdf(torch.tensor(x)))
    close(p.mean, q.mean)
    close(p.variance, q.variance)
    drawn = p.sample((20000,)).numpy()
    np.testing.assert_allclose(drawn.mean(0), q.mean.numpy(), atol=0.05)
    np.testing.assert_allclose(drawn.std(0), q.stddev.numpy(), atol=0.05)
    parts = [lib.Independent(lib.Normal(m.tensor(loc), m.tensor(scale)), 1) for lib, m in ((ours, nc), (theirs, torch))]
    chosen = inside(3)
    joint = ours.MixtureSameFamily(ours.Categorical(nc.tensor(chosen)), parts[0])
    other = theirs.MixtureSameFamily(theirs.Categorical(torch.tensor(chosen)), parts[1])
    close(joint.log_prob(nc.tensor(real(6, 4) * 0)), other.log_prob(torch.zeros(6, 4)))
    close(joint.mean, other.mean)
    close(joint.variance, other.variance)
    assert joint.sample((7,)).shape == (7, 4)


def test_straight_through_samples_have_the_gradient_of_the_probabilities() -> None:
    logits = nc.tensor(real(2, 3), requires_grad=True)
    drawn = ours.OneHotCategoricalStraightThrough(logits=logits).rsample((5,))
    assert set(np.unique(np.round(drawn.detach().numpy(), 5))) <= {0.0, 1.0}
    (drawn * nc.tensor([1.0, 2.0, 3.0])).sum().backward()
    same = ag.Parameter(logits.detach().clone())
    (ag.softmax(same, axis=-1) * nc.tensor([5.0, 10.0, 15.0])).sum().backward()
    np.testing.assert_allclose(logits.grad.numpy(), same.grad.numpy(), atol=1e-5)


def test_enumerated_supports() -> None:
    for name, options in (("Bernoulli", {"probs": inside(3)}), ("Categorical", {"probs": inside(3, 4)}),
                          ("OneHotCategorical", {"probs": inside(3, 4)})):  # fmt: skip
        for expand in (True, False):
            mine = getattr(ours, name)(nc.tensor(options["probs"])).enumerate_support(expand)
            close(mine, getattr(theirs, name)(torch.tensor(options["probs"])).enumerate_support(expand))
    close(
        ours.Binomial(3, nc.tensor([0.5])).enumerate_support(),
        theirs.Binomial(3, torch.tensor([0.5])).enumerate_support(),
    )
