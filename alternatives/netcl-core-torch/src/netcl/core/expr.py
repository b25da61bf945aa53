"""Expressions: those of netcl-core-kit, and their evaluation by PyTorch."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from netcl_core_kit.expr import *  # noqa: F403
from netcl_core_kit.expr import PRIMITIVES, Apply, Const, Expr, Index, Load, Reduce, Scalar, reduce

from netcl.core.dtypes import TORCH, kind
from netcl.core.layout import aligned, broadcast_shapes


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


def _smooth(function: Callable[..., Any], at: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """A function that is constant for derivatives of any order by its first operand where ``at`` is true: there those of
    PyTorch are NaN from the second order on.
    """

    def computed(a: Any, b: Any) -> Any:
        if not (a.requires_grad or b.requires_grad) or not bool((point := at(a, b)).any()):
            return function(a, b)
        constant = function(a.detach(), b)
        return torch.where(point, constant, function(torch.where(point, 1, a), b))

    return computed


_smooth_pow = _smooth(torch.pow, lambda a, b: (a == 0) & (b == 0))


def _pow(a: Any, b: Any) -> Any:
    if a.is_floating_point():
        return _smooth_pow(a, b)
    if bool((b < 0).any()):
        whole = torch.pow(a, b.clamp(min=0))
        odd = torch.where(b % 2 == 0, torch.ones_like(a), a)
        return torch.where(b < 0, torch.where(a.abs() == 1, odd, torch.zeros_like(a)), whole)
    return torch.pow(a, b)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sub": torch.sub, "mod": _safe(torch.remainder), "fmod": _safe(torch.fmod), "pow": _pow,
    "atan2": _smooth(torch.atan2, lambda a, b: (a == 0) & (b == 0)),
    "floor_divide": _safe(lambda a, b: torch.div(a, b, rounding_mode="floor")), "stop_gradient": torch.detach,
    "softplus": torch.nn.functional.softplus, **{name: _whole(name) for name in ("floor", "ceil", "round", "trunc")},
}  # fmt: skip
# PyTorch's function of each primitive: that of its name, if no other is given.
FUNCTIONS = {name: _FUNCTIONS.get(name) or getattr(torch, name, None) for name in PRIMITIVES}

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
        return FUNCTIONS[node.prim.name](*args)

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
        return list(map(FUNCTIONS[node.prim.name], *each))


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
