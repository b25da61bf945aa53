"""Gradient rules of indexing: gather and scatter-add are each other's gradient."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netcl.autograd.rules.rule import RecordedCall, rule


@rule("take_at", x="index")
def take_at(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Adds each slice or element at its index (scatter-add)."""
    name = "index_select_grad" if call.rows else "gather_grad"
    return {"x": call.op(name, grad, call.index, call.axis, call.x.shape)}


@rule("index_select_grad", grad_output="index")
def index_select_grad(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Gathers from the positions that were added to."""
    return {"grad_output": call.op("take", grad, call.index, call.axis)}


@rule("gather_grad", grad_output="index")
def gather_grad(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Gathers from the positions that were added to."""
    return {"grad_output": call.op("gather", grad, call.axis, call.index)}


@rule("embedding_rows", weight="index")
def embedding_rows(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Adds rows at their index (scatter-add); rows of the padding index get none."""
    row = call.op("mod", call.index, call.weight.shape[0])
    kept = call.op("unsqueeze", call.op("ne", row, call.padding), -1)
    grad = call.op("where", kept, grad, 0.0)
    return {"weight": call.op("index_select_grad", grad, call.index, 0, call.weight.shape)}


@rule("add_at", source="index")
def add_at(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Passes the gradient to x unchanged, and to the source gathered from the positions that were added to."""
    grads = {"x": grad}
    if call.wants("source"):
        grads["source"] = _taken(call, grad)
    return grads


@rule("put_at", x="index", source="index")
def put_at(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Passes the gradient to x except at overwritten positions, and to the source elements that were written last at
    their position, or with ``shared`` to all.
    """
    grads = {}
    if call.wants("x"):
        shape = call.index.shape
        if call.rows:
            shape = (*grad.shape[: call.axis], *shape, *grad.shape[call.axis + 1 :])
        grads["x"] = call.op("put_at", grad, call.index, grad.engine.zeros(shape, grad.dtype), call.axis, call.rows)
    if call.wants("source") and call.shared:
        grads["source"] = _taken(call, grad)
    elif call.wants("source"):
        last = call.op("last_at", call.index, call.axis, call.x.shape, call.rows)
        if call.rows:
            behind = grad.ndim - call.axis - 1
            last = call.op("reshape", last, (*last.shape, *(1,) * behind))
        grads["source"] = call.op("where", last, _taken(call, grad), 0.0)
    return grads


def _taken(call: RecordedCall, grad: Any) -> Any:
    if call.rows:
        return call.op("take", grad, call.index, call.axis)
    return call.op("gather", grad, call.axis, call.index)


@rule("reduce_at", x="x index source out", source="x index source out")
def reduce_at(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Passes the gradient by the reduction: sums pass it on, means divide it by the number of elements, products
    multiply it by the product of the others, and equal extremes share it.
    """
    x, index, source, out, axis = call.x, call.index, call.source, call.out, call.axis

    def at(values: Any) -> Any:
        return call.op("gather", values, axis, index)

    def counted(start: Any, values: Any) -> Any:
        return call.op("add_at", start, index, values, axis, False)

    def numbers(mask: Any) -> Any:
        return call.op("cast", mask, dtype=grad.dtype)

    def filled(like: Any, value: float) -> Any:
        made = like.engine.empty(like.shape, grad.dtype)
        like.engine.fill(made, value)
        return made

    by_x = by_source = None
    if call.how in ("sum", "mean"):
        if call.how == "mean":
            count = counted(filled(x, float(call.include_self)), filled(source, 1.0))
            grad = call.op("div", grad, call.op("maximum", count, 1.0))
        by_x, by_source = grad, at(grad)
    elif call.how == "prod":
        by_x, by_source = _by_factors(call, grad, at, counted, numbers, filled)
    else:
        chosen_x = numbers(call.op("eq", x, out))
        if not call.include_self:
            chosen_x = call.op("put_at", chosen_x, index, filled(source, 0.0), axis, False)
        chosen = numbers(call.op("eq", source, at(out)))
        share = call.op("div", grad, call.op("maximum", counted(chosen_x, chosen), 1.0))
        by_x, by_source = call.op("mul", share, chosen_x), call.op("mul", at(share), chosen)
    if not call.include_self and call.wants("x"):
        if call.how not in ("amax", "amin"):
            by_x = call.op("put_at", by_x, index, filled(source, 0.0), axis, False)
        else:  # positions that nothing is written to keep their element
            untouched = call.op("put_at", filled(x, 1.0), index, filled(source, 0.0), axis, False)
            by_x = call.op("mul", grad, untouched)
    return {"x": by_x, "source": by_source}


def _by_factors(call: RecordedCall, grad: Any, at: Any, counted: Any, numbers: Any, filled: Any) -> tuple[Any, Any]:
    """Returns the product of all other factors at each position; it is zero if another factor is."""
    x, source, out = call.x, call.source, call.out
    zero_x, zero = call.op("eq", x, 0.0), call.op("eq", source, 0.0)
    own = numbers(zero_x) if call.include_self else filled(x, 0.0)
    zeros = counted(own, numbers(zero))
    total = None
    if call.again:  # the sum of the zeros is 0, and has the derivatives of a product with two zeros
        own = call.op("where", zero_x, x, 0.0) if call.include_self else filled(x, 0.0)
        total = counted(own, call.op("where", zero, source, 0.0))
    # The product without its zeros.
    rest = call.op(
        "reduce_at", call.op("where", zero_x, 1.0, x), call.index, call.op("where", zero, 1.0, source), call.axis,
        "prod", call.include_self,
    )  # fmt: skip

    def others(values: Any, is_zero: Any, count: Any, rest: Any, product: Any, total: Any) -> Any:
        quotient = call.op("div", product, call.op("where", is_zero, 1.0, values))
        of_zero = 0.0
        if total is not None:
            two = call.op("le", count, 2.0)
            of_zero = call.op("where", two, call.op("mul", rest, call.op("sub", total, values)), 0.0)
        return call.op("where", is_zero, call.op("where", call.op("le", count, 1.0), rest, of_zero), quotient)

    by_x = call.op("mul", grad, others(x, zero_x, zeros, rest, out, total))
    by_source = call.op(
        "mul", at(grad), others(source, zero, at(zeros), at(rest), at(out), None if total is None else at(total))
    )
    return by_x, by_source
