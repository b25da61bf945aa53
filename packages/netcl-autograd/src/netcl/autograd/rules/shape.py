"""Gradient rules of ops that move elements: each is another such op."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from netcl.autograd.blocks import Block
from netcl.autograd.rules.rule import RecordedCall, rule
from netcl.core import Tensor


@rule("reshape")
def reshape(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns the gradient in the operand's shape."""
    return {"x": call.op("reshape", grad, call.x.shape)}


@rule("contiguous")
def contiguous(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns the gradient as it is."""
    return {"x": grad}


@rule("permute")
def permute(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns the inverse permutation."""
    rank = call.x.ndim
    order = [axis % rank for axis in call.axes]
    return {"x": call.op("permute", grad, [order.index(axis) for axis in range(rank)])}


@rule("expand")
def expand(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns the sum over the broadcast axes."""
    return {"x": summed_to(call, grad, call.x.shape)}


def summed_to(call: RecordedCall, grad: Any, shape: tuple[int, ...]) -> Any:
    """Returns ``grad`` summed to ``shape``, which broadcasts to the shape of ``grad``."""
    lead = grad.ndim - len(shape)
    axes = [axis for axis in range(grad.ndim) if axis < lead or (shape[axis - lead] == 1 and grad.shape[axis] != 1)]
    if axes:
        grad = call.op("sum", grad, axis=tuple(axes), keepdims=True)
    return grad if grad.shape == shape else call.op("reshape", grad, shape)


@rule("diagonal")
def diagonal(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Zeros with the gradient on the diagonal."""
    shape, rank = call.x.shape, call.x.ndim
    first, second = call.dim1 % rank, call.dim2 % rank
    order = [*(axis for axis in range(rank) if axis not in (first, second)), first, second]
    *lead, rows, columns = (shape[axis] for axis in order)
    down, right = max(-call.offset, 0), max(call.offset, 0)
    start = down * columns + right if grad.shape[-1] else 0
    zeros, ones = [0] * len(lead), [1] * len(lead)
    flat = call.op("strided_scatter", grad, (*lead, rows * columns), (*zeros, start), (*ones, columns + 1))
    whole = call.op("reshape", flat, (*lead, rows, columns))
    return {"x": call.op("permute", whole, [order.index(axis) for axis in range(rank)])}


@rule("as_strided")
def as_strided(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Zeros to which each element of the gradient is added at its position."""
    at = np.asarray(call.storage_offset)
    for length, step in zip(call.size, call.stride):
        at = at[..., None] + step * np.arange(length)
    index, count = Tensor.from_host(grad.queue, at.reshape(-1), "int64"), math.prod(call.x.shape)
    flat = call.op("index_select_grad", call.op("reshape", grad, (-1,) if grad.size else (0,)), index, 0, (count,))
    return {"x": call.op("reshape", flat, call.x.shape)}


@rule("windows")
def windows(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Each element the sum of the gradients of its copies in the windows."""
    shape, at = call.x.shape, call.axis % call.x.ndim
    count, size = grad.shape[at], grad.shape[-1]
    rank = grad.ndim
    together = call.op("permute", grad, [*range(at + 1), rank - 1, *range(at + 1, rank - 1)])
    places = np.arange(count)[:, None] * call.step + np.arange(size)
    joined = call.op("reshape", together, (*shape[:at], count * size, *shape[at + 1 :]))
    index = Tensor.from_host(grad.queue, places.reshape(-1), "int64")
    return {"x": call.op("index_select_grad", joined, index, at, shape)}


@rule("strided_slice")
def strided_slice(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Zeros with the gradient at the positions of the slice."""
    sizes = tuple(call.sizes)
    if tuple(grad.shape) != sizes:
        grad = call.op("reshape", grad, sizes)
    return {"x": Block(grad, call.x.shape, tuple(call.starts), tuple(call.steps))}


@rule("strided_scatter")
def strided_scatter(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns the slice at the positions of the operand."""
    return {"x": call.op("strided_slice", grad, call.starts, call.steps, call.x.shape)}


@rule("border")
def border(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns the sums over the copies of each element."""
    return {"x": call.op("border_grad", grad, call.pads, call.mode)}


@rule("border_grad")
def border_grad(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns the gradient with the border."""
    return {"grad_output": call.op("border", grad, call.pads, call.mode)}


@rule("transfer")
def transfer(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Moves the gradient back to the operand's device."""
    return {"x": call.op("transfer", grad, call.x.queue)}


@rule("concatenate")
def concatenate(call: RecordedCall, grad: Any) -> Mapping[str, Any]:
    """Returns each operand's part of the gradient."""
    at, start, parts = call.axis % grad.ndim, 0, []
    for x in call.tensors:
        starts = [start if axis == at else 0 for axis in range(grad.ndim)]
        parts.append(call.op("strided_slice", grad, starts, [1] * grad.ndim, x.shape))
        start += x.shape[at]
    return {"tensors": parts}
