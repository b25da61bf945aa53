"""Expressions over the elements of an iteration space: nodes, texts in C, and their evaluation by PyTorch."""

from __future__ import annotations

import functools
import math
import re
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from netcl.core.dtypes import TORCH, canonical, is_floating, kind, promote
from netcl.core.errors import DTypeError, ExpressionError
from netcl.core.layout import aligned, broadcast_shapes, normalize_axes

__all__ = [
    "PRIMITIVES", "Apply", "Const", "Expr", "Index", "Load", "Primitive", "Reduce", "Scalar", "Space", "apply", "cast",
    "compute", "evaluate", "evaluate_each", "mean", "parse", "reduce", "reduce_each", "size_of",
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
    """A scalar operation: its name, the number of its arguments, PyTorch's function, and the rule of its dtype."""

    name: str
    arity: int
    torch: Callable[..., Any]
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


def _safe(function: Callable[..., Any]) -> Callable[..., Any]:
    """A division of integers that is 0 for a divisor 0."""

    def divided(a: Any, b: Any) -> Any:
        if a.is_floating_point() or a.dtype == torch.bool:
            return function(a, b)
        zero = b == 0
        return torch.where(zero, torch.zeros((), dtype=a.dtype, device=a.device), function(a, b.masked_fill(zero, 1)))

    return divided


def _whole(name: str) -> Callable[..., Any]:
    function = getattr(torch, name)
    return lambda x: function(x) if x.is_floating_point() else x.clone()


def _pow(a: Any, b: Any) -> Any:
    if a.is_floating_point():
        return torch.pow(a, b)
    if bool((b < 0).any()):
        whole = torch.pow(a, b.clamp(min=0))
        odd = torch.where(b % 2 == 0, torch.ones_like(a), a)
        return torch.where(b < 0, torch.where(a.abs() == 1, odd, torch.zeros_like(a)), whole)
    return torch.pow(a, b)


def _rows(rule: str, arity: int, names: str, **functions: Any) -> dict[str, Primitive]:
    made = {name: Primitive(name, arity, getattr(torch, name), rule) for name in names.split()}
    return made | {name: Primitive(name, arity, function, rule) for name, function in functions.items()}


PRIMITIVES: dict[str, Primitive] = {
    **_rows("promote", 2, "add mul maximum minimum", sub=torch.sub, mod=_safe(torch.remainder), fmod=_safe(torch.fmod),
            floor_divide=_safe(lambda a, b: torch.div(a, b, rounding_mode="floor")), pow=_pow),
    **_rows("promote", 2, "bitwise_and bitwise_or bitwise_xor heaviside"),
    **_rows("promote", 1, "neg abs sign square relu",
            **{name: _whole(name)
               for name in ("floor", "ceil", "round", "trunc")}, stop_gradient=lambda x: x.detach(), clone=torch.clone),
    **_rows("float", 1, "exp expm1 exp2 log log1p log2 log10 sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh "
            "tanh asinh acosh atanh sigmoid erf erfc erfinv lgamma digamma", softplus=torch.nn.functional.softplus),
    **_rows("float", 2, "atan2 logaddexp hypot copysign nextafter", div=torch.div),
    **_rows("compare", 2, "eq ne lt le gt ge"),
    **_rows("predicate", 1, "isnan isinf isfinite signbit"),
    **_rows("logical", 2, "logical_and logical_or logical_xor"),
    **_rows("logical", 1, "logical_not"),
    "where": Primitive("where", 3, torch.where, "where"),
    "require": Primitive("require", 4, torch.where, "require"),
}  # fmt: skip
_CAST = {name: Primitive(f"cast_{name}", 1, lambda x: x, name) for name in TORCH}
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
    return Apply(prim, nodes, "bool" if rule in ("compare", "predicate") else rule if rule in TORCH else dtype)


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


# -------------------------------------------------------------------------------------------------------- evaluation

_HALF = ("float16", "bfloat16")


def _computing(dtype: str) -> torch.dtype:
    """The dtype in which values are computed: float32 for the half types, which round once at the end."""
    return torch.float32 if dtype in _HALF else TORCH[dtype]


def _as(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return value if value.dtype == dtype else value.to(dtype)


@functools.lru_cache(maxsize=4096)
def _reduced_axes(node: Expr) -> frozenset[int]:
    """The axes of all reductions in an expression."""
    own = frozenset(node.axes) if isinstance(node, Reduce) else frozenset()
    return own.union(*map(_reduced_axes, node.children))


class _Evaluation:
    """Values of nodes over a space, as tensors of PyTorch that broadcast to it."""

    def __init__(self, tensors: Sequence[Any], scalars: Mapping[str, Any], space: tuple[int, ...], engine: Any) -> None:
        self.tensors, self.scalars, self.space, self.engine = tensors, scalars, space, engine
        self.values: dict[Expr, Any] = {}

    def of(self, root: Expr) -> Any:
        stack = [root]
        while stack:
            node = stack[-1]
            if node in self.values:
                stack.pop()
                continue
            missing = [child for child in node.children if child not in self.values]
            if missing:
                stack += missing
                continue
            self.values[stack.pop()] = self._value(node)
        return self.values[root]

    def _number(self, value: Any, dtype: str) -> torch.Tensor:
        if isinstance(value, torch.Tensor):
            return _as(value, _computing(dtype))
        if kind(dtype) == 1 and isinstance(value, float):
            value = int(value)
        return torch.tensor(value, dtype=_computing(dtype))

    def _value(self, node: Any) -> Any:
        if isinstance(node, Load):
            tensor = self.tensors[node.slot]
            if not isinstance(tensor, torch.Tensor):
                return self._number(tensor, node.dtype)
            tensor = _as(tensor, _computing(node.dtype))
            return tensor.reshape(aligned(tensor.shape, len(self.space)))
        if isinstance(node, Const):
            return self._number(node.value, node.dtype)
        if isinstance(node, Scalar):
            if node.name.startswith("size:"):
                axes = [int(axis) for axis in node.name[5:].split(",")]
                return self._number(math.prod(self.space[axis] for axis in axes), node.dtype)
            return self._number(self.scalars[node.name], node.dtype)
        if isinstance(node, Index):
            shape = tuple(-1 if axis == node.axis else 1 for axis in range(len(self.space)))
            span = torch.arange(self.space[node.axis], dtype=TORCH[node.dtype], device=self.engine.place)
            return span.reshape(shape)
        if isinstance(node, Reduce):
            return self._reduced(node)
        args = [self.values[child] for child in node.args]
        if node.prim.dtype == "require":
            condition, value, code, last = args
            self.engine.report(condition, int(code), value.detach(), last)
            return value
        if node.prim.name.startswith("cast_"):
            value = args[0]
            if node.dtype == "bool":
                return value != 0
            return _as(_as(value, TORCH[node.dtype]), _computing(node.dtype))
        return node.prim.torch(*args)

    def _reduced(self, node: Reduce) -> Any:
        value = self.values[node.arg]
        rank = len(self.space)
        value = value.reshape(aligned(value.shape, rank))
        value = value.expand([self.space[axis] if axis in node.axes else value.shape[axis] for axis in range(rank)])
        axes = list(node.axes)
        if node.kind == "sum":
            return value.sum(axes, keepdim=True, dtype=_computing(node.dtype))
        if node.kind in ("max", "min"):
            if not value.numel():
                limit = torch.finfo(value.dtype) if value.is_floating_point() else torch.iinfo(value.dtype)
                least = -math.inf if value.is_floating_point() else limit.min
                most = math.inf if value.is_floating_point() else limit.max
                shape = [1 if axis in node.axes else n for axis, n in enumerate(value.shape)]
                return torch.full(shape, least if node.kind == "max" else most, dtype=value.dtype, device=value.device)
            return (torch.amax if node.kind == "max" else torch.amin)(value, axes, keepdim=True)
        for axis in axes:
            value = value.prod(axis, keepdim=True, dtype=_computing(node.dtype))
        return value


class _Lists(_Evaluation):
    """The values of elementwise nodes for many tensors at once: lists, and tensors that all of them share."""

    def _value(self, node: Any) -> Any:
        if isinstance(node, Load) and isinstance(self.tensors[node.slot], list):
            return [_as(one, _computing(node.dtype)) for one in self.tensors[node.slot]]
        args = [self.values[child] for child in node.children]
        if not any(isinstance(one, list) for one in args):
            return super()._value(node)
        if node.prim.name.startswith("cast_"):
            return [_as(_as(one, TORCH[node.dtype]), _computing(node.dtype)) for one in args[0]]
        if node.prim.name in ("add", "mul") and not isinstance(args[0], list):
            args.reverse()
        together = _FOREACH.get((node.prim.name, *(isinstance(one, list) for one in args)))
        if together is not None:
            return list(together(*args))
        count = next(len(one) for one in args if isinstance(one, list))
        each = [one if isinstance(one, list) else [one] * count for one in args]
        return list(map(node.prim.torch, *each))


# PyTorch's functions of lists of tensors, by primitive and which of the arguments are lists.
_FOREACH = {
    ("add", True, True): torch._foreach_add, ("add", True, False): torch._foreach_add,
    ("mul", True, True): torch._foreach_mul, ("mul", True, False): torch._foreach_mul,
    ("div", True, True): torch._foreach_div, ("div", True, False): torch._foreach_div,
    ("sub", True, True): torch._foreach_sub, ("maximum", True, True): torch._foreach_maximum,
    ("sqrt", True): torch._foreach_sqrt, ("neg", True): torch._foreach_neg, ("abs", True): torch._foreach_abs,
}  # fmt: skip


def _together(outputs: Sequence[Expr], inputs: Sequence[Sequence[Any]], shared: Sequence[Any]) -> bool:
    """True if ``outputs`` are elementwise, the tensors of each of ``inputs`` of one shape, and those shared 0-d."""
    return (
        all(map(_elementwise, outputs))
        and all(not one.ndim for one in shared)
        and all(one._t.shape == several[0]._t.shape for several in inputs for one in several)
    )


@functools.lru_cache(maxsize=4096)
def _elementwise(node: Expr) -> bool:
    if isinstance(node, Apply):
        return node.prim.name != "require" and all(map(_elementwise, node.args))
    return isinstance(node, (Load, Const)) or (isinstance(node, Scalar) and not node.name.startswith("size:"))


def compute(
    outputs: Sequence[Any], tensors: Sequence[Any], scalars: Mapping[str, Any], engine: Any, shapes: Any = None
) -> list[torch.Tensor]:
    """Expressions on tensors of PyTorch, which may require grad: one tensor for each, of its dtype and shape."""
    given = [tuple(one.shape) for one in tensors if isinstance(one, torch.Tensor)]
    space = broadcast_shapes([*given, *(shapes or ())], "expression")
    values = _Evaluation(tensors, scalars, space, engine)
    removed = frozenset[int]().union(*map(_reduced_axes, outputs))
    results = []
    for position, node in enumerate(outputs):
        value = values.of(node)
        wide = aligned(value.shape, len(space))
        gone = {axis for axis in removed if wide[axis] == 1}
        shape = tuple(shapes[position]) if shapes else tuple(1 if axis in gone else n for axis, n in enumerate(space))
        value = _as(value, TORCH[node.dtype])
        if value.device != engine.place and value.device.type != engine.place.type:
            value = value.to(engine.place)
        results.append(value if value.shape == shape else value.expand(aligned(shape, max(len(shape), value.dim()))))
    return results


def evaluate(
    outputs: Sequence[Any], inputs: Sequence[Any], scalars: Mapping[str, Any] | None = None, *, shapes: Any = None,
    out: Any = None, **unused: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """Runs expressions on the device of ``inputs``: one tensor per output, or written into ``out``."""
    engine = next(one.engine for one in (*inputs, *(out or ())) if hasattr(one, "engine"))
    if shapes is None and out is not None and not inputs:
        shapes = [one.shape for one in out]
    tensors = [one._t if hasattr(one, "_t") else one for one in inputs]
    with torch.no_grad():
        values = compute(outputs, tensors, scalars or {}, engine, shapes)
    if out is None:
        held = {one.untyped_storage()._cdata for one in tensors if isinstance(one, torch.Tensor)}
        fresh = [one.clone() if 0 in one.stride() or one.untyped_storage()._cdata in held else one for one in values]
        return tuple(engine.wrap(one.contiguous()) for one in fresh)
    if len(values) > 1:  # all inputs are read before an output is written
        own = {one._t.untyped_storage()._cdata for one in out}
        values = [one.clone() if one.untyped_storage()._cdata in own else one for one in values]
    for target, value in zip(out, values):
        target._t.copy_(value.reshape(target._t.shape) if value.numel() == target._t.numel() else value)
    return tuple(out)


def evaluate_each(
    outputs: Sequence[Any], inputs: Sequence[Sequence[Any]], shared: Sequence[Any] = (),
    scalars: Mapping[str, Any] | None = None, *, out: Any = None, **kwargs: Any,
) -> list[tuple[Any, ...]]:  # fmt: skip
    """``evaluate`` on ``(*one, *shared)`` for each ``one`` of ``inputs``; updates of many tensors are computed together."""
    if out is not None and inputs and _together(outputs, inputs, shared):
        columns = [[one._t for one in column] for column in zip(*inputs)]
        evaluation = _Lists([*columns, *(one._t for one in shared)], scalars or {}, (), inputs[0][0].engine)
        with torch.no_grad():
            results = [evaluation.of(node) for node in outputs]  # all inputs are read before an output is written
            for node, values, targets in zip(outputs, results, zip(*out)):
                given = [one.clone() for one in values] if isinstance(node, Load) else values
                torch._foreach_copy_([one._t for one in targets], given)
        return list(out)
    targets = out if out is not None else [None] * len(inputs)
    return [evaluate(outputs, (*one, *shared), scalars, out=target, **kwargs) for one, target in zip(inputs, targets)]


def reduce_each(kind: str, expression: Any, inputs: Sequence[Sequence[Any]], shared: Sequence[Any] = ()) -> Any:
    """The reduction of ``expression`` over all elements of all of ``inputs`` in parts: a tensor of one dimension."""
    parts = []
    engine = inputs[0][0].engine
    for one in inputs:
        tensors = [each._t if hasattr(each, "_t") else each for each in (*one, *shared)]
        rank = max((each.dim() for each in tensors if isinstance(each, torch.Tensor)), default=0)
        with torch.no_grad():
            (value,) = compute((reduce(kind, expression, range(rank)),), tensors, {}, engine)
        parts.append(value.reshape(-1))
    return engine.wrap(torch.cat(parts))
