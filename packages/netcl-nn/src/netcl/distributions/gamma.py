"""Gamma, Beta, Dirichlet, Chi2 and StudentT: distributions of gamma numbers, with implicit gradients of samples.

Samples: G. Marsaglia and W. W. Tsang, "A simple method for generating gamma variables" (2000), in a fixed number of
rounds, so that a device draws them without a loop. Gradients: M. Figurnov, S. Mohamed and A. Mnih, "Implicit
reparameterization gradients" (2018), by quadrature.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.distributions import constraints
from netcl.distributions.constraints import Constraint
from netcl.distributions.distribution import Distribution, Shape, broadcast, check_all, open_uniform

_ROUNDS = 8  # each accepts at least 95 %: all reject one number of 2.6e10
_NODES = 64
_TINY = 1.1754944e-38


def _normal_numbers(shape: Shape, like: Tensor) -> Tensor:
    return ag.cast(ag.randn(tuple(shape), queue=like.queue), dtype=like.dtype)


def _draw_log(alpha: Tensor) -> Tensor:
    """Returns logarithms of gamma numbers of concentration ``alpha``, which do not underflow for a small ``alpha``."""
    small = ag.lt(alpha, 1.0)
    d = ag.sub(ag.where(small, ag.add(alpha, 1.0), alpha), 1.0 / 3.0)
    shape = (_ROUNDS, *alpha.shape)
    x = _normal_numbers(shape, alpha)
    root = ag.add(ag.div(x, ag.sqrt(ag.mul(d, 9.0))), 1.0)
    log_root = ag.log(ag.maximum(root, _TINY))
    limit = ag.add(ag.mul(ag.square(x), 0.5), ag.mul(d, ag.sub(ag.add(ag.mul(log_root, 3.0), 1.0), ag.pow(root, 3.0))))
    accepted = ag.logical_and(ag.gt(root, 0.0), ag.lt(ag.log(open_uniform(shape, alpha)), limit))
    first = ag.argmax(ag.cast(accepted, dtype="int32"), axis=0)
    accepted_root = ag.squeeze(ag.gather(log_root, 0, ag.unsqueeze(first, 0)), 0)
    log = ag.add(ag.log(d), ag.mul(accepted_root, 3.0))
    return ag.where(small, ag.add(log, ag.div(ag.log(open_uniform(alpha.shape, alpha)), alpha)), log)


def _nodes() -> tuple[Any, Any]:
    """Returns the nodes and weights of the double exponential rule for functions that decay on (0, inf)."""
    t = np.linspace(-3.3, 3.6, _NODES)
    points = np.exp(t - np.exp(-t))
    return points, (t[1] - t[0]) * points * (1 + np.exp(-t))


def _log_slope(alpha: Tensor, log_x: Tensor) -> Tensor:
    """Returns d log(x) / d alpha of a gamma number x, -(dP / d alpha) / (x p(x)) for its distribution function P.

    With t = x e^v the integral of p over (0, x), or for x >= alpha over (x, inf), is the integral of exp(alpha v - x
    (e^v - 1)) over v on that side of 0. Inside it, d / d alpha is the factor log(x) + v - digamma(alpha).
    """
    a, logarithm = ag.unsqueeze(alpha, -1), ag.unsqueeze(log_x, -1)
    x = ag.exp(logarithm)
    points, weights = (Tensor.from_host(alpha.queue, part.astype(np.float64), alpha.dtype) for part in _nodes())
    above = ag.ge(x, a)
    root = ag.sqrt(x)
    falling = ag.div(1.0, ag.maximum(ag.add(ag.sub(a, x), ag.minimum(x, root)), _TINY))
    rising = ag.minimum(
        ag.div(1.0, ag.maximum(ag.add(ag.sub(x, a), root), _TINY)),
        ag.div(ag.add(ag.log1p(ag.div(1.0, ag.maximum(x, _TINY))), 1.0), 3.0),
    )
    side = ag.where(above, rising, ag.neg(falling))
    v = ag.mul(points, side)
    density = ag.exp(ag.sub(ag.mul(v, a), ag.mul(x, ag.expm1(v))))
    factor = ag.sub(ag.add(logarithm, v), ag.digamma(a))
    terms = ag.mul(ag.mul(density, factor), weights)
    return ag.mul(ag.sum(terms, axis=-1), ag.squeeze(side, -1))


class _LogGamma(ag.Function):
    """Logarithms of gamma numbers, with the implicit gradient by the concentration."""

    @staticmethod
    def forward(ctx: Any, alpha: Tensor) -> Tensor:
        log_x = _draw_log(alpha)
        ctx.save_for_backward(alpha, log_x)
        return log_x

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Tensor:
        (grad,) = grads
        alpha, log_x = ctx.saved_tensors
        return ag.mul(grad, _log_slope(alpha, log_x))


def log_gamma_sample(concentration: Tensor, shape: Shape) -> Tensor:
    """Returns logarithms of gamma numbers of ``shape``, of rate 1, with gradients by the concentration."""
    whole = concentration if concentration.shape == tuple(shape) else ag.expand(concentration, tuple(shape))
    result: Tensor = _LogGamma.apply(ag.clone(whole))
    return result


class Gamma(Distribution):
    """The gamma distribution, rate^a x^(a - 1) exp(-rate x) / Gamma(a) with a = ``concentration``."""

    has_rsample = True
    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    region: ClassVar[Constraint | None] = constraints.nonnegative
    concentration: Tensor
    rate: Tensor

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        check_all(Gamma, validate_args, concentration=concentration, rate=rate)
        self.concentration, self.rate = broadcast(concentration, rate)
        super().__init__(self.concentration.shape, (), validate_args)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        log = log_gamma_sample(self.concentration, self._extended(sample_shape))
        return ag.maximum(ag.div(ag.exp(log), self.rate), _TINY)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        a, rate = self.concentration, self.rate
        powers = ag.add(ag.xlogy(a, rate), ag.xlogy(ag.sub(a, 1.0), value))
        return ag.sub(ag.sub(powers, ag.mul(rate, value)), ag.lgamma(a))

    @property
    def mode(self) -> Tensor:
        return ag.maximum(ag.div(ag.sub(self.concentration, 1.0), self.rate), 0.0)

    @property
    def mean(self) -> Tensor:
        return ag.div(self.concentration, self.rate)

    @property
    def variance(self) -> Tensor:
        return ag.div(self.concentration, ag.square(self.rate))

    def entropy(self) -> Tensor:
        a = self.concentration
        rest = ag.add(ag.lgamma(a), ag.mul(ag.sub(1.0, a), ag.digamma(a)))
        return ag.add(ag.sub(a, ag.log(self.rate)), rest)


class Chi2(Gamma):
    """The chi-squared distribution of ``df`` degrees of freedom: Gamma(df / 2, 1 / 2)."""

    arg_constraints: ClassVar[dict[str, Constraint]] = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        check_all(Chi2, validate_args, df=df)
        (degrees,) = broadcast(df)
        super().__init__(ag.mul(degrees, 0.5), 0.5)
        self._validate_args = bool(validate_args)

    @property
    def df(self) -> Tensor:
        """The degrees of freedom."""
        return ag.mul(self.concentration, 2.0)


class StudentT(Distribution):
    """Student's t distribution of ``df`` degrees of freedom, as loc + scale x."""

    has_rsample = True
    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    region: ClassVar[Constraint | None] = constraints.real
    df: Tensor
    loc: Tensor
    scale: Tensor

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        check_all(StudentT, validate_args, df=df, loc=loc, scale=scale)
        self.df, self.loc, self.scale = broadcast(df, loc, scale)
        super().__init__(self.df.shape, (), validate_args)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        # Normal numbers over the root of chi-squared ones divided by df.
        shape = self._extended(sample_shape)
        half = ag.mul(self.df, 0.5)
        log = ag.mul(ag.sub(ag.log(half), log_gamma_sample(half, shape)), 0.5)
        return ag.add(self.loc, ag.mul(self.scale, ag.mul(_normal_numbers(shape, self.df), ag.exp(log))))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        y = ag.div(ag.sub(value, self.loc), self.scale)
        half, above = ag.mul(self.df, 0.5), ag.mul(ag.add(self.df, 1.0), 0.5)
        total = ag.add(ag.log(self.scale), ag.mul(ag.log(ag.mul(self.df, math.pi)), 0.5))
        total = ag.add(total, ag.sub(ag.lgamma(half), ag.lgamma(above)))
        return ag.sub(ag.neg(ag.mul(above, ag.log1p(ag.div(ag.square(y), self.df)))), total)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def mean(self) -> Tensor:
        return ag.where(ag.gt(self.df, 1.0), self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        inside = ag.maximum(ag.sub(self.df, 2.0), _TINY)
        spread = ag.div(ag.mul(ag.square(self.scale), self.df), inside)
        return ag.where(ag.gt(self.df, 2.0), spread, ag.where(ag.gt(self.df, 1.0), math.inf, ag.mul(self.df, math.nan)))

    def entropy(self) -> Tensor:
        half, above = ag.mul(self.df, 0.5), ag.mul(ag.add(self.df, 1.0), 0.5)
        beta = ag.sub(ag.add(ag.lgamma(half), 0.5 * math.log(math.pi)), ag.lgamma(above))
        rest = ag.mul(above, ag.sub(ag.digamma(above), ag.digamma(half)))
        return ag.add(ag.add(ag.log(self.scale), rest), ag.add(ag.mul(ag.log(self.df), 0.5), beta))


class Dirichlet(Distribution):
    """The Dirichlet distribution of numbers with the sum 1; ``concentration`` (..., K)."""

    has_rsample = True
    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "concentration": constraints.independent(constraints.positive, 1)
    }
    region: ClassVar[Constraint | None] = constraints.simplex
    concentration: Tensor

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if not isinstance(concentration, Tensor) or not concentration.ndim:
            raise ValueError("concentration must be a tensor with at least one axis")
        check_all(Dirichlet, validate_args, concentration=concentration)
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        # Gamma numbers divided by their sum: gradients of each are implicit.
        return ag.softmax(log_gamma_sample(self.concentration, self._extended(sample_shape)), axis=-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        powers = ag.sum(ag.xlogy(ag.sub(self.concentration, 1.0), value), axis=-1)
        return ag.sub(powers, self._log_norm())

    def _log_norm(self) -> Tensor:
        total = ag.sum(self.concentration, axis=-1)
        return ag.sub(ag.sum(ag.lgamma(self.concentration), axis=-1), ag.lgamma(total))

    @property
    def mode(self) -> Tensor:
        above = ag.maximum(ag.sub(self.concentration, 1.0), 0.0)
        total = ag.sum(above, axis=-1, keepdims=True)
        largest = ag.one_hot(ag.argmax(self.concentration, axis=-1), self._event_shape[0])
        corner = ag.cast(largest, dtype=self.concentration.dtype)
        none = ag.all(ag.lt(self.concentration, 1.0), axis=-1, keepdims=True)
        return ag.where(none, corner, ag.div(above, ag.where(none, 1.0, total)))

    @property
    def mean(self) -> Tensor:
        return ag.div(self.concentration, ag.sum(self.concentration, axis=-1, keepdims=True))

    @property
    def variance(self) -> Tensor:
        total = ag.sum(self.concentration, axis=-1, keepdims=True)
        return ag.div(ag.mul(self.mean, ag.sub(1.0, self.mean)), ag.add(total, 1.0))

    def entropy(self) -> Tensor:
        a = self.concentration
        total = ag.sum(a, axis=-1)
        each = ag.sum(ag.mul(ag.sub(a, 1.0), ag.digamma(a)), axis=-1)
        whole = ag.mul(ag.sub(total, float(a.shape[-1])), ag.digamma(total))
        return ag.add(self._log_norm(), ag.sub(whole, each))


class Beta(Distribution):
    """The beta distribution on [0, 1], x^(c1 - 1) (1 - x)^(c0 - 1) / B(c1, c0)."""

    has_rsample = True
    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    region: ClassVar[Constraint | None] = constraints.unit_interval
    concentration1: Tensor
    concentration0: Tensor

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        check_all(Beta, validate_args, concentration1=concentration1, concentration0=concentration0)
        self.concentration1, self.concentration0 = broadcast(concentration1, concentration0)
        self._pair: Dirichlet = Dirichlet(ag.stack([self.concentration1, self.concentration0], -1))
        super().__init__(self.concentration1.shape, (), validate_args)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return ag.squeeze(ag.narrow(self._pair.rsample(sample_shape), -1, 0, 1), -1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        return self._pair.log_prob(ag.stack([value, ag.sub(1.0, value)], -1))

    @property
    def mode(self) -> Tensor:
        return ag.squeeze(ag.narrow(self._pair.mode, -1, 0, 1), -1)

    @property
    def mean(self) -> Tensor:
        return ag.div(self.concentration1, ag.add(self.concentration1, self.concentration0))

    @property
    def variance(self) -> Tensor:
        total = ag.add(self.concentration1, self.concentration0)
        product = ag.mul(self.concentration1, self.concentration0)
        return ag.div(product, ag.mul(ag.square(total), ag.add(total, 1.0)))

    def entropy(self) -> Tensor:
        return self._pair.entropy()
