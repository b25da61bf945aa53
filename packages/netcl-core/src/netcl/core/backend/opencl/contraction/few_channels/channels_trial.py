"""The trial of the kernels for few channels, in a child process, on versions of PoCL that are not known to be right."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from netcl.core.device.child_probe import RIGHT, WRONG, driver_key, verdict

__all__ = ["few_channels_work", "run_trial"]

_TIMEOUT_S = 60.0
# os._exit skips the driver's shutdown, which says nothing about the kernels.
_CHILD = """\
import os
from netcl.core.backend.opencl.contraction.few_channels.channels_trial import run_trial
os._exit(run_trial(sys.argv[1]))
"""
_BATCH, _FILTERS, _SIZE, _SIDE = 64, 32, 28, 3  # PoCL 7.1 doubles the gradient of these weights


def few_channels_work(engine: Any) -> bool:
    """True if the kernels are right: on PoCL from 4 on by a trial, at the first call for a driver version."""
    return _work(engine.queue.device)


@lru_cache(maxsize=64)
def _work(device: Any) -> bool:
    version = device.platform.version
    if "PoCL" not in version or "PoCL 3." in version:
        return True
    key = driver_key(device)
    return verdict("few_channels", key, _CHILD, _TIMEOUT_S, key, unexpected=True)


def run_trial(key: str) -> int:
    """Returns the exit code of a trial on the first device with the driver ``key``: a convolution of images with one
    channel of whole numbers and its gradients are exact.

    Raises LookupError if there is no such device.
    """
    from netcl.core.backend.opencl.contraction.conv import conv
    from netcl.core.backend.opencl.contraction.matrix_unit.matrix_units import engine_of_driver

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
    given = {
        "forward": (images, weights, None, forward),
        "grad_input": (slopes, weights, images.shape, by_x),
        "grad_weight": (images, slopes, weights.shape, by_w),
    }
    options: dict[str, Any] = {"stride": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "groups": 1}
    for kind, (a, b, shape, wanted) in given.items():
        found = engine.read(conv(engine, kind, a, b, shape=shape, variant="channels", **options))
        if not np.array_equal(found.ravel(), wanted.ravel()):
            return WRONG
    return RIGHT
