"""MixtureSameFamily: a mixture of the distributions along the last axis of a batch."""

from __future__ import annotations

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.distributions.constraints import Constraint
from netcl.distributions.discrete import Categorical
from netcl.distributions.distribution import Distribution, Shape


class MixtureSameFamily(Distribution):
    """One of the distributions along the last batch axis of ``component_distribution``, chosen by
    ``mixture_distribution``, a Categorical over that axis.
    """

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Distribution, validate_args: bool | None = None
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError("mixture_distribution must be a Categorical")
        batch = component_distribution.batch_shape
        if not batch or mixture_distribution.logits.shape[-1] != batch[-1]:
            raise ValueError(
                f"expected {mixture_distribution.logits.shape[-1]} parts in the last batch axis, got shape {batch}"
            )
        if mixture_distribution.batch_shape not in ((), batch[:-1]):
            raise ValueError(f"expected equal batch shapes, got {mixture_distribution.batch_shape} and {batch[:-1]}")
        self.mixture_distribution: Categorical = mixture_distribution
        self.component_distribution: Distribution = component_distribution
        super().__init__(batch[:-1], component_distribution.event_shape, validate_args)

    @property
    def support(self) -> Constraint:
        """The support of the components."""
        return self.component_distribution.support

    def _weights(self) -> Tensor:
        """Returns the probabilities of the components, over the axes of an event."""
        probs = self.mixture_distribution.probs
        return ag.reshape(probs, (*probs.shape, *(1,) * len(self._event_shape)))

    def _mixed(self, values: Tensor) -> Tensor:
        return ag.sum(values * self._weights(), axis=-1 - len(self._event_shape))

    def _apart(self, value: Tensor) -> Tensor:
        """Returns the value with an axis for the components."""
        return ag.unsqueeze(value, -1 - len(self._event_shape))

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        axis = -1 - len(self._event_shape)
        with ag.no_grad():
            drawn = self.component_distribution.sample(sample_shape)
            chosen = self.mixture_distribution.sample(
                sample_shape if self.mixture_distribution.batch_shape == self._batch_shape
                else (*tuple(sample_shape), *self._batch_shape)
            )  # fmt: skip
            index = ag.reshape(chosen, (*chosen.shape, 1, *(1,) * len(self._event_shape)))
            index_shape = (*drawn.shape[: drawn.ndim + axis], 1, *self._event_shape)
            return ag.squeeze(ag.gather(drawn, axis, ag.clone(ag.expand(index, index_shape))), axis)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        parts = self.component_distribution.log_prob(self._apart(value))
        return ag.logsumexp(parts + ag.log_softmax(self.mixture_distribution.logits, axis=-1), axis=-1)

    def cdf(self, value: Tensor) -> Tensor:
        parts = self.component_distribution.cdf(self._apart(value))
        return ag.sum(parts * self.mixture_distribution.probs, axis=-1)

    @property
    def mean(self) -> Tensor:
        return self._mixed(self.component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        # The mean of the variances, and the variance of the means.
        parts = self.component_distribution
        return self._mixed(parts.variance) + self._mixed(ag.square(parts.mean - self._apart(self.mean)))
