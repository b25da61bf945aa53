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
    with pytest.raises(AttributeError, match="'bessel_j0': write .* scipy.special"):
        special.bessel_j0  # noqa: B018
    with pytest.raises(AttributeError, match="'eig': there are no complex dtypes; .* netcl.linalg.eigh"):
        nc.linalg.eig  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match="has no attribute 'nothing'$"):
        special.nothing  # noqa: B018
