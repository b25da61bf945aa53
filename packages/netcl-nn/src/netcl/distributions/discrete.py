"""Discrete distributions."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.layout import broadcast_shapes
from netcl.core.tensor.host_draws import draw_on_host
from netcl.distributions import constraints
from netcl.distributions.constraints import Constraint
from netcl.distributions.distribution import Distribution, Shape, broadcast, check_all, open_uniform


def one_of(name: str, probs: Any, logits: Any) -> None:
    """Raises ValueError unless one of both is given."""
    if (probs is None) == (logits is None):
        raise ValueError(f"{name}: expected either probs or logits")


def logits_of(probs: Tensor) -> Tensor:
    """Returns the logits of probabilities; those of 0 and 1 are finite."""
    clipped = _inside(probs)
    return ag.log(clipped) - ag.log1p(-clipped)


def _inside(probs: Tensor) -> Tensor:
    return ag.minimum(ag.maximum(probs, 2.0**-23), 1.0 - 2.0**-23)


class Bernoulli(Distribution):
    """1 with probability ``probs`` = sigmoid(``logits``), else 0."""

    has_enumerate_support = True
    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    region: ClassVar[Constraint | None] = constraints.boolean
    probs: Tensor
    logits: Tensor

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        one_of("Bernoulli", probs, logits)
        if logits is None:
            check_all(type(self), validate_args, probs=probs)
            (self.probs,) = broadcast(probs)
            self.logits = logits_of(self.probs)
        else:
            (self.logits,) = broadcast(logits)
            self.probs = ag.sigmoid(self.logits)
        super().__init__(self.probs.shape, (), validate_args)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with ag.no_grad():
            drawn = ag.cast(ag.rand(self._extended(sample_shape), queue=self.probs.queue), dtype=self.probs.dtype)
            return ag.cast(drawn < self.probs, dtype=self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        return self.logits * value - ag.softplus(self.logits)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._over_batch(Tensor.from_host(self.probs.queue, [0.0, 1.0], self.probs.dtype), expand)

    @property
    def mode(self) -> Tensor:
        more = ag.cast(self.probs > 0.5, dtype=self.probs.dtype)
        return ag.where(ag.eq(self.probs, 0.5), float("nan"), more)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def variance(self) -> Tensor:
        return self.probs * (1.0 - self.probs)

    def entropy(self) -> Tensor:
        return ag.softplus(self.logits) - self.logits * self.probs


class Geometric(Bernoulli):
    """The number of failures before the first success, of probability ``probs``."""

    has_enumerate_support = False
    region: ClassVar[Constraint | None] = constraints.nonnegative_integer

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with ag.no_grad():
            u = open_uniform(self._extended(sample_shape), self.probs)
            return ag.floor(ag.log(u) / ag.log1p(-self.probs))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        return value * ag.log1p(-self.probs) + ag.log(self.probs)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        raise TypeError("Geometric has no finite support")

    @property
    def mode(self) -> Tensor:
        return self.probs * 0.0

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def entropy(self) -> Tensor:
        return super().entropy() / self.probs


class Categorical(Distribution):
    """The numbers 0 to K - 1 with probabilities ``probs`` (..., K), normalized, or softmax(``logits``)."""

    has_enumerate_support = True
    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "probs": constraints.independent(constraints.nonnegative, 1),
        "logits": constraints.real_vector,
    }
    probs: Tensor
    logits: Tensor

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        one_of(type(self).__name__, probs, logits)
        parameter: Any = probs if logits is None else logits
        if not isinstance(parameter, Tensor) or not parameter.ndim:
            raise ValueError(f"{type(self).__name__}: expected a tensor with at least one axis")
        if logits is None:
            check_all(type(self), validate_args, probs=parameter)
            self.probs = parameter / ag.sum(parameter, axis=-1, keepdims=True)
            self.logits = ag.log(_inside(self.probs))
        else:
            self.logits = parameter - ag.logsumexp(parameter, axis=-1, keepdims=True)
            self.probs = ag.softmax(self.logits, axis=-1)
        self._num_events: int = parameter.shape[-1]
        super().__init__(parameter.shape[:-1], (), validate_args)

    @property
    def support(self) -> Constraint:
        """The numbers of the categories."""
        return constraints.integer_interval(0, self._num_events - 1)

    def _indices(self, sample_shape: Shape) -> Tensor:
        """Returns indices by the largest of the logarithms of the probabilities plus Gumbel numbers, or PyTorch's."""
        with ag.no_grad():
            rows = ag.reshape(self.probs, (-1, self._num_events))
            drawn = draw_on_host(rows.engine, "multinomial", rows, math.prod(sample_shape), True, rows.dtype)
            if drawn is not None:
                shape = (*tuple(sample_shape), *self._batch_shape)
                return Tensor.from_host(rows.queue, np.ascontiguousarray(drawn.T).reshape(shape), "int64")
            u = open_uniform((*tuple(sample_shape), *self._batch_shape, self._num_events), self.probs)
            return ag.argmax(ag.log(self.probs) - ag.log(-ag.log(u)), axis=-1)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        return self._indices(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        if type(self) is Categorical:
            self._check_value(value)
        shape = broadcast_shapes([value.shape, self._batch_shape])
        index = ag.expand(ag.cast(value, dtype="int64"), shape)
        logits = ag.expand(self.logits, (*shape, self._num_events))
        return ag.squeeze(ag.gather(logits, -1, ag.unsqueeze(index, -1)), -1)

    @property
    def mode(self) -> Tensor:
        return ag.argmax(self.probs, axis=-1)

    def entropy(self) -> Tensor:
        return -ag.sum(self.probs * ag.maximum(self.logits, -3.4e38), axis=-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Returns all numbers, (K, ...), over the batch if ``expand``."""
        return self._over_batch(Tensor.arange(self._num_events, dtype="int64", queue=self.probs.queue), expand)


class OneHotCategorical(Categorical):
    """``Categorical`` with events as one-hot vectors."""

    region: ClassVar[Constraint | None] = constraints.one_hot

    @property
    def support(self) -> Constraint:
        """One-hot vectors."""
        return constraints.one_hot

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(probs, logits, validate_args)
        self._event_shape = (self._num_events,)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        return ag.cast(ag.one_hot(self._indices(sample_shape), self._num_events), dtype=self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        return super().log_prob(ag.argmax(value, axis=-1))

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._over_batch(Tensor.eye(self._num_events, dtype=self.probs.dtype, queue=self.probs.queue), expand)

    @property
    def mode(self) -> Tensor:
        return ag.cast(ag.one_hot(super().mode, self._num_events), dtype=self.probs.dtype)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def variance(self) -> Tensor:
        return self.probs * (1.0 - self.probs)


class Poisson(Distribution):
    """The number of events of a rate."""

    arg_constraints: ClassVar[dict[str, Constraint]] = {"rate": constraints.nonnegative}
    region: ClassVar[Constraint | None] = constraints.nonnegative_integer
    rate: Tensor

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        self._begin(validate_args, rate=rate)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with ag.no_grad():
            drawn: Tensor = ag.poisson(ag.clone(ag.expand(self.rate, self._extended(sample_shape))))
            return drawn

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        return ag.xlogy(value, self.rate) - self.rate - ag.lgamma(value + 1.0)

    @property
    def mode(self) -> Tensor:
        return ag.floor(self.rate)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def variance(self) -> Tensor:
        return self.rate
