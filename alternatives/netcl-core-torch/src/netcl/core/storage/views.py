"""Views: the storage of a tensor, and the elements that it shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from netcl_core_kit.in_place import check_writable

__all__ = ["Geometry", "check_writable", "root_of", "separate", "snapshot"]


class Geometry(NamedTuple):
    """The elements of a storage that a tensor shows: its shape, and strides and offset in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    def _after(self, view: Any) -> Geometry:
        # Computed on a tensor without memory, of which PyTorch takes the view.
        shown = view(torch.empty_strided(self.shape, self.strides, device="meta"))
        return Geometry(tuple(shown.shape), tuple(shown.stride()), self.offset + int(shown.storage_offset()))

    def reshaped(self, shape: Sequence[int]) -> Geometry | None:
        """These elements in another shape; None if that takes a copy."""
        try:
            return self._after(lambda probe: probe.view(tuple(shape)))
        except RuntimeError:
            return None

    def permuted(self, axes: Sequence[int]) -> Geometry:
        """The axes in the order ``axes``."""
        return self._after(lambda probe: probe.permute(tuple(axes)))

    def expanded(self, shape: Sequence[int]) -> Geometry:
        """Broadcast to ``shape``."""
        return self._after(lambda probe: probe.expand(tuple(shape)))

    def diagonal(self, offset: int, dim1: int, dim2: int) -> Geometry:
        """The diagonal of two axes as the last axis."""
        return self._after(lambda probe: probe.diagonal(offset, dim1, dim2))

    def sliced(self, starts: Sequence[int], steps: Sequence[int], sizes: Sequence[int], shape: Any = None) -> Geometry:
        """``sizes`` elements from ``starts`` on in ``steps``, in ``shape``, which differs in axes of length 1 alone."""
        strides = tuple(stride * step for stride, step in zip(self.strides, steps))
        offset = self.offset + sum(stride * first for stride, first in zip(self.strides, starts))
        return Geometry(tuple(sizes), strides, offset)._after(
            lambda probe: probe if shape is None else probe.view(shape)
        )

    def strided(self, shape: Sequence[int], strides: Sequence[int], offset: int) -> Geometry:
        """Elements in the order of memory of a contiguous geometry, by strides and an offset in elements."""
        return Geometry(tuple(shape), tuple(strides), self.offset + offset)

    def windows(self, axis: int, size: int, step: int) -> Geometry:
        """Windows of ``size`` elements along an axis, one at every ``step`` positions, as a new last axis."""
        return self._after(lambda probe: probe.unfold(axis, size, step))


def root_of(tensor: Any) -> Any:
    """The storage that has the elements of ``tensor``."""
    return tensor._t.untyped_storage()


def separate(x: Any) -> Any:
    """``x`` with storage that is no view: a view's copy becomes storage of its own."""
    t = x._t
    if t.untyped_storage().nbytes() == t.numel() * t.element_size() and t.is_contiguous():
        return x
    return type(x)._of_base(t.clone(memory_format=torch.contiguous_format), x.engine)


def snapshot(x: Any) -> Any:
    """``x`` itself: a view has no memory of its own here, so its base cannot be freed without it."""
    return x
