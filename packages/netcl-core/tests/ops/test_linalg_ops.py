"""Linear algebra on the host: shapes, modes, singular input, and refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import netcl.ops
from netcl import linalg
from netcl.core import Tensor
from netcl.core.errors import DTypeError, ShapeError, SingularMatrixError

RNG = np.random.default_rng(0)
SQUARE = ["cholesky", "det", "eigh", "eigvalsh", "inv", "slogdet"]


def tensor(values: Any, dtype: str = "float64") -> Tensor:
    return Tensor.from_host(np.asarray(values), dtype)


@pytest.mark.parametrize("name", SQUARE)
def test_a_matrix_has_to_be_square(engine: Any, name: str) -> None:
    for shape in ((3,), (2, 3), ()):
        with pytest.raises(ShapeError, match=rf"linalg_{name}: expected a matrix or a stack of them, \(\.\.\., n, n\)"):
            getattr(linalg, name)(Tensor.ones(shape))


@pytest.mark.parametrize("name", [*SQUARE, "qr", "svd", "svdvals", "pinv", "matrix_rank"])
def test_integers_are_refused(engine: Any, name: str) -> None:
    with pytest.raises(DTypeError, match=f"linalg_{name}"):
        getattr(linalg, name)(Tensor.ones((2, 2), "int32"))


def test_singular_matrices_are_refused() -> None:
    zeros = Tensor.zeros((2, 2))
    for call in (lambda: linalg.inv(zeros), lambda: linalg.solve(zeros, zeros), lambda: linalg.cholesky(zeros)):
        with pytest.raises(SingularMatrixError, match="linalg_"):
            call()
    assert linalg.det(zeros).item() == 0
    sign, logarithm = linalg.slogdet(zeros)
    assert (sign.item(), logarithm.item()) == (0, -math.inf)
    assert linalg.LinAlgError is SingularMatrixError


def test_empty_matrices(engine: Any) -> None:
    empty = Tensor.zeros((0, 2, 2))
    assert linalg.inv(empty).shape == (0, 2, 2)
    assert linalg.svd(empty)[1].shape == (0, 2)
    assert linalg.pinv(Tensor.zeros((2, 0))).shape == (0, 2)
    assert linalg.det(Tensor.zeros((0, 0))).item() == 1


def test_modes_of_qr(engine: Any) -> None:
    x = RNG.normal(size=(4, 2)).astype(np.float32)
    q, r = linalg.qr(Tensor.from_host(x), "complete")
    assert (q.shape, r.shape) == ((4, 4), (4, 2))
    np.testing.assert_allclose(q.numpy() @ r.numpy(), x, atol=1e-6)
    none, r = linalg.qr(Tensor.from_host(x), "r")
    assert (none.shape, r.shape) == ((0,), (2, 2))
    with pytest.raises(ValueError, match="expected one of reduced, complete, r as mode, got 'full'"):
        linalg.qr(Tensor.from_host(x), "full")


def test_solutions_of_systems_that_do_not_fit() -> None:
    a = Tensor.ones((3, 3))
    for b in (Tensor.ones((2,)), Tensor.ones((2, 3)), Tensor.ones(())):
        with pytest.raises(ShapeError, match="linalg_solve: shapes"):
            linalg.solve(a, b)
    with pytest.raises(ShapeError, match="linalg_lstsq: shapes"):
        linalg.lstsq(Tensor.ones((4, 2)), Tensor.ones((3, 1)))
    with pytest.raises(ShapeError, match="do not broadcast"):
        linalg.solve(tensor(np.stack([np.eye(3)] * 2)), tensor(np.ones((4, 3, 1))))


def test_residuals_and_rank_of_least_squares(engine: Any) -> None:
    a, b = RNG.normal(size=(5, 2)).astype(np.float32), RNG.normal(size=(5, 3)).astype(np.float32)
    found = linalg.lstsq(Tensor.from_host(a), Tensor.from_host(b))
    for got, wanted in zip(found, np.linalg.lstsq(a, b, rcond=None)):
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-4, atol=1e-5)
    assert linalg.lstsq(Tensor.from_host(a.T.copy()), Tensor.ones((2, 1)))[1].shape == (0,)


def test_norms_say_what_they_take() -> None:
    x = Tensor.ones((2, 3, 4))
    with pytest.raises(ValueError, match="expected ord 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, got 3"):
        linalg.matrix_norm(x, 3)
    with pytest.raises(ShapeError, match="names one axis twice"):
        linalg.matrix_norm(x, axis=(1, -2))
    with pytest.raises(ShapeError, match="one or two axes"):
        linalg.norm(x, 2)
    with pytest.raises(ValueError, match="is a norm of matrices"):
        linalg.norm(x, "nuc", 1)
    assert linalg.norm(x).item() == pytest.approx(math.sqrt(24))


def test_axes_of_the_products_of_vectors() -> None:
    with pytest.raises(ShapeError, match="expected length 3 of axis"):
        linalg.cross(Tensor.ones((2,)), Tensor.ones((2,)))
    with pytest.raises(ShapeError, match="are one axis"):
        netcl.ops.diagonal(Tensor.ones((2, 2)), 0, 1, -1)


def test_the_power_zero_is_the_identity(engine: Any) -> None:
    assert linalg.matrix_power(Tensor.ones((2, 3, 3)), 0).tolist() == [np.eye(3).tolist()] * 2


def test_ranks_with_limits() -> None:
    x = tensor(np.diag([4.0, 1.0, 1e-3]))
    ranks = [linalg.matrix_rank(x, **limit).item() for limit in ({}, {"atol": 0.1}, {"rtol": 0.5})]
    assert ranks == [3, 2, 1]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_iterations_on_nan_and_infinity_are_refused(value: float) -> None:
    """LAPACK's least squares of a matrix with two infinities do not end."""
    values = np.random.default_rng(0).uniform(-1, 1, (5, 3)).astype(np.float32)
    values[1, 1] = value
    values[3, 2] = -value
    x, square = Tensor.from_host(values), Tensor.from_host(values[1:4])
    ones = Tensor.ones((5, 2))
    for function, message in (
        (lambda: linalg.lstsq(x, ones), r"linalg_lstsq: no convergence on NaN or infinities.*\(5, 3\) and \(5, 2\)"),
        (lambda: linalg.svd(x), "linalg_svd"),
        (lambda: linalg.svdvals(x), "linalg_svdvals"),
        (lambda: linalg.pinv(x), "linalg_pinv"),
        (lambda: linalg.matrix_rank(x), "linalg_matrix_rank"),
        (lambda: linalg.eigh(square), "linalg_eigh"),
        (lambda: linalg.eigvalsh(square), "linalg_eigvalsh"),
    ):
        with pytest.raises(SingularMatrixError, match=message):
            function()


@pytest.mark.parametrize("dtype, rounding", [("float16", 2**-10), ("bfloat16", 2**-7)])
def test_exponentials_of_half_types_are_rounded_once(engine: Any, dtype: str, rounding: float) -> None:
    skew = np.array([[0.0, 6.0, -9.0], [-6.0, 0.0, 3.0], [9.0, -3.0, 0.0]])
    angle = np.sqrt(6.0**2 + 9.0**2 + 3.0**2)
    turn = np.eye(3) + np.sin(angle) / angle * skew + (1 - np.cos(angle)) / angle**2 * skew @ skew
    result = netcl.ops.matrix_exp(Tensor.from_host(skew, dtype))
    assert result.dtype == dtype
    np.testing.assert_allclose(result.to_host().astype(np.float64), turn, atol=rounding)
