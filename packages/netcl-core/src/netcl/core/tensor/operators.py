"""The operators and methods of tensors: each one calls the row of its name in the op table, and is recorded."""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar

from netcl.core.ops_table import dispatch
from netcl.core.tensor.data import TensorData

ResultT = TypeVar("ResultT")


class Operators(TensorData, Generic[ResultT]):
    """The operators and methods of a tensor, whose results are of class ``ResultT``; a base of Tensor."""

    __slots__ = ()

    __array_priority__: ClassVar[float] = 1000.0  # NumPy arrays leave mixed operators to tensors

    @staticmethod
    def _call(name: str, *args: Any, **kwargs: Any) -> ResultT:
        return dispatch.call(name, *args, record=True, **kwargs)  # type: ignore[no-any-return]

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

    def __floordiv__(self, other: Any) -> ResultT:
        return self._call("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> ResultT:
        return self._call("floor_divide", other, self)

    def __mod__(self, other: Any) -> ResultT:
        return self._call("mod", self, other)

    def __rmod__(self, other: Any) -> ResultT:
        return self._call("mod", other, self)

    def __pow__(self, other: Any) -> ResultT:
        return self._call("pow", self, other)

    def __rpow__(self, other: Any) -> ResultT:
        return self._call("pow", other, self)

    def __matmul__(self, other: Any) -> ResultT:
        return self._call("matmul", self, other)

    def __neg__(self) -> ResultT:
        return self._call("neg", self)

    def __abs__(self) -> ResultT:
        return self._call("abs", self)

    def __eq__(self, other: object) -> Any:
        return self._call("eq", self, other)

    def __ne__(self, other: object) -> Any:
        return self._call("ne", self, other)

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

    __hash__ = object.__hash__

    def __getitem__(self, key: Any) -> ResultT:
        return self._call("getitem", self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._refuse_in_place("assignment")
        dispatch.call("setitem", self, key, value)
        self._storage.version += 1

    # -- methods: the rows of the same name ------------------------------------------------------------------------

    def sum(self, axis: Any = None, keepdims: bool = False) -> ResultT:
        """Sum over ``axis`` (int, tuple or None for all)."""
        return self._call("sum", self, axis=axis, keepdims=keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> ResultT:
        """Mean over ``axis`` (int, tuple or None for all)."""
        return self._call("mean", self, axis=axis, keepdims=keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> ResultT:
        """Largest element over ``axis``; NaN wins."""
        return self._call("max", self, axis=axis, keepdims=keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> ResultT:
        """Smallest element over ``axis``; NaN wins."""
        return self._call("min", self, axis=axis, keepdims=keepdims)

    def prod(self, axis: Any = None, keepdims: bool = False) -> ResultT:
        """Product over ``axis``."""
        return self._call("prod", self, axis=axis, keepdims=keepdims)

    def var(self, axis: Any = None, keepdims: bool = False, ddof: int = 0) -> ResultT:
        """Variance over ``axis``, with divisor n - ddof."""
        return self._call("var", self, axis=axis, keepdims=keepdims, ddof=ddof)

    def std(self, axis: Any = None, keepdims: bool = False, ddof: int = 0) -> ResultT:
        """Standard deviation over ``axis``, with divisor n - ddof."""
        return self._call("std", self, axis=axis, keepdims=keepdims, ddof=ddof)

    def all(self, axis: Any = None, keepdims: bool = False) -> ResultT:
        """Returns whether all elements over ``axis`` are true."""
        return self._call("all", self, axis=axis, keepdims=keepdims)

    def any(self, axis: Any = None, keepdims: bool = False) -> ResultT:
        """Returns whether any element over ``axis`` is true."""
        return self._call("any", self, axis=axis, keepdims=keepdims)

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> ResultT:
        """Position of the first largest element along ``axis``, int64."""
        return self._call("argmax", self, axis=axis, keepdims=keepdims)

    def argmin(self, axis: int | None = None, keepdims: bool = False) -> ResultT:
        """Position of the first smallest element along ``axis``, int64."""
        return self._call("argmin", self, axis=axis, keepdims=keepdims)

    def softmax(self, axis: int = -1) -> ResultT:
        """exp(x) / sum(exp(x)) along ``axis``."""
        return self._call("softmax", self, axis=axis)

    def exp(self) -> ResultT:
        """e to the power of each element."""
        return self._call("exp", self)

    def log(self) -> ResultT:
        """Natural logarithm of each element."""
        return self._call("log", self)

    def sqrt(self) -> ResultT:
        """Square root of each element."""
        return self._call("sqrt", self)

    def relu(self) -> ResultT:
        """max(x, 0)."""
        return self._call("relu", self)

    def tanh(self) -> ResultT:
        """Hyperbolic tangent of each element."""
        return self._call("tanh", self)

    def sigmoid(self) -> ResultT:
        """1 / (1 + exp(-x))."""
        return self._call("sigmoid", self)

    def clamp(self, min: float | None = None, max: float | None = None) -> ResultT:
        """Each element limited to [min, max]; None is no limit."""
        return self._call("clamp", self, min=min, max=max)

    def reshape(self, *shape: Any) -> ResultT:
        """The same storage with another shape; one length may be -1."""
        return self._call(
            "reshape", self, shape=shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        )

    def transpose(self, *axes: Any) -> ResultT:
        """A copy with axes in another order: two axes swapped, a whole permutation, or reversed when none is given."""
        return self._call("transpose", self, axes=axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes)

    def permute(self, *axes: Any) -> ResultT:
        """A copy with the axes in the order ``axes``."""
        return self._call("permute", self, axes=axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes)

    @property
    def T(self) -> ResultT:
        """A copy with the axes reversed."""
        return self.transpose()

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> ResultT:
        """The same storage with the axes start_dim..end_dim merged."""
        return self._call("flatten", self, start_dim=start_dim, end_dim=end_dim)

    def squeeze(self, axis: Any = None) -> ResultT:
        """The same storage without axes of length one."""
        return self._call("squeeze", self, axis=axis)

    def unsqueeze(self, axis: int) -> ResultT:
        """The same storage with an axis of length one at ``axis``."""
        return self._call("unsqueeze", self, axis=axis)
