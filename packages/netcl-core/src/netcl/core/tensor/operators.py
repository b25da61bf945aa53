"""The operators of tensors: each one calls a row of the op table, and is recorded; augmented ones write in place."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np

from netcl.core.dtypes import is_floating
from netcl.core.errors import ArgumentError
from netcl.core.ops_table import dispatch
from netcl.core.storage.data import TensorData
from netcl.core.storage.host import to_storage
from netcl.core.tensor import in_place

if TYPE_CHECKING:
    from typing_extensions import Self

ResultT = TypeVar("ResultT")
_COMPARABLE = (TensorData, bool, int, float, np.generic, np.ndarray, list, tuple)


def check_power(base: Any, exponent: Any) -> None:
    """Raises ValueError for a tensor of integers to a negative whole number, which has no integer as its value."""
    if isinstance(exponent, int) and exponent < 0 and isinstance(base, Operators) and not is_floating(base.dtype):
        raise ArgumentError(
            f"pow: expected an exponent of 0 or more for {base.dtype}, got {exponent}; convert with float()"
        )


class Operators(TensorData, Generic[ResultT]):
    """The operators of a tensor, with results of class ``ResultT``; a base of Tensor."""

    __slots__ = ()

    __array_priority__: ClassVar[float] = 1000.0  # NumPy arrays leave mixed operators to tensors

    if TYPE_CHECKING:

        @staticmethod
        def _call(name: str, *args: Any, **kwargs: Any) -> ResultT: ...

    else:
        _call = staticmethod(partial(dispatch.call, record=True))

    # -- operators: each one calls its row of the op table ---------------------------------------------------------

    def __add__(self, other: Any) -> ResultT:
        return self._call("add", self, other)

    def __radd__(self, other: Any) -> ResultT:
        return self._call("add", other, self)

    def __sub__(self, other: Any) -> ResultT:
        return self._call("sub", self, other)

    def __rsub__(self, other: Any) -> ResultT:
        return self._call("sub", other, self)

    def __mul__(self, other: Any) -> ResultT:
        return self._call("mul", self, other)

    def __rmul__(self, other: Any) -> ResultT:
        return self._call("mul", other, self)

    def __truediv__(self, other: Any) -> ResultT:
        return self._call("div", self, other)

    def __rtruediv__(self, other: Any) -> ResultT:
        return self._call("div", other, self)

    __rdiv__ = __rtruediv__

    def __floordiv__(self, other: Any) -> ResultT:
        return self._call("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> ResultT:
        return self._call("floor_divide", other, self)

    def __mod__(self, other: Any) -> ResultT:
        return self._call("mod", self, other)

    def __rmod__(self, other: Any) -> ResultT:
        return self._call("mod", other, self)

    def __pow__(self, other: Any) -> ResultT:
        check_power(self, other)
        return self._call("pow", self, other)

    def __rpow__(self, other: Any) -> ResultT:
        return self._call("pow", other, self)

    def __divmod__(self, other: Any) -> tuple[ResultT, ResultT]:
        return self._call("floor_divide", self, other), self._call("mod", self, other)

    def __rdivmod__(self, other: Any) -> tuple[ResultT, ResultT]:
        return self._call("floor_divide", other, self), self._call("mod", other, self)

    def __matmul__(self, other: Any) -> ResultT:
        return self._call("matmul", self, self._operand(other))

    def __rmatmul__(self, other: Any) -> ResultT:
        return self._call("matmul", self._operand(other), self)

    def _operand(self, other: Any) -> Any:
        """An array as a tensor on this tensor's device."""
        return self.engine.tensor(*to_storage(other, None)) if isinstance(other, np.ndarray) else other

    # -- augmented assignment writes into the tensor -----------------------------------------------------------------

    def __iadd__(self, other: Any) -> Self:
        return in_place.write(self, self._call("add", self, other))  # type: ignore[no-any-return]

    def __isub__(self, other: Any) -> Self:
        return in_place.write(self, self._call("sub", self, other))  # type: ignore[no-any-return]

    def __imul__(self, other: Any) -> Self:
        return in_place.write(self, self._call("mul", self, other))  # type: ignore[no-any-return]

    def __itruediv__(self, other: Any) -> Self:
        return in_place.write(self, self._call("div", self, other))  # type: ignore[no-any-return]

    def __ifloordiv__(self, other: Any) -> Self:
        return in_place.write(self, self._call("floor_divide", self, other))  # type: ignore[no-any-return]

    def __imod__(self, other: Any) -> Self:
        return in_place.write(self, self._call("mod", self, other))  # type: ignore[no-any-return]

    def __ipow__(self, other: Any) -> Self:
        return in_place.write(self, self**other)  # type: ignore[no-any-return]

    def __iand__(self, other: Any) -> Self:
        return in_place.write(self, self._call("bitwise_and", self, other))  # type: ignore[no-any-return]

    def __ior__(self, other: Any) -> Self:
        return in_place.write(self, self._call("bitwise_or", self, other))  # type: ignore[no-any-return]

    def __ixor__(self, other: Any) -> Self:
        return in_place.write(self, self._call("bitwise_xor", self, other))  # type: ignore[no-any-return]

    def __ilshift__(self, other: Any) -> Self:
        return in_place.write(self, self._call("left_shift", self, other))  # type: ignore[no-any-return]

    def __irshift__(self, other: Any) -> Self:
        return in_place.write(self, self._call("right_shift", self, other))  # type: ignore[no-any-return]

    # -- unary and comparison ----------------------------------------------------------------------------------------

    def __pos__(self) -> Self:
        if self.dtype == "bool":
            raise TypeError("+ is not defined on bool tensors; write x.int()")
        return self

    def __round__(self, ndigits: int | None = None) -> ResultT:
        if ndigits is None:
            return self._call("round", self)
        scale = 10.0**ndigits
        return self._call("div", self._call("round", self._call("mul", self, scale)), scale)

    def __neg__(self) -> ResultT:
        return self._call("neg", self)

    def __abs__(self) -> ResultT:
        return self._call("abs", self)

    def __eq__(self, other: object) -> Any:
        # Of None, a string and the like Python then compares identities: False.
        return self._call("eq", self, other) if isinstance(other, _COMPARABLE) else NotImplemented

    def __ne__(self, other: object) -> Any:
        return self._call("ne", self, other) if isinstance(other, _COMPARABLE) else NotImplemented

    def __contains__(self, element: Any) -> bool:
        equal: Any = self._call("any", self._call("eq", self, element))
        return bool(equal)

    def __lt__(self, other: Any) -> ResultT:
        return self._call("lt", self, other)

    def __le__(self, other: Any) -> ResultT:
        return self._call("le", self, other)

    def __gt__(self, other: Any) -> ResultT:
        return self._call("gt", self, other)

    def __ge__(self, other: Any) -> ResultT:
        return self._call("ge", self, other)

    def __and__(self, other: Any) -> ResultT:
        return self._call("bitwise_and", self, other)

    def __rand__(self, other: Any) -> ResultT:
        return self._call("bitwise_and", other, self)

    def __or__(self, other: Any) -> ResultT:
        return self._call("bitwise_or", self, other)

    def __ror__(self, other: Any) -> ResultT:
        return self._call("bitwise_or", other, self)

    def __xor__(self, other: Any) -> ResultT:
        return self._call("bitwise_xor", self, other)

    def __rxor__(self, other: Any) -> ResultT:
        return self._call("bitwise_xor", other, self)

    def __invert__(self) -> ResultT:
        return self._call("bitwise_not", self)

    def __lshift__(self, other: Any) -> ResultT:
        return self._call("left_shift", self, other)

    def __rlshift__(self, other: Any) -> ResultT:
        return self._call("left_shift", other, self)

    def __rshift__(self, other: Any) -> ResultT:
        return self._call("right_shift", self, other)

    def __rrshift__(self, other: Any) -> ResultT:
        return self._call("right_shift", other, self)

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __getitem__(self, key: Any) -> ResultT:
        if type(key) is int:
            return dispatch.entry(self, key)  # type: ignore[no-any-return]
        return self._call("getitem", self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        in_place.assign(self, key, value)
