"""Dropout that keeps means and deviations, or drops whole channels, and random slopes."""

from __future__ import annotations

import math

import numpy as np

from netcl.core.dtypes import is_floating
from netcl.core.errors import ArgumentError, DTypeError, ShapeError
from netcl.core.tensor import Tensor
from netcl.ops.activation import leaky_relu, prelu
from netcl.ops.domains import Cases, compared
from netcl.ops.elementwise import ge, mul
from netcl.ops.random import dropout_apply, uniform
from netcl.ops.table import OpFunction, composite, elementwise, engine_of

# Of SELU: minus its scale times its alpha, which it has at -infinity.
_SATURATED = 1.7580993408473766


def _masked(rng: np.random.Generator) -> Cases:
    yield (rng.uniform(-1, 1, (3, 5)), rng.random((3, 5)) > 0.5), {"scale": 1.25, "shift": 0.5, "low": -0.75}
    yield (rng.uniform(-1, 1, (2, 3, 4)), rng.random((2, 3, 1)) > 0.5), {"scale": 0.9, "shift": 0.1, "low": -1.5}


alpha_apply: OpFunction = elementwise(
    "alpha_dropout_apply",
    "v1 ? v0 * scale + shift : low",
    "Returns x * scale + shift where the mask is true, else low: ``alpha_dropout`` with a given mask.",
    operands="x mask",
    scale=1.0,
    shift=0.0,
    low=0.0,
    domain=compared(_masked, lambda x, mask, scale, shift, low: np.where(mask, x * scale + shift, low)),
)

# Draws are tested by their statistics; the cases of the table are the calls that draw nothing.
_STILL = compared(
    lambda rng: iter([((rng.uniform(-1, 1, (2, 3, 4)),), {"p": 0.5, "training": False})]), lambda x, p, training: x
)


def _kept(op: str, x: Tensor, p: float, features: bool) -> Tensor:
    """Returns True with probability 1 - p for each element, or for each channel of each sample."""
    if features and x.ndim < 2:
        raise ShapeError(f"{op}: expected x (N, C, ...) to drop channels, got {x.shape}")
    shape = (*x.shape[:2], *(1,) * (x.ndim - 2)) if features else x.shape
    return ge(uniform(0.0, 1.0, shape=shape, dtype="float32", queue=x.engine.queue), float(p))  # type: ignore[no-any-return]


def _is_noisy(op: str, x: Tensor, p: float, training: bool) -> bool:
    """True if the call changes x; raises ArgumentError for a wrong p, DTypeError for integers to change."""
    engine_of(op, x)
    if not 0 <= p <= 1:
        raise ArgumentError(f"{op}: p {p} is no probability")
    if not training or p == 0:
        return False
    if not is_floating(x.dtype):
        raise DTypeError(f"{op}: expected floating dtypes, got {x.dtype}; convert with astype")
    return True


def _alpha(op: str, x: Tensor, p: float, training: bool, features: bool) -> Tensor:
    if not _is_noisy(op, x, p, training):
        return x
    if p == 1:
        return mul(x, 0.0)  # type: ignore[no-any-return]
    a = 1 / math.sqrt((_SATURATED**2 * p + 1) * (1 - p))
    shift = _SATURATED * a * p
    mask = _kept(op, x, p, features)
    return alpha_apply(x, mask, scale=a, shift=shift, low=shift - _SATURATED * a)  # type: ignore[no-any-return]


@composite(domain=_STILL, forms="nc.*_")
def alpha_dropout(x: Tensor, p: float = 0.5, training: bool = False) -> Tensor:
    """Returns x with elements set to the limit of SELU at -infinity with probability p, scaled and shifted so that mean
    0 and variance 1 are kept (Klambauer et al. 2017). If not ``training``: x itself.
    """
    return _alpha("alpha_dropout", x, p, training, False)


@composite(domain=_STILL, forms="nc.*_")
def feature_alpha_dropout(x: Tensor, p: float = 0.5, training: bool = False) -> Tensor:
    """Applies ``alpha_dropout`` to whole channels of x (N, C, ...)."""
    return _alpha("feature_alpha_dropout", x, p, training, True)


@composite(domain=_STILL, forms="nc.*_")
def feature_dropout(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Applies ``dropout`` to whole channels of x (N, C, ...): zeros with probability p, the others divided by 1 - p."""
    op = "feature_dropout"
    if not _is_noisy(op, x, p, training):
        return x
    return dropout_apply(x, _kept(op, x, p, True), scale=0.0 if p == 1 else 1 / (1 - p))  # type: ignore[no-any-return]


def _slopes(rng: np.random.Generator) -> Cases:
    x = rng.uniform(-2, 2, (3, 5))
    yield (np.where(np.abs(x) < 0.05, 0.1, x),), {}
    yield (np.where(np.abs(x) < 0.05, 0.1, x),), {"lower": 0.5, "upper": 0.5, "training": True}


@composite(
    domain=compared(
        _slopes, lambda x, lower=1 / 8, upper=1 / 3, training=False: np.where(x > 0, x, x * (lower + upper) / 2)
    ),
    forms="nc.*_",
)
def rrelu(x: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> Tensor:
    """Returns x if positive, else x times a slope, uniform in [lower, upper) for each element; their middle if not
    ``training`` (Xu et al. 2015).
    """
    engine_of("rrelu", x)
    if not lower <= upper:
        raise ArgumentError(f"rrelu: lower {lower} is above upper {upper}")
    if not training:
        return leaky_relu(x, slope=(lower + upper) / 2)  # type: ignore[no-any-return]
    if not is_floating(x.dtype):
        raise DTypeError(f"rrelu: expected floating dtypes, got {x.dtype}; convert with astype")
    return prelu(x, uniform(lower, upper, shape=x.shape, dtype=x.dtype, queue=x.engine.queue))  # type: ignore[no-any-return]
