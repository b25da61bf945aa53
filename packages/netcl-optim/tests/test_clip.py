"""Clipping of gradients."""

from __future__ import annotations

import numpy as np
import pytest

from netcl.core.errors import NonFiniteError
from netcl.optim import clip_grad_norm, clip_grad_norm_device, clip_grad_value


@pytest.mark.parametrize("norm_type", [1.0, 2.0, 3.0, np.inf])
def test_norm(norm_type: float, rng, parameter) -> None:
    arrays = [rng.standard_normal(shape) for shape in [(3, 4), (), (7,), *[(2,)] * 20, (0,)]]
    params = [parameter(np.zeros(a.shape), a) for a in arrays] + [parameter([1.0])]
    exact = np.linalg.norm(np.concatenate([a.reshape(-1) for a in arrays]), norm_type)
    assert clip_grad_norm(params, 1e9, norm_type) == pytest.approx(exact, rel=1e-5)
    np.testing.assert_array_equal(params[0].grad.to_host(), arrays[0].astype(np.float32))
    assert clip_grad_norm(params, 0.5, norm_type) == pytest.approx(exact, rel=1e-5)
    for p, a in zip(params, arrays):
        np.testing.assert_allclose(p.grad.to_host(), a * (0.5 / (exact + 1e-6)), rtol=1e-5)
    assert clip_grad_norm(params, 1.0, norm_type) == pytest.approx(0.5, rel=1e-5)


def test_on_the_device(rng, parameter) -> None:
    grad = rng.standard_normal((5, 3))
    p = parameter(np.zeros((5, 3)), grad)
    norm = clip_grad_norm_device([p], 1.0)
    assert norm.shape == ()
    assert norm.item() == pytest.approx(np.linalg.norm(grad), rel=1e-5)
    assert np.linalg.norm(p.grad.to_host()) == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_gradients_add_up_in_float32(dtype: str, parameter) -> None:
    p = parameter(np.zeros(10000), np.full(10000, 8.0), dtype)
    assert clip_grad_norm([p], 8.0) == pytest.approx(800.0, rel=1e-5)
    np.testing.assert_allclose(p.grad.to_host().astype(np.float32), 0.08, rtol=4e-3)
    assert p.grad.dtype == dtype


def test_without_gradients(parameter) -> None:
    assert clip_grad_norm([parameter([1.0])], 1.0) == 0.0
    assert clip_grad_norm_device([parameter([1.0])], 1.0).item() == 0.0


def test_not_finite(parameter) -> None:
    p = parameter([1.0, 1.0], [np.inf, 1.0])
    with pytest.raises(NonFiniteError, match="inf"):
        clip_grad_norm([p], 1.0, error_if_nonfinite=True)
    np.testing.assert_array_equal(p.grad.to_host(), [np.inf, 1.0])
    with pytest.raises(ValueError, match="norm_type"):
        clip_grad_norm([p], 1.0, norm_type=0)


def test_by_value(parameter) -> None:
    p = parameter(np.zeros(4), [-3.0, 0.25, np.nan, 9.0])
    clip_grad_value([p, parameter([1.0])], 0.5)
    np.testing.assert_array_equal(p.grad.to_host(), np.array([-0.5, 0.25, np.nan, 0.5], np.float32))
