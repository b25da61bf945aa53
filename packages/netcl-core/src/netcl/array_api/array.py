"""Array: the tensor that the functions of the namespace return, with the standard's operators."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from netcl.array_api.promotion import together
from netcl.array_api.rows import row
from netcl.core.dtypes import is_floating
from netcl.core.tensor import Tensor, in_place

__all__ = ["Array", "returns_arrays"]

F = TypeVar("F", bound=Callable[..., Any])


def _standard(operator: F) -> F:
    """The operator of tensors on operands that are converted first to the dtype that they promote to."""

    @wraps(operator)
    def method(self: Tensor, *other: Any) -> Any:
        return as_array(operator(*together(self, *other)))

    return method  # type: ignore[return-value]


def floor_quotient(left: Any, right: Any) -> Any:
    """floor(left / right) with the standard's special cases: the quotient of an infinity and a number is an infinity,
    that of a number and an infinity is a zero. The op has NumPy's, NaN and -1.
    """
    left, right = together(left, right)
    floored = row("floor_divide")(left, right)
    if not is_floating(floored.dtype):
        return floored
    # Outside of the graph: elements that are not taken would give NaN, as the gradient of a division by zero.
    left, right = (one.detach() if isinstance(one, Tensor) else one for one in (left, right))
    quotient = row("div")(left, right)
    for one in (left, right):
        if not isinstance(one, (int, float)):
            floored = row("where")(row("isinf")(one), quotient, floored)
        elif math.isinf(one):
            return quotient
    return floored


class Array(Tensor):
    """A tensor of the array API standard: its operators promote 0-d tensors like others, as the functions of the
    namespace do, and divide infinities as the standard says. Methods are those of tensors, and return plain ones.
    """

    if not TYPE_CHECKING:  # types are those of Tensor
        __slots__ = ()

        __abs__ = _standard(Tensor.__abs__)
        __neg__ = _standard(Tensor.__neg__)
        __invert__ = _standard(Tensor.__invert__)
        __add__ = _standard(Tensor.__add__)
        __radd__ = _standard(Tensor.__radd__)
        __sub__ = _standard(Tensor.__sub__)
        __rsub__ = _standard(Tensor.__rsub__)
        __mul__ = _standard(Tensor.__mul__)
        __rmul__ = _standard(Tensor.__rmul__)
        __truediv__ = _standard(Tensor.__truediv__)
        __rtruediv__ = _standard(Tensor.__rtruediv__)
        __mod__ = _standard(Tensor.__mod__)
        __rmod__ = _standard(Tensor.__rmod__)
        __pow__ = _standard(Tensor.__pow__)
        __rpow__ = _standard(Tensor.__rpow__)
        __matmul__ = _standard(Tensor.__matmul__)
        __rmatmul__ = _standard(Tensor.__rmatmul__)
        __and__ = _standard(Tensor.__and__)
        __rand__ = _standard(Tensor.__rand__)
        __or__ = _standard(Tensor.__or__)
        __ror__ = _standard(Tensor.__ror__)
        __xor__ = _standard(Tensor.__xor__)
        __rxor__ = _standard(Tensor.__rxor__)
        __lshift__ = _standard(Tensor.__lshift__)
        __rlshift__ = _standard(Tensor.__rlshift__)
        __rshift__ = _standard(Tensor.__rshift__)
        __rrshift__ = _standard(Tensor.__rrshift__)
        __lt__ = _standard(Tensor.__lt__)
        __le__ = _standard(Tensor.__le__)
        __gt__ = _standard(Tensor.__gt__)
        __ge__ = _standard(Tensor.__ge__)
        __eq__ = _standard(Tensor.__eq__)
        __ne__ = _standard(Tensor.__ne__)
        __hash__ = Tensor.__hash__

    def __floordiv__(self, other: Any) -> Tensor:
        return as_array(floor_quotient(self, other))  # type: ignore[no-any-return]

    def __rfloordiv__(self, other: Any) -> Tensor:
        return as_array(floor_quotient(other, self))  # type: ignore[no-any-return]

    def __ifloordiv__(self, other: Any) -> Any:
        return in_place.write(self, floor_quotient(self, other))

    def __divmod__(self, other: Any) -> tuple[Tensor, Tensor]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Tensor, Tensor]:
        return other // self, other % self

    def __getitem__(self, key: Any) -> Tensor:
        if isinstance(key, Tensor) and key.dtype == "bool" and self._is_empty_mask(key):
            return as_array(super().__getitem__(slice(0)).reshape(0, *self.shape[key.ndim :]))  # type: ignore[no-any-return]
        return as_array(super().__getitem__(key))  # type: ignore[no-any-return]

    def _is_empty_mask(self, mask: Tensor) -> bool:
        """True if a mask has axes of length 0 where this array has more elements: it selects nothing, as in NumPy."""
        fits = mask.ndim <= self.ndim and all(have in (length, 0) for have, length in zip(mask.shape, self.shape))
        return fits and mask.size == 0

    @property
    def T(self) -> Tensor:
        """The matrix with its axes swapped."""
        return as_array(super().T)  # type: ignore[no-any-return]

    @property
    def mT(self) -> Tensor:
        """The matrices with their two axes swapped."""
        return as_array(super().mT)  # type: ignore[no-any-return]

    def to_device(self, device: Any, /, *, stream: None = None) -> Tensor:
        """See ``Tensor.to_device``."""
        return as_array(super().to_device(device, stream=stream))  # type: ignore[no-any-return]


def as_array(result: Any) -> Any:
    """Makes a tensor that an op has just returned an Array, and each one of a list or tuple; returns it."""
    if type(result) is Tensor:
        result.__class__ = Array
    elif isinstance(result, (list, tuple)):
        for one in result:
            as_array(one)
    return result


def returns_arrays(function: F) -> F:
    """Decorates a function of the namespace: the tensors that it returns are Arrays.

    An argument that is returned itself stays the tensor that it is; the result is then a view of it.
    """

    @wraps(function)
    def standard(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        given = [*args, *(one for many in args if isinstance(many, (list, tuple)) for one in many)]
        if isinstance(result, list):
            return as_array([_or_view(one, given) for one in result])
        return as_array(_or_view(result, given))

    return standard  # type: ignore[return-value]


def _or_view(result: Any, given: list[Any]) -> Any:
    """Returns the result, or a view of it if it is one of the tensors ``given``."""
    if type(result) is Tensor and any(result is one for one in given):
        return row("getitem")(result, ...)
    return result
