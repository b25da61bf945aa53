"""Runs the optimized steps of a captured call log, so that a second recording takes their launches.

The result of a step is released after its last use, so that the arena serves the same memory again: the second
recording needs memory for live tensors only, not for all that Python referenced during the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

from netcl.core.capture.labels import label_launches, label_merged
from netcl.core.dtypes import OBJECTS
from netcl.core.engine.interceptors import intercepted
from netcl.core.expr import Expr, Index, Reduce
from netcl.core.expr.rewrite import walk
from netcl.core.graph.call import Ref, is_expression, replaced, run_arguments, tensors_in
from netcl.core.graph.schedule import joined_label
from netcl.core.tensor.tensor import Tensor

if TYPE_CHECKING:
    from netcl.core.graph.schedule import PlannedCall


class _Storages:
    """Tensors by the number of their storage."""

    def __init__(self, engine: Any, outside: Mapping[int, Tensor]) -> None:
        self._engine = engine
        self.known: dict[int, Tensor] = dict(outside)

    def tensor(self, ref: Ref, shape: tuple[int, ...] | None = None) -> Tensor:
        """Returns the tensor of a Ref, in its shape or another; undefined content if it has not been written yet."""
        shape = ref.shape if shape is None else shape
        if ref.number not in self.known:
            self.known[ref.number] = self._engine.empty(ref.shape, ref.dtype)
        known = self.known[ref.number]
        if known.shape == shape and known.dtype == ref.dtype:
            return known
        other = known._alias(shape)
        other.dtype = OBJECTS[ref.dtype]
        return other


def rerecord(
    engine: Any, parts: Sequence[Sequence[Sequence[PlannedCall]]], outside: Mapping[int, Tensor], live: Iterable[int]
) -> dict[int, Tensor]:
    """Runs the steps of all ``parts`` on ``engine``, which records; the tensors of ``live`` and ``outside`` numbers.

    Steps of one list are independent.
    """
    storages = _Storages(engine, outside)
    last: dict[int, int] = {}
    for at, together in enumerate(chain.from_iterable(parts)):
        for step in together:
            last.update(dict.fromkeys(step.reads | step.writes, at))
    staying = {*live, *outside}
    recording = engine.recording
    recording.merges = True
    count, begin = 0, 0
    for part in parts:
        if part is not parts[0]:
            _merge(recording, begin)
            recording.part()
            recording.merges, begin = True, len(recording)
        for together in part:
            for step in _each(engine, together, storages):
                first = len(recording)
                _run(engine, step, storages)
                label_launches(recording, first, step.label)
            for number in {number for step in together for number in step.reads | step.writes}:
                if last[number] == count and number not in staying:
                    storages.known.pop(number, None)
            count += 1
    _merge(recording, begin)
    return storages.known


def _merge(recording: Any, begin: int) -> None:
    """Merges the launches of the last part, which begins at ``begin``; a merged one has the labels of its launches."""
    records = list(recording._records[begin:])
    recording.merge()
    label_merged(recording, records, begin)


def _each(engine: Any, together: Sequence[PlannedCall], storages: _Storages) -> Iterator[PlannedCall]:
    """Runs neighbours of one expression of one tensor, such as the casts of parameters, by multi-tensor apply; yields
    the others.
    """
    for expressions, group in groupby(together, key=_conversion):
        steps = list(group)
        if expressions is None or len(steps) == 1:
            yield from steps
            continue
        refs = [
            (next(tensors_in(step.call.args[1])), next(tensors_in(step.call.results))) for step in steps if step.call
        ]
        first = len(engine.recording)
        made = engine.run_each(expressions, [(storages.tensor(source),) for source, _ in refs])
        label_launches(engine.recording, first, joined_label(step.label for step in steps))
        for (_, ref), (tensor,) in zip(refs, made):
            storages.known.setdefault(ref.number, tensor)


def _conversion(step: PlannedCall) -> tuple[Expr, ...] | None:
    """Returns the expressions of a call that makes one new tensor from one of the same shape."""
    if step.call is None or not is_expression(step.call):
        return None
    outputs, inputs, scalars, shapes, out = run_arguments(step.call)
    made = list(tensors_in(step.call.results))
    plain = len(outputs) == len(inputs) == len(made) == 1 and not scalars and not any(out)
    if (
        not plain
        or inputs[0].shape != made[0].shape
        or any(isinstance(node, (Index, Reduce)) for node in walk(outputs))
    ):
        return None
    return outputs


def _run(engine: Any, step: PlannedCall, storages: _Storages) -> None:
    call, program = step.call, step.program
    if call is not None:
        args, kwargs = replaced(call.args, storages.tensor), replaced(call.kwargs, storages.tensor)
        # Methods take what the protocol knows; ``half`` (float32_operands.py) and ``keeps`` (unread.py) are for kernel
        # modules alone.
        named = "half" in kwargs or "keeps" in kwargs
        made: Any = (
            intercepted(engine, call.method, args, kwargs) if named else getattr(engine, call.method)(*args, **kwargs)
        )
        refs: Iterable[Ref] = tensors_in(call.results)
    else:
        assert program is not None
        inputs = [storages.tensor(ref, shape) for ref, shape in zip(step.inputs, program.arranged)]
        out = [storages.tensor(ref) if in_place else None for ref, in_place in step.results]
        made = engine.run(program.outputs, inputs, step.scalars, shapes=program.shapes, out=out)
        refs = [ref for ref, _ in step.results]
    for ref, tensor in zip(refs, tensors_in(made)):
        storages.known.setdefault(ref.number, tensor)


__all__ = ["rerecord"]
