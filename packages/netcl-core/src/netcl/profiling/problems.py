"""Problems that the autotuner measures: a matrix product or a convolution of random numbers, by any of its kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from netcl.core import Tensor
from netcl.core.errors import ShapeError

PLAIN = "plain"
_PLAIN_FLOPS = 2e8  # the most that the plain kernel computes: a few rows or images represent the whole


class Problem(NamedTuple):
    """A problem to tune.

    ``run(kernel)`` returns the result (None: by the rule's kernel); its entries ``picked`` on axis 0 must equal
    ``wanted()``.
    """

    run: Callable[[str | None], Tensor]
    kernels: Sequence[str]
    flops: int
    picked: Any
    wanted: Callable[[], Any]


def _matmul_problem(engine: Any, shape: tuple[Any, ...], dtype: str) -> Problem:
    m, n, k = shape
    rows, columns = _random((m, k), 1), _random((k, n), 2)
    a, b = (Tensor.from_host(engine.queue, values, dtype) for values in (rows, columns))
    gemm = engine.kernel_modules.gemm
    picked = _picked(m, 2 * n * k)
    some = Tensor.from_host(engine.queue, rows[picked], dtype)
    if engine.name != "cl":
        expected = _once(partial(gemm.matmul, engine, some, b))
        return Problem(lambda _: gemm.matmul(engine, a, b), ("numpy",), 2 * m * n * k, picked, expected)
    expected = _once(partial(gemm.matmul, engine, some, b, variant=PLAIN))
    kernels = gemm.kernels(engine, a.shape, b.shape, a.dtype)

    def product(kernel: str | None) -> Tensor:  # the rule's kernel by the engine, which has a fallback
        result: Tensor = engine.matmul(a, b) if kernel is None else gemm.matmul(engine, a, b, variant=kernel)
        return result

    return Problem(product, kernels, 2 * m * n * k, picked, expected)


def _conv2d_problem(engine: Any, shape: tuple[Any, ...], dtype: str) -> Problem:
    batch, channels, filters, height, width, kernel_h, kernel_w, stride, pad = shape
    out = [(size + 2 * p - k) // s + 1 for size, p, k, s in zip((height, width), pad, (kernel_h, kernel_w), stride)]
    if min(out) < 1:
        raise ShapeError(f"autotune_conv2d: a kernel of {shape[5:7]} does not fit {shape[3:5]} padded by {pad}")
    images, filtered = _random((batch, channels, height, width), 1), _random((filters, channels, kernel_h, kernel_w), 2)
    x, weight = (Tensor.from_host(engine.queue, values, dtype) for values in (images, filtered))
    conv = engine.kernel_modules.conv
    options = {
        "stride": stride,
        "padding": tuple((each, each) for each in pad),
        "dilation": (1, 1),
        "groups": 1,
    }
    each_image = 2 * out[0] * out[1] * weight.size
    picked = _picked(batch, each_image)
    some = Tensor.from_host(engine.queue, images[picked], dtype)
    run = partial(conv.conv, engine, "forward", x, weight, **options)
    if engine.name != "cl":
        expected = _once(partial(conv.conv, engine, "forward", some, weight, **options))
        return Problem(lambda _: run(), ("numpy",), batch * each_image, picked, expected)
    expected = _once(partial(conv.conv, engine, "forward", some, weight, variant=PLAIN, **options))
    kernels = conv.kernels(engine, x.shape, weight.shape, **options)

    def convolved(kernel: str | None) -> Tensor:
        result: Tensor = engine.conv("forward", x, weight, **options) if kernel is None else run(variant=kernel)
        return result

    return Problem(convolved, kernels, batch * each_image, picked, expected)


def _once(compute: Callable[[], Tensor]) -> Callable[[], Any]:
    """Evaluates ``compute`` at the first call, and returns the result as float64 on the host."""
    return cache(lambda: compute().numpy().astype(np.float64))


def _picked(count: int, flops: int) -> Any:
    """Returns the indices of the parts, of ``count`` independent ones of so many operations each, that the plain kernel
    computes: the first, the last, and as many between as fit into a fraction of a second.
    """
    affordable = int(max(2, min(count, _PLAIN_FLOPS // flops)))
    return np.unique(np.linspace(0, count - 1, affordable).astype(int))


def _random(shape: tuple[int, ...], seed: int) -> Any:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


PROBLEMS: dict[str, Callable[[Any, tuple[Any, ...], str], Problem]] = {
    "matmul": _matmul_problem,
    "conv2d": _conv2d_problem,
}
