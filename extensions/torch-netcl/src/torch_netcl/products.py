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
        self.base, self._whole = base, None

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
        content = getattr(tensor.untyped_storage(), "content", None)
        is_whole = content is not None and content.size == tensor.numel()
        if is_whole and tensor.stride() == (*ahead, other, one) and content.dtype is DTYPES.get(tensor.dtype):
            return Turned(content if content.shape == shape else ops.reshape(content, shape))
    return take(tensor)


def plain(x: Any) -> Any:
    """Returns the netcl tensor of an operand."""
    return x.whole() if type(x) is Turned else x


def _rows(rank: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def product(a: Any, b: Any) -> Any:
        turns = {"transpose_a": type(a) is Turned, "transpose_b": type(b) is Turned}
        x, y = a.base if turns["transpose_a"] else a, b.base if turns["transpose_b"] else b
        if not (x.ndim == y.ndim == rank and x.dtype is y.dtype and x.shape[:-2] == y.shape[:-2]):
            raise NoKernel("shapes, or operands of several dtypes")
        return ops.matmul(x, y, **turns)

    def added(x: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
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
