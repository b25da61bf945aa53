"""Rows of products of matrices, which read an operand whose last two axes are swapped without a copy of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from netcl import ops
from netcl.core.dtypes import is_floating
from netcl.core.layout import contiguous_strides
from torch_netcl.memory import DTYPES, NoKernel, take

TABLE: dict[str, Callable[..., Any]] = {}


class Turned:
    """A netcl tensor with the last two axes swapped: products read ``base``, other rows take ``whole()``."""

    __slots__ = ("_whole", "base")

    def __init__(self, base: Any) -> None:
        self.base: Any = base
        self._whole: Any = None

    def whole(self) -> Any:
        """Returns the tensor, made once."""
        if self._whole is None:
            rank = self.base.ndim
            self._whole = ops.permute(self.base, (*range(rank - 2), rank - 1, rank - 2))
        return self._whole


def operand(tensor: torch.Tensor) -> Any:
    """Returns a tensor of PyTorch as ``take`` does, or Turned if it shows a whole one with swapped axes."""
    if not tensor.is_contiguous() and tensor.dim() > 1 and not tensor.storage_offset() and not tensor.is_neg():
        *lead, rows, columns = tensor.shape
        shape = (*lead, columns, rows)
        *ahead, one, other = contiguous_strides(shape)
        content: Any = getattr(tensor.untyped_storage(), "content", None)
        is_whole = content is not None and content.size == tensor.numel()
        if is_whole and tensor.stride() == (*ahead, other, one) and content.dtype is DTYPES.get(tensor.dtype):
            return Turned(content if content.shape == shape else content._alias(shape))
    return take(tensor)


def plain(x: Any) -> Any:
    """Returns the netcl tensor of an operand."""
    return x.whole() if type(x) is Turned else x


def _rows(rank: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def product(a: Any, b: Any) -> Any:
        x, y = a, b
        turns: dict[str, Any] = {}
        if type(a) is Turned:
            x, turns["transpose_a"] = a.base, True
        if type(b) is Turned:
            y, turns["transpose_b"] = b.base, True
        if not (x.ndim == y.ndim == rank and x.dtype is y.dtype and x.shape[:-2] == y.shape[:-2]):
            raise NoKernel("shapes, or operands of several dtypes")
        return ops.matmul(x, y, **turns)

    def added(x: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        x = plain(x)
        if beta == alpha == 1 and is_floating(x.dtype):
            if rank == 2 and x.ndim == 1 and type(b) is Turned and type(a) is not Turned and a.ndim == 2:
                return ops.linear(a, b.base, x) if x.dtype is a.dtype is b.base.dtype else _refuse()
            total = product(a, b)
            made = ops.add(total, x) if x.dtype is total.dtype else _refuse()
            return made if made.shape == total.shape else _refuse()
        a, b = plain(a), plain(b)
        alike = x.dtype is a.dtype is b.dtype
        return (ops.addmm if rank == 2 else ops.baddbmm)(x, a, b, beta, alpha) if alike else _refuse()

    return product, added


def _refuse() -> Any:
    raise NoKernel("shapes, or operands of several dtypes")


TABLE["mm"], TABLE["addmm"] = _rows(2)
TABLE["bmm"], TABLE["baddbmm"] = _rows(3)


def _linear(x: Any, weight: Any, bias: Any = None) -> Any:
    x, weight = plain(x), plain(weight)
    alike = x.dtype is weight.dtype and is_floating(x.dtype)
    if weight.ndim != 2 or not alike or not (bias is None or (bias.ndim == 1 and bias.dtype is x.dtype)):
        _refuse()
    return ops.linear(x, weight, bias)


def _linear_backward(x: Any, grad: Any, weight: Any, mask: Any) -> tuple[Any, ...]:
    """Returns the gradients of a linear layer by x, weight and bias; None if the mask is False."""
    x, grad, weight = plain(x), plain(grad), plain(weight)
    if not (x.dtype is weight.dtype is grad.dtype and is_floating(x.dtype) and x.size and grad.size):
        _refuse()
    rows, by_x, by_weight, by_bias = grad, None, None, None
    if grad.ndim != 2:
        rows = ops.reshape(grad, (grad.size // weight.shape[0], weight.shape[0]))
    if mask[0]:
        by_x = ops.matmul(rows, weight)
        by_x = by_x if by_x.shape == x.shape else ops.reshape(by_x, x.shape)
    if mask[1]:
        inputs = x if x.ndim == 2 else ops.reshape(x, (x.size // weight.shape[1], weight.shape[1]))
        by_weight = ops.matmul(rows, inputs, transpose_a=True)
    if mask[2]:
        by_bias = ops.sum(rows, 0)
    return by_x, by_weight, by_bias


def linear_backward_of(x: torch.Tensor, grad: torch.Tensor, weight: torch.Tensor, mask: Any) -> tuple[Any, ...]:
    """Returns the same of PyTorch's tensors by its own products; it has no such kernel on the CPU."""
    rows, inputs = grad.reshape(-1, weight.shape[0]), x.conj().reshape(-1, weight.shape[1])
    by_x = torch.mm(rows, weight.conj()).reshape(x.shape) if mask[0] else None
    return by_x, torch.mm(rows.t(), inputs) if mask[1] else None, rows.sum(0) if mask[2] else None


TABLE |= {"linear": _linear, "linear_backward": _linear_backward}
