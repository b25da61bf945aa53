"""Folds normalizations with fixed statistics into contractions: an expression that is linear in the result of a
contraction, with factors from lasting values, becomes a product and a sum with two lasting tensors.

The epilogue of the contraction can compute these. They round otherwise than the expression, within the error of its
dtype, so the pass is for captured inference alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from netcl.core.engine.lasting import LastingValues
from netcl.core.expr import Const, Expr, Load, Scalar
from netcl.core.expr.nodes import Apply
from netcl.core.expr.rewrite import is_exact, rebuild, simplify, walk
from netcl.core.graph.call import LoggedCall, Ref, is_expression, run_arguments
from netcl.core.graph.epilogues import is_contraction
from netcl.core.layout import broadcast_shapes

__all__ = ["with_folded_scales"]

_DTYPES = ("float32", "float64")


def with_folded_scales(
    calls: Sequence[LoggedCall], lasting: LastingValues, live: Iterable[int]
) -> tuple[list[LoggedCall], dict[int, Any]]:
    """Returns the calls, and the lasting tensors that they read by their new numbers, which are negative."""
    live = set(live)
    readers = Counter(key for call in calls for key in call.reads)
    products = {
        key for call in calls if is_contraction(call) for key in call.makes if readers[key] == 1 and key[0] not in live
    }
    made: dict[int, Any] = {}
    return [_folded(call, products, lasting, made) for call in calls], made


def _folded(
    call: LoggedCall, products: set[tuple[int, int]], lasting: LastingValues, made: dict[int, Any]
) -> LoggedCall:
    """Returns the call with two lasting tensors in place of its factors; itself if it is no such expression."""
    if not is_expression(call):
        return call
    outputs, inputs, scalars, _, out = run_arguments(call)
    own = [at for at, ref in enumerate(inputs) if (ref.number, ref.version) in products]
    others = [ref for at, ref in enumerate(inputs) if at not in own]
    plain = len(outputs) == len(own) == 1 and others and not any(out)
    if not plain or any(ref.dtype not in _DTYPES or ref.dtype != inputs[0].dtype for ref in inputs):
        return call
    if is_exact(outputs[0]) or any(ref.number not in lasting.sources for ref in others):
        return call
    factors = _scale_and_shift(outputs[0], own[0])
    if factors is None:
        return call
    product = inputs[own[0]]
    numbered = rebuild(factors, lambda node: _as_factor(node, own[0], scalars))
    shape = broadcast_shapes([ref.shape for ref in others], "run")
    if broadcast_shapes([shape, product.shape], "run") != product.shape:
        return call
    engine: Any = lasting.sources[others[0].number].engine
    tensors = [_seen(lasting.sources[ref.number], ref) for ref in others]
    refs = []
    for expression in numbered:

        def fill(result: Any, expression: Expr = expression) -> None:
            engine.run((expression,), tensors, shapes=(shape,), out=(result,))

        refs.append(Ref(-1 - len(made), 0, shape, product.dtype))
        made[refs[-1].number] = lasting.value(tensors, (expression, shape), shape, product.dtype, fill)
    place, scale, shift = (Load(slot, product.dtype) for slot in range(3))
    reads = frozenset((ref.number, ref.version) for ref in (product, *refs))
    named = {**call.kwargs, "scalars": {}}
    return replace(call, args=((place * scale + shift,), (product, *refs)), kwargs=named, reads=reads)


def _seen(source: Any, ref: Ref) -> Any:
    return source if source.shape == ref.shape else source._alias(ref.shape)


def _as_factor(node: Expr, slot: int, scalars: Mapping[str, Any]) -> Expr | None:
    """Returns a load with its slot among the inputs other than ``slot``, and a launch scalar as a constant."""
    if isinstance(node, Load) and node.slot > slot:
        return Load(node.slot - 1, node.dtype)
    return Const(scalars[node.name], node.dtype) if isinstance(node, Scalar) else None


def _scale_and_shift(root: Expr, slot: int) -> tuple[Expr, Expr] | None:
    """Returns (a, b) of an expression a x + b with x in ``slot``; None if it is no such expression, or one without
    inputs in a or b.
    """
    parts: dict[Expr, tuple[Expr, Expr | None]] = {}  # of the nodes that contain x
    for node in walk((root,)):
        if isinstance(node, Load) and node.slot == slot:
            parts[node] = Const(1.0, node.dtype), None
        elif any(child in parts for child in node.children):
            part = _of_operation(node, parts)
            if part is None:
                return None
            parts[node] = part
    scale, shift = parts.get(root, (root, None))
    if shift is None or not all(any(isinstance(node, Load) for node in walk((part,))) for part in (scale, shift)):
        return None
    return simplify(scale), simplify(shift)


def _of_operation(node: Expr, parts: dict[Expr, tuple[Expr, Expr | None]]) -> tuple[Expr, Expr | None] | None:
    """Returns the factors of an operation on expressions that contain x."""
    if not isinstance(node, Apply) or len(node.args) != 2:
        return None
    name, (left, right) = node.prim.name, node.args
    if left in parts and right in parts:
        return None
    if left in parts:
        scale, shift = parts[left]
        if name in ("add", "sub"):
            rest = right if name == "add" else -right
            return scale, rest if shift is None else shift + rest
        if name in ("mul", "div"):
            return _times(scale, shift, right, name)
        return None
    scale, shift = parts[right]
    if name == "add":
        return scale, left if shift is None else left + shift
    return _times(scale, shift, left, name) if name == "mul" else None


def _times(scale: Expr, shift: Expr | None, factor: Expr, name: str) -> tuple[Expr, Expr | None]:
    if name == "div":
        return scale / factor, None if shift is None else shift / factor
    return scale * factor, None if shift is None else shift * factor
