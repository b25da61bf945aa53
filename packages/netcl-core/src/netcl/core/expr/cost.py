"""Estimates the cost of expressions in additions per element, for recomputing, and counts a profile's operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from netcl.core.expr import Apply, Expr, Reduce
from netcl.core.expr.rewrite import axes_of, walk
from netcl.core.layout import aligned

EXPENSIVE = 8  # an elementary function
RECOMPUTE_BUDGET = 12  # may be recomputed in another pass over the elements, rather than stored and loaded


def _weight(node: Expr) -> int:
    """Returns the rough cost of a node, in additions."""
    return node.prim.cost if isinstance(node, Apply) else 0


def has_transcendental(expressions: Sequence[Expr]) -> bool:
    """True if there is an elementary function, which on a CPU costs more than storing and loading its value."""
    return any(_weight(node) >= EXPENSIVE for node in walk(expressions))


def repeated(groups: Sequence[Sequence[Expr]]) -> int:
    """Returns the repeated operations per element: each kernel (a group) iterates over the elements once for its
    results and once for each kind of reduction that these need.
    """
    weights: dict[Expr, int] = {}
    total = 0
    for group in groups:
        node_weights = {node: _weight(node) for node in walk(group)}
        weights.update(node_weights)
        total += _pass(group, node_weights)
        depth: dict[Expr, int] = {}
        together: dict[tuple[int, tuple[int, ...]], list[Expr]] = {}
        for node in node_weights:  # arguments first
            depth[node] = max((depth[child] for child in node.children), default=0) + isinstance(node, Reduce)
            if isinstance(node, Reduce):
                together.setdefault((depth[node], node.axes), []).append(node.arg)
        total += sum(_pass(roots, node_weights) for roots in together.values())
    return total - sum(weights.values())


def _pass(roots: Sequence[Expr], weights: Mapping[Expr, int]) -> int:
    """Returns the cost of one pass: of all nodes that ``roots`` need, up to the results of other passes."""
    seen = set(roots)
    stack, total = list(seen), 0
    while stack:
        node = stack.pop()
        total += weights[node]
        for child in () if isinstance(node, Reduce) else node.children:
            if child not in seen:
                seen.add(child)
                stack.append(child)
    return total


Shape = Sequence[int]


def matmul_flops(result: Any, a: Any, b: Any, *, transpose_a: bool = False, **options: Any) -> int:
    """Returns the multiplications and additions of a product of matrices."""
    return int(2 * prod(result.shape) * a.shape[-2 if transpose_a else -1])


def conv_flops(result: Any, kind: str, a: Any, b: Any, **options: Any) -> int:
    """Returns the multiplications and additions of a direct convolution, padding included."""
    places, weight = {"forward": (result, b), "grad_input": (a, b), "grad_weight": (b, result)}[kind]
    return int(2 * prod(places.shape) * prod(weight.shape[1:]))


def attention_flops(result: Any, q: Any, k: Any, v: Any, *rest: Any, **options: Any) -> int:
    """Returns the multiplications and additions of both products of an attention, hidden keys included."""
    return int(2 * prod(q.shape[:-1]) * k.shape[-2] * (q.shape[-1] + v.shape[-1]))


def attention_grad_flops(result: Any, grad: Any, q: Any, k: Any, v: Any, *rest: Any, **options: Any) -> int:
    """Returns the multiplications and additions of the five products of an attention's gradients."""
    return int(2 * prod(q.shape[:-1]) * k.shape[-2] * (3 * q.shape[-1] + 2 * v.shape[-1]))


# By the name of the engine call; each is given the call's result and arguments.
FLOPS: dict[str, Callable[..., int]] = {
    "matmul": matmul_flops,
    "conv": conv_flops,
    "attention": attention_flops,
    "attention_grad": attention_grad_flops,
}


def expression_flops(outputs: Sequence[Expr], inputs: Sequence[Shape], space: Shape) -> int:
    """Returns the floating-point operations of expressions over ``space``, each node computed once; an elementary
    function and a division count as one, ``fma`` as two, a comparison as one.
    """
    rank = len(space)
    present = {
        slot: frozenset(axis for axis, size in enumerate(aligned(tuple(shape), rank)) if size != 1)
        for slot, shape in enumerate(inputs)
    }
    memo: dict[Expr, frozenset[int]] = {}
    total = 0
    for node in walk(tuple(outputs)):
        if isinstance(node, Reduce):
            total += prod(space[axis] for axis in axes_of(node.arg, present, memo) | set(node.axes))
        elif isinstance(node, Apply) and node.prim.flops:
            total += node.prim.flops * prod(space[axis] for axis in axes_of(node, present, memo))
    return total
