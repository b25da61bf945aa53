"""Expression rows at work: arguments become a program, made once per shapes and dtypes, then bound to tensors."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np

from netcl.core.dtypes import SUPPORTED, integer_range, is_integer, kind, promote
from netcl.core.errors import BackendMismatchError, DTypeError, ExpressionError, ShapeError, UnsupportedError
from netcl.core.expr import Expr, Load, Reduce, Scalar, cast, parse
from netcl.core.expr.rewrite import axes_of, walk
from netcl.core.layout import aligned, broadcast_shapes, normalize_axes, reduced_axes
from netcl.core.ops_table.records import Record, known
from netcl.core.ops_table.table import TABLE, OpRow
from netcl.core.process.hook_stack import before_write, event
from netcl.core.storage import size
from netcl.core.storage.data import TensorData
from netcl.core.storage.views import flush

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Space:
    """The iteration space as a builder sees it: its rank, each operand's shape aligned to it (None: a number), and the
    users' name of the op (``max`` for its part ``max_along``).
    """

    rank: int
    shapes: tuple[Shape | None, ...]
    op: str

    def axes(self, axis: int | Sequence[int] | None) -> tuple[int, ...]:
        """Returns sorted non-negative axes; None is all of them. ShapeError, with the op, if one is out of range."""
        return reduced_axes(axis, self.rank, self.op)

    def axis(self, axis: int) -> int:
        """Returns one non-negative axis."""
        return normalize_axes(axis, self.rank, self.op)[0]


@dataclass(frozen=True, eq=False)
class Program:
    """The program of an expression row for given shapes, dtypes and attributes: made once, then bound to tensors."""

    name: str
    outputs: tuple[Expr, ...]
    shapes: tuple[Shape, ...]
    finals: tuple[Shape, ...]
    present: Mapping[int, frozenset[int]]
    gradients: dict[Any, Any] = field(default_factory=dict)
    single: bool = True
    relaxed: bool = False  # built with the compiler's fast math
    small: tuple[tuple[str, str], ...] = ()  # launch scalars of dtypes that not every int fits


@dataclass(frozen=True, eq=False)
class Bound:
    """A program with its tensors and launch scalars."""

    program: Program
    inputs: tuple[Any, ...]
    scalars: dict[str, float | int]

    def run(self, out: Sequence[Any] | None = None) -> tuple[Any, ...]:
        """Computes the outputs, in their final shapes."""
        program, engine = self.program, self.inputs[0].engine
        if program.relaxed:
            engine = engine.relaxed()
        results: tuple[Any, ...] = engine.run(
            program.outputs, self.inputs, self.scalars, shapes=program.shapes, out=out
        )
        for result, final in zip(results, program.finals):
            if result.shape != final:
                set_shape(result, final)
        if out is not None:
            flush(out)
        return results


def set_shape(tensor: Any, shape: Shape) -> None:
    """Sets another shape of the same size on a new tensor, which has no other references yet."""
    storage = tensor._storage
    if storage.array is not None:
        storage.array = storage.array.reshape(shape)
    tensor.shape = size.Shape(shape)


_programs: dict[Any, Program] = {}
_PROGRAMS_MAX = 8192


def bind(row: OpRow, args: tuple[Any, ...], kwargs: Mapping[str, Any], record: Record | None = None) -> Bound:
    """Returns the program of an expression row for these arguments, with its tensors and scalars; checks shapes and
    places, but not again if the ``record`` of the call has the program.
    """
    if record is not None and record.binding is not None:
        program, places, scalars, numbers = record.binding
        if numbers:
            scalars = {**scalars, **{name: args[place] for name, place in numbers}}
        return Bound(program, tuple([args[place] for place in places]), scalars)
    ready = _bind(row, args, kwargs)
    if record is not None and row.leading and not ready.program.small:
        places = tuple(place for place, value in enumerate(args) if isinstance(value, TensorData))
        operands = args[: len(row.operands)]
        numbers = tuple((f"v{place}", place) for place, value in enumerate(operands) if type(value) in _NUMBERS)
        record.binding = ready.program, places, ready.scalars, numbers
    return ready


def _bind(row: OpRow, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Bound:
    operands, attributes = _arguments(row, args, kwargs)
    for position, value in enumerate(operands):
        if value is None and row.signature.parameters[row.operands[position]].default is inspect.Parameter.empty:
            raise UnsupportedError(f"{row.name}: expected a Tensor or a number as {row.operands[position]}, got None")
        if not (isinstance(value, TensorData) or value is None or type(value) in _NUMBERS):
            operands[position] = _from_numpy(row, value, operands)
    inputs = tuple(value for value in operands if isinstance(value, TensorData))
    if not inputs:
        raise TypeError(
            f"{row.name}: expected at least one Tensor as operand, got {', '.join(type(a).__name__ for a in operands)}"
        )
    engine = inputs[0].engine
    for other in inputs[1:]:
        if other.engine is not engine:
            raise BackendMismatchError(
                f"{row.name}: operands live on {engine.device_label} and {other.engine.device_label}; "
                "move them together with tensor.to(device)"
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
        if isinstance(value, TensorData):
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
    for name, dtype in program.small:
        least, most = _RANGES[dtype]
        if not least <= scalars[name] <= most:
            raise OverflowError(
                f"{row.name}: {scalars[name]} does not fit {dtype}, the dtype of the operands; convert them with astype"
            )
    return Bound(program, inputs, scalars)


_NUMBERS = frozenset((bool, int, float))
# NumPy before 2 wraps what does not fit; int64 has another check, by the conversion of the scalar.
_RANGES = {name: integer_range(name) for name in SUPPORTED if is_integer(name) and name != "int64"}


def _from_numpy(row: OpRow, value: Any, operands: Sequence[Any]) -> Any:
    """Returns a NumPy scalar as a Python number, an array as a tensor on the engine of the first tensor operand."""
    if isinstance(value, np.generic):
        return value.item()
    beside = next((other for other in operands if isinstance(other, TensorData)), None)
    if beside is None or not isinstance(value, np.ndarray):
        raise TypeError(f"{row.name}: expected tensors, arrays and numbers as operands, got {type(value).__name__}")
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


def _build(row: OpRow, operands: Sequence[Any], statics: Sequence[Any]) -> Program:
    tensors = [value for value in operands if isinstance(value, TensorData)]
    shapes = [tensor.shape for tensor in tensors]
    space = broadcast_shapes(shapes, row.name)
    rank = len(space)
    # A condition does not influence the dtype of a number.
    dtypes = _dtypes(tensors)
    numeric = [dtype for dtype in dtypes if dtype != "bool"] or ["bool"]
    loads: list[Expr | None] = []
    placed: list[Shape | None] = []
    slot = 0
    for position, value in enumerate(operands):
        if isinstance(value, TensorData):
            loads.append(cast(Load(slot, value.dtype), dtypes[slot]))
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
        extra = {"space": Space(rank, tuple(placed), row.name.removesuffix("_along"))} if row.wants_space else {}
        built = row.expression(*loads, **attributes, **named, **extra)
        single = isinstance(built, Expr)
        outputs = (built,) if single else tuple(built)
    present = {
        index: frozenset(axis for axis, size in enumerate(aligned(shape, rank)) if size != 1)
        for index, shape in enumerate(shapes)
    }
    results = tuple(_output_shape(output, present, space) for output in outputs)
    finals = tuple(row.shapes(shape, shapes, attributes) if row.shapes else shape for shape in results)
    small = tuple((load.name, load.dtype) for load in loads if isinstance(load, Scalar) and load.dtype in _RANGES)
    return Program(row.name, outputs, results, finals, present, single=single, small=small)


def _dtypes(tensors: Sequence[TensorData]) -> list[str]:
    """Returns the dtypes that an op computes in: a 0-d tensor of the same kind takes the others' dtype."""
    longer = [tensor.dtype for tensor in tensors if tensor.shape]
    if not longer or len(longer) == len(tensors):
        return [tensor.dtype for tensor in tensors]
    common = promote(*longer)
    return [tensor.dtype if tensor.shape or kind(tensor.dtype) != kind(common) else common for tensor in tensors]


def _output_shape(output: Expr, present: Mapping[int, frozenset[int]], space: Shape) -> Shape:
    """Returns the whole space for an elementwise result; with reductions the axes along which it varies."""
    if not any(isinstance(node, Reduce) for node in walk((output,))):
        return space
    axes = axes_of(output, present, {})
    return tuple(size if axis in axes else 1 for axis, size in enumerate(space))


def program_row(name: str, program: Program) -> OpRow:
    """Returns an anonymous row that runs a program already built; call it with ``scalars=`` through ``call_row``."""
    return OpRow(name, inspect.Signature(), expression=lambda: program)


def bind_program(row: OpRow, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Bound:
    """Returns ``bind`` of a row of ``program_row``."""
    program: Program = row.expression()  # type: ignore[operator, misc]
    return Bound(program, args, dict(kwargs.get("scalars", {})))


def bound(row: OpRow, args: tuple[Any, ...], kwargs: Mapping[str, Any], record: Record | None = None) -> Bound:
    """Returns ``bind`` or ``bind_program``, as the row needs; ``record`` is that of the call, None to look it up."""
    if row.name not in TABLE:
        return bind_program(row, args, kwargs)
    return bind(row, args, kwargs, known(row, args, kwargs) if record is None else record)


def check_out(name: str, out: Any, shape: Shape, dtype: str, engine: Any) -> bool:
    """Returns True if a result of this shape and dtype can be computed in ``out``, False if it must be converted. An
    ``out`` without elements takes the shape, as in PyTorch.

    Raises ShapeError for another shape, DTypeError if the result is not converted to the dtype of ``out``, such as
    floats to integers, and BackendMismatchError for a tensor of another engine.
    """
    if out.engine is not engine:
        raise BackendMismatchError(f"{name}: out lives on {out.engine.device_label}")
    if kind(dtype) > kind(out.dtype):
        raise DTypeError(f"{name}: expected out to take {dtype}, got a tensor of {out.dtype}")
    if out.shape != shape and not out.size:
        out.resize_(*shape)
    if out.shape != shape:
        raise ShapeError(f"{name}: expected out of shape {shape}, got {out.shape}; write out=netcl.empty(0)")
    return bool(out.dtype == dtype)


@lru_cache(maxsize=64)
def _converted(source: str, target: str) -> tuple[Expr]:
    return (cast(Load(0, source), target),)


@event
def assign(target: Any, source: Any) -> None:
    """Writes ``source`` (same shape and engine) into ``target``, converted to its dtype."""
    before_write(target, source)
    target.engine.run(_converted(source.dtype, target.dtype), (source,), out=(target,))
    flush((target,))


@event
def evaluate(
    outputs: Sequence[Expr], inputs: Sequence[Any], scalars: Mapping[str, float | int] | None = None, **kwargs: Any
) -> tuple[Any, ...]:
    """Runs expressions on the engine of ``inputs``: optimizer rules and other updates in place; never recorded."""
    if not inputs:
        raise ExpressionError("expressions without inputs have no engine to run on")
    before_write()
    results: tuple[Any, ...] = inputs[0].engine.run(outputs, inputs, scalars, **kwargs)
    flush(kwargs.get("out") or ())
    return results


@event
def evaluate_each(
    outputs: Sequence[Expr],
    inputs: Sequence[Sequence[Any]],
    shared: Sequence[Any] = (),
    scalars: Mapping[str, float | int] | None = None,
    **kwargs: Any,
) -> list[tuple[Any, ...]]:
    """``evaluate`` on ``(*one, *shared)`` for each ``one`` of ``inputs``, which are on one engine and have the same
    dtypes; one launch where the device's kernels take as many arguments.

    No tensor may be written for one and read or written for another.
    """
    if not inputs:
        return []
    before_write()
    results: list[tuple[Any, ...]] = inputs[0][0].engine.run_each(outputs, inputs, shared, scalars, **kwargs)
    flush(chain.from_iterable(kwargs.get("out") or ()))
    return results


@event
def reduce_each(kind: str, expression: Expr, inputs: Sequence[Sequence[Any]], shared: Sequence[Any] = ()) -> Any:
    """Returns the reduction of ``expression`` over all elements of all of ``inputs`` in parts: a tensor of one
    dimension, which reduced by the same ``kind`` (sum, prod, max or min) is the whole.
    """
    if not inputs:
        raise ExpressionError("a reduction over no tensors has no engine to run on")
    before_write()
    return inputs[0][0].engine.reduce_each(kind, expression, inputs, shared)
