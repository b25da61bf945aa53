"""Channels of images and sequences: their order, and the normalization over neighboring ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from netcl.core.errors import ShapeError
from netcl.core.tensor import Tensor
from netcl.ops.domains import Cases, compared
from netcl.ops.elementwise import add, div, mul, pow
from netcl.ops.pool import avg_pool
from netcl.ops.shape import permute, reshape
from netcl.ops.table import composite, engine_of


def _shuffle_cases(rng: np.random.Generator) -> Cases:
    for shape, groups in (((2, 6, 3, 2), 3), ((1, 4, 5), 2), ((2, 4, 2, 1, 2), 1)):
        yield (rng.uniform(-1, 1, shape),), {"groups": groups}


def _shuffle_reference(x: Any, groups: int) -> Any:
    n, c, *rest = x.shape
    return x.reshape(n, groups, c // groups, *rest).swapaxes(1, 2).reshape(x.shape)


@composite(domain=compared(_shuffle_cases, _shuffle_reference))
def channel_shuffle(x: Tensor, groups: int) -> Tensor:
    """Returns the channels of x (N, C, spatial...) in another order: channel g C / groups + i becomes i groups + g
    (Zhang et al. 2018). Raises ShapeError if ``groups`` does not divide C.
    """
    engine_of("channel_shuffle", x)
    if x.ndim < 3 or not isinstance(groups, (int, np.integer)) or groups < 1 or x.shape[1] % groups:
        raise ShapeError(
            f"channel_shuffle: x {x.shape}, groups {groups!r}; expected (N, C, spatial...) with a C that a positive "
            "number of groups divides",
            parameter="groups",
        )
    n, c, *rest = x.shape
    apart = reshape(x, (n, int(groups), c // int(groups), *rest))
    return reshape(permute(apart, (0, 2, 1, *range(3, apart.ndim))), x.shape)  # type: ignore[no-any-return]


def _response_cases(rng: np.random.Generator) -> Cases:
    for shape, attributes in (
        ((2, 5, 3, 2), {"size": 3}),
        ((1, 4, 5), {"size": 2, "alpha": 0.5, "beta": 0.6, "k": 2.0}),
        ((2, 3, 2, 1, 2), {"size": 5, "alpha": 0.3}),
    ):
        yield (rng.uniform(-1, 1, shape),), attributes


def _response_reference(x: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Any:
    padded = np.pad(x * x, [(0, 0), (size // 2, (size - 1) // 2)] + [(0, 0)] * (x.ndim - 2))
    sums = sum(padded[:, i : i + x.shape[1]] for i in range(size))
    return x / (k + alpha * sums / size) ** beta


@composite(amp="float32", domain=compared(_response_cases, _response_reference))
def local_response_norm(x: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Returns x / (k + alpha m)^beta of x (N, C, spatial...), with m the mean of x squared over ``size`` neighboring
    channels, zeros outside (Krizhevsky et al. 2012).
    """
    engine_of("local_response_norm", x)
    if x.ndim < 3 or not isinstance(size, (int, np.integer)) or size < 1:
        raise ShapeError(
            f"local_response_norm: x {x.shape}, size {size!r}; expected (N, C, spatial...) and a number of channels "
            "from 1"
        )
    if x.size == 0:
        return x
    n, c, *rest = x.shape
    squares = reshape(mul(x, x), (n, 1, c, math.prod(rest)))
    means = avg_pool(squares, (int(size), 1), 1, ((size // 2, (size - 1) // 2), (0, 0)))
    return div(x, pow(add(mul(reshape(means, x.shape), alpha), k), beta))  # type: ignore[no-any-return]
