"""The multivariate normal distribution, by its Cholesky factor."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.layout import broadcast_shapes
from netcl.distributions import constraints
from netcl.distributions.constraints import Constraint, transposed
from netcl.distributions.distribution import Distribution, Shape, check_all, normal_numbers


def log_diagonal(tril: Tensor) -> Tensor:
    """Returns half the logarithm of the determinant of the covariance."""
    return ag.sum(ag.log(ag.diagonal(tril, 0, -2, -1)), axis=-1)


def solved(tril: Tensor, right: Tensor) -> Tensor:
    """Returns the solutions of the systems with the lower triangular ``tril``."""
    return ag.linalg_solve_triangular(tril, right, upper=False)  # type: ignore[no-any-return]


def _of_precision(precision: Tensor) -> Tensor:
    """Returns the Cholesky factor of the inverse, from the factor of the matrix with reversed axes."""
    factor = transposed(ag.flip(ag.linalg_cholesky(ag.flip(precision, axis=(-2, -1))), axis=(-2, -1)))
    identity = Tensor.eye(precision.shape[-1], dtype=precision.dtype, queue=precision.queue)
    return solved(factor, ag.expand(identity, precision.shape))


class MultivariateNormal(Distribution):
    """The normal distribution of vectors with mean ``loc`` (..., n) and either a covariance, its inverse, or its lower
    Cholesky factor (..., n, n). The factor is computed on the host.
    """

    has_rsample = True
    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    region: ClassVar[Constraint | None] = constraints.real_vector
    loc: Tensor
    scale_tril: Tensor

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        matrices = [m for m in (covariance_matrix, precision_matrix, scale_tril) if m is not None]
        if len(matrices) != 1:
            raise ValueError(
                "MultivariateNormal: expected exactly one of covariance_matrix, precision_matrix and scale_tril"
            )
        if not isinstance(loc, Tensor) or not loc.ndim or not isinstance(matrices[0], Tensor) or matrices[0].ndim < 2:
            raise ValueError(
                "MultivariateNormal: expected a tensor loc with at least one axis, and a matrix as a tensor"
            )
        check_all(
            MultivariateNormal, validate_args, loc=loc, covariance_matrix=covariance_matrix,
            precision_matrix=precision_matrix, scale_tril=scale_tril,
        )  # fmt: skip
        batch = broadcast_shapes((loc.shape[:-1], matrices[0].shape[:-2]), "MultivariateNormal")
        size = loc.shape[-1]
        matrix = ag.expand(matrices[0], (*batch, size, size))
        self.loc = ag.expand(loc, (*batch, size))
        if covariance_matrix is not None:
            matrix = ag.linalg_cholesky(matrix)
        elif precision_matrix is not None:
            matrix = _of_precision(matrix)
        self.scale_tril = matrix
        super().__init__(batch, (size,), validate_args)

    @property
    def covariance_matrix(self) -> Tensor:
        """The covariance (..., n, n)."""
        return ag.matmul(self.scale_tril, transposed(self.scale_tril))

    @property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance (..., n, n)."""
        identity = Tensor.eye(self._event_shape[0], dtype=self.loc.dtype, queue=self.loc.queue)
        inverse = solved(self.scale_tril, ag.expand(identity, self.scale_tril.shape))
        return ag.matmul(transposed(inverse), inverse)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        drawn = normal_numbers(self._extended(sample_shape), self.loc)
        turned = ag.matmul(self.scale_tril, ag.unsqueeze(drawn, -1))
        return self.loc + ag.squeeze(turned, -1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_value(value)
        distance = self._distance(value - self.loc)
        constant = 0.5 * self._event_shape[0] * math.log(2 * math.pi)
        return distance * -0.5 - (log_diagonal(self.scale_tril) + constant)

    def _distance(self, difference: Tensor) -> Tensor:
        """Returns the squared Mahalanobis distance of a difference from the mean."""
        count = self._event_shape[0]
        batch = broadcast_shapes((difference.shape[:-1], self._batch_shape), "log_prob")
        column = ag.unsqueeze(ag.expand(difference, (*batch, count)), -1)
        whitened = solved(ag.expand(self.scale_tril, (*batch, count, count)), column)
        return ag.sum(ag.square(ag.squeeze(whitened, -1)), axis=-1)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return ag.sum(ag.square(self.scale_tril), axis=-1)

    def entropy(self) -> Tensor:
        constant = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        return log_diagonal(self.scale_tril) + constant


def divergence(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    """Returns the divergence of q from p."""
    size = p.event_shape[0]
    batch = broadcast_shapes((p.batch_shape, q.batch_shape), "kl_divergence")
    left, right = (ag.expand(distribution.scale_tril, (*batch, size, size)) for distribution in (p, q))
    trace = ag.sum(ag.square(solved(right, left)), axis=(-2, -1))
    halves = log_diagonal(right) - log_diagonal(left)
    distance = q._distance(p.loc - q.loc)
    result: Any = halves + (trace + distance - float(size)) * 0.5
    return result  # type: ignore[no-any-return]
