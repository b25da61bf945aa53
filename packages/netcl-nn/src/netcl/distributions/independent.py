"""Independent: axes of a batch as axes of the event."""

from __future__ import annotations

from netcl.core import Tensor
from netcl.distributions import constraints
from netcl.distributions.constraints import Constraint
from netcl.distributions.distribution import Distribution, Shape
from netcl.distributions.transforms import summed


class Independent(Distribution):
    """``base_distribution`` with its last ``reinterpreted_batch_ndims`` batch axes as axes of the event."""

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        count, batch = reinterpreted_batch_ndims, base_distribution.batch_shape
        if not 0 <= count <= len(batch):
            raise ValueError(f"reinterpreted_batch_ndims must be from 0 to {len(batch)}, got {count}")
        self.base_dist: Distribution = base_distribution
        self.reinterpreted_batch_ndims: int = count
        cut = len(batch) - count
        super().__init__(batch[:cut], (*batch[cut:], *base_distribution.event_shape), validate_args)
        self.has_rsample: bool = base_distribution.has_rsample

    @property
    def support(self) -> Constraint:
        """The support of the base for all elements of an event."""
        return constraints.independent(self.base_dist.support, self.reinterpreted_batch_ndims)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return summed(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return summed(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance
