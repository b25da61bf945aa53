"""The gradient of attention as one operation: one as well, or products and a softmax where it is differentiated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netcl.autograd.rules.rule import Call, rule

_ALL = "q k v mask out out1"


@rule("tiled_attention", q=_ALL, k=_ALL, v=_ALL)
def tiled_attention(call: Call, grad: Any) -> Mapping[str, Any]:
    """The gradients by all three at once, since they share the weights."""
    if call.again:
        return _by_products(call, grad)
    given = (call.q, call.k, call.v, call.mask, call.out, call.out1, call.is_causal, call.scale)
    return dict(zip("qkv", call.op("tiled_attention_gradients", grad, *given)))


def _by_products(call: Call, grad: Any) -> Mapping[str, Any]:
    op, q, k, v = call.op, call.q, call.k, call.v
    lead, heads = k.shape[:-2], q.shape[:-1]
    wide = op("reshape", q, (*lead, -1, q.shape[-1]))
    grad = op("reshape", grad, (*lead, -1, v.shape[-1]))
    scores = op("reshape", op("matmul", wide, k, transpose_b=True), (*heads, k.shape[-2]))
    weights = op("attention_weights", scores, call.mask, causal=call.is_causal, scale=call.scale)
    weights = op("reshape", weights, (*grad.shape[:-1], k.shape[-2]))
    inner = op("matmul", grad, v, transpose_b=True)
    inner = op("sub", inner, op("sum", op("mul", inner, weights), axis=-1, keepdims=True))
    inner = op("mul", op("mul", weights, inner), call.scale)
    return {
        "q": op("reshape", op("matmul", inner, k), q.shape),
        "k": op("matmul", inner, wide, transpose_a=True),
        "v": op("matmul", weights, grad, transpose_a=True),
    }
