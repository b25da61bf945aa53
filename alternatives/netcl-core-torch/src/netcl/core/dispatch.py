"""The op table: rows, calls through the hooks of a thread, and the kernels of rows, which are functions of PyTorch."""

from __future__ import annotations

import inspect
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from netcl.core.backend.registry import ensure_same_backend
from netcl.core.dtypes import NAMES, TORCH
from netcl.core.errors import (
    DTypeError,
    ForwardOnlyWarning,
    NetclError,
    OutOfMemoryError,
    ShapeError,
    SingularMatrixError,
    UnsupportedError,
    shorten_traceback,
)
from netcl.core.expr import Space, evaluate, evaluate_each, reduce_each
from netcl.core.grad_mode import state
from netcl.core.tensor import Tensor, in_place
from netcl.core.user_frame import call_site, level_outside

__all__ = [
    "SYNONYMS", "TABLE", "Domain", "Kernel", "OpRow", "Snapshot", "Space", "assign", "call", "call_row", "evaluate",
    "evaluate_each", "execute", "explain", "own_form", "pop_hook", "push_hook", "reduce_each", "register_op", "row_of",
    "set_recorder", "snapshot",
]  # fmt: skip

Hook = Callable[..., Any]
TABLE: dict[str, OpRow] = {}

# What PyTorch calls a parameter: the candidates among the row's own names.
SYNONYMS = {
    "dim": ("axis",), "keepdim": ("keepdims",), "pad": ("padding", "pads"), "dims": ("axes", "axis", "reps"),
    "input": ("x", "a"), "other": ("b",), "unbiased": ("correction",), "ddof": ("correction",), "mat1": ("a",),
    "mat2": ("b",), "vec": ("b",), "vec2": ("b",), "end": ("b",), "exponent": ("b",), "x1": ("a",), "x2": ("b",),
    "batch1": ("a",), "batch2": ("b",), "tensor": ("b", "x"), "split_size": ("size",),
    "split_size_or_sections": ("size",), "shifts": ("shift",), "train": ("training",), "self": ("x", "a"),
}  # fmt: skip


@dataclass(frozen=True)
class Domain:
    """The domain in which an op is tested: operands uniform in [low, high), ``away`` from the points ``kinks``;
    ``cases(rng)`` yields (operands, attributes), ``reference`` is the same in NumPy.
    """

    low: float = -2.0
    high: float = 2.0
    kinks: tuple[float, ...] = ()
    away: float = 0.05
    cases: Callable[[Any], Iterator[tuple[tuple[Any, ...], dict[str, Any]]]] | None = None
    reference: Callable[..., Any] | None = None
    gradient: bool = True
    second: bool = True


@dataclass(eq=False)
class OpRow:
    """One op: ``call`` computes it, ``composite`` is a function over other ops, ``vjp(call, grad)`` its gradients."""

    name: str
    signature: inspect.Signature
    expression: Any = None
    call: Callable[..., Any] | None = None
    composite: Callable[..., Any] | None = None
    shapes: Callable[..., Any] | None = None
    domain: Domain = Domain()
    dtypes: str = "any"
    amp: str = "widest"
    leading: bool = False
    doc: str = ""
    operands: tuple[str, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict)
    vjp: Callable[[Any, Any], Mapping[str, Any]] | None = None
    saves: Mapping[str, tuple[str, ...]] | None = None


INSIDE = object()
LAYERS = ("profiler", "autocast", "tracer")


class _Local(threading.local):
    def __init__(self) -> None:
        # None outside of ops, True or False inside of a composite, INSIDE of a call.
        self.mode: Any = None
        self.hooks: dict[str, tuple[Hook, ...]] = dict.fromkeys(LAYERS, ())
        self.any = False


_local = _Local()
_recorder: list[Hook | None] = [None]
_warned: set[tuple[str, int, str]] = set()


@dataclass(frozen=True)
class Snapshot:
    """The hooks of a thread, to be used in another: ``with snapshot.active(): ...``."""

    hooks: dict[str, tuple[Hook, ...]]

    @contextmanager
    def active(self) -> Iterator[None]:
        """This snapshot's hooks in the current thread, for the duration of the block."""
        before = _local.hooks
        _set_hooks(dict(self.hooks))
        try:
            yield
        finally:
            _set_hooks(before)


def _set_hooks(hooks: dict[str, tuple[Hook, ...]]) -> None:
    _local.hooks = hooks
    _local.any = any(hooks.values())


def snapshot() -> Snapshot:
    """This thread's hooks, for a thread that netcl starts."""
    return Snapshot(dict(_local.hooks))


def push_hook(hook: Hook, layer: str = "profiler") -> Hook:
    """Puts ``hook`` on this thread's stack: outermost of its layer, profiler, autocast or tracer."""
    _set_hooks({**_local.hooks, layer: (hook, *_local.hooks[layer])})
    return hook


def pop_hook(hook: Hook) -> None:
    """Takes ``hook`` off this thread's stack; ValueError if it is not there."""
    for layer, hooks in _local.hooks.items():
        if hook in hooks:
            place = hooks.index(hook)
            _set_hooks({**_local.hooks, layer: hooks[:place] + hooks[place + 1 :]})
            return
    raise ValueError("the hook is not on the stack of this thread")


def set_recorder(hook: Hook | None) -> Hook | None:
    """Makes ``hook`` the process's recorder and returns the one before."""
    before, _recorder[0] = _recorder[0], hook
    return before


def register_op(row: OpRow) -> OpRow:
    """Adds a row to the table; ValueError if the name is taken."""
    if row.name in TABLE:
        raise ValueError(f"there is an op {row.name} already")
    TABLE[row.name] = row
    return row


def row_of(name: str) -> OpRow:
    """The row of the op ``name``; UnsupportedError if there is none."""
    if name not in TABLE:
        raise UnsupportedError(f"there is no op {name!r}", op=name)
    return TABLE[name]


def call(name: str, *args: Any, record: bool | None = None, **kwargs: Any) -> Any:
    """Runs the op ``name``; ``record=None`` inherits from the composite op that is running."""
    return call_row(row_of(name), args, kwargs, record)


def _own_names(row: OpRow, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments by the row's own names."""
    known = row.signature.parameters
    found = {}
    for key, value in kwargs.items():
        if key not in known and key not in ("out", "pool"):
            name = next((one for one in SYNONYMS.get(key, ()) if one in known), None)
            if name is None:
                raise TypeError(f"{row.name}{row.signature} has no parameter {key!r}")
            key, value = name, int(bool(value)) if key == "unbiased" else value
        if key in found:
            raise TypeError(f"{row.name}: parameter {key!r} is given twice")
        found[key] = value
    return found


def _requires_grad(args: Any) -> bool:
    for value in args:
        if isinstance(value, Tensor):
            if value.requires_grad:
                return True
        elif type(value) in (list, tuple) and any(isinstance(one, Tensor) and one.requires_grad for one in value):
            return True
    return False


def call_row(row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any], record: bool | None = None) -> Any:
    """Runs ``row`` through the hook stack."""
    if kwargs:
        kwargs = _own_names(row, kwargs)
    mode = _local.mode
    if mode is INSIDE:
        return _composed(row, args, kwargs, INSIDE) if row.composite is not None else execute(row, args, kwargs)
    recorder = _recorder[0]
    if record is None:
        record = mode is True
        differentiable = row.vjp is not None or row.composite is not None
        wanted = differentiable and mode is None and recorder is not None and state.enabled
        if wanted and _requires_grad((*args, *kwargs.values())) and (site := (*call_site(), row.name)) not in _warned:
            warnings.warn(
                f"netcl.ops.{row.name} is forward only, its result is outside of the graph; call netcl.{row.name}, or "
                "detach() the operand",
                ForwardOnlyWarning,
                stacklevel=level_outside(),
            )
            _warned.add(site)  # not if a filter made it an error
    hooks: tuple[Hook, ...] = ()
    if row.composite is not None:
        run: Any = _recorded if record else _unrecorded
        hooks = _local.hooks["profiler"] if _local.any else ()
    else:
        run = execute
        if _local.any:
            found = _local.hooks
            between = (recorder,) if record and recorder is not None else ()
            hooks = (*found["profiler"], *found["autocast"], *between, *found["tracer"])
        elif record and recorder is not None:
            return recorder(execute, row, args, kwargs)
    for hook in reversed(hooks):
        run = _Link(hook, run)
    return run(row, args, kwargs)


class _Link:
    """A hook with what comes after it."""

    __slots__ = ("hook", "next")

    def __init__(self, hook: Hook, following: Any) -> None:
        self.hook, self.next = hook, following

    def __call__(self, row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.hook(self.next, row, args, kwargs)


def _composed(row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any], mode: Any) -> Any:
    out = kwargs.pop("out", None)
    kwargs.pop("pool", None)
    before, _local.mode = _local.mode, mode
    try:
        result = row.composite(*args, **kwargs)  # type: ignore[misc]
    finally:
        _local.mode = before
    return result if out is None else _put(row, out, result)


def _recorded(row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return _composed(row, args, kwargs, True)


def _unrecorded(row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return _composed(row, args, kwargs, False)


def execute(row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The innermost of the stack: computes the op, on plain tensors, and records nothing."""
    out = None
    if kwargs and ("out" in kwargs or "pool" in kwargs):
        kwargs = dict(kwargs)
        out = kwargs.pop("out", None)
        kwargs.pop("pool", None)
    if row.composite is not None and row.call is None:
        result = _composed(row, args, dict(kwargs), INSIDE)
    else:
        before, _local.mode = _local.mode, INSIDE
        try:
            result = row.call(*args, **kwargs)  # type: ignore[misc]
        finally:
            _local.mode = before
    return result if out is None else _put(row, out, result)


def _put(row: OpRow, out: Any, result: Any) -> Any:
    """``out`` with the result, of which it has the shape, the dtype and the device."""
    if out.shape != result.shape:
        raise ShapeError(f"{row.name}: out has shape {out.shape}, the result {result.shape}", op=row.name)
    if out.dtype != result.dtype:
        raise DTypeError(f"{row.name}: out has dtype {out.dtype}, the result {result.dtype}", op=row.name)
    ensure_same_backend((out, result), row.name)
    return in_place.write(out, result)


def assign(target: Any, source: Any) -> None:
    """Writes ``source`` (same shape and engine) into ``target``, converted to its dtype."""
    in_place.check_copy(target, source)
    target._t.copy_(source._t)


def explain(error: Exception, row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Shortens the traceback of an error of a call; raises TypeError if a list or an array is where a tensor has to be."""
    if isinstance(error, (AttributeError, TypeError)) and not isinstance(error, NetclError):
        for name, value in zip(row.signature.parameters, args):
            if name in row.operands and isinstance(value, (list, np.ndarray)):
                raise TypeError(
                    f"{row.name}: {name} is a {type(value).__name__}, not a Tensor; write Tensor.from_host({name})"
                ) from None
    shorten_traceback(error)


def own_form(error: Exception, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[..., Any] | None:
    """The ``__netcl_op__`` of the first operand with one, if the call failed as it is no Tensor."""
    if not isinstance(error, (AttributeError, TypeError)):
        return None
    for value in (*args, *kwargs.values()):
        for one in value if isinstance(value, (list, tuple)) else (value,):
            if not isinstance(one, Tensor) and hasattr(one, "__netcl_op__"):
                return one.__netcl_op__  # type: ignore[no-any-return]
    return None


# ------------------------------------------------------------------------------------------------- kernels of PyTorch


_OF_DTYPES = re.compile(
    "not implemented for|dtype|scalar type|bool tensor|data type|complex|boolean|integral|floating point"
)


def translated(error: Exception, name: str, given: Any) -> Exception:
    """The error of netcl for an error of PyTorch in a call on the arguments ``given``."""
    text = str(error).strip().split("\n")[0]
    flat = [one for value in given for one in (value if isinstance(value, (list, tuple)) else (value,))]
    tensors = [one for one in flat if isinstance(one, (torch.Tensor, Tensor))]
    shapes = ", ".join(str(tuple(one.shape)) for one in tensors)
    low = text.lower()
    if isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in low:
        return OutOfMemoryError(f"{name}: no memory for the result of {shapes}: {text}", op=name)
    if "singular" in low or "not positive-definite" in low or "not be computed" in low:
        return SingularMatrixError(f"{name}: {text}", op=name)
    if isinstance(error, IndexError) and "dimension" not in low.split("(")[0] or "out of bounds" in low:
        return IndexError(f"{name}: {text}")
    if _OF_DTYPES.search(low):
        kinds = ", ".join(one.dtype if isinstance(one, Tensor) else NAMES[one.dtype] for one in tensors)
        return DTypeError(f"{name}: not defined for {kinds}: {text}", op=name)
    return ShapeError(f"{name}: shapes {shapes} do not fit: {text}", op=name)


class _Hole:
    """The place of a tensor in the arguments of a call."""

    __slots__ = ("at", "wanted")

    def __init__(self, at: int, wanted: bool) -> None:
        self.at, self.wanted = at, wanted


def _fill(value: Any, tensors: Any) -> Any:
    if type(value) is _Hole:
        return tensors[value.at]
    return [_fill(one, tensors) for one in value] if type(value) is list else value


# No nested functions: a recursive closure references itself and keeps its tensors until the garbage collector runs.
def _kept(value: Any, wanted: bool, tensors: list[Any], engine: Any) -> Any:
    """An argument with holes for its tensors, which go to ``tensors``; zeros for those that were not saved."""
    if isinstance(value, Tensor):
        tensors.append(value)
        return _Hole(len(tensors) - 1, wanted and value._t.is_floating_point())
    if hasattr(value, "queue") and hasattr(value, "ndim"):
        empty = torch.zeros((), dtype=TORCH[value.dtype], device=engine.place).expand(value.shape)
        tensors.append(Tensor._of(empty, engine))
        return _Hole(len(tensors) - 1, wanted and empty.is_floating_point())
    if type(value) in (list, tuple):
        return [_kept(one, wanted, tensors, engine) for one in value]
    return torch.as_tensor(value, device=engine.place) if isinstance(value, np.ndarray) else value


def _placed(value: Any, inputs: list[Any], leaves: list[Any]) -> Any:
    """An argument with tensors in its holes, of which the wanted ones go to ``leaves``."""
    if type(value) is _Hole:
        tensor = inputs[value.at]
        if value.wanted:
            if not tensor.requires_grad:
                tensor = tensor.detach().requires_grad_()
            leaves.append(tensor)
        return tensor
    return [_placed(one, inputs, leaves) for one in value] if type(value) is list else value


class Kernel:
    """The call of a row: a function of PyTorch's tensors, with the gradient that PyTorch derives from it.

    ``graph`` is the function of which the gradient is taken, if it is another: one without side effects. ``elementwise``:
    operands are arrays and numbers too, of which at least one is a tensor.
    """

    def __init__(
        self, name: str, compute: Callable[..., Any], graph: Callable[..., Any] | None = None, elementwise: bool = False
    ) -> None:
        self.name, self.compute, self.graph, self.elementwise = name, compute, graph or compute, elementwise
        self.row: OpRow | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        engine: Any = None
        given: list[Any] = []
        for value in args:
            if isinstance(value, Tensor):
                if engine is None:
                    engine = value.engine
                elif value.engine is not engine:
                    ensure_same_backend((one for one in args if isinstance(one, Tensor)), self.name)
                value = value._t
            elif type(value) in (list, tuple):
                engine, value = self._several(engine, value)
            given.append(value)
        if kwargs:
            for key, value in kwargs.items():
                if isinstance(value, Tensor):
                    engine = engine or value.engine
                    ensure_same_backend((*(one for one in args if isinstance(one, Tensor)), value), self.name)
                    kwargs[key] = value._t
                elif type(value) in (list, tuple):
                    engine, kwargs[key] = self._several(engine, value)
        if engine is None:
            raise TypeError(f"{self.name} takes a Tensor, not {', '.join(type(one).__name__ for one in args)}")
        if self.elementwise:
            given, kwargs = self._in_order(given, kwargs) if kwargs else (given, kwargs)
            given = [self._array(one, engine) for one in given]
            kwargs = {key: self._array(one, engine) for key, one in kwargs.items()}
        try:
            with torch.no_grad():
                result = self.compute(*given, **kwargs)
        except NetclError as error:
            if error.op is None:
                error.op = self.name
            raise
        except (RuntimeError, IndexError) as error:
            raise translated(error, self.name, given) from None
        if type(result) is torch.Tensor:
            return Tensor._of(result, engine)
        if isinstance(result, (tuple, list)):
            wrapped = [Tensor._of(one, engine) if isinstance(one, torch.Tensor) else one for one in result]
            return type(result)(*wrapped) if hasattr(result, "_fields") else tuple(wrapped)
        return result

    def _in_order(self, given: list[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Operands that are given by keyword in their places."""
        assert self.row is not None
        bound = self.row.signature.bind(*given, **kwargs)
        return list(bound.args), dict(bound.kwargs)

    def _several(self, engine: Any, value: Any) -> tuple[Any, Any]:
        tensors = [one for one in value if isinstance(one, Tensor)]
        if not tensors:
            return engine, value
        found = ensure_same_backend(tensors, self.name)
        if engine is not None and found is not engine:
            ensure_same_backend((engine.empty((), "bool"), tensors[0]), self.name)
        return found, [one._t if isinstance(one, Tensor) else one for one in value]

    def _array(self, value: Any, engine: Any) -> Any:
        if isinstance(value, (np.ndarray, np.generic)):
            if not isinstance(value, np.ndarray):
                return value.item()
            return Tensor.from_host(engine.queue, value)._t
        return value

    def vjp(self, recorded: Any, grad: Any) -> dict[str, Any]:
        """The gradients of the row, by PyTorch: of the function that computes it, run again on its arguments."""
        row = self.row
        assert row is not None
        if not any(map(recorded.wants, row.signature.parameters)):
            return {}
        tensors: list[Any] = []
        engine = next(one for one in recorded.grads if one is not None).engine

        plan = {
            name: _kept(getattr(recorded, name), recorded.wants(name), tensors, engine)
            for name in row.signature.parameters
        }
        args: list[Any] = []
        named: dict[str, Any] = {}
        for name, parameter in row.signature.parameters.items():
            if parameter.kind is parameter.VAR_POSITIONAL:
                args += plan[name]
            elif parameter.kind is parameter.KEYWORD_ONLY:
                named[name] = plan[name]
            else:
                args.append(plan[name])
        present = tuple(one is not None for one in recorded.grads)
        call = _Gradient(self, args, named, present, len(tensors))
        everything = [*tensors, *(one for one in recorded.grads if one is not None)]
        if recorded.again:
            found = iter(recorded.op("torch_gradient", everything, call))
        else:
            with torch.no_grad():
                found = iter([
                    None if one is None else Tensor._of(one, engine) for one in call.gradients([one._t for one in everything])
                ])  # fmt: skip
        result: dict[str, Any] = {}
        for name, value in plan.items():
            if recorded.wants(name):
                holes = value if type(value) is list else [value]
                gradients = [next(found) if type(one) is _Hole and one.wanted else None for one in holes]
                result[name] = gradients if type(value) is list else gradients[0]
        return result


class _Gradient:
    """The gradient of a call of a kernel as a function of its tensors and of the gradients of its results."""

    def __init__(self, kernel: Kernel, args: list[Any], named: dict[str, Any], present: Any, count: int) -> None:
        self.kernel, self.args, self.named, self.present, self.count = kernel, args, named, present, count

    def __call__(self, tensors: Any) -> list[torch.Tensor]:
        found = self.gradients(tensors)
        leaves = [tensors[one.at] for one in _holes([*self.args, *self.named.values()]) if one.wanted]
        return [torch.zeros_like(leaf) if one is None else one for leaf, one in zip(leaves, found)]

    def gradients(self, tensors: Any) -> Any:
        """One gradient for each tensor that is wanted, None for one without influence."""
        again = torch.is_grad_enabled()
        inputs, grads = list(tensors[: self.count]), iter(tensors[self.count :])
        leaves: list[torch.Tensor] = []

        kernel = self.kernel
        try:
            with torch.enable_grad():
                args = [_placed(value, inputs, leaves) for value in self.args]
                named = {name: _placed(value, inputs, leaves) for name, value in self.named.items()}
                results = kernel.graph(*args, **named)
                outputs, upstream = [], []
                for one, has in zip(results if isinstance(results, (tuple, list)) else (results,), self.present):
                    given = next(grads) if has else None
                    if given is not None and isinstance(one, torch.Tensor) and one.requires_grad:
                        outputs.append(one)
                        upstream.append(given if given.dtype == one.dtype else given.to(one.dtype))
                if not outputs and kernel.name == "torch_gradient":  # a gradient that is constant
                    return [None] * len(leaves)
                if not outputs:
                    raise UnsupportedError(f"{kernel.name} has no gradient", op=kernel.name)
                found = torch.autograd.grad(outputs, leaves, upstream, allow_unused=True, create_graph=again)
        except RuntimeError as error:
            if isinstance(error, NetclError):
                raise
            raise translated(error, f"gradient of {kernel.name}", inputs) from None
        return [
            one if one is None or not one._is_zerotensor() else torch.zeros_like(leaf)
            for leaf, one in zip(leaves, found)
        ]


def _holes(value: Any) -> list[Any]:
    """The holes of arguments, in order."""
    return [
        hole for one in value for hole in (_holes(one) if type(one) is list else [one] if type(one) is _Hole else [])
    ]
