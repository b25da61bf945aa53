"""The functions behind the layers, with torch.nn.functional's names; whatever else is an op of netcl.autograd is here
too.
"""

from __future__ import annotations

from typing import Any

import netcl.autograd as ag
from netcl.core import Tensor

hardtanh = ag.hard_tanh
hardswish = ag.hard_swish
hardsigmoid = ag.hard_sigmoid


def dropout(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Zeroes elements with probability p and divides the others by 1 - p; x itself unless ``training``."""
    return ag.dropout(x, p) if training and p > 0 else x


def batch_norm(
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Batch normalisation of x (N, C, ...), with the statistics of the batch in training, else the running ones."""
    return ag.batch_norm(x, running_mean, running_var, weight, bias, training, momentum, eps)  # type: ignore[no-any-return]


def normalize(x: Tensor, p: float = 2.0, axis: int = 1, eps: float = 1e-12) -> Tensor:
    """x / max(||x||_p, eps) along ``axis``."""
    norm = ag.norm(x, p=p, axis=axis, keepdims=True)
    return ag.div(x, ag.maximum(norm, eps))  # type: ignore[no-any-return]


def one_hot(indices: Any, num_classes: int | None = None) -> Tensor:
    """1 at the index and 0 elsewhere: (...) gives (..., num_classes), int64. None reads the largest index on the
    host.
    """
    return ag.one_hot(indices, num_classes)  # type: ignore[no-any-return]


def __getattr__(name: str) -> Any:
    """An op of netcl.autograd."""
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(ag, name)
