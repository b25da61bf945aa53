"""Factors as LAPACK packs them and of low rank: products give the matrix back, and singular ones are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl import linalg
from netcl.core.errors import ShapeError, SingularMatrixError

RNG = np.random.default_rng(4)


def _symmetric(n: int, kind: str) -> Any:
    x = RNG.normal(size=(n, n))
    x = x + x.T
    if kind == "zeros on the diagonal":
        np.fill_diagonal(x, 0)
    return x


def _unpacked(ld: Any, pivots: Any) -> Any:
    """The matrix of packed factors, by products of one elimination after the other."""
    n, k, steps = len(ld), 0, []
    middle = np.zeros((n, n))
    while k < n:
        size = 1 if pivots[k] > 0 else 2
        order, lower = np.arange(n), np.eye(n)
        last, row = k + size - 1, abs(pivots[k]) - 1
        order[[last, row]] = order[[row, last]]
        lower[k + size :, k : k + size] = ld[k + size :, k : k + size]
        block = np.tril(ld[k : k + size, k : k + size])
        middle[k : k + size, k : k + size] = block + np.tril(block, -1).T
        steps.append(np.eye(n)[order] @ lower)
        k += size
    for step in reversed(steps):
        middle = step @ middle @ step.T
    return middle


@pytest.mark.parametrize("kind", ["dense", "zeros on the diagonal"])
@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_ldl_factors_multiply_to_the_matrix(numpy_device: Any, n: int, kind: str) -> None:
    x = _symmetric(n, kind if n > 1 else "dense")
    upper = x + np.triu(RNG.normal(size=(n, n)), 1)  # which is not read
    ld, pivots = linalg.ldl_factor(nc.tensor(upper))
    assert pivots.dtype == "int32"
    np.testing.assert_allclose(_unpacked(ld.numpy(), pivots.numpy()), x, atol=1e-10)
    b = RNG.normal(size=(n, 2))
    np.testing.assert_allclose(linalg.ldl_solve(ld, pivots, nc.tensor(b)).numpy(), np.linalg.solve(x, b), rtol=1e-7)


def test_ldl_pivots_are_those_of_lapack(numpy_device: Any) -> None:
    x = nc.tensor([[1.0, 2.0, 3.0], [2.0, 0.0, 5.0], [3.0, 5.0, 0.001]], dtype="float64")
    ld, pivots, info = linalg.ldl_factor_ex(x)
    assert (pivots.tolist(), info.item()) == ([-3, -3, 3], 0)
    np.testing.assert_allclose(ld.numpy()[2], [1.6666, 0.1111, -3.8889], atol=1e-4)


def test_ldl_of_singular_matrices(numpy_device: Any) -> None:
    zero = nc.zeros(2, 2)
    ld, pivots, info = linalg.ldl_factor_ex(zero)
    assert info.item() == 1
    with pytest.raises(SingularMatrixError, match="a pivot is zero at row 1"):
        linalg.ldl_factor(zero)
    with pytest.raises(SingularMatrixError, match="linalg_ldl_solve"):
        linalg.ldl_solve(ld, pivots, nc.ones(2, 1))
    with pytest.raises(ShapeError, match="do not match"):
        linalg.ldl_solve(ld, pivots, nc.ones(3, 1))


@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 5), (2, 4, 3), (0, 3)])
def test_geqrf_packs_the_factors_of_qr(engine: Any, shape: Any) -> None:
    x = RNG.normal(size=shape).astype(np.float32)
    a, tau = nc.geqrf(nc.tensor(x).to(engine.queue))
    k = min(shape[-2:])
    r = np.triu(a.numpy())
    np.testing.assert_allclose(nc.ormqr(a[..., :k], tau, nc.tensor(r).to(engine.queue)).numpy(), x, atol=1e-5)
    if shape[-2] >= shape[-1]:
        q = nc.orgqr(a, tau).numpy()
        np.testing.assert_allclose(
            np.swapaxes(q, -1, -2) @ q, np.broadcast_to(np.eye(k), (*shape[:-2], k, k)), atol=1e-5
        )


def test_ormqr_multiplies_from_both_sides(numpy_device: Any) -> None:
    a, tau = nc.geqrf(nc.tensor(RNG.normal(size=(4, 3))))
    q = nc.ormqr(a, tau, nc.eye(4, dtype="float64")).numpy()
    for left in (True, False):
        for transpose in (True, False):
            other = RNG.normal(size=(4, 2) if left else (2, 4))
            factor = q.T if transpose else q
            expected = factor @ other if left else other @ factor
            np.testing.assert_allclose(
                nc.ormqr(a, tau, nc.tensor(other), left, transpose).numpy(), expected, atol=1e-12
            )
    with pytest.raises(ShapeError, match="ormqr"):
        nc.ormqr(a, tau, nc.ones(3, 2, dtype="float64"))


@pytest.mark.parametrize("shape", [(12, 7), (7, 12), (2, 8, 6)])
def test_low_rank_is_found(numpy_device: Any, shape: Any) -> None:
    *lead, m, n = shape
    values = RNG.normal(size=(*lead, m, 3)) @ RNG.normal(size=(*lead, 3, n))
    u, s, v = nc.svd_lowrank(nc.tensor(values), q=3)
    np.testing.assert_allclose(((u * s.unsqueeze(-2)) @ v.mT).numpy(), values, atol=1e-10)
    centered = values - values.mean(-2, keepdims=True)
    found = nc.pca_lowrank(nc.tensor(values), q=3)
    np.testing.assert_allclose(
        found.S.numpy(), np.linalg.svd(centered, compute_uv=False)[..., :3], rtol=1e-8, atol=1e-10
    )
    shifted = nc.svd_lowrank(nc.tensor(values), 3, M=nc.tensor(values - centered))
    np.testing.assert_allclose(shifted.S.numpy(), found.S.numpy(), rtol=1e-8, atol=1e-10)
    with pytest.raises(ValueError, match="pca_lowrank: expected q from 0 to"):
        nc.pca_lowrank(nc.tensor(values), q=20)
    for of in (nc.pca_lowrank, nc.svd_lowrank):
        with pytest.raises(ValueError, match="expected niter of at most 10000, got 2147483648"):
            of(nc.tensor(values), niter=2**31)


def test_extreme_eigenvalues(numpy_device: Any) -> None:
    x, b = np.diag(np.arange(1.0, 10.0)) + 0.1, np.diag(np.arange(2.0, 11.0))
    expected = np.linalg.eigvalsh(x)
    np.testing.assert_allclose(nc.lobpcg(nc.tensor(x), 2)[0].numpy(), expected[::-1][:2])
    np.testing.assert_allclose(nc.lobpcg(nc.tensor(x), 2, largest=False)[0].numpy(), expected[:2])
    values, vectors = (part.numpy() for part in nc.lobpcg(nc.tensor(x), 3, nc.tensor(b)))
    np.testing.assert_allclose(x @ vectors, b @ vectors * values, atol=1e-10)
    with pytest.raises(ValueError, match="lobpcg: expected at least 3 k = 12 rows"):
        nc.lobpcg(nc.tensor(x), 4)


@pytest.mark.parametrize("shape", [(5, 3), (2, 1, 5, 3), (2, 4, 0)])
def test_a_product_of_no_reflections_is_the_identity(numpy_device: Any, shape: Any) -> None:
    x, tau = nc.tensor(np.full(shape, np.nan)), nc.ones(*shape[:-2], 0, dtype="float64")
    q = linalg.householder_product(x, tau)
    np.testing.assert_array_equal(q.numpy(), np.broadcast_to(np.eye(*shape[-2:]), shape))
