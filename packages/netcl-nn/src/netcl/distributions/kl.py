"""Kullback-Leibler divergences in closed form, by the classes of both distributions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.errors import UnsupportedError
from netcl.distributions.continuous import Exponential, Laplace, Normal, Uniform
from netcl.distributions.discrete import Bernoulli, Categorical, Geometric, Poisson
from netcl.distributions.distribution import Distribution
from netcl.distributions.independent import Independent

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
    ratio = ag.square(ag.div(p.scale, q.scale))
    shift = ag.square(ag.div(ag.sub(p.loc, q.loc), q.scale))
    return ag.mul(ag.sub(ag.sub(ag.add(ratio, shift), 1.0), ag.log(ratio)), 0.5)


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio = ag.div(p.scale, q.scale)
    distance = ag.abs(ag.sub(p.loc, q.loc))
    decayed = ag.mul(ratio, ag.exp(ag.neg(ag.div(distance, p.scale))))
    return ag.sub(ag.add(ag.sub(ag.div(distance, q.scale), ag.log(ratio)), decayed), 1.0)


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = ag.div(q.rate, p.rate)
    return ag.sub(ag.sub(ratio, ag.log(ratio)), 1.0)


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    inside = ag.logical_and(ag.le(q.low, p.low), ag.ge(q.high, p.high))
    value = ag.log(ag.div(ag.sub(q.high, q.low), ag.sub(p.high, p.low)))
    return ag.where(inside, value, float("inf"))


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    cross = ag.sub(ag.softplus(q.logits), ag.mul(q.logits, p.probs))
    return ag.sub(cross, Bernoulli.entropy(p))


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Tensor:
    rest = ag.div(ag.log1p(ag.neg(q.probs)), p.probs)
    return ag.sub(ag.sub(ag.neg(p.entropy()), rest), q.logits)


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Tensor:
    return ag.sum(ag.mul(p.probs, ag.sub(p.logits, q.logits)), axis=-1)


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return ag.sub(ag.mul(p.rate, ag.sub(ag.log(p.rate), ag.log(q.rate))), ag.sub(p.rate, q.rate))


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise UnsupportedError("the divergence of Independent needs as many event axes in both")
    return p._summed(kl_divergence(p.base_dist, q.base_dist))
