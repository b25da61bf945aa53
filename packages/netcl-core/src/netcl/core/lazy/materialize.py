"""Materializes a region (a fusion group): computes its live results by one program, or as the epilogue of the preceding
contraction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from netcl.core.errors import KernelBuildError
from netcl.core.lazy.deferred_gemm import as_epilogue, contraction_of
from netcl.core.lazy.region import Cache, Fused, Region, Value
from netcl.core.ops_table import dispatch
from netcl.core.ops_table.program import Bound, Program, bound, set_shape
from netcl.core.ops_table.table import OpRow
from netcl.core.tensor.deferred import is_deferred, make_alias, make_deferred, resolve
from netcl.core.tensor.tensor import Tensor


class Materializer:
    """The materialization of a trace's regions. ``needs_program``: every call is run as a program that ``compute``
    sees.
    """

    needs_program = False

    def __init__(self, cache: Cache, relaxed: bool) -> None:
        self.cache = cache
        self.relaxed = relaxed

    def materialize(self) -> None:
        """Computes what is deferred."""

    def keep(self, tensor: Any) -> None:
        """Has the deferred ``tensor`` computed: another tensor on its storage is made."""

    def _make_deferred(self, like: Any, number: int, value: Value) -> Any:
        """Returns a deferred tensor for a value of the region, on the engine of the tensor ``like``."""
        return make_deferred(like, value.shape, value.dtype, self, number, value.requires_grad, value.node)

    def compute_region(
        self,
        region: Region,
        inputs: Sequence[Any],
        scalars: dict[str, Any],
        alive: Sequence[tuple[int, Any]],
        call: tuple[OpRow, tuple[Any, ...], Mapping[str, Any]] | None,
    ) -> None:
        """Computes the results ``alive`` of a region; ``call`` is the first of its calls."""
        first: dict[int, Any] = {}
        others: list[tuple[Value, Any, Any]] = []
        for number, tensor in alive:
            root = number
            while (parent := region.values[root].alias) is not None:
                root = parent
            if root in first:
                others.append((region.values[number], tensor, first[root][1]))
            else:
                first[root] = (number, tensor)
        if self._materialize_as_epilogue(region, inputs, scalars, dict(first.values())):
            pass
        elif len(region.stages) == 1 and call is not None and not self.relaxed:  # the op as it always is
            self._compute_one(region, call, dict(first.values()))
        else:
            self._compute_all(region, inputs, scalars, dict(first.values()))
        for value, tensor, source in others:
            self.make_alias(value, tensor, source)

    def _materialize_as_epilogue(
        self, region: Region, inputs: Sequence[Any], scalars: dict[str, Any], alive: Mapping[int, Any]
    ) -> bool:
        """Computes a region as the epilogue of a contraction with no other reader; False if it cannot."""
        slots = [slot for slot, tensor in enumerate(inputs) if is_deferred(tensor)]
        candidates = [
            (slot, deferred)
            for slot in slots
            if (deferred := contraction_of(inputs[slot])) is not None and not deferred.is_referenced
        ]
        if not candidates:
            return False
        numbers = self.results(inputs[0].engine, region, tuple(alive))
        slot, contraction = candidates[-1]
        if len(numbers) != 1:
            return False
        value = region.values[numbers[0]]
        program = self.cache.program(region, numbers, self.relaxed)
        if program.arranged[slot] is not None or not self.is_last_use(program, inputs, value, slot):
            return False
        exact = not self.relaxed
        epilogue = as_epilogue(contraction, slot, region, numbers[0], inputs, scalars, exact)
        if epilogue is None:
            return False
        placed = [t if s is None else self.arrange(t, s) for t, s in zip(inputs, program.arranged)]
        try:
            result = contraction.launch(epilogue)
        except KernelBuildError:
            return False
        set_shape(result, value.shape)
        self.compute(Bound(program, tuple(placed), scalars), [value], [alive.get(numbers[0])], [result])
        return True

    def _compute_one(
        self, region: Region, call: tuple[OpRow, tuple[Any, ...], Mapping[str, Any]], alive: Mapping[int, Any]
    ) -> None:
        results = region.stages[0].results
        values = [region.values[number] for number in results]
        tensors = [alive.get(number) for number in results]
        if self.needs_program or any(value.requires_grad for value in values):
            self.compute(bound(*call), values, tensors)
            return
        row, args, kwargs = call
        result = dispatch.execute(row, args, dict(kwargs))
        self._resolve_all(values, tensors, list(result) if isinstance(result, tuple) else [result])

    def _compute_all(
        self, region: Region, inputs: Sequence[Any], scalars: dict[str, Any], alive: Mapping[int, Any]
    ) -> None:
        numbers = self.results(inputs[0].engine, region, tuple(alive))
        program = self.cache.program(region, numbers, self.relaxed)
        placed = tuple([t if s is None else self.arrange(t, s) for t, s in zip(inputs, program.arranged)])
        tensors = [alive.get(number) for number in numbers]
        try:
            self.compute(Bound(program, placed, scalars), [region.values[r] for r in numbers], tensors)
        except KernelBuildError:
            if self.relaxed:
                raise
            self._compute_unfused(region, inputs, scalars, alive)

    def _compute_unfused(
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

    def results(self, engine: Any, region: Region, alive: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the results to compute if ``alive`` are needed; a subclass may add others."""
        return alive

    def may_fuse(self, engine: Any, before: Region, after: Region, alone: Region) -> bool:
        """True if a call may be fused into a region; ``alone`` is a region of that call alone."""
        return True

    def is_last_use(self, program: Program, inputs: Sequence[Any], value: Value, slot: int) -> bool:
        """True if input ``slot`` has no later reader, so that it need not be stored; ``value`` is the one result."""
        return True

    def compute(
        self,
        ready: Bound,
        values: Sequence[Value],
        tensors: Sequence[Any],
        made: Sequence[Tensor] | None = None,
    ) -> list[Tensor]:
        """Runs a program, unless its results are ``made``, and resolves the deferred ``tensors`` (None: not
        needed) with them; returns the tensors.
        """
        program = ready.program
        if made is not None:
            results = list(made)
        else:
            results = list(program.run(ready.inputs, ready.scalars) if isinstance(program, Fused) else ready.run())
        self._resolve_all(values, tensors, results)
        return results

    def _resolve_all(self, values: Sequence[Value], tensors: Sequence[Any], results: list[Tensor]) -> None:
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
