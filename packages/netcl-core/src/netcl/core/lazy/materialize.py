"""The end of a region: what is alive of its results is computed by one program, or by the contraction before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from netcl.core.errors import KernelBuildError
from netcl.core.lazy.deferred_gemm import as_epilogue, contraction_of
from netcl.core.lazy.region import Cache, Fused, Region, Value
from netcl.core.ops_table import dispatch
from netcl.core.ops_table.program import Bound, Program, bound, set_shape
from netcl.core.ops_table.table import OpRow
from netcl.core.tensor.deferred import fulfil, is_deferred, promise, rename
from netcl.core.tensor.tensor import Tensor


class Settling:
    """What a trace does with a region. ``needs_program``: it wants to see every program."""

    needs_program = False

    def __init__(self, cache: Cache, relaxed: bool) -> None:
        self.cache = cache
        self.relaxed = relaxed

    def settle(self) -> None:
        """Computes what is deferred."""

    def keep(self, tensor: Any) -> None:
        """Has the deferred ``tensor`` computed: another tensor on its storage is made."""

    def _promise(self, like: Any, number: int, value: Value) -> Any:
        """A deferred tensor for a value of the region, on the engine of the tensor ``like``."""
        return promise(like, value.shape, value.dtype, self, number, value.requires_grad, value.node)

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
        if self._finish(region, inputs, scalars, dict(first.values())):
            pass
        elif len(region.stages) == 1 and call is not None and not self.relaxed:  # the op as it always is
            self._compute_one(region, call, dict(first.values()))
        else:
            self._compute_all(region, inputs, scalars, dict(first.values()))
        for value, tensor, source in others:
            self.rename(value, tensor, source)

    def _finish(self, region: Region, inputs: Sequence[Any], scalars: dict[str, Any], alive: Mapping[int, Any]) -> bool:
        """Computes a region as the epilogue of a contraction whose result nobody else reads; False where it is none."""
        slots = [slot for slot, tensor in enumerate(inputs) if is_deferred(tensor)]
        found = [(slot, one) for slot in slots if (one := contraction_of(inputs[slot])) is not None and not one.is_held]
        if not found:
            return False
        numbers = self.results(inputs[0].engine, region, tuple(alive))
        slot, contraction = found[-1]
        if len(numbers) != 1:
            return False
        value = region.values[numbers[0]]
        program = self.cache.program(region, numbers, self.relaxed)
        if program.arranged[slot] is not None or not self.spares(program, inputs, value, slot):
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
        found = dispatch.execute(row, args, dict(kwargs))
        self._hand_out(values, tensors, list(found) if isinstance(found, tuple) else [found])

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
            self._compute_apart(region, inputs, scalars, alive)

    def _compute_apart(
        self, region: Region, inputs: Sequence[Any], scalars: dict[str, Any], alive: Mapping[int, Any]
    ) -> None:
        """The calls of a region one by one, where a driver does not compile its kernel."""
        held = dict(zip(region.inputs, inputs))
        for stage in region.stages:
            values = [region.values[number] for number in stage.results]
            for number, value in zip(stage.results, values):
                held[number] = alive[number] if number in alive else self._promise(inputs[0], number, value)
            if stage.program is None:
                self.rename(values[0], held[stage.results[0]], held[stage.operands[0]])
            else:
                own = {old: scalars[new] for old, new in stage.names.items()}
                ready = Bound(stage.program, tuple([held[number] for number in stage.operands]), own)
                self.compute(ready, values, [held[number] for number in stage.results])

    def results(self, engine: Any, region: Region, alive: tuple[int, ...]) -> tuple[int, ...]:
        """The results to compute where ``alive`` are asked for; a subclass may keep others beside them."""
        return alive

    def joins(self, engine: Any, before: Region, after: Region, alone: Region) -> bool:
        """Whether a call may go into a region; ``alone`` is a region of that call alone."""
        return True

    def spares(self, program: Program, inputs: Sequence[Any], value: Value, slot: int) -> bool:
        """Whether nobody reads input ``slot`` later, so that it need not be stored; ``value`` is the one result."""
        return True

    def compute(
        self,
        ready: Bound,
        values: Sequence[Value],
        tensors: Sequence[Any],
        made: Sequence[Tensor] | None = None,
    ) -> list[Tensor]:
        """Runs a program, unless its results are ``made``, and gives them to the pending ``tensors`` (None: not
        needed); returns these, or what takes their place.
        """
        program = ready.program
        if made is not None:
            results = list(made)
        else:
            results = list(program.run(ready.inputs, ready.scalars) if isinstance(program, Fused) else ready.run())
        self._hand_out(values, tensors, results)
        return results

    def _hand_out(self, values: Sequence[Value], tensors: Sequence[Any], results: list[Tensor]) -> None:
        """Puts the pending ``tensors`` in the place of ``results``, with their storage."""
        for place, tensor in enumerate(tensors):
            if tensor is not None:
                fulfil(tensor, results[place])
                results[place] = tensor

    def arrange(self, tensor: Any, shape: tuple[int, ...]) -> Any:
        """An input in the shape that it has in the region's space."""
        return tensor.reshape(shape)

    def rename(self, value: Value, tensor: Tensor, source: Tensor) -> None:
        """Makes a pending ``tensor`` the reshape of ``source`` that it was called as."""
        rename(tensor, source.detach().reshape(value.shape))


__all__ = ["Settling"]
