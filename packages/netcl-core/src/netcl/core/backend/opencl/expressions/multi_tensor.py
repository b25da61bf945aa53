"""Multi-tensor apply: runs the same expressions on each of several sets of tensors, in as few launches as the device's
arguments allow.

OpenCL has no tables of buffers, so the buffers of all sets are arguments of one kernel, as many as
CL_DEVICE_MAX_PARAMETER_SIZE holds. A work-group finds in a table its set, its part of it and the set's length, takes
the set's buffers in a ``switch``, and runs the text that the code generator writes for one flat set. So the sets have
the same bits as one by one, and a driver compiles the rule once.

Missing buffers of a shorter list are filled up with the last ones to the next power of two, so that few texts are
built. If the expressions are neither elementwise nor flat, or there is a single set, the engine runs the sets one by
one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from netcl.core.backend.opencl.expressions.run import SCALAR_TYPES
from netcl.core.backend.opencl.queue.plans.execution_plan import ExecutionPlan, Step, keep
from netcl.core.dtypes import compute_type
from netcl.core.engine import one_by_one
from netcl.core.expr.kernel_source import Argument, KernelSource, Role
from netcl.core.expr.nodes import Expr, Index, Reduce, Scalar
from netcl.core.expr.opencl_c import render, scalars_of, uses_flag
from netcl.core.expr.rewrite import slots, walk
from netcl.core.expr.schedule import LONG_ITEM, MIN_ITEM, PIECE, WIDE
from netcl.core.expr.scopes import Layout
from netcl.core.layout import broadcast_shapes
from netcl.core.storage.data import TensorData
from netcl.core.storage.storage import Storage

if TYPE_CHECKING:
    from netcl.core.backend.opencl.queue.context import QueueContext

Shape = tuple[int, ...]

_SPARE_BYTES = 128  # of the largest size of a kernel's arguments
_ROW = 3  # numbers of a row of the table: set, part, length
_MOST_SETS = 64  # of a launch: its arguments are set while the device computes the launch before
_VECTORS = 4  # vectors of each work-item of a GPU: sets and pointers are looked up once for each group
_PARTS_EACH = 8  # parts that a compute unit of a CPU finds, so that one that falls behind leaves some to others


@dataclass(frozen=True)
class _Ready:
    """The launches for a list of sets, and the allocations of their tables. A launch takes the tensors of all sets in
    order, the shared tensors, and the launch scalars.
    """

    spaces: tuple[Shape, ...]
    plan: ExecutionPlan
    rows: int
    allocations: tuple[Any, ...]
    scalars: tuple[tuple[str, Any], ...]  # names and types


def run_each(
    engine: QueueContext,
    outputs: Sequence[Expr],
    inputs: Sequence[Sequence[TensorData]],
    shared: Sequence[TensorData] = (),
    scalars: Mapping[str, float | int] | None = None,
    *,
    out: Sequence[Sequence[TensorData]] | None = None,
) -> list[tuple[TensorData, ...]]:
    """Returns the results of each set; see DeviceBackend.run_each."""
    results = _in_few_launches(engine, outputs, inputs, shared, scalars or {}, out)
    return one_by_one.run_each(engine, outputs, inputs, shared, scalars, out=out) if results is None else results


def reduce_each(
    engine: QueueContext,
    kind: str,
    expression: Expr,
    inputs: Sequence[Sequence[TensorData]],
    shared: Sequence[TensorData] = (),
) -> TensorData:
    """Returns the parts of a reduction over all sets; see DeviceBackend.reduce_each."""
    parts = _reduced_in_few_launches(engine, kind, expression, inputs, shared)
    return one_by_one.reduce_each(engine, kind, expression, inputs, shared) if parts is None else parts


def _in_few_launches(
    engine: QueueContext,
    outputs: Sequence[Expr],
    inputs: Sequence[Sequence[TensorData]],
    shared: Sequence[TensorData],
    scalars: Mapping[str, float | int],
    out: Sequence[Sequence[TensorData]] | None,
) -> list[tuple[TensorData, ...]] | None:
    """Returns the results of each set; None if they must be computed one by one."""
    outputs = tuple(outputs)
    if len(inputs) < 2:
        return None
    in_place = _in_place(inputs, out)
    key = ("each", outputs, _shapes(inputs), tuple([t.shape for t in shared]), in_place)
    ready = engine.plans.get(key, _UNKNOWN)
    if ready is _UNKNOWN:
        ready = keep(engine, key, _elementwise(engine, outputs, inputs, shared, in_place))
    if ready is None:
        return None
    results: list[tuple[TensorData, ...]]
    if out is None:
        dtypes = [output.dtype for output in outputs]
        results = [tuple(engine.empty(space, dtype) for dtype in dtypes) for space in ready.spaces]
    else:
        results = [tuple(targets) for targets in out]
    tensors = [tensor for members, targets_of in zip(inputs, results) for tensor in (*members, *targets_of)]
    ready.plan.run(engine, [*tensors, *shared, *[kind(scalars[name]) for name, kind in ready.scalars]])
    for targets in out or ():
        for target in targets:
            storage = target._storage
            if type(storage) is Storage and storage.views is None:
                storage.version += 1
            else:
                storage.written()
    return results


def _reduced_in_few_launches(
    engine: QueueContext,
    kind: str,
    expression: Expr,
    inputs: Sequence[Sequence[TensorData]],
    shared: Sequence[TensorData],
) -> Any:
    """Returns the parts of a reduction over all sets; None if they must be computed one by one."""
    key = ("reduce each", kind, expression, _shapes(inputs), tuple([t.shape for t in shared]))
    ready = engine.plans.get(key, _UNKNOWN)
    if ready is _UNKNOWN:
        ready = keep(engine, key, _reduction(engine, Reduce(kind, expression, (0,)), inputs, shared))
    if ready is None:
        return None
    parts = engine.empty((ready.rows,), Reduce(kind, expression, (0,)).dtype)
    ready.plan.run(engine, [*(tensor for members in inputs for tensor in members), *shared, parts])
    return parts


_UNKNOWN = object()


_shape_of = attrgetter("shape")


def _shapes(inputs: Sequence[Sequence[TensorData]]) -> tuple[tuple[Shape, ...], ...]:
    shapes = []
    for members in inputs:
        shapes.append(tuple(map(_shape_of, members)))
    return tuple(shapes)


def _in_place(
    inputs: Sequence[Sequence[TensorData]], out: Sequence[Sequence[TensorData]] | None
) -> tuple[int | None, ...]:
    """Returns for each result the input that it overwrites in all sets, or None."""
    if out is None:
        return ()
    first = {id(tensor): column for column, tensor in enumerate(inputs[0])}
    columns = [first.get(id(target)) for target in out[0]]
    for members, targets in zip(inputs, out):
        for k, column in enumerate(columns):
            if column is not None and targets[k] is not members[column]:
                columns[k] = None
    return tuple(columns)


# -- planning ----------------------------------------------------------------------------------------------------------


def _flat(
    inputs: Sequence[Sequence[TensorData]], shared: Sequence[TensorData], outputs: Sequence[Expr]
) -> tuple[tuple[Shape, ...], dict[int, tuple[int, ...]]] | None:
    """Returns each set's space, and by slot the axes of a flat space along which it varies; None if one is not flat."""
    if any(tensor.size != 1 for tensor in shared):
        return None
    spaces = tuple(broadcast_shapes([tensor.shape for tensor in members], "run_each") for members in inputs)
    width = len(inputs[0])
    varies = [any(members[column].size != 1 for members in inputs) for column in range(width)]
    for members, space in zip(inputs, spaces):
        if any(tensor.size != (prod(space) if wide else 1) for tensor, wide in zip(members, varies)):
            return None
    return spaces, {slot: (0,) if slot < width and varies[slot] else () for slot in slots(outputs)}


def _elementwise(
    engine: QueueContext,
    outputs: tuple[Expr, ...],
    inputs: Sequence[Sequence[TensorData]],
    shared: Sequence[TensorData],
    in_place: tuple[int | None, ...],
) -> _Ready | None:
    flat = _flat(inputs, shared, outputs)
    if flat is None or uses_flag(outputs) or any(isinstance(node, (Reduce, Index)) for node in walk(outputs)):
        return None
    spaces, loads = flat
    target, lengths = engine.target, [prod(space) for space in spaces]
    group = target.flat_group
    layout = Layout(
        rank=1,
        loads=loads,
        outputs=((0,),) * len(outputs),
        reduced=(),
        width=target.width,
        group=group,
        cpu=target.is_cpu,
        aligned=True,
        narrow=not target.is_cpu and max(lengths) < WIDE,
        item="row_[1]",
        group_item="row_[1]",
    )
    width = len(inputs[0])
    columns = {f"in{slot}": slot for slot in loads if slot < width}
    for k in range(len(outputs)):
        place = in_place[k] if in_place else None
        columns[f"out{k}"] = width + k if place is None else place
    if target.is_cpu:
        fair = sum(lengths) // (_PARTS_EACH * target.units)
        each = -(-max(MIN_ITEM, min(LONG_ITEM, fair)) // target.width) * target.width
        chunks = "(row_[2] + each_ - 1) / each_"
        numbers = {"n0": "row_[2]", "rows": "1", "rows_each": "1", "chunk": "each_", "chunks": chunks}
    else:
        each = group * target.width * _VECTORS
        numbers = {"n0": "row_[2]", "chunk": "each_"}
    text = _Text(render(outputs, layout), columns, tuple(slot for slot in loads if slot >= width), numbers, group)
    return _ready(engine, text, spaces, each, (width, width + len(outputs)), len(shared), scalars_of(outputs))


def _reduction(
    engine: QueueContext, whole: Reduce, inputs: Sequence[Sequence[TensorData]], shared: Sequence[TensorData]
) -> _Ready | None:
    flat = _flat(inputs, shared, (whole,))
    special = (Reduce, Index, Scalar)
    if flat is None or uses_flag((whole,)) or any(isinstance(node, special) for node in walk((whole.arg,))):
        return None
    spaces, loads = flat
    target, width = engine.target, len(inputs[0])
    layout = Layout(
        rank=1,
        loads=loads,
        outputs=((0,),),
        reduced=(0,),
        width=target.width,
        group=target.group,
        split=0,
        cpu=target.is_cpu,
        aligned=True,
        narrow=not target.is_cpu and max(prod(space) for space in spaces) < WIDE,
        item="row_[1]",
        group_item="row_[1]",
    )
    columns = {f"in{slot}": slot for slot in loads if slot < width}
    parts = "(row_[2] + each_ - 1) / each_"
    numbers = {"n0": "row_[2]", "rows": parts, "rows_each": "1", "parts": parts, "part_size": "each_"}
    shared_slots = tuple(slot for slot in loads if slot >= width)
    text = _Text(render((whole,), layout), columns, shared_slots, numbers, target.group, parts=True)
    return _ready(engine, text, spaces, PIECE, (width, width), len(shared))


def _ready(
    engine: QueueContext,
    text: _Text,
    spaces: tuple[Shape, ...],
    each: int,
    widths: tuple[int, int],
    shared: int,
    scalar_parameters: Sequence[Scalar] = (),
) -> _Ready | None:
    """Returns the launches over sets of these spaces, with ``each`` elements per work-group; None if the kernel
    arguments cannot hold two sets. ``widths``: the tensors of a set that are read, and all of them; ``shared``: the
    tensors that all sets share.
    """
    members = [number for number, space in enumerate(spaces) if prod(space)]
    if not members or not text.columns:
        return None
    room = int(engine.launcher.device.max_parameter_size) - _SPARE_BYTES
    most = min(_MOST_SETS, (room - 8 * (4 + len(text.shared) + len(scalar_parameters))) // (8 * len(text.distinct)))
    if most < 2:
        return None
    scalars = tuple((s.name, SCALAR_TYPES[compute_type(s.dtype)]) for s in scalar_parameters)
    read, width = widths
    others = [len(spaces) * width + slot - read for slot in text.shared]
    others += range(len(spaces) * width + shared, len(spaces) * width + shared + text.parts + len(scalars))
    steps, allocations, rows = [], [], 0
    for start in range(0, len(members), most):
        chosen = members[start : start + most]
        places = min(most, 1 << (len(chosen) - 1).bit_length())
        table = _table([prod(spaces[number]) for number in chosen], each)
        allocation = engine.pool.allocate(table.nbytes, None, (table.shape, "int64"))
        allocation.keep = True  # a recording holds the buffer, not the allocation
        allocations.append(allocation)
        engine.transfer.upload(allocation.buffer, table, private=True)
        filled = [*chosen, *chosen[-1:] * (places - len(chosen))]
        tensors = (*(number * width + column for column in text.distinct for number in filled), *others)
        buffers = [None] * len(tensors)
        args = [allocation.buffer, np.uint64(each), np.uint64(rows), *buffers]
        name, source = text.kernel(places)
        size = len(table) * text.group
        prepared = engine.launcher.prepare(source, name, (size,), (text.group,), args, engine.build_options)
        steps.append(Step(prepared, tensors))
        rows += len(table)
    return _Ready(spaces, ExecutionPlan(tuple(steps)), rows, tuple(allocations), scalars)


def _table(lengths: Sequence[int], each: int) -> Any:
    """Returns a row for each work-group: its set, its part of it, and the length of the set."""
    rows = [(number, part, length) for number, length in enumerate(lengths) for part in range(-(-length // each))]
    return np.array(rows, np.uint64)


# -- text --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Text:
    """The kernel of one flat set, which ``kernel`` extends to several sets."""

    spec: KernelSource
    columns: Mapping[str, int]  # by the name of a parameter: the tensor of a set that it stands for
    shared: tuple[int, ...]  # slots of the tensors that all sets have in common
    numbers: Mapping[str, str]  # arguments of other kernels, computed here from the row and its ``each_`` elements
    group: int
    parts: bool = False  # True if each work-group writes one element of a result that all sets share

    @property
    def distinct(self) -> tuple[int, ...]:
        """The tensors of a set that become parameters, without repetition."""
        return tuple(dict.fromkeys(self.columns.values()))

    def kernel(self, places: int) -> tuple[str, str]:
        """Returns the name and the text of the kernel for ``places`` sets."""
        spec = self.spec
        by_name = {argument.name: argument for argument in spec.arguments}
        columns = {
            column: by_name[name] for name, column in self.columns.items()
        }  # outputs, which are written, come last
        arguments = [Argument(Role.READ, "ulong", "table")]
        arguments += [Argument(Role.SCALAR, "ulong", name) for name in ("each_", "before")]
        for column in self.distinct:
            arguments += [columns[column]._replace(name=f"p{column}_{k}") for k in range(places)]
        arguments += [by_name[f"in{slot}"] for slot in self.shared]
        if self.parts:
            arguments.append(by_name["out0"]._replace(name="all_parts"))
        arguments += [argument for argument in spec.arguments if argument.name.startswith("s_")]
        lines = [f"__global const ulong *row_ = table + get_group_id(0) * {_ROW};"]
        lines += [f"{by_name[name]};" for name in self.columns]
        lines.append("switch ((uint)row_[0]) {")
        for k in range(places):
            taken = " ".join(f"{name} = p{column}_{k};" for name, column in self.columns.items())
            lines.append(f"  {'default' if k == places - 1 else f'case {k}'}: {taken} break;")
        lines.append("}")
        if self.parts:
            lines.append(f"{by_name['out0']} = all_parts + before + get_group_id(0) - row_[1];")
        narrow = "_" if "n0_" in by_name else ""
        lines += [f"const ulong {name}{narrow} = {value};" for name, value in self.numbers.items()]
        lines.append(spec.statements)
        text = "\n    ".join(lines)
        params = [str(argument) for argument in arguments]
        digest = hashlib.sha256("\n".join([*params, spec.preamble, text]).encode()).hexdigest()[:10]
        whole = KernelSource(f"each_{digest}", tuple(arguments), spec.preamble, text, spec.attributes)
        return whole.name, whole.to_source()
