"""The op table and the one hook stack: every computation on tensors is a row here, and every call of it passes here.

Order of a call, outermost first: profiler, autocast, recorder, tracer, backend. The recorder is one for the process
(set by importing ``netcl.autograd``) and sees calls with ``record=True``; the others are pushed per thread. With no
hook pushed a call is one branch.
"""

from __future__ import annotations

import importlib
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from netcl.core.dtypes import canonical, promote
from netcl.core.errors import BackendMismatchError, ExpressionError, ShapeError, UnsupportedError
from netcl.core.expr import Expr, Load, Reduce, Scalar, cast, parse
from netcl.core.expr.rewrite import axes_of, walk
from netcl.core.layout import aligned, broadcast_shapes, normalize_axes

if TYPE_CHECKING:
    from netcl.core.backend.base import DeviceBackend

Shape = tuple[int, ...]


class Operand:
    """What the op table computes on: the base of Tensor."""

    __slots__ = ("__weakref__", "_version", "engine")
    engine: DeviceBackend
    _version: list[int]
    shape: Shape
    dtype: str
    requires_grad: bool
    array: Any


@dataclass(frozen=True)
class Domain:
    """Where an op is tested: operands uniform in [low, high), at least ``away`` from the points ``kinks``.

    ``cases(rng)`` yields (operands as arrays or numbers, attributes) for ops that broadcasting elementwise samples do
    not suit. ``reference(*arrays, **attributes)`` is the same in NumPy, float64.
    """

    low: float = -2.0
    high: float = 2.0
    kinks: tuple[float, ...] = ()
    away: float = 0.05
    cases: Callable[[Any], Iterator[tuple[tuple[Any, ...], dict[str, Any]]]] | None = None
    reference: Callable[..., Any] | None = None
    gradient: bool = True
    second: bool = True


@dataclass(frozen=True, eq=False)
class OpRow:
    """One op. ``expression`` builds the result from expressions (or is its text over v0..); ``call`` computes it
    through the engine; ``composite`` is a plain function over other ops.

    ``shapes(shape, operand_shapes, attributes)`` turns an output's shape in the iteration space into the final one.
    Attributes whose default is a float are launch scalars, all others are part of the kernel. ``amp``: ``half``,
    ``float32`` or ``widest``. ``leading``: the operands are the first parameters.
    """

    name: str
    signature: inspect.Signature
    expression: Callable[..., Any] | str | None = None
    call: Callable[..., Any] | None = None
    composite: Callable[..., Any] | None = None
    shapes: Callable[[Shape, Sequence[Shape], Mapping[str, Any]], Shape] | None = None
    dtypes: str = "any"
    domain: Domain = field(default_factory=Domain)
    amp: str = "widest"
    doc: str = ""
    operands: tuple[str, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    wants_space: bool = False
    leading: bool = True


class Hook(Protocol):
    """``hook(next, row, args, kwargs)`` returns what the op gives, usually ``next(row, args, kwargs)``."""

    def __call__(self, next: Callable[..., Any], row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...


TABLE: dict[str, OpRow] = {}
_LAYERS = ("profiler", "autocast", "recorder", "tracer")
_recorder: Hook | None = None
_watcher: Callable[[OpRow, tuple[Any, ...], dict[str, Any]], None] | None = None


class _Thread(threading.local):
    hooks: tuple[tuple[int, Hook], ...] = ()
    record: bool = False


_thread = _Thread()


def make_row(
    function: Callable[..., Any], kind: str, *, name: str = "", text: str | None = None, **fields: Any
) -> OpRow:
    """The row of ``function``: parameters annotated with Expr or Tensor are operands, all others attributes."""
    parameters = dict(inspect.signature(function).parameters)
    wants_space = parameters.pop("space", None) is not None
    operands = tuple(
        key for key, p in parameters.items() if "Expr" in str(p.annotation) or "Tensor" in str(p.annotation)
    )
    body: dict[str, Any] = {kind: text if text is not None else function}
    return OpRow(
        name=name or function.__name__,
        signature=inspect.Signature(list(parameters.values())),
        doc=inspect.getdoc(function) or "",
        operands=operands,
        attributes={key: p.default for key, p in parameters.items() if key not in operands},
        wants_space=wants_space,
        leading=operands == tuple(parameters)[: len(operands)],
        **body,
        **fields,
    )


def register_op(row: OpRow) -> OpRow:
    """Adds a row to the table; ValueError where the name is taken."""
    if row.name in TABLE:
        raise ValueError(f"the op {row.name!r} exists already")
    TABLE[row.name] = row
    return row


# -- calling -----------------------------------------------------------------------------------------------------------


def call(name: str, *args: Any, record: bool | None = None, **kwargs: Any) -> Any:
    """Runs the op ``name``. ``record=None`` inherits from the composite op that is running (False outside of one)."""
    return call_row(TABLE.get(name) or row_of(name), args, kwargs, record)


def row_of(name: str) -> OpRow:
    """The row of the op ``name``; UnsupportedError where there is none."""
    if name not in TABLE:
        # The rows are written in netcl.ops, which imports this module; a tensor's first operator brings them in.
        importlib.import_module("netcl.ops")
    if name not in TABLE:
        raise UnsupportedError(f"there is no op {name!r}", op=name)
    return TABLE[name]


def call_row(row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any], record: bool | None = None) -> Any:
    """Runs ``row`` through the hook stack."""
    if kwargs:
        kwargs = _by_own_names(row, kwargs)
    if record is None:
        record = _thread.record
        if _watcher is not None and not record:
            _watcher(row, args, kwargs)
    if row.composite is not None:
        outer, _thread.record = _thread.record, record
        try:
            return row.composite(*args, **kwargs)
        finally:
            _thread.record = outer
    hooks = _thread.hooks
    if not hooks:
        if record and _recorder is not None:
            return _recorder(execute, row, args, kwargs)
        return execute(row, args, kwargs)
    return _through(hooks, record, row, args, kwargs)


def _through(
    hooks: tuple[tuple[int, Hook], ...], record: bool, row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    stack = [hook for layer, hook in hooks if layer < 2]
    if record and _recorder is not None:
        stack.append(_recorder)
    stack.extend(hook for layer, hook in hooks if layer > 2)

    def run(at: int) -> Callable[..., Any]:
        if at == len(stack):
            return execute
        return lambda row, args, kwargs: stack[at](run(at + 1), row, args, kwargs)

    return run(0)(row, args, kwargs)


def set_recorder(hook: Hook | None) -> Hook | None:
    """Makes ``hook`` the process's recorder and returns the one before; netcl.autograd calls this once."""
    global _recorder
    previous, _recorder = _recorder, hook
    return previous


def set_watcher(watcher: Callable[[OpRow, tuple[Any, ...], dict[str, Any]], None] | None) -> None:
    """Shows ``watcher(row, args, kwargs)`` every call that is not recorded, as from ``netcl.ops``; None: no more."""
    global _watcher
    _watcher = watcher


def push_hook(hook: Hook, layer: str = "profiler") -> Hook:
    """Puts ``hook`` on this thread's stack: outermost of its layer, profiler, autocast or tracer."""
    rank = _LAYERS.index(layer)
    _thread.hooks = tuple(sorted(((rank, hook), *_thread.hooks), key=lambda entry: entry[0]))
    return hook


def pop_hook(hook: Hook) -> None:
    """Takes ``hook`` off this thread's stack; ValueError where it is not there."""
    rest = [entry for entry in _thread.hooks if entry[1] is not hook]
    if len(rest) == len(_thread.hooks):
        raise ValueError("this hook is not on the stack of this thread")
    _thread.hooks = tuple(rest)


class Snapshot:
    """The hooks of a thread, to be used in another: ``with snapshot.active(): ...``."""

    def __init__(self) -> None:
        self._hooks, self._record = _thread.hooks, _thread.record

    @contextmanager
    def active(self) -> Iterator[None]:
        """This snapshot's hooks in the current thread, for the duration of the block."""
        outer = _thread.hooks, _thread.record
        _thread.hooks, _thread.record = self._hooks, self._record
        try:
            yield
        finally:
            _thread.hooks, _thread.record = outer


def snapshot() -> Snapshot:
    """This thread's hooks, for a thread that netcl starts."""
    return Snapshot()


# -- expression rows: arguments to a program ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Space:
    """The iteration space as a builder sees it: its rank, and each operand's shape aligned to it (None: a number)."""

    rank: int
    shapes: tuple[Shape | None, ...]
    op: str

    def axes(self, axis: int | Sequence[int] | None) -> tuple[int, ...]:
        """Sorted non-negative axes; None is all of them. ShapeError names the op where one is out of range."""
        return normalize_axes(axis, self.rank, self.op)

    def axis(self, axis: int) -> int:
        """One non-negative axis."""
        return normalize_axes(axis, self.rank, self.op)[0]


@dataclass(frozen=True, eq=False)
class Program:
    """What an expression row computes for given shapes, dtypes and attributes: made once, then bound to tensors."""

    name: str
    outputs: tuple[Expr, ...]
    shapes: tuple[Shape, ...]
    finals: tuple[Shape, ...]
    present: Mapping[int, frozenset[int]]
    gradients: dict[Any, Any] = field(default_factory=dict)
    single: bool = True


@dataclass(frozen=True, eq=False)
class Bound:
    """A program with its tensors and launch scalars."""

    program: Program
    inputs: tuple[Any, ...]
    scalars: dict[str, float | int]

    def run(self, out: Sequence[Any] | None = None) -> tuple[Any, ...]:
        """Computes the outputs, in their final shapes."""
        program = self.program
        results: tuple[Any, ...] = self.inputs[0].engine.run(
            program.outputs, self.inputs, self.scalars, shapes=program.shapes, out=out
        )
        for result, final in zip(results, program.finals):
            if result.shape != final:
                set_shape(result, final)
        return results


def set_shape(tensor: Any, shape: Shape) -> None:
    """Gives a tensor that nobody else holds yet another shape of the same size."""
    if tensor.array is not None:
        tensor.array = tensor.array.reshape(shape)
    tensor.shape = shape


_programs: dict[Any, Program] = {}
_PROGRAMS_MAX = 8192


def bind(row: OpRow, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Bound:
    """The program of an expression row for these arguments, with its tensors and scalars; checks shapes and places."""
    operands, attributes = _arguments(row, args, kwargs)
    for position, value in enumerate(operands):
        if not (isinstance(value, Operand) or value is None or type(value) in _NUMBERS):
            operands[position] = _from_numpy(row, value, operands)
    inputs = tuple(value for value in operands if isinstance(value, Operand))
    if not inputs:
        raise TypeError(
            f"{row.name}: at least one operand has to be a Tensor, not {', '.join(type(a).__name__ for a in operands)}"
        )
    engine = inputs[0].engine
    for other in inputs[1:]:
        if other.engine is not engine:
            raise BackendMismatchError(
                f"{row.name}: operands live on {engine.device_label} and {other.engine.device_label}; "
                "move them together with tensor.to(device)",
                op=row.name,
            )
    scalars: dict[str, float | int] = {}
    statics: list[Any] = []
    for name, default in row.attributes.items():
        value = attributes.get(name, default)
        if type(default) is float:
            scalars[name] = float(value)
        else:
            statics.append(tuple(value) if isinstance(value, list) else value)
    described: list[Any] = []
    for position, value in enumerate(operands):
        if isinstance(value, Operand):
            described.append((value.shape, value.dtype))
        else:
            described.append(None if value is None else type(value))
            if value is not None:
                scalars[f"v{position}"] = value
    key = (row, tuple(described), tuple(statics))
    program = _programs.get(key)
    if program is None:
        if len(_programs) >= _PROGRAMS_MAX:
            _programs.clear()
        program = _programs[key] = _build(row, operands, statics)
    return Bound(program, inputs, scalars)


_NUMBERS = frozenset((bool, int, float))


def _from_numpy(row: OpRow, value: Any, operands: Sequence[Any]) -> Any:
    """A NumPy scalar as a Python number, an array as a tensor beside the first tensor operand."""
    if isinstance(value, np.generic):
        return value.item()
    beside = next((other for other in operands if isinstance(other, Operand)), None)
    if beside is None or not isinstance(value, np.ndarray):
        raise TypeError(f"{row.name}: operands are tensors, arrays and numbers, not {type(value).__name__}")
    return type(beside).from_host(beside.engine.queue, value)  # type: ignore[attr-defined]


def _arguments(row: OpRow, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[list[Any], Mapping[str, Any]]:
    """Operands in order (numbers, tensors, None) and attributes by name."""
    if len(args) == len(row.operands) and not kwargs and row.leading:
        return list(args), kwargs
    try:
        bound = row.signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{row.name}{row.signature}: {error}") from None
    values = bound.arguments
    operands = [values.get(name) for name in row.operands]
    return operands, {name: value for name, value in values.items() if name not in row.operands}


_SYNONYMS = {"dim": "axis", "keepdim": "keepdims", "pad": "padding", "dims": "axes"}


def _by_own_names(row: OpRow, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments with PyTorch's spelling of a parameter exchanged for the row's own."""
    known = row.signature.parameters
    for name in kwargs:
        if name in _SYNONYMS and name not in known:
            return {
                _SYNONYMS[key] if key in _SYNONYMS and key not in known else key: value for key, value in kwargs.items()
            }
    return kwargs


def _build(row: OpRow, operands: Sequence[Any], statics: Sequence[Any]) -> Program:
    tensors = [value for value in operands if isinstance(value, Operand)]
    shapes = [tensor.shape for tensor in tensors]
    space = broadcast_shapes(shapes, row.name)
    rank = len(space)
    # A condition takes no part in the dtype of a number beside it.
    numeric = [t.dtype for t in tensors if t.dtype != "bool"] or ["bool"]
    loads: list[Expr | None] = []
    placed: list[Shape | None] = []
    slot = 0
    for position, value in enumerate(operands):
        if isinstance(value, Operand):
            loads.append(Load(slot, value.dtype))
            placed.append(aligned(value.shape, rank))
            slot += 1
        else:
            loads.append(None if value is None else Scalar(f"v{position}", promote(*numeric, type(value))))
            placed.append(None)
    static_names = [name for name, default in row.attributes.items() if type(default) is not float]
    attributes: dict[str, Any] = dict(zip(static_names, statics))
    floating = promote(*numeric, float)
    named = {name: Scalar(name, floating) for name, default in row.attributes.items() if type(default) is float}
    if isinstance(row.expression, str):
        parsed = parse(row.expression, [load for load in loads if load is not None], named)
        outputs: tuple[Expr, ...] = (parsed,)
        single = True
    else:
        assert row.expression is not None
        extra = {"space": Space(rank, tuple(placed), row.name)} if row.wants_space else {}
        built = row.expression(*loads, **attributes, **named, **extra)
        single = isinstance(built, Expr)
        outputs = (built,) if single else tuple(built)
    present = {
        index: frozenset(axis for axis, size in enumerate(aligned(shape, rank)) if size != 1)
        for index, shape in enumerate(shapes)
    }
    results = tuple(_output_shape(output, present, space) for output in outputs)
    finals = tuple(row.shapes(shape, shapes, attributes) if row.shapes else shape for shape in results)
    return Program(row.name, outputs, results, finals, present, single=single)


def _output_shape(output: Expr, present: Mapping[int, frozenset[int]], space: Shape) -> Shape:
    """The whole space for an elementwise result; where reductions take part, the axes along which the value varies."""
    if not any(isinstance(node, Reduce) for node in walk((output,))):
        return space
    axes = axes_of(output, present, {})
    return tuple(size if axis in axes else 1 for axis, size in enumerate(space))


def program_row(name: str, program: Program) -> OpRow:
    """An anonymous row that runs a program already built; call it with ``scalars=`` through ``call_row``."""
    return OpRow(name, inspect.Signature(), expression=lambda: program)


def bind_program(row: OpRow, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Bound:
    """``bind`` for a row of ``program_row``."""
    program: Program = row.expression()  # type: ignore[operator, misc]
    return Bound(program, args, dict(kwargs.get("scalars", {})))


def bound(row: OpRow, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Bound:
    """``bind`` or ``bind_program``, whichever the row needs."""
    return bind(row, args, kwargs) if row.name in TABLE else bind_program(row, args, kwargs)


def execute(row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The innermost of the stack: computes the op, on plain tensors, and records nothing."""
    if row.expression is None:
        return _compute(row, args, kwargs)
    out = kwargs.pop("out", None) if "out" in kwargs else None
    ready = bound(row, args, kwargs)
    if out is not None:
        _check_out(row.name, out, ready)
    results = ready.run(None if out is None else (out,))
    return results[0] if ready.program.single else results


def _compute(row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs the function of a computed row; nothing inside of it is recorded, as the row itself has been."""
    assert row.call is not None
    if not _thread.record:
        return row.call(*args, **kwargs)
    _thread.record = False
    try:
        return row.call(*args, **kwargs)
    finally:
        _thread.record = True


def _check_out(name: str, out: Any, ready: Bound) -> None:
    shape, dtype = ready.program.finals[0], ready.program.outputs[0].dtype
    if out.shape != shape or out.dtype != dtype:
        raise ShapeError(
            f"{name}: out has shape {out.shape} and dtype {out.dtype}, the result {shape} and {dtype}", op=name
        )
    if out.engine is not ready.inputs[0].engine:
        raise BackendMismatchError(f"{name}: out lives on {out.engine.device_label}", op=name)


def assign(target: Any, source: Any) -> None:
    """Writes ``source`` (same shape and engine) into ``target``, converted to its dtype."""
    expression = cast(Load(0, source.dtype), target.dtype)
    target.engine.run((expression,), (source,), out=(target,))


def evaluate(
    outputs: Sequence[Expr], inputs: Sequence[Any], scalars: Mapping[str, float | int] | None = None, **kwargs: Any
) -> tuple[Any, ...]:
    """Runs expressions on the engine of ``inputs``: optimizer rules and other updates in place; never recorded."""
    if not inputs:
        raise ExpressionError("expressions without inputs have no engine to run on")
    return inputs[0].engine.run(outputs, inputs, scalars, **kwargs)  # type: ignore[no-any-return]


def dtype_of(value: Any) -> str:
    """The dtype of a tensor or the default dtype of a Python number."""
    return value.dtype if isinstance(value, Operand) else canonical(promote(type(value)))
