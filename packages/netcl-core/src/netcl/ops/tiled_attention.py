"""Attention over many keys, a block of queries at a time, forward and backward: no matrix of all queries and keys.

A block holds whole rows of scores, so its softmax is the plain one; the backward pass computes the blocks' weights
again, as Dao et al. (2022) do.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from netcl.core.dispatch import Domain
from netcl.core.dtypes import itemsize
from netcl.core.expr import Expr, Index, Load, Scalar, apply, cast, reduce
from netcl.core.layout import aligned
from netcl.core.tensor import Tensor
from netcl.ops.elementwise import mul
from netcl.ops.table import as_dtype, computed, engine_of

Cases = Iterator[tuple[tuple[Any, ...], dict[str, Any]]]
_NEVER = float("-inf")
WORKSPACE = 4 * 2**20  # bytes of scores at a time, in a CPU's caches; a single row may take more
_ON_OTHERS = 16  # times as many on devices that want larger products


def softmax_of(scores: Expr, mask: Expr | None, seen: Expr | None, scale: Any, last: int) -> Expr:
    """The weights of scaled and masked scores over axis ``last``: 0 in a row without a key that may be seen.

    A bool mask is True where a key may be seen, a floating one is added; ``seen`` hides keys besides.
    """
    wide = scores.dtype if scores.dtype == "float64" else "float32"
    s = cast(scores, wide) * cast(scale, wide)
    if mask is not None:
        s = apply("where", mask, s, _NEVER) if mask.dtype == "bool" else s + cast(mask, wide)
    if seen is not None:
        s = apply("where", seen, s, _NEVER)
    top = apply("stop_gradient", reduce("max", s, last))
    weight = apply("exp", s - apply("where", apply("eq", top, _NEVER), 0.0, top))
    total = reduce("sum", weight, last)
    return cast(weight / apply("where", apply("eq", total, 0.0), 1.0, total), scores.dtype)


@lru_cache(maxsize=64)
def _block_weights(dtype: str, mask: str | None, causal: bool) -> Expr:
    """Over scores (heads, queries, keys) of a block whose queries begin at ``first``."""
    seen = Index(1) + Scalar("first", "int32") >= Index(2) if causal else None
    wide = dtype if dtype == "float64" else "float32"
    return softmax_of(Load(0, dtype), None if mask is None else Load(1, mask), seen, Scalar("scale", wide), 2)


@lru_cache(maxsize=16)
def _score_gradients(dtype: str) -> Expr:
    """Of weights and their gradients (heads, queries, keys)."""
    wide = dtype if dtype == "float64" else "float32"
    weight, grad = cast(Load(0, dtype), wide), cast(Load(1, dtype), wide)
    return cast(weight * (grad - reduce("sum", weight * grad, 2)) * Scalar("scale", wide), dtype)


class _Block(NamedTuple):
    """Heads ``head`` ... of one sample, counted over k and v, and queries ``query`` ... of each."""

    sample: int
    head: int
    heads: int
    query: int
    queries: int


class _Attention:
    """One call: q (samples, kv heads, repeats, queries, E), k and v (samples, kv heads, keys, E or V)."""

    def __init__(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float) -> None:
        self.engine: Any = q.engine
        self.q, self.k, self.v, self.mask, self.causal = q, k, v, mask, causal
        self.heads = k.shape[-3] if k.ndim > 2 else 1
        self.samples = prod(k.shape[:-3])
        self.repeats = (q.shape[-3] if q.ndim > 2 else 1) // self.heads
        self.queries, self.keys, self.width, self.values = q.shape[-2], k.shape[-2], q.shape[-1], v.shape[-1]
        half = q.dtype in ("float16", "bfloat16")
        # Half types are scaled before the product, which could leave the range of float16.
        self.before, self.scale = (scale, 1.0) if half else (1.0, scale)

    def blocks(self) -> Iterator[_Block]:
        row = self.repeats * self.keys * itemsize(self.q.dtype)
        rows = max(1, _workspace(self.q) // row)
        heads = min(self.heads, max(1, rows // self.queries))
        for sample in range(self.samples):
            for head in range(0, self.heads, heads):
                for query in range(0, self.queries, rows):
                    yield _Block(
                        sample, head, min(heads, self.heads - head), query, min(rows, self.queries - query)
                    )  # fmt: skip

    def rows(self, x: Tensor, b: _Block, back: Tensor | None = None) -> Tensor:
        """The block of x (like q): (heads, repeats * queries, width); with ``back`` that written into x."""
        width = x.shape[-1]
        shape = (b.heads, self.repeats, b.queries, width)
        strides = (self.repeats * self.queries * width, self.queries * width, width, 1)
        offset = ((b.sample * self.heads + b.head) * self.repeats * self.queries + b.query) * width
        return self._moved(x, shape, strides, offset, (b.heads, self.repeats * b.queries, width), back)

    def columns(self, x: Tensor, b: _Block, back: Tensor | None = None) -> Tensor:
        """The block of x (like k or v): (heads, keys, width); with ``back`` that written into x."""
        shape = (b.heads, self.keys, x.shape[-1])
        strides = (shape[1] * shape[2], shape[2], 1)
        return self._moved(x, shape, strides, (b.sample * self.heads + b.head) * strides[0], shape, back)

    def _moved(
        self,
        x: Tensor,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        offset: int,
        seen_as: tuple[int, ...],
        back: Tensor | None,
    ) -> Tensor:
        block: Tensor = self.engine.empty(seen_as, x.dtype) if back is None else back
        dense = tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))
        there, here = (strides, offset), (dense, 0)
        (from_strides, from_offset), (to_strides, to_offset) = (there, here) if back is None else (here, there)
        self.engine.copy(
            x if back is None else block,
            block if back is None else x,
            shape=shape,
            source_strides=from_strides,
            source_offset=from_offset,
            out_strides=to_strides,
            out_offset=to_offset,
        )
        return block

    def block_mask(self, b: _Block) -> Tensor | None:
        """The mask (heads * repeats, queries, keys) of a block, or what broadcasts to it."""
        if self.mask is None:
            return None
        lead = aligned(self.mask.shape, self.q.ndim)
        strides = [0 if size == 1 else prod(lead[axis + 1 :]) for axis, size in enumerate(lead)]
        place, rest = 0, b.sample
        for axis in range(len(lead) - 4, -1, -1):
            rest, index = divmod(rest, self.q.shape[axis])
            place += index * strides[axis]
        per_head = strides[-3] if len(lead) > 2 else 0
        heads = b.heads * self.repeats if per_head else 1
        queries = b.queries if strides[-2] else 1
        shape = (heads, queries, self.mask.shape[-1])
        offset = place + b.head * self.repeats * per_head + b.query * strides[-2]
        return self._moved(self.mask, shape, (per_head, strides[-2], 1), offset, shape, None)

    def weights(self, q: Tensor, k: Tensor, b: _Block) -> Tensor:
        """The weights (heads, repeats * queries, keys) of a block."""
        scores: Tensor = self.engine.matmul(q, k, transpose_b=True)
        flat = scores._alias(Tensor, (b.heads * self.repeats, b.queries, self.keys))
        mask = self.block_mask(b)
        expression = _block_weights(scores.dtype, None if mask is None else mask.dtype, self.causal)
        scalars = {"scale": self.scale, **({"first": b.query} if self.causal else {})}
        self.engine.run((expression,), (flat, *(() if mask is None else (mask,))), scalars, out=(flat,))
        return scores

    def scaled(self, q: Tensor) -> Tensor:
        return q if self.before == 1.0 else mul(q, self.before)

    def forward(self) -> Tensor:
        out: Tensor = self.engine.empty((*self.q.shape[:-1], self.values), self.q.dtype)
        for b in self.blocks():
            q, k, v = self.scaled(self.rows(self.q, b)), self.columns(self.k, b), self.columns(self.v, b)
            self.rows(out, b, self.engine.matmul(self.weights(q, k, b), v))
        return out

    def backward(self, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        engine, dtype = self.engine, self.q.dtype
        found = tuple(engine.empty(x.shape, dtype) for x in (self.q, self.k, self.v))
        sums: list[Tensor] = []
        for b in self.blocks():
            q, k, v = self.scaled(self.rows(self.q, b)), self.columns(self.k, b), self.columns(self.v, b)
            g = self.rows(grad, b)
            weights = self.weights(q, k, b)
            parts = [engine.matmul(weights, g, transpose_a=True)]
            inner = engine.matmul(g, v, transpose_b=True)
            engine.run((_score_gradients(dtype),), (weights, inner), {"scale": self.scale}, out=(inner,))
            parts.insert(0, engine.matmul(inner, q, transpose_a=True))
            self.rows(found[0], b, self.scaled(engine.matmul(inner, k)))
            sums = parts if b.query == 0 else [_plus(engine, total, part) for total, part in zip(sums, parts)]
            if b.query + b.queries == self.queries:
                for whole, total in zip(found[1:], sums):
                    self.columns(whole, b, as_dtype(total, dtype))
        return found


def _workspace(x: Tensor) -> int:
    return WORKSPACE if x.engine.handle.device_type.lower() == "cpu" else _ON_OTHERS * WORKSPACE


def _plus(engine: Any, total: Tensor, part: Tensor) -> Tensor:
    """total + part, in the wide type."""
    wide = "float64" if part.dtype == "float64" else "float32"
    (result,) = engine.run((cast(Load(0, total.dtype), wide) + cast(Load(1, part.dtype), wide),), (total, part))
    return result  # type: ignore[no-any-return]


def is_worth(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, grouped: bool) -> bool:
    """Whether attention is computed in blocks: the scores would not fit the workspace twice, and shapes are plain."""
    scores = prod(q.shape[:-1]) * k.shape[-2] * itemsize(q.dtype)
    alike = k.shape[:-2] == v.shape[:-2] and q.ndim <= 4 and q.dtype == k.dtype == v.dtype
    heads = q.shape[:-3] == k.shape[:-3] if grouped else q.shape[:-2] == k.shape[:-2]
    whole = mask is None or (not mask.requires_grad and mask.shape[-1] == k.shape[-2] and mask.ndim <= q.ndim)
    return scores > 2 * _workspace(q) and alike and heads and whole


def _weights_reference(q: Any, k: Any, mask: Any, causal: bool, scale: float) -> Any:
    s = q @ np.swapaxes(k, -1, -2) * scale
    if mask is not None:
        s = np.where(mask, s, _NEVER) if mask.dtype == bool else s + mask
    if causal:
        s = np.where(np.tri(*s.shape[-2:]) > 0, s, _NEVER)
    top = s.max(-1, keepdims=True)
    weight = np.exp(s - np.where(np.isneginf(top), 0, top))
    total = weight.sum(-1, keepdims=True)
    return weight / np.where(total == 0, 1, total)


def _repeated(q: Any, *others: Any) -> list[Any]:
    return [np.repeat(x, q.shape[-3] // x.shape[-3], -3) if q.ndim > 2 else x for x in others]


def _reference(q: Any, k: Any, v: Any, mask: Any = None, is_causal: bool = False, scale: float = 1.0) -> Any:
    k, v = _repeated(q, k, v)
    return _weights_reference(q, k, mask, is_causal, scale) @ v


def _gradient_reference(
    grad: Any, q: Any, k: Any, v: Any, mask: Any = None, is_causal: bool = False, scale: float = 1.0
) -> Any:
    shape = k.shape
    k, v = _repeated(q, k, v)
    weight = _weights_reference(q, k, mask, is_causal, scale)
    inner = grad @ np.swapaxes(v, -1, -2)
    inner = weight * (inner - (inner * weight).sum(-1, keepdims=True)) * scale
    found = np.swapaxes(inner, -1, -2) @ q, np.swapaxes(weight, -1, -2) @ grad
    groups = (*shape[:-2], -1, shape[-2])
    return inner @ k, *(x.reshape(*groups, x.shape[-1]).sum(-3) for x in found)


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
        q, _, v = operands[:3]
        yield (rng.uniform(-1, 1, (*q.shape[:-1], v.shape[-1])), *operands), options


@computed(amp="half", domain=Domain(cases=_cases, reference=_reference))
def tiled_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, is_causal: bool = False, scale: float = 1.0
) -> Tensor:
    """softmax(scale q k^T + mask) v in blocks of queries: what ``scaled_dot_product_attention`` is with many keys.

    q (..., heads, queries, E) of at most four dimensions, k and v (..., kv heads, keys, E or V) of the same dtype,
    heads a multiple of kv heads; the mask has all keys and no gradient.
    """
    engine_of("tiled_attention", q, k, v, mask)
    return _Attention(q, k, v, mask, is_causal, scale).forward()


@computed(amp="half", domain=Domain(cases=_gradient_cases, reference=_gradient_reference, gradient=False))
def tiled_attention_gradients(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of ``tiled_attention`` by q, k and v for that of its result."""
    engine_of("tiled_attention_gradients", grad, q, k, v, mask)
    return _Attention(q, k, v, mask, is_causal, scale).backward(as_dtype(grad, q.dtype))
