"""Kullback-Leibler divergences in closed form, by the classes of both distributions.

The divergence of two classes is the cross entropy -E_p[log q] less the entropy of p; it needs a few moments of p.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.errors import UnsupportedError
from netcl.core.layout import broadcast_shapes
from netcl.distributions import multivariate_normal
from netcl.distributions.continuous import EULER, Cauchy, Exponential, Gumbel, HalfNormal, Laplace, Normal, Uniform
from netcl.distributions.counts import Binomial
from netcl.distributions.discrete import Bernoulli, Categorical, Geometric, OneHotCategorical, Poisson
from netcl.distributions.distribution import Distribution
from netcl.distributions.gamma import Beta, Dirichlet, Gamma
from netcl.distributions.independent import Independent
from netcl.distributions.multivariate_normal import MultivariateNormal
from netcl.distributions.transformed import Pareto, TransformedDistribution
from netcl.distributions.transforms import summed

Divergence = Callable[[Any, Any], Tensor]
_registered: dict[tuple[type, type], Divergence] = {}


def register_kl(type_p: type[Distribution], type_q: type[Distribution]) -> Callable[[Divergence], Divergence]:
    """Registers the decorated ``f(p, q)`` as the divergence of these classes and their subclasses."""

    def decorate(function: Divergence) -> Divergence:
        _registered[type_p, type_q] = function
        return function

    return decorate


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Returns the divergence of q from p, E_p[log p - log q], of the batch shape.

    Raises UnsupportedError if no function is registered for the classes or bases of them.
    """
    for kind in type(p).__mro__:
        for other in type(q).__mro__:
            function = _registered.get((kind, other))
            if function is not None:
                return function(p, q)
    raise UnsupportedError(
        f"no divergence of {type(p).__name__} and {type(q).__name__}; write one and register it with register_kl"
    )


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = ag.square(p.scale / q.scale)
    return (ratio + ag.square((p.loc - q.loc) / q.scale) - 1.0 - ag.log(ratio)) * 0.5


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio = p.scale / q.scale
    distance = ag.abs(p.loc - q.loc)
    return distance / q.scale - ag.log(ratio) + ratio * ag.exp(-(distance / p.scale)) - 1.0


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - ag.log(ratio) - 1.0


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    inside = ag.logical_and(q.low <= p.low, q.high >= p.high)
    return ag.where(inside, ag.log((q.high - q.low) / (p.high - p.low)), float("inf"))


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    return ag.softplus(q.logits) - q.logits * p.probs - Bernoulli.entropy(p)


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - ag.log1p(-q.probs) / p.probs - q.logits


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Tensor:
    return ag.sum(p.probs * (p.logits - q.logits), axis=-1)


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (ag.log(p.rate) - ag.log(q.rate)) - (p.rate - q.rate)


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise UnsupportedError("the divergence of Independent needs the same number of event axes in both")
    return summed(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Tensor:
    if bool((p.total_count.to_host() < q.total_count.to_host()).any()):
        raise UnsupportedError(
            "the divergence of Binomial needs a total_count of q of at most p's: it has no closed form otherwise"
        )
    per_trial = p.probs * (p.logits - q.logits) - (ag.softplus(p.logits) - ag.softplus(q.logits))
    return ag.where(p.total_count > q.total_count, math.inf, p.total_count * per_trial)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    return ag.log((ag.square(p.scale + q.scale) + ag.square(p.loc - q.loc)) / (p.scale * q.scale * 4.0))


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    ratio = ag.square(p.scale / q.scale)
    return (ratio - 1.0 - ag.log(ratio)) * 0.5


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    each = ag.sum((a - b) * (ag.digamma(a) - ag.digamma(ag.sum(a, axis=-1, keepdims=True))), axis=-1)
    return q._log_norm() - p._log_norm() + each


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Tensor:
    return _dirichlet(p._pair, q._pair)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _categorical(p, q)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    return multivariate_normal.divergence(p, q)


@register_kl(Pareto, Pareto)
def _pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    shift = q.alpha * ag.log(p.scale / q.scale)
    return ag.where(p.scale < q.scale, math.inf, shift + ratio - ag.log(ratio) - 1.0)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise UnsupportedError("the divergence of transformed distributions needs the same transforms and event shape")
    return summed(kl_divergence(p.base_dist, q.base_dist), len(p.event_shape) - len(p.base_dist.event_shape))


# -- cross entropies: what q needs of p -----------------------------------------------------------------------------


def _mean_log(p: Distribution) -> Tensor:
    """Returns E[log x]."""
    if isinstance(p, Beta):
        return ag.digamma(p.concentration1) - ag.digamma(p.concentration1 + p.concentration0)
    if isinstance(p, Gamma):
        return ag.digamma(p.concentration) - ag.log(p.rate)
    if isinstance(p, Exponential):
        return -EULER - ag.log(p.rate)
    if isinstance(p, Pareto):
        return ag.log(p.scale) + 1.0 / p.alpha
    if isinstance(p, Uniform):
        return _mean_log_between(p.low, p.high)
    raise UnsupportedError(f"the mean of the logarithm of {type(p).__name__} has no closed form here")


def _mean_log_between(low: Tensor, high: Tensor) -> Tensor:
    """Returns the mean of log over an interval of numbers at least 0."""
    return (ag.xlogy(high, high) - ag.xlogy(low, low)) / (high - low) - 1.0


def _mean_exponential(p: Distribution, scale: Tensor) -> Tensor:
    """Returns E[exp(-x / scale)]."""
    rate = 1.0 / scale
    if isinstance(p, Gumbel):
        return ag.exp(ag.lgamma(p.scale * rate + 1.0) - p.loc * rate)
    if isinstance(p, Exponential):
        return p.rate / (p.rate + rate)
    if isinstance(p, Gamma):
        return ag.exp(-(p.concentration * ag.log1p(rate / p.rate)))
    if isinstance(p, Normal):
        return ag.exp(ag.square(p.scale * rate) * 0.5 - p.loc * rate)
    if isinstance(p, Uniform):
        return scale * (ag.exp(-(p.low * rate)) - ag.exp(-(p.high * rate))) / (p.high - p.low)
    raise UnsupportedError(f"the mean of the exponential of {type(p).__name__} has no closed form here")


def _to_normal(p: Distribution, q: Normal) -> Tensor:
    cross = (p.variance + ag.square(p.mean - q.loc)) * 0.5 / ag.square(q.scale) + ag.log(q.scale)
    return cross + 0.5 * math.log(2 * math.pi) - p.entropy()


def _to_exponential(p: Distribution, q: Exponential) -> Tensor:
    return q.rate * p.mean - ag.log(q.rate) - p.entropy()


def _to_gamma(p: Distribution, q: Gamma) -> Tensor:
    a, rate = q.concentration, q.rate
    return ag.lgamma(a) - a * ag.log(rate) + (rate * p.mean - (a - 1.0) * _mean_log(p)) - p.entropy()


def _to_gumbel(p: Distribution, q: Gumbel) -> Tensor:
    rest = _mean_exponential(p, q.scale) * ag.exp(q.loc / q.scale)
    return ag.log(q.scale) + (p.mean - q.loc) / q.scale + rest - p.entropy()


_kind: type[Distribution]
_other: type[Distribution]
for _kind in (Beta, Exponential, Gamma, Gumbel, Laplace, Pareto, Uniform):
    register_kl(_kind, Normal)(_to_normal)
for _kind in (Beta, Gamma, Pareto):
    register_kl(_kind, Exponential)(_to_exponential)
for _kind in (Beta, Exponential, Gamma, Pareto):
    register_kl(_kind, Gamma)(_to_gamma)
for _kind in (Exponential, Gamma, Gumbel, Normal, Uniform):
    register_kl(_kind, Gumbel)(_to_gumbel)


@register_kl(Normal, Laplace)
def _normal_laplace(p: Normal, q: Laplace) -> Tensor:
    # E|x - loc| of a normal number.
    z = (p.loc - q.loc) / (p.scale * math.sqrt(2.0))
    tail = ag.exp(-ag.square(z)) * math.sqrt(2 / math.pi)
    distance = p.scale * (tail + z * math.sqrt(2.0) * ag.erf(z))
    return distance / q.scale + ag.log(q.scale * 2.0) - p.entropy()


@register_kl(Beta, Uniform)
def _beta_uniform(p: Beta, q: Uniform) -> Tensor:
    inside = ag.logical_and(q.low <= 0.0, q.high >= 1.0)
    return ag.where(inside, ag.log(q.high - q.low) - p.entropy(), math.inf)


@register_kl(Uniform, Exponential)
def _uniform_exponential(p: Uniform, q: Exponential) -> Tensor:
    return ag.where(p.low >= 0.0, _to_exponential(p, q), math.inf)


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Uniform, q: Gamma) -> Tensor:
    return ag.where(p.low >= 0.0, _to_gamma(_within(p, 0.0, math.inf), q), math.inf)


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Uniform, q: Pareto) -> Tensor:
    cross = (q.alpha + 1.0) * _mean_log(_within(p, 0.0, math.inf)) - q.alpha * ag.log(q.scale)
    divergence = cross - ag.log(q.alpha) - p.entropy()
    return ag.where(p.low >= q.scale, divergence, math.inf)


@register_kl(Uniform, Beta)
def _uniform_beta(p: Uniform, q: Beta) -> Tensor:
    part = _within(p, 0.0, 1.0)
    up = (q.concentration1 - 1.0) * _mean_log(part)
    down = (q.concentration0 - 1.0) * _mean_log_between(1.0 - part.high, 1.0 - part.low)
    divergence = q._pair._log_norm() - (up + down) - p.entropy()
    return ag.where(ag.logical_and(p.low >= 0.0, p.high <= 1.0), divergence, math.inf)


def _within(p: Uniform, low: float, high: float) -> Uniform:
    """Returns ``p`` if it is inside of an interval, else another distribution there with an unused result."""
    inside = ag.logical_and(p.low >= low, p.high <= high)
    return Uniform(ag.where(inside, p.low, p.low.detach() * 0.0 + 0.25), ag.where(inside, p.high, 0.75))


def _infinite(p: Distribution, q: Distribution) -> Tensor:
    """Returns the divergence of a distribution with values outside of q's support."""
    shape = broadcast_shapes((p.batch_shape, q.batch_shape), "kl_divergence")
    like = p.entropy() if p.has_rsample else p.mean
    return Tensor.full(shape, math.inf, like.dtype, queue=like.queue)


_UNBOUNDED = (Gumbel, Laplace, Normal)
for _kind, _other in (
    *((first, second) for first in _UNBOUNDED for second in (Beta, Exponential, Gamma, Pareto, Uniform)),
    *((first, second) for first in (Exponential, Gamma) for second in (Beta, Pareto, Uniform)),
    *((Pareto, other) for other in (Beta, Uniform)),
    (Beta, Pareto),
    (Poisson, Bernoulli),
    (Poisson, Binomial),
):
    register_kl(_kind, _other)(_infinite)


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return q.rate - p.probs * ag.log(q.rate) - Bernoulli.entropy(p)
