"""Runs the plan of a traced function's calls: each step as one program, as a call of its own, or as the epilogue of the
contraction before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from netcl.core.errors import KernelBuildError
from netcl.core.graph.call import LoggedCall, Op, Ref, replaced
from netcl.core.graph.epilogues import with_epilogue
from netcl.core.graph.region import Fused, Region, Value
from netcl.core.graph.schedule import PlannedCall
from netcl.core.ops_table import dispatch
from netcl.core.ops_table.program import Bound, set_shape
from netcl.core.ops_table.records import Record
from netcl.core.ops_table.table import OpRow
from netcl.core.tensor.deferred import make_alias, make_deferred, resolve
from netcl.core.tensor.tensor import Tensor

RowCall = tuple[OpRow, tuple[Any, ...], Mapping[str, Any]]
_NUMBERS_MAX = 4  # values of launch scalars that an epilogue is built for: they are constants in its kernel


class Materializer:
    """The steps of plans at work. ``needs_program``: every call is run as a program that ``compute`` sees."""

    needs_program = False
    relaxed: bool

    def materialize(self) -> None:
        """Computes what is deferred."""

    def keep(self, tensor: Any) -> None:
        """Has the deferred ``tensor`` computed: another tensor on its storage is made."""

    def _make_deferred(self, like: Any, number: int, value: Value) -> Any:
        """Returns a deferred tensor for a value, on the engine of the tensor ``like``."""
        return make_deferred(like, value.shape, value.dtype, self, number, value.requires_grad, value.node)

    def run_steps(
        self,
        steps: Sequence[PlannedCall],
        inputs: Sequence[Any],
        scalars: Sequence[Any],
        values: Sequence[Value],
        alive: Mapping[int, Any],
        call: RowCall | None,
    ) -> None:
        """Runs the steps of a log on its ``inputs`` and ``scalars``; ``alive`` are the tensors of its ``values`` that
        are needed. ``call`` is the log's only one.
        """
        made = dict(alive)  # by number

        def tensor_of(ref: Ref) -> Any:
            tensor = inputs[~ref.number] if ref.number < 0 else made[ref.number]
            return tensor if tensor.shape == ref.shape else tensor._alias(ref.shape)

        def result_of(ref: Ref) -> Any:
            if ref.number not in made:  # only a later step reads it
                made[ref.number] = self._make_deferred(inputs[0], ref.number, values[ref.number])
            return made[ref.number]

        for step in steps:
            tensors = [result_of(ref) for ref, _ in step.results]
            product = None if step.contraction is None else result_of(step.contraction.results)
            operands = [inputs[~ref.number] if ref.number < 0 else made[ref.number] for ref in step.inputs]
            numbers = {name: scalars[place] for name, place in step.scalars.items()}
            if step.program is None:
                assert step.call is not None
                assert step.call.op is not None
                self._run_contraction(step.call.op, tensor_of, tensors[0])
            elif product is not None and self._run_as_epilogue(step, operands, numbers, tensors, tensor_of, product):
                pass
            elif step.call is None:
                self._run_program(step.program, operands, numbers, tensors)
            else:
                self._run_call(step.call, inputs, scalars, values, made, call)
            for ref, source in step.aliases:
                if ref.number not in made:
                    made[ref.number] = self._make_deferred(inputs[0], ref.number, values[ref.number])
                self.make_alias(values[ref.number], made[ref.number], made[source.number])
            for number in step.last:
                if number not in alive:
                    made.pop(number, None)

    def _run_call(
        self,
        logged: LoggedCall,
        inputs: Sequence[Any],
        scalars: Sequence[Any],
        values: Sequence[Value],
        made: Mapping[int, Any],
        call: RowCall | None,
    ) -> None:
        """Runs a call that is fused with no other: the op as it always is."""
        assert logged.program is not None
        results = [values[ref.number] for ref in logged.results]
        tensors = [made.get(ref.number) for ref in logged.results]
        if call is not None and not (self.needs_program or any(value.requires_grad for value in results)):
            row, args, kwargs = call
            result = dispatch.execute(row, args, dict(kwargs))
            self._resolve_all(tensors, list(result) if isinstance(result, tuple) else [result])
            return
        operands = tuple([inputs[~ref.number] if ref.number < 0 else made[ref.number] for ref in logged.args[1]])
        numbers = {name: scalars[place] for name, place in logged.args[2].items()}
        self.compute(Bound(logged.program, operands, numbers), results, tensors)

    def _run_program(self, program: Fused, inputs: Sequence[Any], scalars: dict[str, Any], tensors: list[Any]) -> None:
        """Runs a program; ``tensors`` hold its first results, the others are for the gradient."""
        region = program.region
        values = [region.values[number] for number in program.results]
        placed = tuple([t if s is None else self.arrange(t, s) for t, s in zip(inputs, program.arranged)])
        try:
            self.compute(Bound(program, placed, scalars), values, [*tensors, *[None] * (len(values) - len(tensors))])
        except KernelBuildError:
            if self.relaxed:
                raise
            self._run_unfused(region, inputs, scalars, dict(zip(program.results, tensors)))

    def _run_contraction(self, op: Op, tensor_of: Callable[[Ref], Any], tensor: Any) -> None:
        """Runs a contraction by itself: the op as it always is."""
        args, kwargs = replaced(op.args, tensor_of), replaced(op.kwargs, tensor_of)
        resolve(tensor, dispatch.compute(op.row, args, kwargs, op.record))
        self.attach(op.row, args, kwargs, op.record, tensor)

    def _run_as_epilogue(
        self,
        step: PlannedCall,
        inputs: Sequence[Any],
        scalars: dict[str, Any],
        tensors: Sequence[Any],
        tensor_of: Callable[[Ref], Any],
        product: Any,
    ) -> bool:
        """Runs a program as the epilogue of its contraction, which gives ``product``. If that is not possible, as after
        ``scalars`` of many values, runs the contraction and returns False.
        """
        program, contraction, key = step.program, step.contraction, tuple(scalars.values())
        assert contraction is not None
        assert contraction.op is not None
        assert program is not None
        value = program.region.values[program.results[0]]
        if key not in step.epilogues and len(step.epilogues) < _NUMBERS_MAX:
            step.epilogues[key] = with_epilogue(
                contraction, program.region, step.inputs, value, step.results[0][0], scalars, not self.relaxed
            )
        call, op = step.epilogues.get(key), contraction.op
        if call is None:
            self._run_contraction(op, tensor_of, product)
            return False
        try:
            args, kwargs = replaced(call.args, tensor_of), replaced(call.kwargs, tensor_of)
            result = getattr(inputs[0].engine, call.method)(*args, **kwargs)
        except KernelBuildError:
            step.epilogues[key] = None
            return self._run_as_epilogue(step, inputs, scalars, tensors, tensor_of, product)
        self.attach(op.row, replaced(op.args, tensor_of), replaced(op.kwargs, tensor_of), op.record, product)
        set_shape(result, value.shape)
        placed = tuple([t if s is None else self.arrange(t, s) for t, s in zip(inputs, program.arranged)])
        self.compute(Bound(program, placed, scalars), [value], tensors, [result])
        return True

    def attach(self, row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any], record: Record, tensor: Any) -> None:
        """Gives a deferred ``tensor`` its place in the gradient graph: the result of a call with this ``record``."""

    def _run_unfused(
        self, region: Region, inputs: Sequence[Any], scalars: dict[str, Any], alive: Mapping[int, Any]
    ) -> None:
        """Runs the calls of a region one by one, if a driver does not compile its kernel."""
        held = dict(zip(region.inputs, inputs))
        for stage in region.stages:
            values = [region.values[number] for number in stage.results]
            for number, value in zip(stage.results, values):
                held[number] = alive[number] if number in alive else self._make_deferred(inputs[0], number, value)
            if stage.program is None:
                self.make_alias(values[0], held[stage.results[0]], held[stage.operands[0]])
            else:
                own = {old: scalars[new] for old, new in stage.names.items()}
                ready = Bound(stage.program, tuple([held[number] for number in stage.operands]), own)
                self.compute(ready, values, [held[number] for number in stage.results])

    def compute(
        self,
        ready: Bound,
        values: Sequence[Value],
        tensors: Sequence[Any],
        made: Sequence[Tensor] | None = None,
    ) -> list[Tensor]:
        """Runs a program, unless its results are ``made``, and resolves the deferred ``tensors`` (None: not needed)."""
        program = ready.program
        if made is not None:
            results = list(made)
        else:
            results = list(program.run(ready.inputs, ready.scalars) if isinstance(program, Fused) else ready.run())
        self._resolve_all(tensors, results)
        return results

    def _resolve_all(self, tensors: Sequence[Any], results: list[Tensor]) -> None:
        """Resolves the deferred ``tensors`` with ``results``, and replaces these by them."""
        for place, tensor in enumerate(tensors):
            if tensor is not None:
                resolve(tensor, results[place])
                results[place] = tensor

    def arrange(self, tensor: Any, shape: tuple[int, ...]) -> Any:
        """Returns an input in the shape that it has in the region's space."""
        return tensor.reshape(shape)

    def make_alias(self, value: Value, tensor: Tensor, source: Tensor) -> None:
        """Makes a deferred ``tensor`` an alias of ``source``, reshaped."""
        make_alias(tensor, source.detach().reshape(value.shape))
