"""Bounds the work of a node of constants on the host, from the shapes and sizes of its inputs.

A file of 200 bytes can tile one element to a terabyte, so a node is charged before it is evaluated. The bounds may be
too high, never too low; the seconds were measured with ONNX's reference implementation on a slow processor of today.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from netcl.io.budget import Meter
from netcl.io.onnx.node import Node, axes_of, numbers

Array = np.ndarray[Any, Any]

# Preparing the evaluator of one node.
_SECONDS_PER_NODE = 2e-4
_SECONDS_PER_ELEMENT = 1e-8
# Operators that the reference implementation computes in a loop of Python, or in one that it gives to NumPy.
_SLOW = {
    **dict.fromkeys(("Resize", "Upsample"), 1e-4),
    **dict.fromkeys(("Erf", "Gelu", "OneHot", "Mish", "Celu", "Selu", "Acosh", "Asinh", "Atanh"), 5e-7),
    **dict.fromkeys(("TopK", "GatherND", "GatherElements", "ScatterElements", "Pad", "Trilu", "CumSum"), 2e-6),
}
# No file computes these from constants, and their cost depends on windows, strides and padding.
_NEVER = frozenset(("Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool", "LRN"))
# The elements of the result are some of the inputs', or fewer.
_MOVING = frozenset(
    (
        *("Reshape", "Split", "Slice", "Concat", "Squeeze", "Unsqueeze", "Transpose", "Flatten", "Identity", "Shape"),
        *("Size", "TopK", "Trilu", "CumSum", "ScatterElements", "Cast", "CastLike", "DepthToSpace", "SpaceToDepth"),
        *("ArgMax", "ArgMin", "EyeLike", "GlobalAveragePool", "GlobalMaxPool", "Dropout", "Clip"),
    )
)


def charge(node: Node, inputs: Sequence[Array | None], meter: Meter) -> None:
    """Takes what the node needs from ``meter``: raises ValueError if that is too much, or if a size is invalid."""
    if node.op in _NEVER:
        raise ValueError(f"{node.op} is not computed from constants alone")
    elements, steps = _bound(node, inputs)
    read = sum(value.size for value in inputs if value is not None)
    width = max((value.itemsize for value in inputs if value is not None), default=8)
    meter.spend(elements * max(width, 8), "its result")
    each = _SLOW.get(node.op, _SECONDS_PER_ELEMENT)
    meter.take(_SECONDS_PER_NODE + each * max(elements, read) + _SECONDS_PER_ELEMENT * steps, "computing constants")


def _bound(node: Node, inputs: Sequence[Array | None]) -> tuple[int, int]:
    """Returns the elements of the result, and multiplications in addition to one step for each element."""
    op, x = node.op, inputs[0] if inputs else None
    total = sum(value.size for value in inputs if value is not None)
    if op in _MOVING or op.startswith("Reduce"):
        return 2 * total, 0
    if op == "ConstantOfShape":
        return _product(numbers(x)), 0
    if op == "Range":
        return _range(*(np.asarray(value).item() for value in inputs)), 0
    if x is None:
        return total, 0
    if op == "NonZero":
        return x.size * max(x.ndim, 1), 0
    if op == "Expand":
        return _product(np.broadcast_shapes(x.shape, tuple(numbers(inputs[1])))), 0
    if op == "Tile":
        return _product((*x.shape, *numbers(inputs[1]))), 0
    if op == "Pad":
        return _padded(node, x, inputs), 0
    if op in ("Resize", "Upsample"):
        return _resized(node, x, inputs), 0
    if op == "OneHot":
        return x.size * _product(numbers(inputs[1])), 0
    if op in ("Gather", "GatherElements", "GatherND"):
        index = inputs[1]
        assert index is not None
        return _gathered(node, x, index), 0
    if op in ("MatMul", "Gemm"):
        return _multiplied(node, [value for value in inputs if value is not None])
    if op == "Einsum":
        return _contracted(node, [value for value in inputs if value is not None])
    return _product(np.broadcast_shapes(*(value.shape for value in inputs if value is not None))) + total, 0


def _product(sizes: Sequence[int]) -> int:
    return math.prod(max(0, int(size)) for size in sizes)


def _range(start: float, limit: float, delta: float) -> int:
    if not delta:
        raise ValueError("the step of a range is 0")
    return max(0, math.ceil((limit - start) / delta))


def _padded(node: Node, x: Array, inputs: Sequence[Array | None]) -> int:
    pads = axes_of(node, inputs[1] if len(inputs) > 1 else None, "pads") or []
    axes = axes_of(node, inputs[3] if len(inputs) > 3 else None) or list(range(x.ndim))
    sizes = list(x.shape)
    for number, axis in enumerate(axes):
        sizes[axis] += max(0, pads[number]) + max(0, pads[number + len(axes)])
    return _product(sizes)


def _resized(node: Node, x: Array, inputs: Sequence[Array | None]) -> int:
    sizes = inputs[3] if len(inputs) > 3 else None
    if sizes is not None and sizes.size:
        return _product(numbers(sizes)) * (1 if sizes.size == x.ndim else max(1, x.size))
    sized = [value for value in inputs[1:3] if value is not None and value.size]
    scales = [float(scale) for scale in (np.ravel(sized[-1]) if sized else node.get("scales", ()))]
    return math.ceil(x.size * math.prod(max(1.0, scale) for scale in scales))


def _gathered(node: Node, x: Array, index: Array) -> int:
    count = int(index.size)
    if node.op == "GatherElements":
        return count
    if node.op == "GatherND":
        depth = int(index.shape[-1] + node.get("batch_dims", 0))
        return count // max(1, int(index.shape[-1])) * _product(x.shape[depth:])
    axis = node.get("axis", 0) % x.ndim
    return count * _product((*x.shape[:axis], *x.shape[axis + 1 :]))


def _multiplied(node: Node, inputs: Sequence[Array]) -> tuple[int, int]:
    a, b, *rest = inputs
    if node.op == "Gemm":
        rows = a.shape[1 if node.get("transA", 0) else 0]
        inner, columns = b.shape[::-1] if node.get("transB", 0) else b.shape
        return _product((rows, columns)) + sum(c.size for c in rest), _product((rows, columns, inner))
    rows, inner = (1, *a.shape)[-2:]
    columns = b.shape[-1] if b.ndim > 1 else 1
    batch = _product(np.broadcast_shapes(a.shape[:-2], b.shape[:-2]))
    return batch * rows * columns, batch * rows * columns * inner


def _contracted(node: Node, inputs: Sequence[Array]) -> tuple[int, int]:
    """Returns the product of the sizes of all indices twice, which bounds result and steps."""
    terms = str(node.get("equation")).replace(" ", "").partition("->")[0].split(",")
    sizes: Counter[str] = Counter()
    for term, value in zip(terms, inputs):
        letters = [letter for letter in term if letter.isalpha()]
        # The axes of an ellipsis are indices of their own.
        free = value.ndim - len(letters)
        for axis, size in enumerate(value.shape):
            name = letters[axis] if not free and axis < len(letters) else f"{term}{axis}"
            sizes[name] = max(sizes[name], size)
    every = _product(list(sizes.values()))
    return every, every
