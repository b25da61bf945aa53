"""The op table: rows, and calls of rows through the hooks of a thread.

A core tells its class of tensors by ``use``, once, before a row is called.
"""

from __future__ import annotations

import inspect
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from netcl_core_kit.dtypes import is_floating
from netcl_core_kit.errors import ForwardOnlyWarning, NetclError, UnsupportedError, shorten_traceback
from netcl_core_kit.grad_mode import state
from netcl_core_kit.user_frame import call_site, level_outside

__all__ = [
    "SYNONYMS", "TABLE", "Domain", "OpRow", "Snapshot", "before_write", "call", "call_row", "execute", "explain", "own_form", "pop_hook",
    "push_hook", "register_op", "row_of", "set_recorder", "snapshot", "use", "use_builders",
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


# The forms in nn.functional of rows that state none: F.*, with the argument ``inplace``, and F.*_, which writes.
_FORMS = {
    **dict.fromkeys(("celu", "elu", "selu", "threshold"), "F.* F.*_"), "hard_sigmoid": "F.hardsigmoid",
    **dict.fromkeys(("mish", "relu6", "silu"), "F.*"), "hard_swish": "F.hardswish",
    "hard_tanh": "F.hardtanh F.hardtanh_",
}  # fmt: skip


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
    forms: str = ""

    def names(self, space: str, written: bool = False) -> list[str]:
        """The names of forms in ``space`` (x, nc or F): plain ones, or ``written`` ones without their last _."""
        forms = (form.partition(".") for form in (self.forms or _FORMS.get(self.name, "")).split())
        names = [name.replace("*", self.name) for place, _, name in forms if place == space]
        return [name.removesuffix("_") for name in names if name.endswith("_") == written]


class _Core:
    """What a core tells by ``use``."""

    tensor: Any = ()
    put: Any = None
    engine_for: Any = None
    drawing_from: Any = None
    names: Any = None
    evaluated: Any = None


_core = _Core()


def use(
    tensor: type,
    put: Callable[[OpRow, Any, Any], Any],
    engine_for: Callable[[Any], Any],
    drawing_from: Callable[[Any], Any],
    names: Callable[[], Any],
) -> None:
    """Tells the class of tensors of the core, ``put(row, out, result)``, which writes a result into ``out`` of a call,
    the engine of a queue, a handle or a selector, the scope of a generator, and the names of the functions of netcl.ops.
    """
    _core.tensor, _core.put, _core.names = tensor, put, names
    _core.engine_for, _core.drawing_from = engine_for, drawing_from


def use_builders(evaluated: Callable[[OpRow, Any], None]) -> None:
    """Tells the function that makes a `netcl_core_kit.builders.Builder` what computes a row."""
    _core.evaluated = evaluated


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


def before_write(target: Any, value: Any) -> None:
    """Tells the hooks of this thread that ``value`` is about to be written into ``target``."""
    if _local.any:
        for hooks in _local.hooks.values():
            for hook in hooks:
                told = getattr(hook, "before_write", None)
                if told is not None:
                    told(target, value)


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
        if isinstance(value, _core.tensor):
            if value.requires_grad:
                return True
        elif type(value) in (list, tuple) and any(isinstance(one, _core.tensor) and one.requires_grad for one in value):
            return True
    return False


def _refuse_gradient(row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """RuntimeError if a floating ``out=`` would lose the gradient of a call."""
    outs = kwargs["out"] if isinstance(kwargs["out"], (list, tuple)) else [kwargs["out"]]
    if any(is_floating(out.dtype) for out in outs) and _requires_grad((*args, *kwargs.values())):
        raise RuntimeError(
            f"{row.name}: out= does not support automatic differentiation, but one of the arguments requires grad; "
            "leave out= away, or write under no_grad()"
        )


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
    if record and recorder is not None and state.enabled and kwargs.get("out") is not None:
        _refuse_gradient(row, args, kwargs)
    hooks: tuple[Hook, ...] = ()
    if row.composite is not None:
        run: Any = _recorded if record else _unrecorded
        hooks = _local.hooks["profiler"] if _local.any else ()
    else:
        # The kernel keeps a graph of PyTorch for a call that the recorder will record.
        run = _execute_kept if record and recorder is not None and state.enabled else execute
        if _local.any:
            found = _local.hooks
            between = (recorder,) if record and recorder is not None else ()
            hooks = (*found["profiler"], *found["autocast"], *between, *found["tracer"])
        elif record and recorder is not None:
            return recorder(run, row, args, kwargs)
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
    return result if out is None else _core.put(row, out, result)


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
    return result if out is None else _core.put(row, out, result)


def _execute_kept(row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``execute`` for a call that is recorded: a call with a method ``kept`` keeps what its gradient needs."""
    kept = getattr(row.call, "kept", None)
    if kept is None or not _requires_grad((*args, *kwargs.values())):
        return execute(row, args, kwargs)
    if kwargs.get("out") is not None:  # of a dtype that has no gradient
        return execute(row, args, kwargs)
    before, _local.mode = _local.mode, INSIDE
    try:
        return kept(args, {key: one for key, one in kwargs.items() if key != "pool"})
    finally:
        _local.mode = before


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
            if not isinstance(one, _core.tensor) and hasattr(one, "__netcl_op__"):
                return one.__netcl_op__  # type: ignore[no-any-return]
    return None
