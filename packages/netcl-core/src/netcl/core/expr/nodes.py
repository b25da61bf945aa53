"""The expression IR: an immutable DAG of scalar operations over loads, constants, launch scalars, indices and
reductions.

An expression describes one element of an output over an *iteration space*: the shape that all inputs and outputs
broadcast to. ``Load(slot)`` is the element of input ``slot`` there (inputs broadcast by NumPy's rules),
``Index(axis)`` the position along an axis, ``Reduce(kind, arg, axes)`` a reduction of ``arg`` over axes of the space
that keeps them with length one, so its value broadcasts like any other. Nodes are interned: equal structure is the
same object, so comparison and hashing cost nothing.
"""

from __future__ import annotations

import weakref
from _weakref import _remove_dead_weakref  # type: ignore[attr-defined]
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from netcl.core.dtypes import canonical, integer_range, is_floating, promote
from netcl.core.errors import DTypeError, ExpressionError, ShapeError

Number: TypeAlias = "bool | int | float"
Operand: TypeAlias = "Expr | bool | int | float"

_interned: dict[tuple[Any, ...], weakref.KeyedRef[Any, Expr]] = {}


class _Interned(type):
    """Metaclass that returns the same object for equal structure."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        node = super().__call__(*args, **kwargs)
        key = node.identity()
        reference = _interned.get(key)
        candidate = None
        while (there := None if reference is None else reference()) is None:
            # One call each, without a lock: another thread, a signal handler or a finalizer may intern the same.
            if reference is not None:
                _remove_dead_weakref(_interned, key)
            candidate = candidate or weakref.KeyedRef(node, _forget, key)
            reference = _interned.setdefault(key, candidate)
        return there


def _forget(ref: weakref.KeyedRef[Any, Expr]) -> None:
    _remove_dead_weakref(_interned, ref.key)


class Expr(metaclass=_Interned):
    """A node of the DAG; Python operators and comparisons build further nodes. ``==`` is identity, as interning makes
    it structural; the elementwise comparison is ``eq(a, b)``.
    """

    __slots__ = ("__weakref__",)
    dtype: str

    def identity(self) -> tuple[Any, ...]:
        """Returns the key under which equal nodes are one object."""
        raise TypeError(f"{type(self).__name__} is not a concrete expression node")

    @property
    def children(self) -> tuple[Expr, ...]:
        """The nodes that this one reads."""
        return ()

    def __add__(self, other: Operand) -> Expr:
        return apply("add", self, other)

    def __radd__(self, other: Operand) -> Expr:
        return apply("add", other, self)

    def __sub__(self, other: Operand) -> Expr:
        return apply("sub", self, other)

    def __rsub__(self, other: Operand) -> Expr:
        return apply("sub", other, self)

    def __mul__(self, other: Operand) -> Expr:
        return apply("mul", self, other)

    def __rmul__(self, other: Operand) -> Expr:
        return apply("mul", other, self)

    def __truediv__(self, other: Operand) -> Expr:
        return apply("div", self, other)

    def __rtruediv__(self, other: Operand) -> Expr:
        return apply("div", other, self)

    def __pow__(self, other: Operand) -> Expr:
        return apply("pow", self, other)

    def __neg__(self) -> Expr:
        return apply("neg", self)

    def __lt__(self, other: Operand) -> Expr:
        return apply("lt", self, other)

    def __le__(self, other: Operand) -> Expr:
        return apply("le", self, other)

    def __gt__(self, other: Operand) -> Expr:
        return apply("gt", self, other)

    def __ge__(self, other: Operand) -> Expr:
        return apply("ge", self, other)

    def __and__(self, other: Operand) -> Expr:
        return apply("logical_and", self, other)

    def __or__(self, other: Operand) -> Expr:
        return apply("logical_or", self, other)

    def __invert__(self) -> Expr:
        return apply("logical_not", self)


@dataclass(frozen=True, eq=False)
class Load(Expr):
    """The element of input ``slot`` at this place of the iteration space; ``dtype`` is the input's."""

    slot: int
    dtype: str

    def identity(self) -> tuple[Any, ...]:
        return (Load, self.slot, self.dtype)


@dataclass(frozen=True, eq=False)
class Const(Expr):
    """A number known when the kernel is written."""

    value: Number
    dtype: str

    def identity(self) -> tuple[Any, ...]:
        # repr tells 0.0 from -0.0 and makes NaN equal to itself.
        return (Const, repr(self.value), self.dtype)


@dataclass(frozen=True, eq=False)
class Scalar(Expr):
    """A number passed by name at launch, so that its value is not in the text of the kernel. The name ``size:0,2`` is
    bound by every backend to the number of elements of those axes of the iteration space.
    """

    name: str
    dtype: str

    def identity(self) -> tuple[Any, ...]:
        return (Scalar, self.name, self.dtype)


@dataclass(frozen=True, eq=False)
class Index(Expr):
    """The position along ``axis`` of the iteration space, as int32. Raises ShapeError if ``axis`` is negative, as of a
    row that counts from the last axis of operands with too few.
    """

    axis: int
    dtype: str = "int32"

    def __post_init__(self) -> None:
        if self.axis < 0:
            raise ShapeError(f"expected operands with more axes, {-self.axis} at least: the op counts along an axis")

    def identity(self) -> tuple[Any, ...]:
        return (Index, self.axis)


@dataclass(frozen=True, eq=False)
class Apply(Expr):
    """A primitive applied to its arguments, which must already have the dtypes of its rule (see ``apply``)."""

    prim: Primitive
    args: tuple[Expr, ...]
    dtype: str

    def identity(self) -> tuple[Any, ...]:
        return (Apply, self.prim.name, self.args, self.dtype)

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.args


REDUCE_KINDS = ("sum", "prod", "max", "min")


@dataclass(frozen=True, eq=False)
class Reduce(Expr):
    """``kind`` (sum, prod, max, min) of ``arg`` over ``axes`` of the iteration space, which stay with length one. half
    and bfloat16 accumulate in float32, whole numbers and bool add up in int64.
    """

    kind: str
    arg: Expr
    axes: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.kind not in REDUCE_KINDS:
            raise ExpressionError(f"unknown reduction {self.kind!r}; expected one of {', '.join(REDUCE_KINDS)}")
        if not self.axes or any(axis < 0 for axis in self.axes) or list(self.axes) != sorted(set(self.axes)):
            raise ExpressionError(f"expected sorted, distinct, non-negative axes of a reduction, got {self.axes}")

    @property
    def dtype(self) -> str:  # type: ignore[override]
        """The operand's dtype; whole numbers and bool add and multiply up in int64."""
        if self.kind in ("sum", "prod") and not is_floating(self.arg.dtype):
            return "int64"
        return self.arg.dtype

    def identity(self) -> tuple[Any, ...]:
        return (Reduce, self.kind, self.arg, self.axes)

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.arg,)


VJP = Callable[..., Sequence["Expr | None"]]


@dataclass(frozen=True)
class Primitive:
    """One row of the table of scalar operations.

    ``opencl`` is OpenCL C with ``{0}`` ``{1}`` for the arguments, valid on scalars and vectors alike (a dict by kind,
    ``float``, ``double``, ``int`` or ``uint``, where they differ); comparisons give 1 on scalars and -1 on vectors, as
    in OpenCL C. ``numpy`` does the same on arrays. ``vjp(grad, out, *args)`` returns the gradient of each argument,
    None if there is none. ``dtype`` names the rule: ``promote``, ``float`` (whole numbers become float32), ``compare``
    and ``predicate`` (give bool), ``logical``, ``where``, or the dtype of a cast. ``vector`` is False where the text
    holds for scalars alone.

    ``cost`` is what it costs, roughly, in additions; ``exact`` is True if it has the same bits on every driver, in a
    scalar and in a vector (exp, tanh and log of PoCL and rsqrt of Intel have not); ``flops`` are the floating-point
    operations that a profile counts.
    """

    name: str
    arity: int
    opencl: str | dict[str, str]
    numpy: Callable[..., Any]
    vjp: VJP | None
    dtype: str
    vector: bool = True
    cost: int = 8
    exact: bool = False
    flops: int = 1


PRIMITIVES: dict[str, Primitive] = {}


def register_primitive(primitive: Primitive) -> Primitive:
    """Adds a row to the table; raises ExpressionError if another row has the name."""
    if PRIMITIVES.setdefault(primitive.name, primitive) is not primitive:
        raise ExpressionError(f"the primitive {primitive.name!r} exists already")
    return primitive


def as_expr(value: Operand, like: str | None = None) -> Expr:
    """Returns a number as Const: of dtype ``like`` if that holds it, else int64, float32 or bool; a node unchanged."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, bool):
        return Const(value, "bool")
    if like is not None and is_floating(like):
        return Const(float(value), like)
    if like is not None and isinstance(value, int) and like != "bool":
        low, high = integer_range(like)
        if not low <= value <= high:
            raise OverflowError(f"{value} does not fit {like}, the dtype of the operands; convert them with astype")
        return Const(value, like)
    if isinstance(value, int):
        return Const(value, "int32" if -(2**31) <= value < 2**31 else "int64")
    return Const(float(value), "float32")


def cast(value: Operand, dtype: str) -> Expr:
    """Returns ``value`` as ``dtype``: a node of the cast primitives, or the node itself if nothing changes."""
    dtype = canonical(dtype)
    if not isinstance(value, Expr):
        return as_expr(value, dtype) if dtype != "bool" else Const(bool(value), "bool")
    if value.dtype == dtype:
        return value
    return Apply(PRIMITIVES[f"to_{dtype}"], (value,), dtype)


def stored(value: Expr) -> Expr:
    """Returns ``value`` rounded as by a store in its dtype and a load: inside of a kernel half types are computed in
    float32. Returns the node itself if nothing changes.
    """
    return value if _is_stored(value) else rounded_to_dtype(value)


def rounded_to_dtype(value: Expr) -> Expr:
    """Rounds like ``stored``, also a load that stands for an unstored number, such as the sum of a contraction."""
    half = value.dtype in ("float16", "bfloat16")
    return Apply(PRIMITIVES["stored"], (value,), value.dtype) if half else value


# Primitives that select one of their arguments, or change its sign.
_SELECTIONS = ("neg", "abs", "maximum", "minimum", "where", "stop_gradient")


def _is_stored(value: Expr) -> bool:
    """True if the half dtype of ``value`` holds it exactly: it is loaded, stored, or selected from such and zeros."""
    seen, stack = set[Expr](), [value]
    while stack:
        node = stack.pop()
        held = isinstance(node, Load) or (isinstance(node, Const) and node.value == 0)
        if node in seen or held or (isinstance(node, Apply) and node.prim.name == "stored"):
            continue
        if not isinstance(node, Apply) or node.prim.name not in _SELECTIONS:
            return False
        seen.add(node)
        stack.extend(arg for arg in node.args if arg.dtype != "bool")
    return True


def _common(args: Sequence[Operand], floating: bool) -> tuple[str, tuple[Expr, ...]]:
    """Returns the promoted dtype of the arguments (numbers are weak) and the arguments cast to it."""
    strong = [arg.dtype for arg in args if isinstance(arg, Expr)]
    weak = [type(arg) for arg in args if not isinstance(arg, Expr)]
    dtype = promote(*strong, *weak)
    if floating and not is_floating(dtype):
        dtype = "float32"
    return dtype, tuple(cast(arg, dtype) for arg in args)


# Arithmetic on bool, as in NumPy: true in a vector is -1, so the texts for numbers would be wrong.
_ON_BOOL = {
    "add": "logical_or",
    "mul": "logical_and",
    "maximum": "logical_or",
    "minimum": "logical_and",
    "bitwise_and": "logical_and",
    "bitwise_or": "logical_or",
    "bitwise_xor": "logical_xor",
    "bitwise_not": "logical_not",
    "abs": "stop_gradient",
    "stop_gradient": "stop_gradient",
}


def _on_bool(prim: Primitive, operands: tuple[Expr, ...]) -> Expr:
    """Returns a primitive for numbers applied to bool operands only; comparisons compare 0 and 1."""
    if prim.dtype in ("compare", "predicate"):
        return Apply(prim, tuple(cast(operand, "uint8") for operand in operands), "bool")
    if prim.name not in _ON_BOOL:
        raise DTypeError(f"{prim.name} is not defined on bool; convert with astype", op=prim.name)
    return Apply(PRIMITIVES[_ON_BOOL[prim.name]], operands, "bool")


def apply(name: str, *args: Operand) -> Expr:
    """Applies the primitive ``name``, casting the arguments by its dtype rule."""
    prim = PRIMITIVES.get(name)
    if prim is None:
        raise ExpressionError(f"unknown primitive {name!r}")
    if len(args) != prim.arity:
        raise ExpressionError(f"{name}: expected {prim.arity} arguments, got {len(args)}")
    rule = prim.dtype
    if rule == "logical":
        return Apply(prim, tuple(cast(arg, "bool") for arg in args), "bool")
    if rule == "where":
        dtype, branches = _common(args[1:], floating=False)
        return Apply(prim, (cast(args[0], "bool"), *branches), dtype)
    if rule == "require":
        value = as_expr(args[1])
        return Apply(prim, (cast(args[0], "bool"), value, as_expr(args[2]), as_expr(args[3])), value.dtype)
    if rule in ("promote", "float", "compare", "predicate"):
        dtype, operands = _common(args, floating=rule in ("float", "predicate"))
        if dtype == "bool":
            return _on_bool(prim, operands)
        if is_floating(dtype) and rule == "promote" and isinstance(prim.opencl, dict) and "float" not in prim.opencl:
            raise DTypeError(f"{name}: expected whole numbers or bool, got {dtype}")
        return Apply(prim, operands, "bool" if rule in ("compare", "predicate") else dtype)
    return cast(args[0], rule)


def reduce(kind: str, arg: Expr, axes: int | Sequence[int]) -> Expr:
    """Returns ``Reduce`` over one axis or several, in any order; without axes, ``arg`` in the result's dtype."""
    axes = (axes,) if isinstance(axes, int) else tuple(sorted(axes))
    if axes and arg.dtype == "bool" and kind in ("max", "min"):
        return cast(Reduce(kind, cast(arg, "uint8"), axes), "bool")
    return Reduce(kind, arg, axes) if axes else cast(arg, Reduce(kind, arg, (0,)).dtype)


def size_of(axes: Sequence[int], dtype: str) -> Expr:
    """Returns the number of elements of ``axes`` of the iteration space, bound at launch; 1 for no axes."""
    if not axes:
        return as_expr(1, dtype)
    return Scalar("size:" + ",".join(map(str, sorted(axes))), dtype)


def mean(arg: Expr, axes: int | Sequence[int]) -> Expr:
    """Returns the sum over ``axes`` divided by their number of elements."""
    axes = (axes,) if isinstance(axes, int) else tuple(axes)
    value = arg if is_floating(arg.dtype) else cast(arg, "float32")
    return reduce("sum", value, axes) / size_of(axes, value.dtype)


def place_of(index: Expr, n: Expr, code: int) -> Expr:
    """Returns the place, int64, of ``index`` in an axis of ``n`` (int64). Negative indices count from the end; an index
    out of range raises the flag ``code`` and is clamped.
    """
    wide = cast(index, "int64")
    checked = apply("require", (wide >= -n) & (wide < n), wide, code, n)
    place = apply("where", checked < 0, checked + n, checked)
    return apply("maximum", apply("minimum", place, n - 1), 0)
