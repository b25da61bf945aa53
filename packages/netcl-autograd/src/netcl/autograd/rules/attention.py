"""The gradient of fused attention: one fused op, or matrix products and a softmax if it is differentiated itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from netcl.autograd.rules.rule import RecordedCall, rule

_ALL = "q k v mask out out1"


@rule("tiled_attention", q=_ALL, k=_ALL, v=_ALL)
def tiled_attention(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns the gradients of q, k and v in one op, since they share the attention weights."""
    if call.again:
        return _by_products(call, grad)
    arguments = (call.q, call.k, call.v, call.mask, call.out, call.out1, call.is_causal, call.scale)
    return dict(zip("qkv", call.op("tiled_attention_gradients", grad, *arguments)))


def unrolled(
    op: Callable[..., Any], q: Any, k: Any, v: Any, mask: Any = None, is_causal: bool = False, scale: float = 1.0
) -> Any:
    """Returns the first result of ``tiled_attention`` by products and a softmax; ``op(name, ...)`` runs an op."""
    if q.dtype in ("float16", "bfloat16"):
        q, scale = op("mul", q, scale), 1.0  # before the product, which could overflow float16
    _, weights = _weights(op, q, k, mask, is_causal, scale)
    return op("reshape", op("matmul", weights, v), (*q.shape[:-1], v.shape[-1]))


def _weights(op: Callable[..., Any], q: Any, k: Any, mask: Any, causal: bool, scale: float) -> tuple[Any, Any]:
    """Returns q and the attention weights; the queries of all heads that share a head of k are one matrix."""
    wide = op("reshape", q, (*k.shape[:-2], -1, q.shape[-1]))
    scores = op("reshape", op("matmul", wide, k, transpose_b=True), (*q.shape[:-1], k.shape[-2]))
    weights = op("attention_weights", scores, mask, causal=causal, scale=scale)
    return wide, op("reshape", weights, (*wide.shape[:-1], k.shape[-2]))


def _by_products(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    op, k, v = call.op, call.k, call.v
    wide, weights = _weights(op, call.q, k, call.mask, call.is_causal, call.scale)
    grad = op("reshape", grad, (*wide.shape[:-1], v.shape[-1]))
    inner = op("matmul", grad, v, transpose_b=True)
    inner = op("sub", inner, op("sum", op("mul", inner, weights), axis=-1, keepdims=True))
    inner = op("mul", op("mul", weights, inner), call.scale)
    return {
        "q": op("reshape", op("matmul", inner, k), call.q.shape),
        "k": op("matmul", inner, wide, transpose_a=True),
        "v": op("matmul", weights, grad, transpose_a=True),
    }
