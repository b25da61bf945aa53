"""Relaxed discrete distributions (Concrete, Gumbel-softmax), and one-hot vectors with straight-through gradients.

C. J. Maddison, A. Mnih and Y. W. Teh, "The Concrete distribution" (2017); E. Jang, S. Gu and B. Poole, "Categorical
reparameterization with Gumbel-softmax" (2017).
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.distributions import constraints
from netcl.distributions.constraints import Constraint
from netcl.distributions.discrete import Bernoulli, Categorical, OneHotCategorical
from netcl.distributions.distribution import Distribution, Shape, open_uniform
from netcl.distributions.transformed import TransformedDistribution
from netcl.distributions.transforms import ExpTransform, SigmoidTransform


def _log(temperature: Any) -> Tensor | float:
    return ag.log(temperature) if isinstance(temperature, Tensor) else math.log(temperature)


class _LogitRelaxedBernoulli(Distribution):
    """(logits + a logistic number) / temperature."""

    has_rsample = True
    region: ClassVar[Constraint | None] = constraints.real

    def __init__(self, temperature: Any, probs: Any, logits: Any, validate_args: bool | None) -> None:
        self.temperature: Any = temperature
        self._base: Bernoulli = Bernoulli(probs, logits, validate_args)
        super().__init__(self._base.batch_shape, (), validate_args)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        logits = self._base.logits
        u = open_uniform(self._extended(sample_shape), logits)
        return ag.div(ag.log(u) - ag.log1p(-u) + logits, self.temperature)

    def log_prob(self, value: Tensor) -> Tensor:
        shifted: Tensor = self._base.logits - value * self.temperature
        return shifted + _log(self.temperature) - ag.softplus(shifted) * 2.0


class RelaxedBernoulli(TransformedDistribution):
    """Numbers in (0, 1), near 0 or 1 for a low ``temperature``, with gradients by ``probs`` or ``logits``."""

    has_rsample = True
    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = _LogitRelaxedBernoulli(temperature, probs, logits, validate_args)
        self.temperature: Any = temperature
        self.probs: Tensor = base._base.probs
        self.logits: Tensor = base._base.logits
        super().__init__(base, SigmoidTransform(), validate_args)


class _ExpRelaxedCategorical(Distribution):
    """Logarithms of softmax((logits + Gumbel numbers) / temperature)."""

    has_rsample = True
    region: ClassVar[Constraint | None] = constraints.real_vector

    def __init__(
        self, temperature: Any, probs: Tensor | None, logits: Tensor | None, validate_args: bool | None
    ) -> None:
        self.temperature: Any = temperature
        self._base: Categorical = Categorical(probs, logits, validate_args)
        super().__init__(self._base.batch_shape, self._base.logits.shape[-1:], validate_args)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        logits = self._base.logits
        u = open_uniform(self._extended(sample_shape), logits)
        scores = (logits - ag.log(-ag.log(u))) / self.temperature
        return ag.log_softmax(scores, axis=-1)

    def log_prob(self, value: Tensor) -> Tensor:
        count = self._event_shape[0]
        total = ag.sum(ag.log_softmax(self._base.logits - value * self.temperature, axis=-1), axis=-1)
        return total + _log(self.temperature) * (count - 1) + math.lgamma(count)


class RelaxedOneHotCategorical(TransformedDistribution):
    """Vectors with the sum 1, near one-hot for a low ``temperature``, with gradients by ``probs`` or ``logits``."""

    has_rsample = True
    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "probs": constraints.simplex,
        "logits": constraints.real_vector,
    }

    def __init__(
        self,
        temperature: Any,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = _ExpRelaxedCategorical(temperature, probs, logits, validate_args)
        self.temperature: Any = temperature
        self.probs: Tensor = base._base.probs
        self.logits: Tensor = base._base.logits
        super().__init__(base, ExpTransform(), validate_args)

    @property
    def support(self) -> Constraint:
        """Vectors with the sum 1."""
        return constraints.simplex


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """``OneHotCategorical`` with samples that have the gradient of ``probs`` (Y. Bengio et al. 2013)."""

    has_rsample = True

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())
