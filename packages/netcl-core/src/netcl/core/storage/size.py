"""Sizes as PyTorch gives them: Size, a tuple of lengths, and Count, a number of elements that can be called."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, overload

from netcl.core.errors import OutOfRangeError
from netcl.core.process import naming


class Size(tuple[int, ...]):
    """The lengths of a tensor's axes: a tuple with PyTorch's ``numel()``.

    >>> Size((2, 3)).numel()
    6
    """

    __slots__ = ()

    def numel(self) -> int:
        """The number of elements of a tensor of these lengths."""
        return math.prod(self)

    def __repr__(self) -> str:
        return f"{naming.library}.Size({list(self)})"

    # Slices and sums of sizes are sizes.
    def __getitem__(self, at: Any) -> Any:
        length = tuple.__getitem__(self, at)
        return Size(length) if isinstance(at, slice) else length

    def __add__(self, other: Any) -> Size:
        return Size(tuple.__add__(self, tuple(other)))


class Shape(Size):
    """``x.shape``: a Size that prints as a tuple, except in a program written for PyTorch. Slices and sums of it are
    plain tuples: reading a length costs what it costs of a tuple.
    """

    __slots__ = ()

    if not TYPE_CHECKING:
        __getitem__ = tuple.__getitem__
        __add__ = tuple.__add__

    def __repr__(self) -> str:
        return Size.__repr__(self) if naming.is_foreign() else tuple.__repr__(self)


class Count(int):
    """``x.size``: the number of elements, as NumPy gives it; called, the lengths of the axes, as PyTorch gives them.
    ``x.size()`` is a Size, ``x.size(0)`` the length of one axis; IndexError if there is no such axis.
    """

    shape: tuple[int, ...]

    @classmethod
    def of(cls, shape: tuple[int, ...]) -> Count:
        """The number of elements of a tensor of ``shape``."""
        count = cls(math.prod(shape))
        count.shape = shape
        return count

    @overload
    def __call__(self, dim: None = None) -> Size: ...
    @overload
    def __call__(self, dim: int) -> int: ...
    def __call__(self, dim: int | None = None) -> Size | int:
        if dim is None:
            return Size(self.shape)
        if not -len(self.shape) <= dim < len(self.shape):
            raise OutOfRangeError(f"size: there is no axis {dim} in shape {self.shape}")
        return self.shape[dim]

    def __reduce__(self) -> tuple[Any, ...]:
        return (int, (int(self),))  # a copy is a plain number
