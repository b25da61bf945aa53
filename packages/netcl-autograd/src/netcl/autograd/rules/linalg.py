"""Gradient rules of matrix products: matrix products again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from netcl.autograd.rules.rule import RecordedCall, rule
from netcl.autograd.rules.shape import summed_to


@rule("matmul", a="b", b="a")
def matmul(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns for C = A B: dA = dC B^T, dB = A^T dC, by the call's transposes, batches summed to operand shapes."""
    a, b = call.a, call.b
    swap_a, swap_b = call.transpose_a and a.ndim > 1, call.transpose_b and b.ndim > 1
    a_shape = a.shape if a.ndim > 1 else (1, *a.shape)
    b_shape = b.shape if b.ndim > 1 else (*b.shape, 1)
    rows, columns = a_shape[-1 if swap_a else -2], b_shape[-2 if swap_b else -1]
    batch = grad.shape[: grad.ndim - (a.ndim > 1) - (b.ndim > 1)]
    flat = len(b_shape) == 2 and len(a_shape) > 2 and not swap_a  # one large product instead of a batch of small ones
    if flat:
        rows, batch = math.prod(batch) * rows, ()
        a_shape = (rows, a_shape[-1])
    grad = shaped(call, grad, (*batch, rows, columns))
    grads = {}
    if call.wants("a"):
        right = shaped(call, b, b_shape)
        if swap_a:
            product = call.op("matmul", right, grad, transpose_a=swap_b, transpose_b=True)
        else:
            product = call.op("matmul", grad, right, transpose_b=not swap_b)
        grads["a"] = shaped(call, summed_to(call, product, a_shape), a.shape)
    if call.wants("b"):
        left = shaped(call, a, a_shape)
        if swap_b:
            product = call.op("matmul", grad, left, transpose_a=True, transpose_b=swap_a)
        else:
            product = call.op("matmul", left, grad, transpose_a=not swap_a)
        grads["b"] = shaped(call, summed_to(call, product, b_shape), b.shape)
    return grads


def shaped(call: RecordedCall, x: Any, shape: tuple[int, ...]) -> Any:
    """Returns ``x`` in another shape of the same size."""
    return x if x.shape == tuple(shape) else call.op("reshape", x, tuple(shape))


@rule("linear", x="weight", weight="x")
def linear(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns for y = x W^T + b: dx = dy W, dW = dy^T x, db = sum of dy over rows."""
    grads = {}
    rows = math.prod(grad.shape[:-1])
    flat = shaped(call, grad, (rows, grad.shape[-1]))
    if call.wants("x"):
        grads["x"] = shaped(call, call.op("matmul", flat, call.weight), call.x.shape)
    if call.wants("weight"):
        grads["weight"] = call.op("matmul", flat, shaped(call, call.x, (rows, call.x.shape[-1])), transpose_a=True)
    if call.wants("bias"):
        grads["bias"] = call.op("sum", flat, axis=0)
    return grads
