"""Tiled attention as one operation, forward and backward: it never stores the scores of all queries and keys."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from netcl.core.dtypes import itemsize
from netcl.core.tensor import Tensor
from netcl.ops.domains import Cases, compared
from netcl.ops.table import as_dtype, computed, engine_of

_NEVER = float("-inf")
WORTH = {"cl": 0, "cpu": 8 * 2**20}  # bytes of scores beyond which the separate operations are slower, by engine


def is_worth(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, grouped: bool) -> bool:
    """True if attention is computed by one operation: shapes are plain, and there are enough scores for the engine."""
    scores = prod(q.shape[:-1]) * k.shape[-2] * itemsize(q.dtype)
    alike = k.shape[:-2] == v.shape[:-2] and q.ndim <= 4 and q.dtype == k.dtype == v.dtype
    heads = q.shape[:-3] == k.shape[:-3] if grouped else q.shape[:-2] == k.shape[:-2]
    whole = mask is None or (not mask.requires_grad and mask.shape[-1] == k.shape[-2] and mask.ndim <= q.ndim)
    worth = WORTH.get(q.engine.name, WORTH["cpu"])  # the engine of another distribution is like NumPy
    return scores > worth and q.shape[-1] * v.shape[-1] > 0 and alike and heads and whole


def _masked_reference(q: Any, k: Any, mask: Any, causal: bool, scale: float) -> Any:
    s = q @ np.swapaxes(k, -1, -2) * scale
    if mask is not None:
        s = np.where(mask, s, _NEVER) if mask.dtype == bool else s + mask
    return np.where(np.tri(*s.shape[-2:]) > 0, s, _NEVER) if causal else s


def _weights_reference(q: Any, k: Any, mask: Any, causal: bool, scale: float) -> Any:
    s = _masked_reference(q, k, mask, causal, scale)
    top = s.max(-1, keepdims=True)
    weight = np.exp(s - np.where(np.isneginf(top), 0, top))
    total = weight.sum(-1, keepdims=True)
    return weight / np.where(total == 0, 1, total)


def _repeated(q: Any, *others: Any) -> list[Any]:
    return [np.repeat(x, q.shape[-3] // x.shape[-3], -3) if q.ndim > 2 else x for x in others]


def _reference(q: Any, k: Any, v: Any, mask: Any = None, is_causal: bool = False, scale: float = 1.0) -> Any:
    k, v = _repeated(q, k, v)
    with np.errstate(divide="ignore"):
        divisors = np.log(np.exp(_masked_reference(q, k, mask, is_causal, scale)).sum(-1))
    divisors = np.where(np.isneginf(divisors), np.inf, divisors)
    return _weights_reference(q, k, mask, is_causal, scale) @ v, divisors


def _gradient_reference(
    grad: Any,
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    out: Any = None,
    lse: Any = None,
    is_causal: bool = False,
    scale: float = 1.0,
) -> Any:
    shape = k.shape
    k, v = _repeated(q, k, v)
    weight = _weights_reference(q, k, mask, is_causal, scale)
    inner = grad @ np.swapaxes(v, -1, -2)
    inner = weight * (inner - (inner * weight).sum(-1, keepdims=True)) * scale
    by_kv = np.swapaxes(inner, -1, -2) @ q, np.swapaxes(weight, -1, -2) @ grad
    groups = (*shape[:-2], -1, shape[-2])
    return inner @ k, *(x.reshape(*groups, x.shape[-1]).sum(-3) for x in by_kv)


def _cases(rng: np.random.Generator) -> Cases:
    def of(*shapes: tuple[int, ...]) -> tuple[Any, ...]:
        return tuple(rng.uniform(-1, 1, shape) for shape in shapes)

    yield of((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6)), {"scale": 0.5}
    yield of((2, 4, 5, 4), (2, 2, 5, 4), (2, 2, 5, 3)), {"is_causal": True, "scale": 0.3}
    mask = rng.random((2, 1, 5, 7)) > 0.4
    mask[1, 0, 3] = False
    yield (*of((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 4)), mask), {}
    yield (*of((5, 4), (7, 4), (7, 4)), rng.random((5, 7)) > 0.4), {}


def _gradient_cases(rng: np.random.Generator) -> Cases:
    for operands, options in _cases(rng):
        q, k, v, *rest = operands
        mask = rest[0] if rest else None
        grad = rng.uniform(-1, 1, (*q.shape[:-1], v.shape[-1]))
        yield (grad, q, k, v, mask, *_reference(q, k, v, mask, **options)), options


@computed(amp="half", domain=compared(_cases, _reference, gradient=False))
def tiled_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, is_causal: bool = False, scale: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Returns softmax(scale q k^T + mask) v, without all scores in memory, and the log-sum-exp (..., queries) of the
    scores, in the computing type and without a gradient.

    q (..., heads, queries, E) of at most four dimensions, k and v (..., kv heads, keys, E or V) of the same dtype,
    heads a multiple of kv heads; the mask has all keys and no gradient.
    """
    engine = engine_of("tiled_attention", q, k, v, mask)
    return engine.attention(q, k, v, mask, causal=is_causal, scale=scale)


@computed(amp="half", domain=compared(_gradient_cases, _gradient_reference, gradient=False))
def tiled_attention_gradients(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    out: Tensor,
    lse: Tensor,
    is_causal: bool = False,
    scale: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the gradients of ``tiled_attention`` by q, k, v for ``grad`` of its first result, from both results."""
    engine = engine_of("tiled_attention_gradients", grad, q, k, v, mask, out, lse)
    grad, out = as_dtype(grad, q.dtype), as_dtype(out, q.dtype)
    lse = as_dtype(lse, q.dtype if q.dtype in ("float32", "float64") else "float32")
    return engine.attention_grad(grad, q, k, v, mask, out, lse, causal=is_causal, scale=scale)
