"""Elementwise rows: NumPy's functions in the promoted dtype."""

import math

import numpy as np

from netcl.core.dtypes import integer_range, is_floating, is_integer, kind, promote
from netcl.core.errors import DTypeError
from netcl.core.layout import broadcast_shapes
from netcl.core.tensor import Tensor, tensor_of
from netcl.ops.table import computed

FLOAT32 = "exp log expm1 log1p prod sum mean"


def promoted(op, *operands):
    """The operands as arrays of the dtype that they promote to; numbers and 0-d tensors change the kind alone."""
    arrays = [getattr(one, "array", one) for one in operands]
    if any(not isinstance(one, (np.ndarray, np.generic, bool, int, float)) for one in arrays):
        raise TypeError(f"{op}: operands are tensors, arrays and numbers; Tensor.from_host makes a tensor of a list")
    arrays = [one.astype("float32") if one is own and getattr(one, "dtype", "") == "float64" else one
              for one, own in zip(arrays, operands)]  # fmt: skip
    broadcast_shapes(list(map(np.shape, arrays)), op)
    long, short = ([one.dtype.name for one in arrays if isinstance(one, np.ndarray) and bool(one.ndim) is some]
                   for some in (True, False))  # fmt: skip
    dtype = promote(*(long or short))
    for one in (*short, *(type(one) for one in arrays if isinstance(one, (bool, int, float)))):
        dtype = promote(dtype, one) if kind(one) > kind(dtype) else dtype
    for number in arrays:
        if (
            is_integer(dtype)
            and isinstance(number, int)
            and number not in range(*np.add(integer_range(dtype), (0, 1), dtype=object))
        ):
            raise OverflowError(f"{op}: {number} is no {dtype}")
    return [np.asarray(one, dtype) for one in arrays]


def _define(name, function, doc, rule="same", arity=1):
    def compute(*operands):
        if not any(isinstance(one, Tensor) for one in operands):
            raise TypeError(f"{name}: one operand at least is a tensor")
        arrays = promoted(name, *operands)
        if rule == "float" and not is_floating(arrays[0].dtype):
            arrays = [one.astype("float32") for one in arrays]
        if rule == "whole" and arrays[0].dtype.kind != "f":
            return tensor_of(arrays[0].copy())
        with np.errstate(all="ignore"):
            try:
                result = np.asarray(function(*arrays))
            except TypeError:
                raise DTypeError(f"{name} is not defined for {arrays[0].dtype}", op=name) from None
        return tensor_of(result.astype("bool" if rule == "bool" else arrays[0].dtype, copy=False))

    def one(x: "Tensor"):
        return compute(x)

    def two(a: "Tensor", b: "Tensor"):
        return compute(a, b)

    amp = "float32" if name in FLOAT32.split() else "widest"
    globals()[name] = computed(name=name, doc=doc, amp=amp)(one if arity == 1 else two)


def _divided(a, b):
    return np.floor(a / b) if a.dtype.kind == "f" else a // b


def _power(a, b):
    if a.dtype.kind == "f":
        return np.power(a, b)
    unit = np.where(a == 1, 1, np.where(a == -1, np.where(b % 2, -1, 1), 0))
    return np.where(b < 0, unit, np.power(a, np.maximum(b, 0)))


_erf = np.vectorize(math.erf, otypes=[np.float64])
ONE = {
    "same": {"neg": np.negative, "abs": np.abs, "sign": np.sign, "square": lambda x: x * x,
             "relu": lambda x: np.maximum(x, x.dtype.type(0)), "clone": np.copy, "bitwise_not": np.invert},
    "float": {"sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "reciprocal": lambda x: 1 / x, "exp": np.exp,
              "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan,
              "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
              "tanh": np.tanh, "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "erf": _erf},
    "whole": {"floor": np.floor, "ceil": np.ceil, "round": np.rint, "trunc": np.trunc},
    "bool": {"logical_not": np.logical_not, "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite},
}  # fmt: skip
TWO = {
    "same": {"add": np.add, "sub": np.subtract, "mul": np.multiply, "floor_divide": _divided, "mod": np.mod,
             "pow": _power, "maximum": np.maximum, "minimum": np.minimum, "bitwise_and": np.bitwise_and,
             "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor, "left_shift": np.left_shift,
             "right_shift": np.right_shift},
    "float": {"div": np.divide, "atan2": np.arctan2},
    "bool": {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
             "ge": np.greater_equal, "logical_and": np.logical_and, "logical_or": np.logical_or,
             "logical_xor": np.logical_xor},
}  # fmt: skip
for _arity, _table in ((1, ONE), (2, TWO)):
    for _rule, _functions in _table.items():
        for _name, _function in _functions.items():
            _define(_name, _function, f"{_name} of each element.", _rule, _arity)


@computed()
def cast(x: Tensor, *, dtype="float32"):
    """x converted to ``dtype``."""
    with np.errstate(all="ignore"):
        return tensor_of(x.array.astype(dtype))


@computed()
def where(condition: Tensor, a: Tensor, b: Tensor):
    """a if the condition is true, else b."""
    given = [getattr(condition, "array", condition), *promoted("where", a, b)]
    broadcast_shapes(list(map(np.shape, given)), "where")
    return tensor_of(np.where(np.asarray(given[0]) != 0, *given[1:]))


@computed()
def clamp(x: Tensor, min=None, max=None):
    """x limited to [min, max]."""
    for bound, limit in ((min, np.maximum), (max, np.minimum)):
        if bound is not None:
            if is_integer(x.dtype) and isinstance(bound, int):
                bound = sorted((bound, *integer_range(x.dtype)))[1]
            x = tensor_of(limit(*promoted("clamp", x, bound)))
    return x
