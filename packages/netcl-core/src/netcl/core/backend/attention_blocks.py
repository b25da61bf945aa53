"""Attention in blocks of queries that hold whole rows of scores, on any backend, forward and backward.

A backend without a kernel for attention computes by these products of matrices around a softmax, and so do OpenCL
devices if that kernel does not build or fit. The backward pass computes the weights of a block again (Dao et al. 2022).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

from netcl.core.dtypes import itemsize
from netcl.core.expr import Expr, Index, Load, Scalar, apply, cast, reduce
from netcl.core.layout import aligned
from netcl.core.storage.data import TensorData

_NEVER = float("-inf")
_WORKSPACE = 4 * 2**20  # bytes of scores at a time, in a CPU's caches; a single row may take more
_ON_OTHERS = 16  # times as many on devices that want larger products


def softmax_of(scores: Expr, mask: Expr | None, seen: Expr | None, scale: Any, last: int) -> Expr:
    """Returns the weights of scaled and masked scores over axis ``last``: 0 in a row without a key that may be seen. A
    bool mask is True where a key may be seen, a floating one is added; ``seen`` hides keys besides.
    """
    weight, total, _ = _exponentials(_masked(scores, mask, seen, scale), last)
    return cast(weight / apply("where", apply("eq", total, 0.0), 1.0, total), scores.dtype)


def _masked(scores: Expr, mask: Expr | None, seen: Expr | None, scale: Any) -> Expr:
    wide = scores.dtype if scores.dtype == "float64" else "float32"
    s = cast(scores, wide) * cast(scale, wide)
    if mask is not None:
        s = apply("where", mask, s, _NEVER) if mask.dtype == "bool" else s + cast(mask, wide)
    return s if seen is None else apply("where", seen, s, _NEVER)


def _exponentials(s: Expr, last: int) -> tuple[Expr, Expr, Expr]:
    """Returns the exponentials of masked scores, their sums, and what was subtracted before."""
    top = apply("stop_gradient", reduce("max", s, last))
    finite = apply("where", apply("eq", top, _NEVER), 0.0, top)
    weight = apply("exp", s - finite)
    return weight, reduce("sum", weight, last), finite


def _block_scores(dtype: str, mask: str | None, causal: bool) -> Expr:
    """Returns masked scores (heads, queries, keys) of a block with queries from ``first`` on."""
    seen = Index(1) + Scalar("first", "int32") >= Index(2) if causal else None
    return _masked(Load(0, dtype), None if mask is None else Load(2, mask), seen, Scalar("scale", dtype))


@lru_cache(maxsize=64)
def _block_divisors(dtype: str, mask: str | None, causal: bool) -> Expr:
    """Returns the logarithm of the divisor of each query's weights, infinite if the query has no visible key."""
    _, total, finite = _exponentials(_block_scores(dtype, mask, causal), 2)
    return apply("where", apply("eq", total, 0.0), float("inf"), finite + apply("log", total))


@lru_cache(maxsize=64)
def _block_weights(dtype: str, mask: str | None, causal: bool) -> Expr:
    """Returns the weights of scores and these logarithms (heads, queries, 1)."""
    return apply("exp", _block_scores(dtype, mask, causal) - Load(1, dtype))


@lru_cache(maxsize=16)
def _score_gradients(dtype: str) -> Expr:
    """Returns of weights, their gradients (heads, queries, keys) and the weighted sums of these (heads, queries, 1)."""
    return Load(0, dtype) * (Load(1, dtype) - Load(2, dtype)) * Scalar("scale", dtype)


class _Block(NamedTuple):
    """Heads ``head`` ... of one sample, counted over k and v, and queries ``query`` ... of each."""

    sample: int
    head: int
    heads: int
    query: int
    queries: int


class _Attention:
    """One call: q (samples, kv heads, repeats, queries, E), k and v (samples, kv heads, keys, E or V)."""

    def __init__(
        self,
        engine: Any,
        q: TensorData,
        k: TensorData,
        v: TensorData,
        mask: TensorData | None,
        causal: bool,
        scale: float,
    ) -> None:
        self.engine = engine
        self.q, self.k, self.v, self.mask, self.causal = q, k, v, mask, causal
        self.heads = k.shape[-3] if k.ndim > 2 else 1
        self.samples = prod(k.shape[:-3])
        self.repeats = (q.shape[-3] if q.ndim > 2 else 1) // self.heads
        self.queries, self.keys, self.width, self.values = q.shape[-2], k.shape[-2], q.shape[-1], v.shape[-1]
        self.wide = "float64" if q.dtype == "float64" else "float32"
        self.scale = scale

    def blocks(self) -> Iterator[_Block]:
        row = self.repeats * self.keys * itemsize(self.wide)
        is_cpu = self.engine.handle.device_type.lower() == "cpu"
        rows = max(1, (_WORKSPACE if is_cpu else _ON_OTHERS * _WORKSPACE) // max(1, row))
        heads = min(self.heads, max(1, rows // max(1, self.queries)))
        for sample in range(self.samples):
            for head in range(0, self.heads, heads):
                for query in range(0, self.queries, rows):
                    yield _Block(
                        sample, head, min(heads, self.heads - head), query, min(rows, self.queries - query)
                    )  # fmt: skip

    def rows(self, x: TensorData, b: _Block, back: TensorData | None = None) -> TensorData:
        """Returns the block of x (like q): (heads, repeats * queries, width); with ``back`` that written into x."""
        width = x.shape[-1]
        shape = (b.heads, self.repeats, b.queries, width)
        strides = (self.repeats * self.queries * width, self.queries * width, width, 1)
        offset = ((b.sample * self.heads + b.head) * self.repeats * self.queries + b.query) * width
        return self._moved(x, shape, strides, offset, (b.heads, self.repeats * b.queries, width), back)

    def columns(self, x: TensorData, b: _Block, back: TensorData | None = None) -> TensorData:
        """Returns the block of x (like k or v): (heads, keys, width); with ``back`` that written into x."""
        shape = (b.heads, self.keys, x.shape[-1])
        strides = (shape[1] * shape[2], shape[2], 1)
        return self._moved(x, shape, strides, (b.sample * self.heads + b.head) * strides[0], shape, back)

    def _moved(
        self,
        x: TensorData,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        offset: int,
        seen_as: tuple[int, ...],
        back: TensorData | None,
    ) -> TensorData:
        block: TensorData = self.engine.empty(seen_as, x.dtype) if back is None else back
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

    def block_mask(self, b: _Block) -> TensorData | None:
        """Returns the mask (heads * repeats, queries, keys) of a block, or what broadcasts to it."""
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

    def flat(self, x: Any, b: _Block) -> Any:
        """Returns a block (heads, repeats * queries, n) with an axis for every head of q."""
        return x._alias((b.heads * self.repeats, b.queries, x.shape[-1]))

    def scores(self, q: TensorData, k: TensorData, b: _Block) -> tuple[TensorData, Any, dict[str, Any]]:
        """Returns the scores (heads, repeats * queries, keys) of a block, its mask, and its attributes."""
        scores: TensorData = self.engine.matmul(q, k, transpose_b=True)
        return scores, self.block_mask(b), {"scale": self.scale, **({"first": b.query} if self.causal else {})}

    def weights(self, q: TensorData, k: TensorData, b: _Block, lse: TensorData | None) -> tuple[TensorData, TensorData]:
        """Returns the weights (heads, repeats * queries, keys) of a block and the logarithms of their divisors."""
        scores, mask, scalars = self.scores(q, k, b)
        masks = () if mask is None else (mask,)
        kind = scores.dtype, None if mask is None else mask.dtype, self.causal
        flat = self.flat(scores, b)
        if lse is None:
            made: TensorData = self.engine.empty((b.heads, self.repeats * b.queries, 1), self.wide)
            lse, divisors = made, self.flat(made, b)
            self.engine.run(
                (_block_divisors(*kind),), (flat, flat, *masks), scalars, shapes=(divisors.shape,), out=(divisors,)
            )
        self.engine.run((_block_weights(*kind),), (flat, self.flat(lse, b), *masks), scalars, out=(flat,))
        return scores, lse

    def operands(self, b: _Block) -> list[TensorData]:
        """Returns the blocks of q, k and v in the computing type; scores of half types lose too much for softmax."""
        blocks = (self.rows(self.q, b), self.columns(self.k, b), self.columns(self.v, b))
        return [as_dtype(self.engine, x, self.wide) for x in blocks]

    def forward(self) -> tuple[TensorData, TensorData]:
        out: TensorData = self.engine.empty((*self.q.shape[:-1], self.values), self.q.dtype)
        lse: Any = self.engine.empty((*self.q.shape[:-1], 1), self.wide)
        for b in self.blocks():
            q, k, v = self.operands(b)
            weights, divisors = self.weights(q, k, b, None)
            self.rows(out, b, as_dtype(self.engine, self.engine.matmul(weights, v), self.q.dtype))
            self.rows(lse, b, divisors)
        return out, lse._alias(self.q.shape[:-1])

    def backward(self, grad: TensorData, out: TensorData, lse: Any) -> tuple[TensorData, TensorData, TensorData]:
        engine, dtype = self.engine, self.q.dtype
        gradients = tuple(engine.empty(x.shape, dtype) for x in (self.q, self.k, self.v))
        mean = weighted(engine, grad, out)
        lse = lse._alias(mean.shape)
        sums: list[TensorData] = []
        for b in self.blocks():
            q, k, v = self.operands(b)
            g = as_dtype(engine, self.rows(grad, b), self.wide)
            weights, _ = self.weights(q, k, b, self.rows(lse, b))
            parts = [engine.matmul(weights, g, transpose_a=True)]
            inner = engine.matmul(g, v, transpose_b=True)
            operands = [self.flat(x, b) for x in (weights, inner, self.rows(mean, b))]
            engine.run((_score_gradients(self.wide),), operands, {"scale": self.scale}, out=(operands[1],))
            parts.insert(0, engine.matmul(inner, q, transpose_a=True))
            self.rows(gradients[0], b, as_dtype(engine, engine.matmul(inner, k), dtype))
            sums = parts if b.query == 0 else [_plus(engine, total, part) for total, part in zip(sums, parts)]
            if b.query + b.queries == self.queries:
                for whole, total in zip(gradients[1:], sums):
                    self.columns(whole, b, as_dtype(engine, total, dtype))
        return gradients


def weighted(engine: Any, grad: TensorData, out: TensorData) -> TensorData:
    """Returns the sums of grad * out over the last axis (..., 1) in the wide type: of weights and gradients, too."""
    wide = "float64" if out.dtype == "float64" else "float32"
    both = cast(Load(0, grad.dtype), wide) * cast(Load(1, out.dtype), wide)
    (result,) = engine.run((reduce("sum", both, out.ndim - 1),), (grad, out), shapes=((*out.shape[:-1], 1),))
    return result  # type: ignore[no-any-return]


def as_dtype(engine: Any, x: TensorData, dtype: str) -> TensorData:
    """Returns ``x`` converted; itself if it has the dtype."""
    if x.dtype == dtype:
        return x
    return engine.run((cast(Load(0, x.dtype), dtype),), (x,))[0]  # type: ignore[no-any-return]


def _plus(engine: Any, total: TensorData, part: TensorData) -> TensorData:
    (result,) = engine.run((Load(0, total.dtype) + Load(1, part.dtype),), (total, part))
    return result  # type: ignore[no-any-return]


def attention(
    engine: Any, q: TensorData, k: TensorData, v: TensorData, mask: TensorData | None, causal: bool, scale: float
) -> tuple[TensorData, TensorData]:
    """Returns softmax(scale q k^T + mask) v and the logarithms of the weights' divisors, as ``DeviceBackend`` says."""
    return _Attention(engine, q, k, v, mask, causal, scale).forward()


def attention_grad(
    engine: Any,
    grad: TensorData,
    q: TensorData,
    k: TensorData,
    v: TensorData,
    mask: TensorData | None,
    out: TensorData,
    lse: TensorData,
    causal: bool,
    scale: float,
) -> tuple[TensorData, TensorData, TensorData]:
    """Returns the gradients by q, k and v."""
    return _Attention(engine, q, k, v, mask, causal, scale).backward(grad, out, lse)
