"""The tracer: takes calls of the op table into a region instead of running them, and settles it when a value is due.

A call that fits makes pending tensors. One that does not fit ends the region: what is alive of its results is computed
by one program, and the call goes on with ordinary tensors, in a region of its own or at once. So a traced function does
what it always does, with fewer kernels; reading a value, writing in place and other devices end a region too.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from netcl.core import dispatch
from netcl.core.errors import KernelBuildError, NetclError, UnsupportedError
from netcl.core.fusion import Cache, Fused, Move, Region, Value
from netcl.core.joining import alias, extend
from netcl.core.optable import TABLE, Operand, OpRow
from netcl.core.pending import Pending, fulfil, give_up, lock, pending_class, promise, rename, work_of
from netcl.core.program import Bound, bound
from netcl.core.tensor import Tensor

NOT_TRACED: Any = object()
_WRITING = ("setitem",)
_NUMBERS = (float, int, bool)
_PENDING = {Tensor: pending_class(Tensor)}


class Trace:
    """One run of a traced function. ``call`` is given each call of the op table; ``settle`` ends the region.

    ``node_class`` is what recorded calls give. ``refused`` are names of rows that stay on their own. A subclass may
    take part in ``compute``; ``needs_program``: it wants to see every program.
    """

    needs_program = False

    def __init__(
        self,
        cache: Cache,
        relaxed: bool = False,
        node_class: type[Tensor] = Tensor,
        refused: Sequence[str] | set[str] = (),
    ) -> None:
        self.cache = cache
        self.relaxed = relaxed
        self._refused = refused
        self._classes = (Tensor, node_class)
        self._pending = (_PENDING[Tensor], _PENDING.get(node_class) or pending_class(node_class))
        _PENDING[node_class] = self._pending[1]
        self._engine: Any = None
        self._begin()

    def _begin(self) -> None:
        self._engine = None
        self._region: Region | None = None
        self._inputs: list[Any] = []
        self._versions: list[int] = []
        self._known: dict[int, int] = {}
        self._scalars: list[Any] = []
        self._promised: list[tuple[int, Any]] = []
        self._first: tuple[OpRow, tuple[Any, ...], Mapping[str, Any]] | None = None

    # -- calls ---------------------------------------------------------------------------------------------------------

    def call(self, row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any], node: bool, recorded: bool) -> Any:
        """What the call gives, pending; or NOT_TRACED, when its arguments are ordinary tensors and it has to be run.

        ``node``: it gives nodes. ``recorded``: gradients flow through it.
        """
        with lock:
            return self._call(row, args, kwargs, node, recorded)

    def _call(self, row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any], node: bool, recorded: bool) -> Any:
        if "out" in kwargs or row.name in _WRITING or dispatch._pooled:
            self.settle()
            return NOT_TRACED
        if row.expression is None:
            if row.name == "reshape":
                found = self._alias(args, kwargs, node, recorded)
                if found is not NOT_TRACED:
                    return found
            touch(args)
            touch(tuple(kwargs.values()))
            return NOT_TRACED
        if not kwargs and row.leading and len(args) == len(row.operands):
            found = self._plain(row, args, node, recorded)
        else:
            found = self._bound(row, args, kwargs, node, recorded)
        if found is NOT_TRACED:
            touch(args)
            touch(tuple(kwargs.values()))
        return found

    def _plain(self, row: OpRow, args: tuple[Any, ...], node: bool, recorded: bool) -> Any:
        """A call of operands alone: looked up without binding its arguments."""
        key: list[Any] = [row, node, recorded]
        fresh: dict[int, Any] = {}
        for value in args:
            if isinstance(value, Operand):
                ref = self._ref(value, fresh)
                if ref is None:
                    return self._again(row, args, {}, node, recorded)
                key.append(ref)
                if type(ref) is tuple:
                    key.append((value.shape, value.dtype))
            elif value is None or type(value) in _NUMBERS:
                key.append(type(value))
            else:
                return self._bound(row, args, {}, node, recorded)
        found = tuple(key)
        region = self._region or self._start(fresh)
        if region is None:
            return NOT_TRACED
        if found in region.moves:
            move = region.moves[found]
        else:
            ready = bound(row, args, {})
            refs = [ref for ref in key[3:] if type(ref) is int or (type(ref) is tuple and type(ref[0]) is int)]
            move = self._new_move(region, found, row, ready, refs, node, recorded)
            if move is not None:
                numbers = _numbers(ready.scalars, args)
                move = region.moves[found] = Move(move.region, move.results, move.single, numbers)
        if move is None:
            return self._again(row, args, {}, node, recorded)
        if not region.stages:
            self._first = row, args, {}
        scalars = [value if place < 0 else args[place] for place, value in move.numbers]
        return self._take(move, fresh, scalars)

    def _bound(self, row: OpRow, args: tuple[Any, ...], kwargs: Mapping[str, Any], node: bool, recorded: bool) -> Any:
        """A call with attributes, keywords or arrays."""
        ready = bound(row, args, kwargs)
        fresh: dict[int, Any] = {}
        refs = [self._ref(tensor, fresh) for tensor in ready.inputs]
        if None in refs:
            return self._again(row, args, kwargs, node, recorded)
        region = self._region or self._start(fresh)
        if region is None:
            return NOT_TRACED
        key = (ready.program, node, recorded, *refs)
        if key in region.moves:
            move = region.moves[key]
        else:
            move = self._new_move(region, key, row, ready, refs, node, recorded)
        if move is None:
            return self._again(row, args, kwargs, node, recorded)
        if not region.stages:
            self._first = row, args, kwargs
        return self._take(move, fresh, list(ready.scalars.values()))

    def _again(self, row: OpRow, args: tuple[Any, ...], kwargs: Mapping[str, Any], node: bool, recorded: bool) -> Any:
        """Ends the region and begins the next one with this call; a call that fits into no region is run."""
        if self._region is None or not self._region.stages:
            self._begin()
            return NOT_TRACED
        self._settle_all()
        return self._call(row, args, dict(kwargs), node, recorded)

    def _start(self, fresh: Mapping[int, Any]) -> Region | None:
        for tensor in fresh.values():
            self._engine = tensor.engine
            self._region = self.cache.root(tensor.engine)
            return self._region
        return None

    def _ref(self, value: Any, fresh: dict[int, Any]) -> Any:
        """What stands for a tensor in a key: its number in the region, or for a new input (place, requires_grad).

        None for a tensor on another engine than the region.
        """
        if isinstance(value, Pending):
            work, number = work_of(value)
            if work is self:
                return number
            work.settle()
        number_known = self._known.get(id(value))
        if number_known is not None:
            return number_known
        engine = self._engine
        for other in fresh.values() if engine is None else ():
            engine = other.engine
        if engine is not None and value.engine is not engine:
            return None
        if id(value) not in fresh:
            fresh[id(value)] = value
        return [*fresh].index(id(value)), value.requires_grad

    def _new_move(
        self, region: Region, key: Any, row: OpRow, ready: Bound, refs: Sequence[Any], node: bool, recorded: bool
    ) -> Move | None:
        move = None
        if TABLE.get(row.name) is row and row.name not in self._refused:
            engine = ready.inputs[0].engine
            move = extend(region, row.name, ready, refs, recorded, node, engine.name == "cpu")
            if move is not None and region.stages:
                fresh = [(place, tensor.requires_grad) for place, tensor in enumerate(ready.inputs)]
                alone = extend(Region(), row.name, ready, fresh, recorded, node, False)
                if alone is not None and not self.joins(engine, region, move.region, alone.region):
                    move = None
        self.cache.keep(region, key, move)
        return move

    def _alias(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], node: bool, recorded: bool) -> Any:
        """A reshape of a pending tensor that only adds or drops dimensions of one: pending too."""
        if len(args) != 2 or kwargs or not isinstance(args[0], Pending) or self._region is None:
            return NOT_TRACED
        work, number = work_of(args[0])
        shape = args[1]
        if work is not self or not isinstance(shape, (tuple, list)) or any(type(n) is not int or n < 0 for n in shape):
            return NOT_TRACED
        key = ("reshape", number, tuple(shape), node, recorded)
        if key not in self._region.moves:
            self.cache.keep(self._region, key, alias(self._region, number, tuple(shape), recorded, node))
        move = self._region.moves[key]
        return NOT_TRACED if move is None else self._take(move, {}, [])

    def _take(self, move: Move, fresh: Mapping[int, Any], scalars: Sequence[Any]) -> Any:
        """The region after ``move``, and its results as pending tensors."""
        region = move.region
        if fresh:
            start = len(self._inputs)
            for place, tensor in enumerate(fresh.values()):
                self._known[id(tensor)] = region.inputs[start + place]
                self._inputs.append(tensor)
                self._versions.append(tensor.version)
        self._region = region
        self._scalars.extend(scalars)
        made = []
        for number, value in move.results:
            tensor = self._promise(self._engine, number, value)
            self._promised.append((number, weakref.ref(tensor)))
            made.append(tensor)
        return made[0] if move.single else tuple(made)

    def _promise(self, engine: Any, number: int, value: Value) -> Any:
        """A pending tensor for a value of the region."""
        classes = self._classes[value.node], self._pending[value.node]
        return promise(*classes, engine, value.shape, value.dtype, self, number, value.requires_grad)

    # -- the end of a region -------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Computes what is alive of the region's results; the next call begins another."""
        with lock:
            self._settle_all()

    def _settle_all(self) -> None:
        region, inputs, versions, scalars = self._region, self._inputs, self._versions, self._scalars
        call = self._first
        alive = [(number, tensor) for number, ref in self._promised if (tensor := ref()) is not None]
        self._begin()
        if region is None or not alive:
            return
        try:
            for tensor, version in zip(inputs, versions):
                if tensor.version != version:
                    raise UnsupportedError(
                        f"a tensor of shape {tensor.shape} was overwritten while a traced function still had to read "
                        "it; write into it through netcl, or outside of the function"
                    )
            self._settle(region, inputs, dict(zip(region.scalars, scalars)), alive, call)
        except BaseException as error:
            for _, tensor in alive:
                if isinstance(tensor, Pending):
                    give_up(tensor, error)
            raise

    def abandon(self, error: BaseException) -> None:
        """Settles after the traced function has raised ``error``: what outlives the function is as it was left there.

        What cannot be computed raises when it is touched, so that ``error`` itself is not hidden.
        """
        try:
            self.settle()
        except (NetclError, RuntimeError, MemoryError) as later:
            error.__context__ = error.__context__ or later

    def _settle(
        self,
        region: Region,
        inputs: Sequence[Any],
        scalars: dict[str, Any],
        alive: Sequence[tuple[int, Any]],
        call: tuple[OpRow, tuple[Any, ...], Mapping[str, Any]] | None,
    ) -> None:
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
        if len(region.stages) == 1 and call is not None and not self.relaxed:  # the op as it always is
            self._compute_one(region, call, dict(first.values()))
        else:
            self._compute_all(region, inputs, scalars, dict(first.values()))
        for value, tensor, source in others:
            self.rename(value, tensor, source)

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
                held[number] = alive[number] if number in alive else self._promise(inputs[0].engine, number, value)
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

    def compute(self, ready: Bound, values: Sequence[Value], tensors: Sequence[Any]) -> list[Tensor]:
        """Runs a program and gives its results to the pending ``tensors`` (None: not needed); returns these, or what
        takes their place.
        """
        program = ready.program
        results = list(program.run(ready.inputs, ready.scalars) if isinstance(program, Fused) else ready.run())
        self._hand_out(values, tensors, results)
        return results

    def _hand_out(self, values: Sequence[Value], tensors: Sequence[Any], results: list[Tensor]) -> None:
        """Puts the pending ``tensors`` in the place of ``results``, with their storage."""
        for place, (value, tensor) in enumerate(zip(values, tensors)):
            if tensor is not None:
                fulfil(tensor, self._classes[value.node], results[place])
                results[place] = tensor

    def arrange(self, tensor: Any, shape: tuple[int, ...]) -> Any:
        """An input in the shape that it has in the region's space."""
        return tensor.reshape(shape)

    def rename(self, value: Value, tensor: Tensor, source: Tensor) -> None:
        """Makes a pending ``tensor`` the reshape of ``source`` that it was called as."""
        rename(tensor, self._classes[value.node], source.detach().reshape(value.shape))


def _numbers(scalars: Mapping[str, Any], args: Sequence[Any]) -> tuple[tuple[int, Any], ...]:
    """Launch scalars by their place among the arguments; (-1, value) for one that is always the same."""
    places = {f"v{place}": place for place, value in enumerate(args) if type(value) in _NUMBERS}
    return tuple((places.get(name, -1), value) for name, value in scalars.items())


def touch(values: Sequence[Any]) -> None:
    """Settles what is pending among arguments, lists of tensors included."""
    for value in values:
        if isinstance(value, Pending):
            work_of(value)[0].settle()
        elif isinstance(value, (list, tuple)):
            touch(value)


__all__ = ["NOT_TRACED", "Trace", "touch"]
