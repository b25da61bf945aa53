"""Attention: the masked softmax of its scores as one expression, scaled dot-product attention, and rotary positions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from netcl.core.backend.attention_blocks import softmax_of
from netcl.core.dtypes import is_floating, promote
from netcl.core.engine.registry import engine_for
from netcl.core.errors import ArgumentError, DTypeError, ShapeError
from netcl.core.expr import Expr, Index, Scalar, apply, cast, size_of
from netcl.core.layout import broadcast_shapes
from netcl.core.ops_table.dispatch import Cases, Space
from netcl.core.tensor import Tensor
from netcl.ops.arrange import chunk, unbind
from netcl.ops.domains import compared
from netcl.ops.elementwise import cast as converted
from netcl.ops.elementwise import mul
from netcl.ops.linalg import matmul
from netcl.ops.random import dropout
from netcl.ops.shape import cat, reshape, stack, unsqueeze
from netcl.ops.table import composite, computed, expression
from netcl.ops.tiled_attention import is_worth, tiled_attention

_NEVER = float("-inf")


# -- weights -----------------------------------------------------------------------------------------------------------


def _weights_reference(scores: Any, mask: Any = None, causal: bool = False, scale: float = 1.0) -> Any:
    s = scores * scale
    if mask is not None:
        s = np.where(mask, s, _NEVER) if mask.dtype == bool else s + mask
    if causal:
        s = np.where(np.tri(*s.shape[-2:]) > 0, s, _NEVER)
    top = s.max(-1, keepdims=True)
    weight = np.exp(s - np.where(np.isneginf(top), 0, top))
    total = weight.sum(-1, keepdims=True)
    return weight / np.where(total == 0, 1, total)


def _weights_cases(rng: np.random.Generator) -> Cases:
    scores = rng.uniform(-2, 2, (2, 3, 5, 7))
    mask = rng.random((2, 1, 5, 7)) > 0.4
    mask[0, 0, 2] = False
    yield (scores,), {"scale": 0.5}
    yield (scores, mask), {"scale": 0.5}
    yield (rng.uniform(-2, 2, (4, 5)), rng.uniform(-1, 1, 5)), {"causal": True}


@expression(amp="float32", domain=compared(_weights_cases, _weights_reference))
def attention_weights(
    scores: Expr, mask: Expr | None = None, causal: bool = False, scale: float = 1.0, *, space: Space
) -> Expr:
    """Returns softmax(scale * scores + mask) over the last axis of scores (..., queries, keys).

    A bool mask is True for each visible key, a floating one is added; ``causal`` hides keys after the query's position.
    A query without a visible key has weights of 0, and no gradient.
    """
    last = space.rank - 1
    return softmax_of(scores, mask, Index(last - 1) >= Index(last) if causal else None, scale, last)


# -- attention ---------------------------------------------------------------------------------------------------------


def _attention_reference(
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    if enable_gqa:
        k, v = (np.repeat(x, q.shape[-3] // x.shape[-3], -3) for x in (k, v))
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    return _weights_reference(q @ np.swapaxes(k, -1, -2), mask, is_causal, factor) @ v


def _attention_cases(rng: np.random.Generator) -> Cases:
    def of(*shapes: tuple[int, ...]) -> tuple[Any, ...]:
        return tuple(rng.uniform(-1, 1, shape) for shape in shapes)

    yield of((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6)), {}
    yield of((2, 3, 5, 4), (2, 3, 5, 4), (2, 3, 5, 4)), {"is_causal": True, "scale": 0.3}
    mask = rng.random((2, 1, 5, 7)) > 0.4
    mask[1, 0, 3] = False
    yield (*of((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 4)), mask), {}
    yield of((5, 4), (7, 4), (7, 4), (5, 7)), {}
    yield of((2, 4, 3, 4), (2, 2, 3, 4), (2, 2, 3, 4)), {"enable_gqa": True, "is_causal": True}


def _check(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, is_causal: bool, grouped: bool) -> None:
    op = "scaled_dot_product_attention"
    shapes = f"q {q.shape}, k {k.shape}, v {v.shape}"
    if not all(is_floating(x.dtype) for x in (q, k, v)):
        raise DTypeError(f"{op}: expected floating dtypes, got {q.dtype}, {k.dtype} and {v.dtype}")
    if q.ndim < 2 or not q.ndim == k.ndim == v.ndim or q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ShapeError(
            f"{op}: {shapes}; expected q (..., queries, E), k (..., keys, E) and v (..., keys, V) of equal rank"
        )
    if grouped:
        if q.ndim < 3 or k.shape[-3] != v.shape[-3] or not k.shape[-3] or q.shape[-3] % k.shape[-3]:
            raise ShapeError(f"{op}: {shapes}; grouped heads of q must be a multiple of the heads of k and v")
    else:
        broadcast_shapes((q.shape[:-2], k.shape[:-2], v.shape[:-2]), op)
    if mask is not None and not (mask.dtype == "bool" or is_floating(mask.dtype)):
        raise DTypeError(f"{op}: expected a bool or floating mask, got {mask.dtype}; write mask.bool()")
    if mask is not None and is_causal:
        raise ArgumentError(f"{op}: expected either a mask or is_causal, got both")


@composite(amp="half", domain=compared(_attention_cases, _attention_reference))
def scaled_dot_product_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Returns softmax(scale q k^T + mask) v (Vaswani et al. 2017): q (..., queries, E), k (..., keys, E), v (..., keys,
    V).

    ``scale`` is 1 / sqrt(E) unless given. ``mask`` broadcasts to (..., queries, keys): bool, True for each visible key,
    or floating, added to the scores. With ``is_causal`` query i attends to keys 0 .. i, as in PyTorch. A query without
    a visible key gives 0, and has no gradient (PyTorch since 2.5). ``dropout_p`` zeroes weights at every call, in
    training or not. ``enable_gqa``: q (..., heads, queries, E) has a multiple of the heads of k and v, and adjacent
    query heads share one head of k and v. Raises ShapeError and DTypeError, which name the shapes and dtypes.
    """
    _check(q, k, v, mask, is_causal, enable_gqa)
    factor = (1 / math.sqrt(q.shape[-1]) if q.shape[-1] else 1.0) if scale is None else float(scale)
    if not dropout_p and is_worth(q, k, v, mask, enable_gqa):
        out, _ = tiled_attention(q, k, v, mask, is_causal, factor)
        return out  # type: ignore[no-any-return]
    dtype = promote(q.dtype, k.dtype, v.dtype)
    if q.dtype in ("float16", "bfloat16") and dropout_p:  # in training: products by matrix units
        q, factor = mul(q, factor), 1.0  # before the product, which could leave the range of float16
    elif q.dtype in ("float16", "bfloat16"):  # a rounded score of 100 changes its weight by some percent
        q, k, v = (converted(x, dtype="float32") for x in (q, k, v))
    heads = q.shape[:-1]
    if enable_gqa:
        q = reshape(q, (*k.shape[:-2], -1, q.shape[-1]))
    scores = matmul(q, k, transpose_b=True)
    flat = scores.shape[:-1]
    if enable_gqa:
        scores = reshape(scores, (*heads, k.shape[-2]))
    weights = attention_weights(scores, mask, causal=is_causal, scale=factor)
    if dropout_p:
        weights = dropout(weights, dropout_p)
    if enable_gqa:
        out = reshape(matmul(reshape(weights, (*flat, k.shape[-2])), v), (*heads, v.shape[-1]))
    else:
        out = matmul(weights, v)
    return out if out.dtype == dtype else converted(out, dtype=dtype)  # type: ignore[no-any-return]


@computed(
    domain=compared(
        lambda rng: iter([((5,), {}), ((3, 5), {"offset": 2})]),
        lambda queries, keys=None, offset=0: np.tri(queries, keys or queries, offset) > 0,
        gradient=False,
    )
)
def causal_mask(queries: int, keys: int | None = None, offset: int = 0, queue: Any = None) -> Tensor:
    """Returns a mask (queries, keys), bool, True if query i may attend to the key: keys 0 .. i + offset. ``keys``
    defaults to ``queries``.

    ``offset = keys - queries`` lets the last query attend to every key, as with cached keys. On the active device, or
    on ``queue``.
    """
    shape = (queries, queries if keys is None else keys)
    if min(shape) < 0:
        raise ShapeError(f"causal_mask: queries {queries}, keys {keys} must not be negative")
    engine: Any = engine_for(queue)
    mask: Tensor = engine.empty(shape, "bool")
    if mask.size:
        seen = Index(0) + Scalar("offset", "int32") >= Index(1)
        engine.run((seen,), (mask,), {"offset": int(offset)}, out=(mask,))
    return mask


# -- rotary positions --------------------------------------------------------------------------------------------------


def _turned(x: Any, positions: Any, base: float, interleaved: bool) -> Any:
    half = x.shape[-1] // 2
    angle = np.asarray(positions)[..., None] * base ** (-np.arange(half) / half)
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
    turned = a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)
    return np.stack(turned, -1).reshape(x.shape) if interleaved else np.concatenate(turned, -1)


def _rope_reference(x: Any, positions: Any = None, base: float = 10000.0, interleaved: bool = False) -> Any:
    if positions is None or isinstance(positions, int):
        positions = np.arange(x.shape[-2]) + (positions or 0)
    return _turned(x, positions, base, interleaved)


def _rope_cases(rng: np.random.Generator) -> Cases:
    x = rng.uniform(-1, 1, (2, 3, 5, 8))
    yield (x,), {}
    yield (x,), {"positions": 3, "interleaved": True, "base": 100.0}
    yield (x, rng.integers(0, 9, (2, 1, 5))), {}


def _pair_cases(rng: np.random.Generator) -> Cases:
    yield (rng.uniform(-1, 1, (2, 5, 4)), rng.uniform(-1, 1, (2, 5, 4))), {"offset": 2.0}


def _pair_reference(a: Any, b: Any, offset: float) -> Any:
    both = _turned(np.concatenate([a, b], -1), np.arange(a.shape[-2]) + offset, 10000.0, False)
    return both[..., : a.shape[-1]], both[..., a.shape[-1] :]


@expression(amp="float32", domain=compared(_pair_cases, _pair_reference))
def rotate_pairs(
    a: Expr, b: Expr, positions: Expr | None = None, offset: float = 0.0, base: float = 10000.0, *, space: Space
) -> tuple[Expr, Expr]:
    """Returns the points (a, b) rotated: pair i of a row by position / base^(i / pairs); positions (..., 1), or the
    index along the last axis but one plus ``offset``.
    """
    last = space.rank - 1
    wide = a.dtype if a.dtype == "float64" else "float32"
    place = cast(Index(last - 1) if positions is None else positions, wide) + cast(offset, wide)
    share = cast(Index(last), wide) / size_of((last,), wide)
    angle = place * apply("exp", -share * apply("log", cast(base, wide)))
    cosine, sine = apply("cos", angle), apply("sin", angle)
    x, y = cast(a, wide), cast(b, wide)
    return cast(x * cosine - y * sine, a.dtype), cast(y * cosine + x * sine, b.dtype)


@composite(amp="float32", domain=compared(_rope_cases, _rope_reference))
def rope(x: Tensor, positions: Tensor | int | None = None, base: float = 10000.0, interleaved: bool = False) -> Tensor:
    """Returns the rotary position embedding of x (..., T, D), D even: pair i of position p rotated by the angle p /
    base^(2i / D) (Su et al. 2021).

    A pair is (x[i], x[i + D/2]), or (x[2i], x[2i + 1]) if ``interleaved``. ``positions``: None for 0 .. T - 1, an int p
    for p .. p + T - 1, as with cached keys, or a tensor that broadcasts to (..., T). Raises ShapeError if D is odd.
    """
    if x.ndim < 2 or x.shape[-1] % 2 or not x.shape[-1]:
        raise ShapeError(f"rope: x {x.shape}; expected (..., T, D) with an even D")
    if not is_floating(x.dtype):
        raise DTypeError(f"rope: expected floating dtypes, got {x.dtype}")
    places = unsqueeze(positions, -1) if isinstance(positions, Tensor) else None
    offset = float(positions) if isinstance(positions, int) else 0.0
    if interleaved:
        a, b = unbind(reshape(x, (*x.shape[:-1], x.shape[-1] // 2, 2)), -1)
    else:
        a, b = chunk(x, 2, -1)
    turned = rotate_pairs(a, b, places, offset=offset, base=float(base))
    if interleaved:
        return reshape(stack(turned, -1), x.shape)  # type: ignore[no-any-return]
    return cat(turned, -1)  # type: ignore[no-any-return]
