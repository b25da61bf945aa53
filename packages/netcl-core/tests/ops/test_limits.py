"""Values at poles, at infinity and at zeros of either sign, where PyTorch's are the reference."""

from __future__ import annotations

import math

import numpy as np
import pytest

from netcl import ops
from netcl.core import Tensor

INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("call", "given", "wanted"),
    [
        (ops.digamma, [0.0, -0.0, -INF, INF, -1.0], [-INF, INF, NAN, INF, NAN]),
        (ops.erfinv, [0.0, -0.0, 1.0, -1.0, 1.5], [0.0, -0.0, INF, -INF, NAN]),
        (lambda x: ops.polygamma(1, x), [0.0, -INF, INF, -1.0], [INF, NAN, 0.0, INF]),
        (ops.tanh, [100.0, -100.0, INF, -INF, NAN], [1.0, -1.0, 1.0, -1.0, NAN]),
        (lambda x: ops.gelu(x, approximate="tanh"), [-1e2, -1e4, -1e6, 1e4], [-0.0, -0.0, -0.0, 1e4]),
        (lambda x: ops.quantile(x, 0.25), [-INF, 1.0, INF], -INF),
        (lambda x: ops.quantile(x, 0.75), [-INF, -INF, 2.0], -INF),
        (lambda x: ops.quantile(x, 0.75), [-INF, 1.0, INF], NAN),
    ],
    ids=["digamma", "erfinv", "polygamma", "tanh", "gelu", "quantile below", "quantile of equals", "quantile above"],
)
def test_limits(engine, call, given, wanted):
    result = call(Tensor.from_host(np.array(given, np.float32))).numpy()
    np.testing.assert_array_equal(result, np.float32(wanted))
    finite = ~np.isnan(result)
    np.testing.assert_array_equal(np.signbit(result)[finite], np.signbit(np.float32(wanted))[finite])


@pytest.mark.parametrize(
    ("mode", "padding", "wanted"),
    [
        ("bilinear", "zeros", [NAN, NAN, NAN, 5.65]),
        ("bilinear", "border", [3.0, 5.0, 5.25, 5.65]),
        ("bilinear", "reflection", [3.0, 3.0, 5.25, 5.65]),
        ("nearest", "zeros", [0.0, 0.0, 0.0, 4.0]),
        ("nearest", "border", [3.0, 5.0, 6.0, 4.0]),
        ("bicubic", "zeros", [NAN, NAN, NAN, 6.989409]),
        ("bicubic", "border", [NAN, NAN, NAN, 6.026967]),
    ],
)
def test_positions_that_are_not_finite(engine, mode, padding, wanted):
    image = Tensor.from_host(np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3))
    grid = Tensor.from_host(np.array([[[[NAN, 0.0], [INF, 0.0], [-INF, 0.5], [0.2, 0.3]]]], np.float32))
    result = ops.grid_sample(image, grid, mode=mode, padding_mode=padding).numpy().reshape(-1)
    np.testing.assert_allclose(result, wanted, rtol=1e-5)
