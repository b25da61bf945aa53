"""Continuous distributions that are functions of a normal or a uniform number."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.distributions import constraints
from netcl.distributions.constraints import Constraint
from netcl.distributions.distribution import (
    Distribution,
    Shape,
    broadcast,
    check_all,
    exponential,
    normal_numbers,
    open_uniform,
)

EULER = 0.5772156649015329
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class _LocationScale(Distribution):
    """A distribution of loc + scale x."""

    has_rsample = True
    # Mean and variance of the distribution with loc 0 and scale 1, and its entropy.
    moments: ClassVar[tuple[float, float, float]]
    arg_constraints: ClassVar[dict[str, Constraint]] = {"loc": constraints.real, "scale": constraints.positive}
    region: ClassVar[Constraint | None] = constraints.real
    loc: Tensor
    scale: Tensor

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        check_all(type(self), validate_args, scale=scale)
        self.loc, self.scale = broadcast(loc, scale)
        super().__init__(self.loc.shape, (), validate_args)

    def standard(self, shape: Shape) -> Tensor:
        """Returns samples with loc 0 and scale 1."""
        raise TypeError(f"{type(self).__name__} does not say its standard form")

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.loc + self.scale * self.standard(self._extended(sample_shape))

    def _z(self, value: Tensor) -> Tensor:
        return (value - self.loc) / self.scale

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * self.moments[0]

    @property
    def variance(self) -> Tensor:
        return ag.square(self.scale) * self.moments[1]

    def entropy(self) -> Tensor:
        return ag.log(self.scale) + self.moments[2]


class Normal(_LocationScale):
    """The normal distribution with mean ``loc`` and standard deviation ``scale``."""

    moments: ClassVar[tuple[float, float, float]] = (0.0, 1.0, 0.5 + _HALF_LOG_2PI)

    def standard(self, shape: Shape) -> Tensor:
        return normal_numbers(shape, self.loc)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        return ag.square(self._z(value)) * -0.5 - (ag.log(self.scale) + _HALF_LOG_2PI)

    def cdf(self, value: Tensor) -> Tensor:
        return (ag.erf(self._z(value) * math.sqrt(0.5)) + 1.0) * 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * (ag.erfinv(value * 2.0 - 1.0) * math.sqrt(2.0))


class Laplace(_LocationScale):
    """The Laplace distribution, exp(-|x - loc| / scale) / (2 scale)."""

    moments: ClassVar[tuple[float, float, float]] = (0.0, 2.0, 1.0 + math.log(2.0))

    def standard(self, shape: Shape) -> Tensor:
        u = open_uniform(shape, self.loc) * 2.0 - 1.0
        return -(ag.sign(u) * ag.log1p(-ag.abs(u)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        return -ag.abs(self._z(value)) - ag.log(self.scale * 2.0)

    def cdf(self, value: Tensor) -> Tensor:
        z = self._z(value)
        return 0.5 - ag.sign(z) * ag.expm1(-ag.abs(z)) * 0.5

    def icdf(self, value: Tensor) -> Tensor:
        centered = value - 0.5
        return self.loc - self.scale * (ag.sign(centered) * ag.log1p(ag.abs(centered) * -2.0))


class Cauchy(_LocationScale):
    """The Cauchy distribution; its mean and variance are NaN and infinite."""

    moments: ClassVar[tuple[float, float, float]] = (math.nan, math.inf, math.log(4 * math.pi))

    def standard(self, shape: Shape) -> Tensor:
        empty: Any = Tensor.empty(tuple(shape), self.loc.dtype, queue=self.loc.queue)
        drawn: Tensor = empty.cauchy_()
        return drawn

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        return -(ag.log1p(ag.square(self._z(value))) + ag.log(self.scale) + math.log(math.pi))

    def cdf(self, value: Tensor) -> Tensor:
        return ag.atan(self._z(value)) / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * ag.tan((value - 0.5) * math.pi)


class Gumbel(_LocationScale):
    """The Gumbel distribution, of the largest of many numbers."""

    moments: ClassVar[tuple[float, float, float]] = (EULER, math.pi**2 / 6, 1.0 + EULER)

    def standard(self, shape: Shape) -> Tensor:
        return -ag.log(-ag.log(open_uniform(shape, self.loc)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        z = -self._z(value)
        return z - ag.exp(z) - ag.log(self.scale)

    def cdf(self, value: Tensor) -> Tensor:
        return ag.exp(-ag.exp(-self._z(value)))

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc - self.scale * ag.log(-ag.log(value))


class _Half(Distribution):
    """The distribution of the absolute value of a symmetric one around 0."""

    has_rsample = True
    whole: ClassVar[type[_LocationScale]]
    arg_constraints: ClassVar[dict[str, Constraint]] = {"scale": constraints.positive}
    region: ClassVar[Constraint | None] = constraints.nonnegative
    scale: Tensor

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        self._begin(validate_args, scale=scale)
        self._base = self.whole(self.scale.detach() * 0.0, self.scale)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return ag.abs(self._base.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        return ag.where(value >= 0.0, self._base.log_prob(value) + math.log(2.0), -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        return self._base.cdf(value) * 2.0 - 1.0

    def icdf(self, value: Tensor) -> Tensor:
        return self._base.icdf((value + 1.0) * 0.5)

    @property
    def mode(self) -> Tensor:
        return self.scale * 0.0

    def entropy(self) -> Tensor:
        return self._base.entropy() - math.log(2.0)


class HalfNormal(_Half):
    """The distribution of the absolute value of Normal(0, scale)."""

    whole: ClassVar[type[_LocationScale]] = Normal

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return ag.square(self.scale) * (1 - 2 / math.pi)


class HalfCauchy(_Half):
    """The distribution of the absolute value of Cauchy(0, scale)."""

    whole: ClassVar[type[_LocationScale]] = Cauchy

    @property
    def mean(self) -> Tensor:
        return self.scale * 0.0 + math.inf

    @property
    def variance(self) -> Tensor:
        return self.scale * 0.0 + math.inf


class Uniform(Distribution):
    """The uniform distribution on [low, high)."""

    has_rsample = True
    arg_constraints: ClassVar[dict[str, Constraint]] = {"low": constraints.dependent, "high": constraints.dependent}
    low: Tensor
    high: Tensor

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        if not isinstance(low, Tensor) and not isinstance(high, Tensor) and not low < high:
            raise ValueError(f"low must be below high, got {low} and {high}")
        self.low, self.high = broadcast(low, high)
        if validate_args and not bool((self.low.to_host() < self.high.to_host()).all()):
            raise ValueError("low must be below high; the tensors have other values")
        super().__init__(self.low.shape, (), validate_args)

    @property
    def support(self) -> Constraint:
        """The numbers from low to high."""
        return constraints.interval(self.low, self.high)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        u = ag.cast(ag.rand(self._extended(sample_shape), queue=self.low.queue), dtype=self.low.dtype)
        return self.low + u * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        inside = ag.logical_and(value >= self.low, value < self.high)
        return ag.where(inside, -ag.log(self.high - self.low), -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        return ag.clamp((value - self.low) / (self.high - self.low), 0.0, 1.0)

    def icdf(self, value: Tensor) -> Tensor:
        return self.low + value * (self.high - self.low)

    @property
    def mode(self) -> Tensor:
        return self.high * math.nan

    @property
    def mean(self) -> Tensor:
        return (self.low + self.high) * 0.5

    @property
    def variance(self) -> Tensor:
        return ag.square(self.high - self.low) / 12.0

    def entropy(self) -> Tensor:
        return ag.log(self.high - self.low)


class Exponential(Distribution):
    """The exponential distribution, rate exp(-rate x)."""

    has_rsample = True
    arg_constraints: ClassVar[dict[str, Constraint]] = {"rate": constraints.positive}
    region: ClassVar[Constraint | None] = constraints.nonnegative
    rate: Tensor

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        self._begin(validate_args, rate=rate)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return exponential(self._extended(sample_shape), self.rate) / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        return ag.log(self.rate) - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        return -ag.expm1(-(self.rate * value))

    def icdf(self, value: Tensor) -> Tensor:
        return -(ag.log1p(-value) / self.rate)

    @property
    def mode(self) -> Tensor:
        return self.rate * 0.0

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.rate

    @property
    def variance(self) -> Tensor:
        return 1.0 / ag.square(self.rate)

    def entropy(self) -> Tensor:
        return 1.0 - ag.log(self.rate)
