"""Common chains of ops under one name: add_relu, linear_relu, conv2d_relu, batch_norm2d."""

from __future__ import annotations

from typing import Any

import numpy as np

from netcl.core import Tensor
from netcl.core.ops_table.dispatch import Domain
from netcl.ops import add, batch_norm, conv2d, linear, relu
from netcl.ops.table import composite

Ints = int | tuple[int, ...]


def _relu(x: Any) -> Any:
    return np.maximum(x, 0)


@composite(
    domain=Domain(
        cases=lambda rng: iter([((rng.uniform(0.1, 1, (3, 4)), rng.uniform(-2, -1.2, (4,))), {})]),
        reference=lambda a, b: _relu(a + b),
    )
)
def add_relu(a: Tensor, b: Tensor) -> Tensor:
    """Returns relu(a + b)."""
    return relu(add(a, b))


@composite(
    amp="half",
    domain=Domain(
        cases=lambda rng: iter(
            [((rng.uniform(0.1, 1, (3, 4)), rng.uniform(0.1, 1, (2, 4)), rng.uniform(-0.1, 0, 2)), {})]
        ),
        reference=lambda x, w, b: _relu(x @ w.T + b),
    ),
)
def linear_relu(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Returns relu(x @ weight.T + bias)."""
    return relu(linear(x, weight, bias))


@composite(
    amp="half",
    domain=Domain(
        cases=lambda rng: iter([((rng.uniform(0.1, 1, (2, 3, 4, 4)), rng.uniform(0.1, 1, (2, 3, 1, 1))), {})]),
        reference=lambda x, w: _relu(np.einsum("nchw,fc->nfhw", x, w[:, :, 0, 0])),
    ),
)
def conv2d_relu(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints | str = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:
    """Returns relu(conv2d(x, weight, bias, ...))."""
    return relu(conv2d(x, weight, bias, stride, padding, dilation, groups))


def _normalized(x: Any, weight: Any, bias: Any) -> Any:
    y = (x - x.mean((0, 2, 3), keepdims=True)) / np.sqrt(x.var((0, 2, 3), keepdims=True) + 1e-5)
    return y * weight[:, None, None] + bias[:, None, None]


@composite(
    amp="half",
    domain=Domain(
        cases=lambda rng: iter([((rng.normal(size=(2, 3, 4, 4)), rng.uniform(0.5, 2, 3), rng.normal(size=3)), {})]),
        reference=_normalized,
    ),
)
def batch_norm2d(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    momentum: float = 0.1,
    eps: float = 1e-5,
    training: bool = True,
) -> Tensor:
    """Returns ``batch_norm`` of images (N, C, H, W); training updates the running statistics in place, if given."""
    return batch_norm(x, running_mean, running_var, weight, bias, training=training, momentum=momentum, eps=eps)
