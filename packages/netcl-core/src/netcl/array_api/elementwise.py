"""Elementwise functions of the array API standard: rows of the op table, with the standard's promotion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netcl.array_api.array import floor_quotient, returns_arrays
from netcl.array_api.creation import zeros_like
from netcl.array_api.promotion import converted, together
from netcl.array_api.rows import defined, row
from netcl.core.dtypes import integer_range, is_integer
from netcl.core.errors import DTypeError
from netcl.core.tensor import Tensor

Unary = Callable[[Tensor], Tensor]
Binary = Callable[[Any, Any], Tensor]


def _unary(name: str, of: str) -> Unary:
    op = row(of)

    def function(x: Tensor, /) -> Tensor:
        return op(x)  # type: ignore[no-any-return]

    return _named(function, name, op.row.doc)  # type: ignore[no-any-return]


def _rounding(name: str) -> Unary:
    """Returns a function that returns integers unchanged."""
    op = row(name)

    def function(x: Tensor, /) -> Tensor:
        return x.clone() if is_integer(x.dtype) else op(x)

    return _named(function, name, op.row.doc)  # type: ignore[no-any-return]


def _binary(name: str, of: str) -> Binary:
    op = row(of)

    def function(x1: Any, x2: Any, /) -> Tensor:
        return op(*together(x1, x2))  # type: ignore[no-any-return]

    return _named(function, name, op.row.doc)  # type: ignore[no-any-return]


def _named(function: Any, name: str, doc: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return returns_arrays(function)


abs: Unary = _unary("abs", "abs")
acos: Unary = _unary("acos", "acos")
acosh: Unary = _unary("acosh", "acosh")
add: Binary = _binary("add", "add")
asin: Unary = _unary("asin", "asin")
asinh: Unary = _unary("asinh", "asinh")
atan: Unary = _unary("atan", "atan")
atan2: Binary = _binary("atan2", "atan2")
atanh: Unary = _unary("atanh", "atanh")
bitwise_and: Binary = _binary("bitwise_and", "bitwise_and")
bitwise_invert: Unary = _unary("bitwise_invert", "bitwise_not")
bitwise_left_shift: Binary = _binary("bitwise_left_shift", "left_shift")
bitwise_or: Binary = _binary("bitwise_or", "bitwise_or")
bitwise_right_shift: Binary = _binary("bitwise_right_shift", "right_shift")
bitwise_xor: Binary = _binary("bitwise_xor", "bitwise_xor")
ceil: Unary = _rounding("ceil")
copysign: Binary = _binary("copysign", "copysign")
cos: Unary = _unary("cos", "cos")
cosh: Unary = _unary("cosh", "cosh")
divide: Binary = _binary("divide", "div")
equal: Binary = _binary("equal", "eq")
exp: Unary = _unary("exp", "exp")
expm1: Unary = _unary("expm1", "expm1")
floor: Unary = _rounding("floor")
greater: Binary = _binary("greater", "gt")
greater_equal: Binary = _binary("greater_equal", "ge")
hypot: Binary = _binary("hypot", "hypot")
isfinite: Unary = _unary("isfinite", "isfinite")
isinf: Unary = _unary("isinf", "isinf")
isnan: Unary = _unary("isnan", "isnan")
less: Binary = _binary("less", "lt")
less_equal: Binary = _binary("less_equal", "le")
log: Unary = _unary("log", "log")
log10: Unary = _unary("log10", "log10")
log1p: Unary = _unary("log1p", "log1p")
log2: Unary = _unary("log2", "log2")
logaddexp: Binary = _binary("logaddexp", "logaddexp")
logical_and: Binary = _binary("logical_and", "logical_and")
logical_not: Unary = _unary("logical_not", "logical_not")
logical_or: Binary = _binary("logical_or", "logical_or")
logical_xor: Binary = _binary("logical_xor", "logical_xor")
maximum: Binary = _binary("maximum", "maximum")
minimum: Binary = _binary("minimum", "minimum")
multiply: Binary = _binary("multiply", "mul")
negative: Unary = _unary("negative", "neg")
nextafter: Binary = _binary("nextafter", "nextafter")
not_equal: Binary = _binary("not_equal", "ne")
pow: Binary = _binary("pow", "pow")
reciprocal: Unary = _unary("reciprocal", "reciprocal")
remainder: Binary = _binary("remainder", "mod")
round: Unary = _rounding("round")
sign: Unary = _unary("sign", "sign")
signbit: Unary = _unary("signbit", "signbit")
sin: Unary = _unary("sin", "sin")
sinh: Unary = _unary("sinh", "sinh")
sqrt: Unary = _unary("sqrt", "sqrt")
square: Unary = _unary("square", "square")
subtract: Binary = _binary("subtract", "sub")
tan: Unary = _unary("tan", "tan")
tanh: Unary = _unary("tanh", "tanh")
trunc: Unary = _rounding("trunc")


@returns_arrays
def floor_divide(x1: Any, x2: Any, /) -> Tensor:
    """Returns floor(x1 / x2), with the standard's special cases: infinity divided by a finite number is infinity, and
    -1 by infinity -0. The op, and the operator of plain tensors, follow Python and NumPy.
    """
    return floor_quotient(x1, x2)  # type: ignore[no-any-return]


@returns_arrays
def positive(x: Tensor, /) -> Tensor:
    """Returns a copy of x."""
    return x.clone()


@returns_arrays
def conj(x: Tensor, /) -> Tensor:
    """Returns a copy: all dtypes are real."""
    return x.clone()


@returns_arrays
def real(x: Tensor, /) -> Tensor:
    """Returns a copy: all dtypes are real."""
    return x.clone()


@returns_arrays
def imag(x: Tensor, /) -> Tensor:
    """Returns zeros: all dtypes are real."""
    return zeros_like(x)


@returns_arrays
def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """Returns min(max(x, min), max) in x's dtype; None is no limit. Bounds are numbers or tensors that broadcast with
    ``x``.
    """
    result = x if min is not None or max is not None else x.clone()
    for bound, of in ((min, maximum), (max, minimum)):
        if bound is None:
            continue
        if isinstance(bound, Tensor):
            bound = converted(bound, x.dtype)
        elif is_integer(x.dtype):
            if isinstance(bound, float) and not bound.is_integer():
                raise DTypeError(
                    f"clip: expected a bound in the range of {x.dtype}, got {bound}; convert x with astype", op="clip"
                )
            low, high = integer_range(x.dtype)
            bound = _limited(int(bound), low, high)
        result = of(result, bound)
    return result


def _limited(number: int, low: int, high: int) -> int:
    """Returns ``number`` limited to [low, high]."""
    return low if number < low else high if number > high else number


__all__ = defined(globals())
