"""Expressions over the elements of an iteration space: nodes, and texts in C. A core evaluates them."""

from __future__ import annotations

import math
import re
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from netcl_core_kit.dtypes import SUPPORTED, canonical, is_floating, promote
from netcl_core_kit.errors import DTypeError, ExpressionError
from netcl_core_kit.layout import normalize_axes

__all__ = [
    "PRIMITIVES", "Apply", "Const", "Expr", "Index", "Load", "Primitive", "Reduce", "Scalar", "Space", "apply", "cast",
    "mean", "parse", "reduce", "size_of",
]  # fmt: skip


class Space:
    """The iteration space as a builder sees it: rank, shapes of the operands aligned to it (None: a number), op."""

    def __init__(self, rank: int, shapes: tuple[Any, ...], op: str) -> None:
        self.rank, self.shapes, self.op = rank, shapes, op

    def axes(self, axis: Any) -> tuple[int, ...]:
        """Sorted non-negative axes; None is all of them."""
        return normalize_axes(axis, self.rank, self.op)

    def axis(self, axis: int) -> int:
        """One non-negative axis."""
        return normalize_axes(axis, self.rank, self.op)[0]


class Primitive(NamedTuple):
    """A scalar operation: its name, the number of its arguments, and the rule of its dtype."""

    name: str
    arity: int
    dtype: str


_nodes: weakref.WeakValueDictionary[Any, Expr] = weakref.WeakValueDictionary()


class Expr:
    """A node; Python operators and comparisons build further nodes. ``==`` is identity; the comparison is ``eq``."""

    __slots__ = ("__weakref__", "children", "dtype")

    children: tuple[Expr, ...]
    dtype: str

    def __getstate__(self) -> Any:
        raise TypeError("expressions are not pickled")


def _interned(kind_of: Any, key: Any, children: tuple[Any, ...], dtype: str, **fields: Any) -> Any:
    found = _nodes.get((kind_of, key, dtype))
    if found is None:
        found = object.__new__(kind_of)
        found.children, found.dtype = children, dtype
        for name, value in fields.items():
            setattr(found, name, value)
        _nodes[kind_of, key, dtype] = found
    return found


class Load(Expr):
    """The element of input ``slot`` at this place of the iteration space."""

    __slots__ = ("slot",)

    def __new__(cls, slot: int, dtype: str) -> Any:
        return _interned(cls, slot, (), canonical(dtype), slot=slot)


class Scalar(Expr):
    """A number given by name at launch."""

    __slots__ = ("name",)

    def __new__(cls, name: str, dtype: str) -> Any:
        return _interned(cls, name, (), canonical(dtype), name=name)


class Const(Expr):
    """A number of the text."""

    __slots__ = ("value",)

    def __new__(cls, value: Any, dtype: str) -> Any:
        return _interned(cls, repr(value), (), canonical(dtype), value=value)


class Index(Expr):
    """The position along ``axis`` of the iteration space."""

    __slots__ = ("axis",)

    def __new__(cls, axis: int, dtype: str = "int32") -> Any:
        return _interned(cls, axis, (), canonical(dtype), axis=axis)


class Apply(Expr):
    """A primitive applied to its arguments, which already have the dtypes that it asks for."""

    __slots__ = ("args", "prim")

    def __new__(cls, prim: Primitive, args: tuple[Any, ...], dtype: str) -> Any:
        key = (prim.name, tuple(map(id, args)))
        return _interned(cls, key, tuple(args), canonical(dtype), prim=prim, args=tuple(args))


class Reduce(Expr):
    """``kind`` (sum, prod, max, min) of ``arg`` over ``axes`` of the iteration space, which stay with length one."""

    __slots__ = ("arg", "axes", "kind")

    def __new__(cls, kind: str, arg: Any, axes: tuple[int, ...]) -> Any:
        dtype = arg.dtype
        if kind in ("sum", "prod"):
            dtype = "int64" if not is_floating(dtype) else "float32" if dtype in ("float16", "bfloat16") else dtype
        return _interned(cls, (kind, id(arg), axes), (arg,), dtype, kind=kind, arg=arg, axes=axes)


# The dtype rule, the number of arguments, and the names of the primitives.
_RULES = (
    ("promote", 2, "add mul maximum minimum sub mod fmod floor_divide pow bitwise_and bitwise_or bitwise_xor heaviside"),
    ("promote", 1, "neg abs sign square relu floor ceil round trunc stop_gradient clone"),
    ("float", 1, "exp expm1 exp2 log log1p log2 log10 sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh "
                 "asinh acosh atanh sigmoid erf erfc erfinv lgamma digamma softplus"),
    ("float", 2, "atan2 logaddexp hypot copysign nextafter div"),
    ("compare", 2, "eq ne lt le gt ge"),
    ("predicate", 1, "isnan isinf isfinite signbit"),
    ("logical", 2, "logical_and logical_or logical_xor"),
    ("logical", 1, "logical_not"),
    ("where", 3, "where"),
    ("require", 4, "require"),
)  # fmt: skip
PRIMITIVES = {name: Primitive(name, arity, rule) for rule, arity, names in _RULES for name in names.split()}
_CAST = {name: Primitive(f"cast_{name}", 1, name) for name in SUPPORTED}
PRIMITIVES.update({prim.name: prim for prim in _CAST.values()})


def _node(value: Any, dtype: str) -> Any:
    return cast(value, dtype) if isinstance(value, Expr) else Const(value, dtype)


def _type(value: Any) -> Any:
    return value.dtype if isinstance(value, Expr) else bool if isinstance(value, bool) else type(value)


def apply(name: str, *args: Any) -> Any:
    """Applies the primitive ``name``, casting the arguments as its dtype rule asks."""
    prim = PRIMITIVES.get(name)
    if prim is None:
        raise ExpressionError(f"there is no primitive {name!r}; there are {', '.join(PRIMITIVES)}")
    if len(args) != prim.arity:
        raise ExpressionError(f"{name} takes {prim.arity} arguments, not {len(args)}")
    args = tuple(one.item() if isinstance(one, np.generic) else one for one in args)
    rule = prim.dtype
    if rule == "logical":
        return Apply(prim, tuple(cast(one, "bool") for one in args), "bool")
    if rule == "require":
        value = args[1] if isinstance(args[1], Expr) else Const(args[1], promote(type(args[1])))
        last = args[3] if isinstance(args[3], Expr) else Const(args[3], "int32")
        return Apply(prim, (cast(args[0], "bool"), value, args[2], last), value.dtype)
    free = args[1:] if rule == "where" else args
    dtype = promote(*map(_type, free)) if len(free) > 1 or not isinstance(free[0], Expr) else free[0].dtype
    if rule == "float" and not is_floating(dtype):
        dtype = "float32"
    nodes = tuple(_node(one, dtype) for one in free)
    if rule == "where":
        nodes = (cast(args[0], "bool"), *nodes)
    return Apply(prim, nodes, "bool" if rule in ("compare", "predicate") else rule if rule in SUPPORTED else dtype)


def cast(value: Any, dtype: str) -> Any:
    """``value`` as ``dtype``: a node, or the node itself if nothing changes."""
    dtype = canonical(dtype)
    if not isinstance(value, Expr):
        return Const(value, dtype)
    return value if value.dtype == dtype else Apply(_CAST[dtype], (value,), dtype)


def reduce(kind: str, arg: Any, axes: Any) -> Any:
    """``Reduce`` over one axis or several; no axis at all gives ``arg`` in the result's dtype."""
    axes = (axes,) if isinstance(axes, int) else tuple(sorted(axes))
    found = Reduce(kind, arg, axes)
    return found if axes else cast(arg, found.dtype)


def size_of(axes: Sequence[int], dtype: str) -> Any:
    """The number of elements of ``axes`` of the iteration space; 1 for no axes."""
    return Scalar(f"size:{','.join(map(str, axes))}", dtype) if axes else Const(1, dtype)


def mean(arg: Any, axes: Any) -> Any:
    """The sum over ``axes`` divided by their number of elements."""
    axes = (axes,) if isinstance(axes, int) else tuple(sorted(axes))
    arg = arg if is_floating(arg.dtype) else cast(arg, "float32")
    total = reduce("sum", arg, axes)
    return cast(total / size_of(axes, total.dtype), arg.dtype)


def _binary(name: str, swapped: bool = False) -> Any:
    return lambda a, b: apply(name, b, a) if swapped else apply(name, a, b)


for _method, _name in {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "pow": "pow", "mod": "mod", "and": "logical_and",
    "or": "logical_or",
}.items():  # fmt: skip
    setattr(Expr, f"__{_method}__", _binary(_name))
    setattr(Expr, f"__r{_method}__", _binary(_name, True))
for _name in ("lt", "le", "gt", "ge"):
    setattr(Expr, f"__{_name}__", _binary(_name))
Expr.__neg__ = lambda self: apply("neg", self)  # type: ignore[attr-defined]
Expr.__abs__ = lambda self: apply("abs", self)  # type: ignore[attr-defined]
Expr.__invert__ = lambda self: apply("logical_not", self)  # type: ignore[attr-defined]


# ------------------------------------------------------------------------------------------------------------- texts

_TOKEN = re.compile(
    r"\s*(?:(\d+\.?\d*(?:[eE][-+]?\d+)?[fF]?|\.\d+(?:[eE][-+]?\d+)?[fF]?)|([A-Za-z_]\w*)|(\|\||&&|[=!<>]=|.))"
)
_CONSTANTS = {"INFINITY": math.inf, "NAN": math.nan, "M_PI_F": math.pi, "true": True, "false": False}
_CALLS = {
    "fabs": "abs", "fmax": "maximum", "fmin": "minimum", "max": "maximum", "min": "minimum", "powf": "pow",
    "rint": "round",
}  # fmt: skip
_LOOSEST = (
    {"||": "logical_or"}, {"&&": "logical_and"}, {"==": "eq", "!=": "ne"},
    {"<": "lt", "<=": "le", ">": "gt", ">=": "ge"}, {"+": "add", "-": "sub"}, {"*": "mul", "/": "div", "%": "fmod"},
)  # fmt: skip


class _Parser:
    def __init__(self, text: str, inputs: Sequence[Any], names: Mapping[str, Any]) -> None:
        self.text, self.inputs, self.names, self.at = text, inputs, names, 0
        self.step()

    def step(self) -> None:
        found = _TOKEN.match(self.text, self.at)
        if found is None or not found[0].strip():
            self.token, self.start = "", len(self.text.rstrip())
            return
        self.token, self.start, self.at = (
            found[1] or found[2] or found[3],
            found.start(found.lastindex or 0),
            found.end(),
        )

    def fail(self, reason: str) -> Any:
        pointer = f"{self.text}\n{' ' * self.start}^"
        raise ExpressionError(f"{reason} at position {self.start}:\n{pointer}")

    def take(self, token: str) -> None:
        if self.token != token:
            self.fail(f"expected {token!r}, found {self.token or 'the end'!r}")
        self.step()

    def choice(self) -> Any:
        condition = self.binary(0)
        if self.token != "?":
            return condition
        self.step()
        first = self.choice()
        self.take(":")
        return self.applied("where", condition, first, self.choice())

    def applied(self, name: str, *args: Any) -> Any:
        if not any(isinstance(one, Expr) for one in args):
            args = tuple(Const(float(one), "float32") for one in args)
        try:
            return apply(name, *args)
        except (ExpressionError, DTypeError) as error:
            return self.fail(str(error))

    def binary(self, level: int) -> Any:
        if level == len(_LOOSEST):
            return self.unary()
        left = self.binary(level + 1)
        while self.token in _LOOSEST[level]:
            name = _LOOSEST[level][self.token]
            self.step()
            left = self.applied(name, left, self.binary(level + 1))
        return left

    def unary(self) -> Any:
        if self.token and self.token in "-+!":
            sign = self.token
            self.step()
            value = self.unary()
            if sign == "+":
                return value
            if sign == "!":
                return self.applied("logical_not", value)
            return self.applied("neg", value) if isinstance(value, Expr) else -value
        return self.primary()

    def primary(self) -> Any:
        token = self.token
        if token == "(":
            self.step()
            value = self.choice()
            self.take(")")
            return value
        if token and (token[0].isdigit() or token[0] == "."):
            self.step()
            number = token.rstrip("fF")
            return int(number) if number.isdigit() and number == token else float(number)
        if not token or not (token[0].isalpha() or token[0] == "_"):
            return self.fail(f"expected a value, found {token or 'the end'!r}")
        if token in self.names:
            self.step()
            return self.names[token]
        if token in _CONSTANTS:
            self.step()
            return _CONSTANTS[token]
        if re.fullmatch(r"v\d+", token):
            if int(token[1:]) >= len(self.inputs):
                return self.fail(f"{token} is not one of the {len(self.inputs)} inputs")
            self.step()
            return self.inputs[int(token[1:])]
        return self.called(token)

    def called(self, token: str) -> Any:
        name = _CALLS.get(token, token)
        if name not in PRIMITIVES and token.isupper():
            name = _CALLS.get(token.lower(), token.lower())
        if name not in PRIMITIVES and name != "select":
            return self.fail(f"there is no function {token!r}")
        self.step()
        self.take("(")
        args = [self.choice()]
        while self.token == ",":
            self.step()
            args.append(self.choice())
        self.take(")")
        if name == "select":
            if len(args) != 3:
                return self.fail("select takes 3 arguments")
            return self.applied("where", args[2], args[1], args[0])
        return self.applied(name, *args)


def parse(text: str, arity: Any, names: Mapping[str, Any] | None = None) -> Any:
    """The expression that ``text`` writes over v0, v1, ...: ``arity`` float32 inputs, or the expressions in its place."""
    inputs = [Load(slot, "float32") for slot in range(arity)] if isinstance(arity, int) else list(arity)
    parser = _Parser(text, inputs, names or {})
    found = parser.choice()
    if parser.token:
        parser.fail(f"expected an operator, found {parser.token!r}")
    return found if isinstance(found, Expr) else Const(found, "bool" if isinstance(found, bool) else "float32")
