"""TransformedDistribution, and distributions that are functions of an exponential or a normal number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.distributions import constraints
from netcl.distributions.constraints import Constraint
from netcl.distributions.continuous import EULER, Normal
from netcl.distributions.distribution import Distribution, Shape, open_uniform
from netcl.distributions.independent import Independent
from netcl.distributions.transforms import ComposeTransform, ExpTransform, Transform, summed


class TransformedDistribution(Distribution):
    """The distribution of the transforms of the events of ``base_distribution``, one transform after the other."""

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | Sequence[Transform],
        validate_args: bool | None = None,
    ) -> None:
        parts = [transforms] if isinstance(transforms, Transform) else list(transforms)
        if not all(isinstance(part, Transform) for part in parts):
            raise ValueError("transforms must be a Transform or a sequence of Transforms")
        self.transforms: list[Transform] = parts
        self._chain: ComposeTransform = ComposeTransform(parts)
        needed = self._chain.domain.event_dim
        events = len(base_distribution.event_shape)
        if needed > events:
            base_distribution = Independent(base_distribution, needed - events)
        self.base_dist: Distribution = base_distribution
        whole = (*base_distribution.batch_shape, *base_distribution.event_shape)
        shape = self._chain.forward_shape(whole)
        change = self._chain.codomain.event_dim - needed
        events = max(self._chain.codomain.event_dim, len(base_distribution.event_shape) + change)
        cut = len(shape) - events
        super().__init__(shape[:cut], shape[cut:], validate_args)
        self.has_rsample: bool = base_distribution.has_rsample

    @property
    def support(self) -> Constraint:
        """The codomain of the last transform."""
        if not self.transforms:
            return self.base_dist.support
        last = self.transforms[-1].codomain
        more = len(self._event_shape) - last.event_dim
        return constraints.independent(last, more) if more > 0 else last

    def _base_shape(self, sample_shape: Shape) -> tuple[int, ...]:
        """Returns the sample shape of the base, extended by the additional batch axes of the transforms' parameters."""
        rank = len(self.base_dist.batch_shape) + len(self.base_dist.event_shape)
        whole = self._chain.inverse_shape((*self._batch_shape, *self._event_shape))
        return (*tuple(sample_shape), *whole[: len(whole) - rank])

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with ag.no_grad():
            return self._chain(self.base_dist.sample(self._base_shape(sample_shape))).detach()

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self._chain(self.base_dist.rsample(self._base_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        y, events = value, len(self._event_shape)
        total: Tensor | None = None
        for part in self.transforms[::-1]:
            x = part._inv_call(y)
            events += part.domain.event_dim - part.codomain.event_dim
            term = part.log_abs_det_jacobian(x, y)
            term = summed(term, events - part.domain.event_dim)
            total = term if total is None else total + term
            y = x
        density = summed(self.base_dist.log_prob(y), events - len(self.base_dist.event_shape))
        return density if total is None else density - total

    def _falls(self) -> bool:
        """True if the composed transform falls; signs of tensors are read on the host and must all be the same."""
        sign = self._chain.sign
        if isinstance(sign, Tensor):
            values = sign.to_host()
            if values.size and values.min() != values.max():
                raise TypeError("cdf and icdf need transforms that rise, or fall, for all of the batch")
            sign = values.reshape(-1)[0] if values.size else 1
        return bool(sign < 0)

    def cdf(self, value: Tensor) -> Tensor:
        for part in self.transforms[::-1]:
            value = part._inv_call(value)
        probability = self.base_dist.cdf(value)
        return 1.0 - probability if self._falls() else probability

    def icdf(self, value: Tensor) -> Tensor:
        return self._chain(self.base_dist.icdf(1.0 - value if self._falls() else value))


class LogNormal(TransformedDistribution):
    """The distribution of the exponential of a Normal."""

    has_rsample = True
    arg_constraints: ClassVar[dict[str, Constraint]] = {"loc": constraints.real, "scale": constraints.positive}
    loc: Tensor
    scale: Tensor

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args)
        self.loc, self.scale = base.loc, base.scale
        super().__init__(base, ExpTransform(), validate_args)

    @property
    def mode(self) -> Tensor:
        return ag.exp(self.loc - ag.square(self.scale))

    @property
    def mean(self) -> Tensor:
        return ag.exp(self.loc + ag.square(self.scale) * 0.5)

    @property
    def variance(self) -> Tensor:
        square = ag.square(self.scale)
        return ag.expm1(square) * ag.exp(self.loc * 2.0 + square)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc


class Pareto(Distribution):
    """The Pareto distribution, alpha scale^alpha / x^(alpha + 1) from ``scale`` on."""

    has_rsample = True
    arg_constraints: ClassVar[dict[str, Constraint]] = {"scale": constraints.positive, "alpha": constraints.positive}
    scale: Tensor
    alpha: Tensor

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self._begin(validate_args, scale=scale, alpha=alpha)

    @property
    def support(self) -> Constraint:
        """The numbers from scale on."""
        return constraints.greater_than_eq(self.scale)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        log = ag.log(open_uniform(self._extended(sample_shape), self.scale))
        return self.scale * ag.exp(-(log / self.alpha))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        powers = self.alpha * ag.log(self.scale) - (self.alpha + 1.0) * ag.log(value)
        return ag.log(self.alpha) + powers

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def mean(self) -> Tensor:
        above = ag.where(self.alpha > 1.0, self.alpha - 1.0, 1.0)
        return ag.where(self.alpha > 1.0, self.alpha * self.scale / above, math.inf)

    @property
    def variance(self) -> Tensor:
        finite = self.alpha > 2.0
        a = ag.where(finite, self.alpha, 3.0)
        return ag.where(finite, ag.square(self.scale) * a / (ag.square(a - 1.0) * (a - 2.0)), math.inf)

    def entropy(self) -> Tensor:
        return ag.log(self.scale / self.alpha) + 1.0 / self.alpha + 1.0


class Weibull(Distribution):
    """The Weibull distribution with 1 - exp(-(x / scale)^concentration) as distribution function."""

    has_rsample = True
    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "scale": constraints.positive,
        "concentration": constraints.positive,
    }
    region: ClassVar[Constraint | None] = constraints.positive
    scale: Tensor
    concentration: Tensor

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self._begin(validate_args, scale=scale, concentration=concentration)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        exponential = -ag.log(open_uniform(self._extended(sample_shape), self.scale))
        return self.scale * ag.exp(ag.log(exponential) / self.concentration)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        c = self.concentration
        log = ag.log(value) - ag.log(self.scale)
        return ag.log(c) - ag.log(value) + (c * log - ag.exp(c * log))

    def _moment(self, order: float) -> Tensor:
        return ag.exp(ag.lgamma(order / self.concentration + 1.0))

    @property
    def mode(self) -> Tensor:
        share = (self.concentration - 1.0) / self.concentration
        return self.scale * ag.pow(share, 1.0 / self.concentration)

    @property
    def mean(self) -> Tensor:
        return self.scale * self._moment(1.0)

    @property
    def variance(self) -> Tensor:
        return ag.square(self.scale) * (self._moment(2.0) - ag.square(self._moment(1.0)))

    def entropy(self) -> Tensor:
        return (1.0 - 1.0 / self.concentration) * EULER + ag.log(self.scale / self.concentration) + 1.0
