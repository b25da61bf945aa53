"""Tries the kernels for few channels, in a child process."""

from __future__ import annotations

from typing import Any

import numpy as np

from netcl.core.backend.opencl.contraction.conv import conv
from netcl.core.backend.opencl.contraction.matrix_unit.matrix_units import engine_of_driver
from netcl.core.device.drivers.child_probe import RIGHT, WRONG

_BATCH, _FILTERS, _SIZE, _SIDE = 64, 32, 28, 3  # PoCL 7.1 doubles the gradient of these weights


def run_trial(key: str) -> int:
    """Returns the exit code of a trial on the first device with the driver ``key``: a convolution of images with one
    channel of whole numbers and its gradients are exact.

    Raises LookupError if there is no such device.
    """
    engine, rng = engine_of_driver(key), np.random.default_rng(0)
    out = _SIZE - _SIDE + 1
    x, w, g = (
        rng.integers(-3, 4, shape).astype(np.float64)
        for shape in ((_BATCH, _SIZE, _SIZE), (_FILTERS, _SIDE, _SIDE), (_BATCH, _FILTERS, out, out))
    )
    forward, by_x, by_w = np.zeros_like(g), np.zeros_like(x), np.zeros_like(w)
    for i in range(_SIDE):
        for j in range(_SIDE):
            window = x[:, i : i + out, j : j + out]
            forward += w[:, i, j, None, None] * window[:, None]
            by_x[:, i : i + out, j : j + out] += np.einsum("f,nfhw->nhw", w[:, i, j], g)
            by_w[:, i, j] = np.einsum("nhw,nfhw->f", window, g)
    images, weights, slopes = (
        engine.tensor(a.astype(np.float32).reshape(shape), "float32")
        for a, shape in ((x, (_BATCH, 1, _SIZE, _SIZE)), (w, (_FILTERS, 1, _SIDE, _SIDE)), (g, g.shape))
    )
    cases = {
        "forward": (images, weights, None, forward),
        "grad_input": (slopes, weights, images.shape, by_x),
        "grad_weight": (images, slopes, weights.shape, by_w),
    }
    options: dict[str, Any] = {"stride": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "groups": 1}
    for kind, (a, b, shape, expected) in cases.items():
        result = engine.read(conv(engine, kind, a, b, shape=shape, variant="channels", **options))
        if not np.array_equal(result.ravel(), expected.ravel()):
            return WRONG
    return RIGHT
