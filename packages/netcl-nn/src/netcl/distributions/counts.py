"""Distributions of counts: Binomial, Multinomial and NegativeBinomial."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.errors import UnsupportedError
from netcl.distributions import constraints
from netcl.distributions.constraints import Constraint
from netcl.distributions.discrete import Categorical, logits_of, one_of
from netcl.distributions.distribution import Distribution, Shape, broadcast, check_all
from netcl.distributions.gamma import Gamma


def _count(value: Any, like: Any) -> Any:
    """Returns a count in a form that ``broadcast`` converts to floating."""
    if isinstance(value, Tensor) and isinstance(like, Tensor):
        return ag.cast(value, dtype=like.dtype)
    return ag.cast(value, dtype="float32") if isinstance(value, Tensor) and "int" in value.dtype else value


class _Trials(Distribution):
    """Base of the counts of trials with ``total_count`` and one of ``probs`` and ``logits``."""

    total_count: Tensor
    probs: Tensor
    logits: Tensor

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        one_of(type(self).__name__, probs, logits)
        check_all(type(self), validate_args, total_count=total_count, probs=probs, logits=logits)
        argument = probs if logits is None else logits
        self.total_count, parameter = broadcast(_count(total_count, argument), argument)
        if logits is None:
            self.probs = parameter
            self.logits = logits_of(parameter)
        else:
            self.logits = parameter
            self.probs = ag.sigmoid(parameter)
        super().__init__(parameter.shape, (), validate_args)


class Binomial(_Trials):
    """The number of successes of ``total_count`` trials of probability ``probs`` = sigmoid(``logits``)."""

    has_enumerate_support = True
    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(total_count, probs, logits, validate_args)

    @property
    def support(self) -> Constraint:
        """The whole numbers from 0 to total_count."""
        return constraints.integer_interval(0, self.total_count)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended(sample_shape)
        with ag.no_grad():
            count, probs = (ag.clone(ag.expand(t.detach(), shape)) for t in (self.total_count, self.probs))
            drawn: Tensor = ag.binomial(count, probs)
            return drawn

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        n = self.total_count
        ways = ag.lgamma(n + 1.0) - ag.lgamma(value + 1.0)
        ways = ways - ag.lgamma(n - value + 1.0)
        return ways + (value * self.logits - n * ag.softplus(self.logits))

    @property
    def mode(self) -> Tensor:
        return ag.minimum(ag.floor((self.total_count + 1.0) * self.probs), self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def variance(self) -> Tensor:
        return self.mean * (1.0 - self.probs)

    def _most(self) -> int:
        counts = self.total_count.to_host()
        if counts.size and counts.min() != counts.max():
            raise UnsupportedError("Binomial: total_count must be the same for all of the batch to have a support")
        return int(counts.max(initial=0))

    def enumerate_support(self, expand: bool = True) -> Tensor:
        most = self._most()
        counts = Tensor.from_host(self.probs.queue, list(range(most + 1)), self.probs.dtype)
        return self._over_batch(counts, expand)

    def entropy(self) -> Tensor:
        log = self.log_prob(self.enumerate_support(False))
        return -ag.sum(ag.exp(log) * log, axis=0)


class Multinomial(Distribution):
    """The counts of K categories in ``total_count`` draws of ``Categorical(probs, logits)``."""

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "probs": constraints.independent(constraints.nonnegative, 1),
        "logits": constraints.real_vector,
    }

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise UnsupportedError("Multinomial: total_count must be a Python int, the same for all of the batch")
        self.total_count: int = total_count
        self._categorical: Categorical = Categorical(probs, logits, validate_args)
        super().__init__(self._categorical.batch_shape, self._categorical.probs.shape[-1:], validate_args)

    @property
    def probs(self) -> Tensor:
        """The probabilities (..., K)."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities (..., K)."""
        return self._categorical.logits

    @property
    def support(self) -> Constraint:
        """Whole numbers with the sum total_count."""
        return constraints.multinomial(self.total_count)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        drawn = self._categorical.sample((self.total_count, *tuple(sample_shape)))
        with ag.no_grad():
            hits = ag.cast(ag.one_hot(drawn, self._event_shape[0]), dtype=self.probs.dtype)
            return ag.sum(hits, axis=0)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        ways = ag.lgamma(ag.sum(value, axis=-1) + 1.0)
        ways = ways - ag.sum(ag.lgamma(value + 1.0), axis=-1)
        logits = ag.where(ag.logical_and(ag.eq(value, 0.0), ag.eq(self.logits, -math.inf)), 0.0, self.logits)
        return ways + ag.sum(logits * value, axis=-1)

    @property
    def mean(self) -> Tensor:
        return self.probs * float(self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.mean * (1.0 - self.probs)

    def entropy(self) -> Tensor:
        # Each count is binomial, given the earlier counts.
        n = self.total_count
        draws = self._categorical.entropy() * float(n)
        counts = Binomial(n, self.probs)
        values = Tensor.from_host(self.probs.queue, list(range(n + 1)), self.probs.dtype)
        values = ag.reshape(values, (-1, *(1,) * self.probs.ndim))
        weights = ag.exp(counts.log_prob(values))
        order = ag.sum(ag.sum(weights * ag.lgamma(values + 1.0), axis=0), axis=-1)
        return draws - math.lgamma(n + 1) + order


class NegativeBinomial(_Trials):
    """The number of successes of probability ``probs`` before ``total_count`` failures, which need not be whole."""

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    region: ClassVar[Constraint | None] = constraints.nonnegative_integer

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with ag.no_grad():
            rate = Gamma(self.total_count, ag.exp(-self.logits)).sample(sample_shape)
            drawn: Tensor = ag.poisson(rate)
            return drawn

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        n = self.total_count
        powers = n * ag.logsigmoid(-self.logits) + value * ag.logsigmoid(self.logits)
        whole = n + value
        ways = ag.lgamma(whole) - (ag.lgamma(value + 1.0) + ag.lgamma(n))
        return powers + ag.where(ag.eq(whole, 0.0), 0.0, ways)

    @property
    def mode(self) -> Tensor:
        return ag.maximum(ag.floor((self.total_count - 1.0) * ag.exp(self.logits)), 0.0)

    @property
    def mean(self) -> Tensor:
        return self.total_count * ag.exp(self.logits)

    @property
    def variance(self) -> Tensor:
        return self.mean / ag.sigmoid(-self.logits)
