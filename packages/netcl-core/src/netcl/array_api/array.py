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
    """Returns an operator of tensors that first converts the operands to their promoted dtype."""

    @wraps(operator)
    def method(self: Tensor, *other: Any) -> Any:
        return as_array(operator(*together(self, *other)))

    return method  # type: ignore[return-value]


def floor_quotient(left: Any, right: Any) -> Any:
    """Returns floor(left / right) with the standard's special cases: infinity divided by a number is infinity, a number
    divided by infinity is zero. The op has NumPy's results, NaN and -1.
    """
    left, right = together(left, right)
    floored = row("floor_divide")(left, right)
    if not is_floating(floored.dtype):
        return floored
    # Outside of the graph: unselected elements would give NaN, as the gradient of a division by zero.
    left, right = (operand.detach() if isinstance(operand, Tensor) else operand for operand in (left, right))
    quotient = row("div")(left, right)
    for operand in (left, right):
        if not isinstance(operand, (int, float)):
            floored = row("where")(row("isinf")(operand), quotient, floored)
        elif math.isinf(operand):
            return quotient
    return floored


class Array(Tensor):
    """A tensor of the array API standard: its operators promote 0-d tensors like others, as the functions of the
    namespace do, and divide infinities by the standard's rules. Its methods are Tensor's and return plain tensors.
    """

    if not TYPE_CHECKING:  # types are Tensor's
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
        """Calls ``Tensor.to_device``."""
        return as_array(super().to_device(device, stream=stream))  # type: ignore[no-any-return]


def as_array(result: Any) -> Any:
    """Turns a tensor that an op has just returned into an Array, also inside a list or tuple; returns it."""
    if type(result) is Tensor:
        result.__class__ = Array
    elif isinstance(result, (list, tuple)):
        for item in result:
            as_array(item)
    return result


def returns_arrays(function: F) -> F:
    """Decorates a function of the namespace to return Arrays.

    An argument that it would return keeps its class; the result is then a view of it.
    """

    @wraps(function)
    def standard(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        tensors = [*args, *(item for many in args if isinstance(many, (list, tuple)) for item in many)]
        if isinstance(result, list):
            return as_array([_or_view(item, tensors) for item in result])
        return as_array(_or_view(result, tensors))

    return standard  # type: ignore[return-value]


def _or_view(result: Any, arguments: list[Any]) -> Any:
    """Returns the result, or a view of it if it is one of the tensors ``arguments``."""
    if type(result) is Tensor and any(result is argument for argument in arguments):
        return row("getitem")(result, ...)
    return result
