"""netcl.special beyond the ranges of the op table: far tails, poles, and names that are absent."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl import special
from netcl.core import Tensor

INF, NAN = math.inf, math.nan


def test_tails_of_the_normal_distribution(engine: Any) -> None:
    x = Tensor.from_host(engine.queue, np.array([-40.0, -12.0, -5.0, 0.0, 8.0], np.float32))
    wanted = [-804.6084420137538, -75.41067300156066, -15.064998393988727, -0.6931471805599453, -6.220960574271786e-16]
    np.testing.assert_allclose(special.log_ndtr(x).numpy(), wanted, rtol=2e-6, atol=1e-15)
    np.testing.assert_allclose(special.ndtr(x).numpy()[1:3], [1.7764821120776878e-33, 2.866515718791939e-07], rtol=5e-5)
    scaled = special.erfcx(Tensor.from_host(engine.queue, np.array([1e3, 30.0, 2.0, -2.0], np.float32))).numpy()
    np.testing.assert_allclose(
        scaled, [0.0005641893014533876, 0.018795888861416754, 0.25539567631050574, 108.94090493150044], rtol=3e-6
    )


def test_quantiles_of_the_normal_distribution(engine: Any) -> None:
    p = np.array([1e-30, 1e-6, 0.02, 0.5, 0.975], np.float32)
    wanted = [-11.464024688915602, -4.753424308822899, -2.053748910631823, 0.0, 1.959963984540054]
    found = special.ndtri(Tensor.from_host(engine.queue, p)).numpy()
    np.testing.assert_allclose(found, wanted, rtol=3e-6, atol=1e-7)
    ends = special.ndtri(Tensor.from_host([0.0, 1.0, -0.1, 1.1, NAN])).tolist()
    assert ends[:2] == [-INF, INF]
    assert all(math.isnan(x) for x in ends[2:])


def test_scaled_bessel_functions_do_not_overflow(engine: Any) -> None:
    x = Tensor.from_host(engine.queue, np.array([100.0, -100.0, 1e30, INF], np.float32))
    np.testing.assert_allclose(special.i0e(x).numpy()[:2], [0.039944, 0.039944], rtol=1e-5)
    np.testing.assert_allclose(special.i1e(x).numpy()[:2], [0.0397440, -0.0397440], rtol=1e-5)
    assert special.i0e(x).tolist()[3] == 0
    assert 0 < special.i0e(x).tolist()[2] < 1e-14
    assert special.i1(x).tolist()[2] == INF


def test_poles_and_ends() -> None:
    assert special.entr(Tensor.from_host([0.0, -1.0, INF])).tolist() == [0, -INF, -INF]
    found = special.zeta(Tensor.from_host([2.0, 1.0, 0.5, 2.0]), Tensor.from_host([1.0, 3.0, 1.0, -2.0])).tolist()
    assert found[0] == pytest.approx(math.pi**2 / 6, rel=1e-6)
    assert found[1] == INF
    assert math.isnan(found[2])
    assert found[3] == INF
    assert special.xlog1py(Tensor.from_host([0.0]), Tensor.from_host([-2.0])).tolist() == [0]


def test_names_that_are_absent_say_what_to_write() -> None:
    with pytest.raises(AttributeError, match="'eig': there are no complex dtypes; .* netcl.linalg.eigh"):
        nc.linalg.eig  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match="has no attribute 'nothing'$"):
        special.nothing  # noqa: B018


def _tensor(engine: Any, values: Any, dtype: str = "float32") -> Tensor:
    return Tensor.from_host(engine.queue, np.asarray(values), dtype)


def test_bessel_functions_keep_their_digits_for_large_arguments(engine: Any) -> None:
    """Relative to the amplitude, against Hankel's asymptotic series in float64."""
    numbers = np.array([30.0, 1000.0, 65536.0])
    x, scale = _tensor(engine, numbers), np.sqrt(2 / np.pi / numbers)
    p, q, phase = 1 - 9 / 128 / numbers**2, -1 / 8 / numbers + 75 / 1024 / numbers**3, numbers - math.pi / 4
    wanted = {"bessel_j0": p * np.cos(phase) - q * np.sin(phase), "bessel_y0": p * np.sin(phase) + q * np.cos(phase)}
    for name, values in wanted.items():
        np.testing.assert_allclose(getattr(special, name)(x).numpy() / scale, values, atol=2e-6, err_msg=name)
    # J1 Y0 - J0 Y1 = 2 / (pi x)
    j0, j1, y0, y1 = (getattr(special, f"bessel_{kind}")(x).numpy().astype(float) for kind in ("j0", "j1", "y0", "y1"))
    np.testing.assert_allclose((j1 * y0 - j0 * y1) / scale**2, 1.0, rtol=2e-6)


def test_bessel_functions_at_their_limits(engine: Any) -> None:
    x = _tensor(engine, [0.0, -1.0, INF, NAN])
    wanted = {
        "bessel_j0": [1, 0.7651977, NAN, NAN],
        "bessel_y0": [-INF, NAN, NAN, NAN],
        "bessel_y1": [-INF, NAN, NAN, NAN],
        "modified_bessel_k0": [INF, NAN, 0, NAN],
        "scaled_modified_bessel_k1": [INF, NAN, 0, NAN],
        "spherical_bessel_j0": [1, 0.841471, 0, NAN],
        "airy_ai": [0.3550281, 0.5355609, NAN, NAN],
    }
    for name, values in wanted.items():
        np.testing.assert_allclose(getattr(special, name)(x).numpy(), values, rtol=1e-6, err_msg=name)


def test_incomplete_gamma_functions_add_up_to_one_and_are_right_far_out(engine: Any) -> None:
    """For whole a the upper function is exp(-x) times the first a terms of exp(x)."""
    for a, x in ((1, 0.3), (3, 2.0), (12, 30.0), (30, 28.0), (30, 45.0), (80, 20.0)):
        terms = np.cumprod([1.0, *(x / k for k in range(1, a + 200))])
        upper, lower = math.exp(-x) * terms[:a].sum(), math.exp(-x) * terms[a:].sum()
        order, value = _tensor(engine, [float(a)]), _tensor(engine, [x])
        np.testing.assert_allclose(nc.igammac(order, value).numpy(), [upper], rtol=2e-5)
        np.testing.assert_allclose(nc.igamma(order, value).numpy(), [lower], rtol=2e-5)
    ends = _tensor(engine, [0.0, 0.0, 2.0, 2.0, INF, INF, -1.0])
    at = _tensor(engine, [1.0, 0.0, 0.0, INF, 1.0, INF, 1.0])
    np.testing.assert_array_equal(special.gammainc(ends, at).numpy(), [1, NAN, 0, 1, 0, NAN, NAN])
    np.testing.assert_array_equal(special.gammaincc(ends, at).numpy(), [0, NAN, 1, 0, 1, NAN, NAN])


def test_polynomials_of_mixed_and_high_degrees(engine: Any) -> None:
    x = _tensor(engine, [0.3, -0.7, 1.0, 2.0, 0.5])
    n = _tensor(engine, [100, 3, 40, 5, -1], "int64")
    wanted = [math.cos(100 * math.acos(0.3)), -1.372 + 2.1, 1.0, 362.0, 0.0]
    np.testing.assert_allclose(special.chebyshev_polynomial_t(x, n).numpy(), wanted, atol=1e-4)
    cubic = 2.5 * x.numpy() ** 3 - 1.5 * x.numpy()
    np.testing.assert_allclose(special.legendre_polynomial_p(x, 3).numpy(), cubic, rtol=1e-6)
    assert special.hermite_polynomial_h(_tensor(engine, [1, 2], "int32"), 2).dtype == "float32"
    assert special.laguerre_polynomial_l(0.5, _tensor(engine, [NAN, 1.0, 1e30])).tolist() == [0, 0.5, 0]
    with pytest.raises(ValueError, match="expected degrees up to 65536, got 100000"):
        special.hermite_polynomial_he(x, 100_000)
