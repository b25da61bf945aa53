"""LU factors and the systems made of them: factors multiply to the matrix, singular matrices, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netcl import linalg
from netcl.core import Tensor
from netcl.core.errors import ShapeError, SingularMatrixError

RNG = np.random.default_rng(4)


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 3, 3), (0, 3), (1, 1)])
def test_the_factors_multiply_to_the_matrix(shape: tuple[int, ...], engine: Any) -> None:
    x = RNG.uniform(-1, 1, shape).astype(np.float32)
    p, lower, upper = linalg.lu(Tensor.from_host(engine.queue, x))
    np.testing.assert_allclose((p @ lower @ upper).numpy(), x, atol=1e-5)
    assert (np.abs(lower.numpy()) <= 1).all()  # partial pivoting
    plain = linalg.lu(Tensor.from_host(np.eye(3, dtype=np.float32) * 2), pivot=False)
    assert plain[0].tolist() == np.eye(3).tolist()


def test_singular_matrices_are_numbered() -> None:
    x = Tensor.from_host(np.stack([np.eye(3), np.diag([1.0, 0.0, 1.0])]).astype(np.float32))
    for name in ("cholesky_ex", "inv_ex"):
        result, info = getattr(linalg, name)(x)
        assert info.tolist() == [0, 2]
        assert info.dtype == "int32"
        assert np.isfinite(result.numpy()[0]).all()
        assert np.isnan(result.numpy()[1]).all()
        with pytest.raises(SingularMatrixError, match=rf"linalg_{name}: .* at row 2, matrix \(1,\)"):
            getattr(linalg, name)(x, check_errors=True)
    solved, info = linalg.solve_ex(x, Tensor.ones((2, 3)))
    assert solved.tolist()[0] == [1, 1, 1]
    assert info.tolist() == [0, 2]
    assert linalg.lu_factor_ex(x)[2].tolist() == [0, 2]
    assert linalg.cond(x, 1).tolist()[1] == float("inf")


def test_a_chain_is_divided_where_it_is_cheapest() -> None:
    given = [RNG.uniform(-1, 1, shape).astype(np.float32) for shape in ((30, 1), (1, 40), (40, 1), (1, 9))]
    result = linalg.multi_dot([Tensor.from_host(x) for x in given])
    np.testing.assert_allclose(result.numpy(), np.linalg.multi_dot(given), rtol=1e-4, atol=1e-5)


def test_refusals() -> None:
    x, wide = Tensor.ones((3, 3)), Tensor.ones((2, 3))
    with pytest.raises(ShapeError, match="linalg_multi_dot: expected two tensors"):
        linalg.multi_dot([x])
    with pytest.raises(ShapeError, match="linalg_multi_dot: shapes .* do not match"):
        linalg.multi_dot([x, wide])
    with pytest.raises(ShapeError, match="linalg_solve_triangular: shapes"):
        linalg.solve_triangular(x, wide, upper=True)
    with pytest.raises(SingularMatrixError):
        linalg.solve_triangular(Tensor.zeros((2, 2)), Tensor.ones((2, 1)), upper=True)
    with pytest.raises(ShapeError, match="linalg_lu_solve: LU"):
        linalg.lu_solve(x, Tensor.from_host(np.array([1, 2], np.int32)), x)
    with pytest.raises(ShapeError, match="linalg_tensorinv"):
        linalg.tensorinv(Tensor.ones((2, 3, 5)))
    with pytest.raises(ShapeError, match="linalg_tensorsolve"):
        linalg.tensorsolve(Tensor.ones((2, 3, 5)), Tensor.ones((2, 3)))
    with pytest.raises(ShapeError, match="linalg_householder_product"):
        linalg.householder_product(wide, Tensor.ones((2,)))
    with pytest.raises(ShapeError, match="linalg_cond"):
        linalg.cond(wide, 1)
    with pytest.raises(ShapeError, match="linalg_vander"):
        linalg.vander(x, N=-1)
