"""Gradient rules of products with sparse matrices: SpMM and SDDMM are each other's gradient."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netcl.autograd.rules.rule import RecordedCall, rule


def _turned(call: RecordedCall) -> tuple[Any, Any, Any]:
    """Returns the pattern of the transpose, the pattern's transpose, and the order of its elements."""
    starts, columns, rows, order, inverse = call.there
    return [starts, columns, rows], [*call.here, inverse, order], order


@rule("csr_matmul", values="dense here there", dense="values here there")
def csr_matmul(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns for the elements the dot products of rows of grad and dense, for dense the transpose times grad."""
    grads = {}
    if call.wants("values"):
        grads["values"] = call.op("sampled_matmul", grad, call.dense, call.here, call.there)
    if call.wants("dense"):
        here, there, order = _turned(call)
        values = call.op("index_select", call.values, 0, order)
        grads["dense"] = call.op("csr_matmul", values, grad, here, there)
    return grads


@rule("sampled_matmul", a="b here there", b="a here there")
def sampled_matmul(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Products of the sparse matrix of grad, or of its transpose, and the other operand."""
    grads = {}
    if call.wants("a"):
        grads["a"] = call.op("csr_matmul", grad, call.b, call.here, call.there)
    if call.wants("b"):
        here, there, order = _turned(call)
        grads["b"] = call.op("csr_matmul", call.op("index_select", grad, 0, order), call.a, here, there)
    return grads
