"""Normalizations: each forward is one expression that contains its means and variances as reductions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from netcl.core.dtypes import is_floating
from netcl.core.errors import ArgumentError, ShapeError
from netcl.core.expr import Expr, Load, Scalar, apply, cast, reduce
from netcl.core.expr import mean as mean_of
from netcl.core.expr.statistics import standardized, widened
from netcl.core.ops_table.dispatch import Cases, Space, evaluate
from netcl.core.tensor import Tensor
from netcl.ops.domains import compared
from netcl.ops.reduce import safe_root
from netcl.ops.shape import reshape
from netcl.ops.table import composite, expression


def _affine(value: Expr, weight: Expr | None, bias: Expr | None, like: Expr) -> Expr:
    if weight is not None:
        value = value * widened(weight)
    if bias is not None:
        value = value + widened(bias)
    return cast(value, like.dtype) if is_floating(like.dtype) else value


def _standardize_reference(x: Any, weight: Any = None, bias: Any = None, axes: Any = (), eps: float = 1e-5) -> Any:
    y = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)
    return y * (1.0 if weight is None else weight) + (0.0 if bias is None else bias)


def _standardize_cases(rng: np.random.Generator) -> Cases:
    yield (rng.uniform(-2, 2, (4, 7)), rng.uniform(0.5, 2, 7), rng.uniform(-1, 1, 7)), {"axes": (1,)}
    yield (rng.uniform(-2, 2, (3, 2, 5)),), {"axes": (0, 2), "eps": 1e-3}


@expression(amp="float32", domain=compared(_standardize_cases, _standardize_reference))
def standardize(
    x: Expr, weight: Expr | None = None, bias: Expr | None = None, axes: Any = (), eps: float = 1e-5, *, space: Space
) -> Expr:
    """Returns (x - mean) / sqrt(var + eps) over ``axes``, times weight, plus bias: their common form."""
    return _affine(standardized(x, space.axes(axes), eps).value, weight, bias, x)  # type: ignore[arg-type]


# -- batch
# -----------------------------------------------------------------------------------------------------------------


def _batch_cases(rng: np.random.Generator) -> Cases:
    for shape in ((4, 3), (2, 3, 5), (2, 3, 4, 5)):
        yield (rng.uniform(-2, 2, shape), rng.uniform(0.5, 2, (3,) + (1,) * (len(shape) - 2)), None), {}
    yield (rng.uniform(-2, 2, (6, 2, 1, 3)), None, rng.uniform(-1, 1, (2, 1, 1))), {"eps": 1e-3}


def _batch_reference(x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    axes = (0, *range(2, x.ndim))
    y = _standardize_reference(x, weight, bias, axes, eps)
    return y, x.mean(axes, keepdims=True), x.var(axes, keepdims=True)


@expression(amp="half", domain=compared(_batch_cases, _batch_reference))
def batch_norm_training(
    x: Expr, weight: Expr | None = None, bias: Expr | None = None, eps: float = 1e-5, *, space: Space
) -> tuple[Expr, Expr, Expr]:
    """Returns (y, mean, var) over all axes but 1, in one program; weight and bias broadcast, var is the biased one."""
    axes = tuple(axis for axis in range(space.rank) if axis != 1)
    value, _, mean, var = standardized(x, axes, eps)  # type: ignore[arg-type]
    return _affine(value, weight, bias, x), mean, var


def _inference_cases(rng: np.random.Generator) -> Cases:
    mean, var = rng.uniform(-1, 1, (3, 1, 1)), rng.uniform(0.5, 2, (3, 1, 1))
    yield (
        (rng.uniform(-2, 2, (2, 3, 4, 5)), mean, var, rng.uniform(0.5, 2, (3, 1, 1)), rng.uniform(-1, 1, (3, 1, 1))),
        {},
    )
    yield (rng.uniform(-2, 2, (2, 3, 4, 5)), mean, var), {"eps": 0.1}


def _inference_reference(x: Any, mean: Any, var: Any, weight: Any = 1.0, bias: Any = 0.0, eps: float = 1e-5) -> Any:
    return (x - mean) / np.sqrt(var + eps) * weight + bias


@expression(amp="half", domain=compared(_inference_cases, _inference_reference))
def batch_norm_inference(
    x: Expr, mean: Expr, var: Expr, weight: Expr | None = None, bias: Expr | None = None, eps: float = 1e-5
) -> Expr:
    """Returns (x - mean) / sqrt(var + eps) * weight + bias with given statistics; all broadcast against x."""
    return _affine((widened(x) - widened(mean)) * apply("rsqrt", widened(var) + eps), weight, bias, x)


def _whole_batch_cases(rng: np.random.Generator) -> Cases:
    for shape in ((4, 3), (2, 3, 4, 5)):
        x, mean, var = rng.uniform(-2, 2, shape), rng.uniform(-1, 1, 3), rng.uniform(0.5, 2, 3)
        yield (x, mean, var, rng.uniform(0.5, 2, 3), rng.uniform(-1, 1, 3)), {"training": False}
        yield (x, None, None, rng.uniform(0.5, 2, 3), rng.uniform(-1, 1, 3)), {"training": True}


def _whole_batch_reference(
    x: Any, mean: Any, var: Any, weight: Any, bias: Any, training: bool = False, eps: float = 1e-5
) -> Any:
    shape = (3,) + (1,) * (x.ndim - 2)
    if training:
        return _batch_reference(x, weight.reshape(shape), bias.reshape(shape), eps)[0]
    mean, var, weight, bias = (v.reshape(shape) for v in (mean, var, weight, bias))
    return _inference_reference(x, mean, var, weight, bias, eps)


@composite(amp="half", domain=compared(_whole_batch_cases, _whole_batch_reference))
def batch_norm(
    x: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalizes x (N, C, ...) per channel, then scales and shifts by weight and bias (C,) (Ioffe and Szegedy 2015).

    Training uses the statistics of the batch and updates the running ones, if given, in place: running = (1 - momentum)
    * running + momentum * batch, with the unbiased variance, as in PyTorch. Otherwise the running statistics, both
    (C,), are used. ``eps`` is added to the variance.
    """
    if x.ndim < 2:
        raise ShapeError(f"batch_norm: x {x.shape}; expected (N, C, ...)")
    channels = x.shape[1]
    operands = {"running_mean": running_mean, "running_var": running_var, "weight": weight, "bias": bias}
    for name, value in operands.items():
        if value is not None and value.shape != (channels,):
            raise ShapeError(
                f"batch_norm: {name} {value.shape} for x {x.shape}; expected ({channels},)", parameter=name
            )
    column = (channels,) + (1,) * (x.ndim - 2)
    w = None if weight is None else reshape(weight, column)
    b = None if bias is None else reshape(bias, column)
    if not training:
        if running_mean is None or running_var is None:
            raise ArgumentError("batch_norm: running_mean and running_var are needed unless training")
        return batch_norm_inference(x, reshape(running_mean, column), reshape(running_var, column), w, b, eps=eps)  # type: ignore[no-any-return]
    count = x.size // channels if channels else 0
    if count == 1:
        raise ShapeError(f"batch_norm: x {x.shape} has one element per channel; training needs more")
    y, mean, var = batch_norm_training(x, w, b, eps=eps)
    if count:
        _move(((running_mean, mean, 1.0), (running_var, var, count / (count - 1))), momentum)
    return y  # type: ignore[no-any-return]


def _move(statistics: Sequence[tuple[Tensor | None, Tensor, float]], momentum: float) -> None:
    """Writes running = (1 - momentum) * running + momentum * factor * batch in place, of all triples, in one launch."""
    operands: list[Tensor] = []
    scalars: dict[str, float] = {}
    for number, (running, batch, factor) in enumerate(
        statistic for statistic in statistics if statistic[0] is not None
    ):
        assert running is not None
        operands += [running, batch._alias(running.shape)]
        scalars |= {f"keep{number}": 1.0 - momentum, f"take{number}": momentum * factor}
    if operands:
        evaluate(_moved(tuple([x.dtype for x in operands])), tuple(operands), scalars, out=tuple(operands[::2]))


@lru_cache(maxsize=64)
def _moved(dtypes: tuple[str, ...]) -> tuple[Expr, ...]:
    """Returns the expressions of ``_move`` for the dtypes of its operands, which are made once."""
    moved = []
    for slot in range(0, len(dtypes), 2):
        running, batch = dtypes[slot : slot + 2]
        keep, take = Scalar(f"keep{slot // 2}", running), Scalar(f"take{slot // 2}", batch)
        moved.append(cast(Load(slot, running) * keep + Load(slot + 1, batch) * take, running))
    return tuple(moved)


# -- layer, group, instance, RMS
# ---------------------------------------------------------------------------------------------


def _layer_cases(rng: np.random.Generator) -> Cases:
    yield (rng.uniform(-2, 2, (4, 7)),), {"normalized_shape": 7}
    yield (rng.uniform(-2, 2, (2, 3, 5)), (3, 5), rng.uniform(0.5, 2, (3, 5)), rng.uniform(-1, 1, (3, 5))), {}


def _layer_reference(x: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    rank = 1 if isinstance(normalized_shape, int) else len(normalized_shape)
    return _standardize_reference(x, weight, bias, tuple(range(x.ndim - rank, x.ndim)), eps)


def _trailing(
    op: str, x: Tensor, normalized_shape: Any, weight: Tensor | None, bias: Tensor | None = None
) -> tuple[int, ...]:
    """Returns the axes that ``normalized_shape`` covers: the last ones, of exactly these lengths."""
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    first = x.ndim - len(shape)
    of_weight = weight is None or weight.shape == shape
    if shape and x.shape[-len(shape) :] == shape and of_weight and (bias is None or bias.shape == shape):
        return tuple(range(first, x.ndim))
    for name, value in {"x": x, "weight": weight, "bias": bias}.items():
        expected = None if value is None else value.shape[-len(shape) :] if name == "x" else value.shape
        if expected is not None and expected != shape or not shape:
            raise ShapeError(f"{op}: {name} {value.shape if value is not None else None} for normalized_shape {shape}")
    return tuple(range(first, x.ndim))


@composite(amp="float32", domain=compared(_layer_cases, _layer_reference))
def layer_norm(
    x: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Normalizes over the last axes, of ``normalized_shape``; weight and bias have that shape (Ba et al. 2016)."""
    axes = _trailing("layer_norm", x, normalized_shape, weight, bias)
    return standardize(x, weight, bias, axes=axes, eps=eps)  # type: ignore[no-any-return]


def _rms_reference(x: Any, normalized_shape: Any, weight: Any = 1.0, eps: float = 1e-6) -> Any:
    axes = tuple(range(x.ndim - (1 if isinstance(normalized_shape, int) else len(normalized_shape)), x.ndim))
    return x / np.sqrt((x * x).mean(axes, keepdims=True) + eps) * weight


def _rms_cases(rng: np.random.Generator) -> Cases:
    yield (rng.uniform(-2, 2, (4, 7)), 7, rng.uniform(0.5, 2, 7)), {}
    yield (rng.uniform(-2, 2, (2, 3, 5)), (3, 5)), {"eps": 1e-3}


@expression(
    amp="float32",
    domain=compared(
        lambda rng: iter([((rng.uniform(-2, 2, (3, 5)), rng.uniform(0.5, 2, 5)), {"axes": (1,)})]),
        lambda x, weight, axes: _rms_reference(x, 5, weight),
    ),
)
def rms_scale(x: Expr, weight: Expr | None = None, axes: Any = (), eps: float = 1e-6, *, space: Space) -> Expr:
    """Returns x / sqrt(mean(x^2) + eps) over ``axes``, times weight."""
    value = widened(x)
    return _affine(value * apply("rsqrt", mean_of(value * value, space.axes(axes)) + eps), weight, None, x)


@composite(amp="float32", domain=compared(_rms_cases, _rms_reference))
def rms_norm(x: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    """Returns x / sqrt(mean(x^2) + eps) over the last axes, times weight (Zhang and Sennrich 2019)."""
    axes = _trailing("rms_norm", x, normalized_shape, weight)
    return rms_scale(x, weight, axes=axes, eps=eps)  # type: ignore[no-any-return]


def _group_reference(x: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    n, c = x.shape[:2]
    y = _standardize_reference(x.reshape(n, num_groups, -1), axes=(2,), eps=eps).reshape(x.shape)
    shape = (c,) + (1,) * (x.ndim - 2)
    return y * (1.0 if weight is None else weight.reshape(shape)) + (0.0 if bias is None else bias.reshape(shape))


def _group_cases(rng: np.random.Generator) -> Cases:
    yield (rng.uniform(-2, 2, (2, 6, 3, 4)), 3, rng.uniform(0.5, 2, 6), rng.uniform(-1, 1, 6)), {}
    yield (rng.uniform(-2, 2, (3, 4)), 2), {}


@composite(amp="float32", domain=compared(_group_cases, _group_reference))
def group_norm(
    x: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Normalizes x (N, C, ...) over ``num_groups`` groups of channels; weight and bias (C,) (Wu and He 2018).

    Groups of one value are zeros, scaled and shifted.
    """
    if x.ndim < 2 or num_groups < 1 or x.shape[1] % num_groups:
        raise ShapeError(f"group_norm: x {x.shape}, num_groups {num_groups}; expected (N, C, ...), C a multiple of it")
    n, c, *spatial = x.shape
    per_group = (num_groups, c // num_groups)
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None and value.shape != (c,):
            raise ShapeError(f"group_norm: {name} {value.shape} for x {x.shape}; expected ({c},)", parameter=name)
    w, b = (None if value is None else reshape(value, (*per_group, 1)) for value in (weight, bias))
    y = standardize(reshape(x, (n, *per_group, math.prod(spatial))), w, b, axes=(2, 3), eps=eps)
    return reshape(y, x.shape)  # type: ignore[no-any-return]


def _instance_cases(rng: np.random.Generator) -> Cases:
    yield (rng.uniform(-2, 2, (2, 3, 4, 5)), rng.uniform(0.5, 2, 3), rng.uniform(-1, 1, 3)), {}


@composite(amp="float32", domain=compared(_instance_cases, lambda x, w, b: _group_reference(x, 3, w, b)))
def instance_norm(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5) -> Tensor:
    """Normalizes each channel of each sample of x (N, C, ...) over its spatial axes (Ulyanov et al. 2016).

    weight and bias (C,) scale and shift; ``eps`` is added to the variance. Raises ShapeError if there is no spatial
    axis, or one spatial element: the result would be the bias.
    """
    if x.ndim < 3:
        raise ShapeError(f"instance_norm: x {x.shape}; expected (N, C, spatial...)")
    if math.prod(x.shape[2:]) == 1:
        raise ShapeError(f"instance_norm: x {x.shape} has one spatial element; expected more")
    return group_norm(x, max(x.shape[1], 1), weight, bias, eps)  # type: ignore[no-any-return]


def _l2_reference(x: Any, axis: Any = -1, eps: float = 1e-12) -> Any:
    return x / np.maximum(np.sqrt((x * x).sum(axis, keepdims=True)), eps)


@expression(
    amp="float32",
    domain=compared(
        lambda rng: iter(
            [((rng.uniform(-2, 2, (3, 5)),), {"axis": 1}), ((rng.uniform(-2, 2, (2, 3, 4)),), {"axis": (0, 2)})]
        ),
        _l2_reference,
    ),
)
def l2_normalize(x: Expr, axis: Any = -1, eps: float = 1e-12, *, space: Space) -> Expr:
    """Returns x / max(||x||_2, eps) over ``axis``; the gradient of the length at 0 is 0."""
    value = widened(x)
    length = safe_root(reduce("sum", value * value, space.axes(axis)))
    return _affine(value / apply("maximum", length, eps), None, None, x)
