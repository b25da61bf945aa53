"""The operators and methods of tensors: each one calls the row of its name in the op table, and is recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from netcl.core import dispatch

if TYPE_CHECKING:
    from netcl.core.tensor import Tensor


def _call(name: str, *args: Any, **kwargs: Any) -> Tensor:
    return dispatch.call(name, *args, record=True, **kwargs)  # type: ignore[no-any-return]


class Operators(dispatch.Operand):
    """What a tensor can be asked for by an operator or a method; the base of Tensor."""

    __slots__ = ()

    __array_priority__: ClassVar[float] = 1000.0  # NumPy arrays leave mixed operators to tensors

    # -- operators: each one calls its row of the op table ---------------------------------------------------------

    def __add__(self, other: Any) -> Tensor:
        return _call("add", self, other)

    def __radd__(self, other: Any) -> Tensor:
        return _call("add", other, self)

    def __sub__(self, other: Any) -> Tensor:
        return _call("sub", self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return _call("sub", other, self)

    def __mul__(self, other: Any) -> Tensor:
        return _call("mul", self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return _call("mul", other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return _call("div", self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return _call("div", other, self)

    def __floordiv__(self, other: Any) -> Tensor:
        return _call("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Tensor:
        return _call("floor_divide", other, self)

    def __mod__(self, other: Any) -> Tensor:
        return _call("mod", self, other)

    def __rmod__(self, other: Any) -> Tensor:
        return _call("mod", other, self)

    def __pow__(self, other: Any) -> Tensor:
        return _call("pow", self, other)

    def __rpow__(self, other: Any) -> Tensor:
        return _call("pow", other, self)

    def __matmul__(self, other: Any) -> Tensor:
        return _call("matmul", self, other)

    def __neg__(self) -> Tensor:
        return _call("neg", self)

    def __abs__(self) -> Tensor:
        return _call("abs", self)

    def __eq__(self, other: object) -> Any:
        return _call("eq", self, other)

    def __ne__(self, other: object) -> Any:
        return _call("ne", self, other)

    def __lt__(self, other: Any) -> Tensor:
        return _call("lt", self, other)

    def __le__(self, other: Any) -> Tensor:
        return _call("le", self, other)

    def __gt__(self, other: Any) -> Tensor:
        return _call("gt", self, other)

    def __ge__(self, other: Any) -> Tensor:
        return _call("ge", self, other)

    def __and__(self, other: Any) -> Tensor:
        return _call("bitwise_and", self, other)

    def __rand__(self, other: Any) -> Tensor:
        return _call("bitwise_and", other, self)

    def __or__(self, other: Any) -> Tensor:
        return _call("bitwise_or", self, other)

    def __ror__(self, other: Any) -> Tensor:
        return _call("bitwise_or", other, self)

    def __xor__(self, other: Any) -> Tensor:
        return _call("bitwise_xor", self, other)

    def __rxor__(self, other: Any) -> Tensor:
        return _call("bitwise_xor", other, self)

    def __invert__(self) -> Tensor:
        return _call("bitwise_not", self)

    def __lshift__(self, other: Any) -> Tensor:
        return _call("left_shift", self, other)

    def __rlshift__(self, other: Any) -> Tensor:
        return _call("left_shift", other, self)

    def __rshift__(self, other: Any) -> Tensor:
        return _call("right_shift", self, other)

    def __rrshift__(self, other: Any) -> Tensor:
        return _call("right_shift", other, self)

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __getitem__(self, key: Any) -> Tensor:
        return _call("getitem", self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        dispatch.call("setitem", self, key, value)
        self._version[0] += 1

    # -- methods: the rows of the same name ------------------------------------------------------------------------

    def sum(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        """Sum over ``axis`` (int, tuple or None for all)."""
        return _call("sum", self, axis=axis, keepdims=keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        """Mean over ``axis`` (int, tuple or None for all)."""
        return _call("mean", self, axis=axis, keepdims=keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        """Largest element over ``axis``; NaN wins."""
        return _call("max", self, axis=axis, keepdims=keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        """Smallest element over ``axis``; NaN wins."""
        return _call("min", self, axis=axis, keepdims=keepdims)

    def prod(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        """Product over ``axis``."""
        return _call("prod", self, axis=axis, keepdims=keepdims)

    def var(self, axis: Any = None, keepdims: bool = False, ddof: int = 0) -> Tensor:
        """Variance over ``axis``, with divisor n - ddof."""
        return _call("var", self, axis=axis, keepdims=keepdims, ddof=ddof)

    def std(self, axis: Any = None, keepdims: bool = False, ddof: int = 0) -> Tensor:
        """Standard deviation over ``axis``, with divisor n - ddof."""
        return _call("std", self, axis=axis, keepdims=keepdims, ddof=ddof)

    def all(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        """Whether all elements over ``axis`` are true."""
        return _call("all", self, axis=axis, keepdims=keepdims)

    def any(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        """Whether any element over ``axis`` is true."""
        return _call("any", self, axis=axis, keepdims=keepdims)

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> Tensor:
        """Position of the first largest element along ``axis``, int64."""
        return _call("argmax", self, axis=axis, keepdims=keepdims)

    def argmin(self, axis: int | None = None, keepdims: bool = False) -> Tensor:
        """Position of the first smallest element along ``axis``, int64."""
        return _call("argmin", self, axis=axis, keepdims=keepdims)

    def softmax(self, axis: int = -1) -> Tensor:
        """exp(x) / sum(exp(x)) along ``axis``."""
        return _call("softmax", self, axis=axis)

    def exp(self) -> Tensor:
        """e to the power of each element."""
        return _call("exp", self)

    def log(self) -> Tensor:
        """Natural logarithm of each element."""
        return _call("log", self)

    def sqrt(self) -> Tensor:
        """Square root of each element."""
        return _call("sqrt", self)

    def relu(self) -> Tensor:
        """max(x, 0)."""
        return _call("relu", self)

    def tanh(self) -> Tensor:
        """Hyperbolic tangent of each element."""
        return _call("tanh", self)

    def sigmoid(self) -> Tensor:
        """1 / (1 + exp(-x))."""
        return _call("sigmoid", self)

    def clamp(self, min: float | None = None, max: float | None = None) -> Tensor:
        """Each element limited to [min, max]; None is no limit."""
        return _call("clamp", self, min=min, max=max)

    def reshape(self, *shape: Any) -> Tensor:
        """The same storage with another shape; one length may be -1."""
        return _call("reshape", self, shape=shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)

    def transpose(self, *axes: Any) -> Tensor:
        """A copy with axes in another order: two axes swapped, a whole permutation, or reversed when none is given."""
        return _call("transpose", self, axes=axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes)

    def permute(self, *axes: Any) -> Tensor:
        """A copy with the axes in the order ``axes``."""
        return _call("permute", self, axes=axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes)

    @property
    def T(self) -> Tensor:
        """A copy with the axes reversed."""
        return self.transpose()

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        """The same storage with the axes start_dim..end_dim merged."""
        return _call("flatten", self, start_dim=start_dim, end_dim=end_dim)

    def squeeze(self, axis: Any = None) -> Tensor:
        """The same storage without axes of length one."""
        return _call("squeeze", self, axis=axis)

    def unsqueeze(self, axis: int) -> Tensor:
        """The same storage with an axis of length one at ``axis``."""
        return _call("unsqueeze", self, axis=axis)
