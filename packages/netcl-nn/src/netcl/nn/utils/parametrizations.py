"""Parametrizations of weights: by norm and direction, by spectral norm, and orthogonal ones."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.nn.conv import _Transposed as Transposed
from netcl.nn.module import Module
from netcl.nn.reparameterize import as_matrix, norm_except, unit
from netcl.nn.utils.parametrize import register_parametrization

M = TypeVar("M", bound=Module)


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim: int | None = dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return ag.mul(weight_v, ag.div(weight_g, norm_except(weight_v, self.dim)))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the norms and the weight."""
        return norm_except(weight, self.dim), weight


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Parametrizes the weight as g v / ||v||, with the norms ``original0`` over all axes but ``dim`` (over all with
    None) and the direction ``original1``; returns the module (Salimans and Kingma 2016).
    """
    dim = None if dim == -1 else dim
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    return module


class _SpectralNorm(Module):
    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        if n_power_iterations < 1:
            raise ValueError(f"expected n_power_iterations of at least 1, got {n_power_iterations}")
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError(f"dim {dim} is out of range of a weight of shape {weight.shape}")
        self.dim: int = dim % weight.ndim
        self.eps: float = eps
        self.n_power_iterations: int = n_power_iterations
        if weight.ndim > 1:
            with ag.no_grad():
                matrix = as_matrix(weight.detach(), self.dim)
                for name, length in zip(("_u", "_v"), matrix.shape):
                    start = unit(ag.cast(ag.randn(length, queue=weight.queue), dtype=weight.dtype), eps)
                    kept = Tensor.empty((length,), weight.dtype, queue=weight.queue, persistent=True)
                    self.register_buffer(name, kept.write(start))
                self.iterate(matrix, 15)

    def iterate(self, matrix: Tensor, times: int) -> None:
        """Updates the singular vectors in place."""
        for _ in range(times):
            self._u.write(unit(ag.matmul(matrix, self._v), self.eps))
            self._v.write(unit(ag.matmul(self._u, matrix), self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return unit(weight, self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            with ag.no_grad():
                self.iterate(matrix.detach(), self.n_power_iterations)
        # Copies: the next call updates the vectors in place, possibly before the backward pass of this one.
        u, v = ag.clone(self._u.detach()), ag.clone(self._v.detach())
        return ag.div(weight, ag.sum(ag.mul(u, ag.matmul(matrix, v))))

    def right_inverse(self, value: Tensor) -> Tensor:
        """Returns the value: its spectral norm is taken to be one."""
        return value


def spectral_norm(
    module: M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> M:
    """Parametrizes the weight as w / sigma, sigma its largest singular value as a matrix with the axis ``dim`` (1 for
    transposed convolutions, else 0) as rows, by the power method; returns the module (Miyato et al. 2018).
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"{type(module).__name__} has no parameter or buffer {name!r}")
    if dim is None:
        dim = 1 if isinstance(module, Transposed) else 0
    register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
    return module


class _Orthogonal(Module):
    """A matrix with orthonormal columns, or rows if there are more columns, from an unconstrained one: the exponential
    or the Cayley transform of a skew-symmetric matrix or a product of Householder reflections, after ``base``.
    """

    base: Tensor | None

    def __init__(self, weight: Tensor, orthogonal_map: str, use_trivialization: bool = True) -> None:
        super().__init__()
        self.orthogonal_map: str = orthogonal_map
        rows = max(weight.shape[-2:])
        base = None
        if use_trivialization:
            shape = (*weight.shape[:-2], rows, rows)
            base = Tensor.zeros(shape, weight.dtype, queue=weight.queue, persistent=True)
        self.register_buffer("base", base)

    def forward(self, x: Tensor) -> Tensor:
        wide = x.shape[-2] < x.shape[-1]
        if wide:
            x = ag.transpose(x, -1, -2)
        rows, columns = x.shape[-2:]
        if self.orthogonal_map == "householder":
            a = ag.tril(x, diagonal=-1)
            tau = ag.div(2.0, ag.add(ag.sum(ag.square(a), axis=-2), 1.0))
            q = _reflected(a, tau)
            signs = ag.trunc(ag.diagonal(x.detach(), dim1=-2, dim2=-1))
            q = ag.mul(q, ag.unsqueeze(signs, -2))
        else:
            a = ag.tril(x)
            if rows != columns:
                zeros = Tensor.zeros((*a.shape[:-1], rows - columns), a.dtype, queue=a.queue)
                a = ag.cat([a, zeros], axis=-1)
            a = ag.sub(a, ag.transpose(a, -1, -2))
            if self.orthogonal_map == "matrix_exp":
                q = ag.matrix_exp(a)
            else:
                identity, half = Tensor.eye(rows, dtype=a.dtype, queue=a.queue), ag.mul(a, 0.5)
                q = ag.matmul(ag.inverse(ag.sub(identity, half)), ag.add(identity, half))
            if rows != columns:
                q = ag.narrow(q, q.ndim - 1, 0, columns)
        if self.base is not None:
            q = ag.matmul(self.base, q)
        return ag.transpose(q, -1, -2) if wide else q

    def right_inverse(self, value: Tensor) -> Tensor:
        """Stores an orthogonal matrix that begins with the value's columns, made orthonormal, as the base; returns
        minus the identity, which the maps send to the identity.
        """
        if self.base is None:
            return value
        columns = value.detach().to_host().astype(np.float64)
        if columns.shape[-2] < columns.shape[-1]:
            columns = columns.swapaxes(-1, -2)
        rows, count = columns.shape[-2:]
        if rows != count:
            more = ag.randn(*columns.shape[:-2], rows, rows - count, queue=value.queue)
            columns = np.concatenate([columns, more.to_host().astype(np.float64)], axis=-1)
        q, r = np.linalg.qr(columns)
        self.base.write(q * np.sign(np.diagonal(r, axis1=-2, axis2=-1))[..., None, :])
        height, width = value.shape[-2:]
        start = ag.neg(Tensor.eye(height, width, value.dtype, queue=value.queue))
        return ag.clone(ag.expand(start, value.shape))


def _reflected(a: Tensor, tau: Tensor) -> Tensor:
    """Returns the first columns of the product of the reflections I - tau_i v_i v_i^T, v_i the column i of ``a`` below
    its diagonal, with 1 on it.
    """
    rows, columns = a.shape[-2:]
    unit = Tensor.eye(rows, columns, a.dtype, queue=a.queue)
    vectors = ag.add(a, unit)
    q = ag.expand(unit, a.shape)
    for at in reversed(range(columns)):
        v = ag.narrow(vectors, vectors.ndim - 1, at, 1)
        factor = ag.unsqueeze(ag.narrow(tau, tau.ndim - 1, at, 1), -1)
        q = ag.sub(q, ag.mul(ag.matmul(v, ag.matmul(ag.transpose(v, -1, -2), q)), factor))
    return q


def orthogonal(
    module: M, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> M:
    """Parametrizes the weight as a matrix with orthonormal columns, or rows if there are more columns; returns the
    module.

    ``orthogonal_map``: "matrix_exp" (the default of square matrices), "cayley", or "householder" (of others). The
    buffer ``base`` is an orthogonal matrix near which the map works; without ``use_trivialization`` there is none, and
    "householder" is refused.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"{type(module).__name__} has no parameter or buffer {name!r}")
    if weight.ndim < 2:
        raise ValueError(f"orthogonal: expected a matrix or a batch of them, got {weight.shape}")
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.shape[-2] == weight.shape[-1] else "householder"
    if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(f"orthogonal_map: expected 'matrix_exp', 'cayley' or 'householder', got {orthogonal_map!r}")
    if orthogonal_map == "householder" and not use_trivialization:
        raise ValueError("householder needs use_trivialization=True; or write orthogonal_map='matrix_exp'")
    made = _Orthogonal(weight, orthogonal_map, use_trivialization)
    register_parametrization(module, name, made, unsafe=True)
    return module
