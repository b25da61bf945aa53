"""Describes a call of an op that is one contraction of its engine, so that the log of a traced function has it as the
call that a captured step would log.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from netcl.core.engine.interceptors import Interceptor, Layer, interception
from netcl.core.errors import NetclError, UnsupportedError
from netcl.core.graph.call import LoggedCall, Op, Ref, replaced, tensors_in
from netcl.core.ops_table.records import Record
from netcl.core.ops_table.table import OpRow
from netcl.core.storage.storage import Storage

Shape = tuple[int, ...]

CONTRACTIONS = frozenset(("matmul", "linear", "conv1d", "conv2d", "conv3d"))
_DTYPES = ("float32", "float64")


class _Description(Interceptor):
    """Takes down the one engine call of an op, in place of running it."""

    layer = Layer.CALL_LOG

    def __init__(self) -> None:
        self.thread: int | None = threading.get_ident()
        self.call: Any = None

    def __call__(
        self, proceed: Callable[..., Any], engine: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        shape = _SHAPES[name](*args, **kwargs) if name in _SHAPES else None
        if shape is None or self.call is not None:
            raise UnsupportedError(f"expected an op that is one contraction, got a call of {name}")
        self.call = name, args, kwargs, shape
        return _blank(args[-1], shape)


def described(row: OpRow, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> LoggedCall | None:
    """Returns the call of ``row`` as the engine call that it is, with the places of its operands as numbers, and -1 for
    its result; None if it is more than one contraction, or raises an error.
    """
    operands = list(tensors_in((args, tuple(kwargs.values()))))
    if any(operand.dtype not in _DTYPES or 0 in operand.shape for operand in operands):
        return None
    places: dict[Any, int] = {}

    def blank(operand: Any) -> Any:
        made = _blank(operand, operand.shape)
        places[made._storage] = len(places)
        return made

    def ref(tensor: Any) -> Ref:
        return Ref(places[tensor._storage], 0, tensor.shape, tensor.dtype)

    blanks, named = replaced(args, blank), replaced(dict(kwargs), blank)
    description = _Description()
    assert row.call is not None
    try:
        with interception(operands[0].engine, description):
            result = row.call(*blanks, **named)
    except (NetclError, TypeError, ValueError):  # the call itself raises it again
        return None
    op = Op(row, replaced(blanks, ref), replaced(named, ref), Record(), result.shape)
    method, positional, keywords, shape = description.call
    made = Ref(-1, 0, shape, result.dtype)
    read = replaced(positional, ref), replaced(keywords, ref)
    return LoggedCall(method, *read, made, frozenset(), frozenset(), False, row=row.name, op=op)


def _blank(like: Any, shape: Shape) -> Any:
    """Returns a tensor without memory."""
    return like._on(Storage.of(None, None, None), shape, like.dtype)


def _product_shape(a: Any, b: Any, *, transpose_a: bool = False, transpose_b: bool = False, **options: Any) -> Shape:
    """Returns the shape of a product of matrices, or of stacks of them."""
    rank = max(a.ndim, b.ndim)
    left, right = ((1,) * (rank - x.ndim) + x.shape[:-2] for x in (a, b))
    stack = tuple(n if m == 1 else m for m, n in zip(left, right))
    return (*stack, a.shape[-1 if transpose_a else -2], b.shape[-2 if transpose_b else -1])


def _image_shape(kind: str, x: Any, weight: Any, **options: Any) -> Shape | None:
    """Returns the shape of a convolution; None for one of the gradients of convolutions."""
    if kind != "forward":
        return None
    axes = zip(x.shape[2:], weight.shape[2:], options["stride"], options["padding"], options["dilation"])
    sizes = [(n + low + high - dilation * (k - 1) - 1) // step + 1 for n, k, step, (low, high), dilation in axes]
    return (x.shape[0], weight.shape[0], *sizes)


_SHAPES: dict[str, Callable[..., Shape | None]] = {"matmul": _product_shape, "conv": _image_shape}  # by call
