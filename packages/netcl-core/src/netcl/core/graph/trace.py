"""The trace of a function: the log of its calls, which are computed when a value is used.

A call of an expression row is logged, and returns deferred tensors. At a boundary the log ends: when a value is read, a
tensor written, or at a call that cannot be logged and needs one of its values. The log is the key of its plan, so only
a log that is new goes through the passes (``fuse.py``, ``schedule.py``), as the log of a captured step does.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from netcl.core.errors import NetclError, UnsupportedError
from netcl.core.expr import Load
from netcl.core.graph.call import LoggedCall, Ref, replaced
from netcl.core.graph.contractions import CONTRACTIONS, described
from netcl.core.graph.fuse import Fusion, Rules, Traced
from netcl.core.graph.legality import extend, wide
from netcl.core.graph.materialize import Materializer, RowCall
from netcl.core.graph.region import LAST, Fused, Region, Value
from netcl.core.graph.schedule import PlannedCall
from netcl.core.ops_table import dispatch
from netcl.core.ops_table.program import Bound, Program, bound
from netcl.core.ops_table.records import call_key
from netcl.core.ops_table.table import TABLE, OpRow
from netcl.core.storage.data import TensorData
from netcl.core.tensor.deferred import computation_of, force, is_deferred, lock, set_error

NOT_TRACED: Any = object()
MAX_CALLS = 64  # of a log
MAX_PLANS = 256  # of a function
_WRITING = ("setitem",)
_NUMBERS = (float, int, bool)
_NO_REGION = (LAST,)  # the axes of a value that is the result of a contraction


@dataclass(frozen=True, eq=False)
class Signature:
    """The description of the calls with one key: their program (None for a reshape or a contraction) and their results.

    ``requires`` has for each operand if it requires grad. ``numbers`` are launch scalars by their position among the
    arguments, or (-1, value). ``contraction`` has places among the operands for numbers, -1 for the result.
    """

    row: str
    program: Program | None
    node: bool
    recorded: bool
    requires: tuple[bool, ...]
    results: tuple[Value, ...]
    single: bool
    scalars: tuple[str, ...] = ()
    numbers: tuple[tuple[int, Any], ...] = ()
    contraction: LoggedCall | None = None


class Cache:
    """The signatures of a function's calls, None for a call that is run, and the plans of its logs."""

    def __init__(self) -> None:
        self.signatures: dict[Any, Signature | None] = {}
        self.plans: dict[Any, Sequence[PlannedCall]] = {}

    def keep_signature(self, key: Any, signature: Signature | None) -> Signature | None:
        """Keeps a signature, and forgets all if there are as many as make ``MAX_PLANS`` logs."""
        if len(self.signatures) >= MAX_PLANS * MAX_CALLS:
            self.signatures.clear()
            self.plans.clear()
        self.signatures[key] = signature
        return signature

    def keep_plan(self, key: Any, plan: Sequence[PlannedCall]) -> Sequence[PlannedCall]:
        """Keeps a plan, and forgets the others if they are ``MAX_PLANS``."""
        if len(self.plans) >= MAX_PLANS:
            self.plans.clear()
        self.plans[key] = plan
        return plan


class Trace(Materializer):
    """One run of a traced function. ``call`` is given each call of the op table; ``materialize`` ends the log.
    ``refused`` are names of rows that are not fused. A subclass may override ``compute``.
    """

    def __init__(self, cache: Cache, relaxed: bool = False, refused: Sequence[str] | set[str] = ()) -> None:
        self.cache = cache
        self.relaxed = relaxed
        self._refused = refused
        self._begin()

    def _begin(self) -> None:
        self._engine: Any = None
        self._log: list[Any] = []  # a signature, then the numbers of its operands: inputs from -1 downwards
        self._calls = 0
        self._inputs: list[Any] = []
        self._versions: list[int] = []
        self._known: dict[int, int] = {}
        self._values: list[Value] = []
        self._results: list[weakref.ref[Any]] = []
        self._scalars: list[Any] = []
        self._kept: list[Any] = []
        self._first: RowCall | None = None

    # -- calls ---------------------------------------------------------------------------------------------------------

    def call(self, row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any], node: bool, recorded: bool) -> Any:
        """Returns the deferred results of the call; or NOT_TRACED if it must be run, on arguments that are materialized
        then. ``node``: it is one of the recorded ops. ``recorded``: gradients flow through it.
        """
        with lock:
            result = self._call(row, args, kwargs, node, recorded)
            if result is NOT_TRACED:
                force(args)
                force(tuple(kwargs.values()))
            return result

    def _call(self, row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any], node: bool, recorded: bool) -> Any:
        if "out" in kwargs or row.name in _WRITING or dispatch._pooled:
            self.materialize()
            return NOT_TRACED
        if row.expression is None and row.name not in CONTRACTIONS:
            return self._reshape(args, kwargs, node, recorded) if row.name == "reshape" else NOT_TRACED
        if self._calls >= MAX_CALLS:
            self._materialize_all()
        count = len(self._inputs)
        try:
            look = self._contraction if row.expression is None else self._looked_up
            fitting = look(row, args, kwargs, node, recorded)
        except BaseException:
            self._forget_inputs(count)
            raise
        if fitting is None and self._calls:
            self._materialize_all()
            return self._call(row, args, kwargs, node, recorded)
        signature, refs, scalars = fitting or (None, [], [])
        if signature is None:
            self._forget_inputs(count)
            return NOT_TRACED
        if not self._calls:
            self._first = row, args, kwargs
        return self._logged(signature, refs, scalars)

    def _looked_up(
        self, row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any], node: bool, recorded: bool
    ) -> tuple[Signature | None, list[int], list[Any]] | None:
        """Returns the signature of a call, the numbers of its operands, and its launch scalars; None if a tensor fits
        into no place of this log.
        """
        if kwargs or not row.leading or len(args) != len(row.operands):
            return self._bound(row, args, kwargs, node, recorded)
        key: list[Any] = [row, node, recorded]  # of operands alone: looked up without binding the arguments
        refs = []
        for value in args:
            if isinstance(value, TensorData):
                number = self._number(value)
                if number is None:
                    return None
                refs.append(number)
                key += (value.shape, value.dtype, value._requires_grad)
            elif value is None or type(value) in _NUMBERS:
                key.append(type(value))
            else:
                return self._bound(row, args, kwargs, node, recorded)
        key.append(self._engine)
        whole = tuple(key)
        try:
            signature = self.cache.signatures[whole]
        except KeyError:
            ready = bound(row, args, {})
            signature = self._signature(row, ready, node, recorded)
            if signature is not None:
                signature = replace(signature, numbers=_numbers(ready.scalars, args))
            self.cache.keep_signature(whole, signature)
        if signature is None:
            return None, refs, []
        return signature, refs, [value if place < 0 else args[place] for place, value in signature.numbers]

    def _bound(
        self, row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any], node: bool, recorded: bool
    ) -> tuple[Signature | None, list[int], list[Any]] | None:
        """Returns the same for a call with attributes, keywords or arrays."""
        ready = bound(row, args, kwargs)
        numbers = [self._number(tensor) for tensor in ready.inputs]
        refs = [number for number in numbers if number is not None]
        if len(refs) != len(numbers):
            return None
        key = (row, ready.program, node, recorded, self._engine, *[tensor._requires_grad for tensor in ready.inputs])
        if key in self.cache.signatures:
            signature = self.cache.signatures[key]
        else:
            signature = self.cache.keep_signature(key, self._signature(row, ready, node, recorded))
        return signature, refs, list(ready.scalars.values())

    def _contraction(
        self, row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any], node: bool, recorded: bool
    ) -> tuple[Signature | None, list[int], list[Any]] | None:
        """Returns the same for a call of an op that may be one contraction."""
        operands = [value for value in (*args, *kwargs.values()) if isinstance(value, TensorData)]
        key: Any = call_key(row, args, kwargs)
        if key is None or not operands or operands[0].engine.name != "cl":  # NumPy would run epilogues as passes
            return None, [], []
        refs = []
        for tensor in operands:
            number = self._number(tensor)
            if number is None:
                return None
            refs.append(number)
        requires = tuple([tensor._requires_grad for tensor in operands])
        key = (key, node, recorded, requires)
        if key in self.cache.signatures:
            return self.cache.signatures[key], refs, []
        call, signature = None if row.name in self._refused else described(row, args, kwargs), None
        if call is not None and call.op is not None:
            dtype, requires_grad = call.results.dtype, recorded and any(requires)
            value = Value(Load(0, dtype), call.op.shape, dtype, _NO_REGION, requires_grad, node)
            signature = Signature(row.name, None, node, recorded, requires, (value,), True, contraction=call)
        return self.cache.keep_signature(key, signature), refs, []

    def _signature(self, row: OpRow, ready: Bound, node: bool, recorded: bool) -> Signature | None:
        if TABLE.get(row.name) is not row or row.name in self._refused:
            return None
        requires = tuple([tensor._requires_grad for tensor in ready.inputs])
        fresh = list(enumerate(requires))
        alone = extend(Region(), row.name, ready, fresh, recorded, node, ready.inputs[0].engine.name == "cpu")
        if alone is None:
            return None
        program, results = ready.program, tuple([alone.values[number] for number in alone.last_results])
        return Signature(row.name, program, node, recorded, requires, results, program.single, tuple(ready.scalars))

    def _number(self, tensor: Any) -> int | None:
        """Returns the number of a tensor in the log, as a new input if it has none. None for a tensor on another engine
        than the log's, and for one on the storage of a value that it is not.
        """
        number: int | None
        deferred = tensor._storage.deferred
        if deferred is not None:
            if deferred[0] is self:
                number = self._number_of(tensor)
                return number
            deferred[0].materialize()
        number = self._known.get(id(tensor))
        if number is None:
            if self._engine is None:
                self._engine = tensor.engine
            elif tensor.engine is not self._engine:
                return None
            self._inputs.append(tensor)
            self._versions.append(tensor.version)
            number = self._known[id(tensor)] = -len(self._inputs)
        return number

    def _forget_inputs(self, count: int) -> None:
        """Forgets the inputs from ``count`` on, of a call that is not logged."""
        for tensor in self._inputs[count:]:
            del self._known[id(tensor)]
        del self._inputs[count:], self._versions[count:]
        if not self._calls:
            self._engine = None

    def _number_of(self, tensor: Any) -> int | None:
        """Returns the number of a deferred tensor in the log; None for any other, and for one that is not the value
        itself: detached, or in another shape.
        """
        deferred = computation_of(tensor)
        if deferred is None or deferred[0] is not self or deferred[1] >= len(self._values):
            return None
        value = self._values[deferred[1]]
        number: int = deferred[1]
        return number if tensor.shape == value.shape and tensor._requires_grad == value.requires_grad else None

    def _reshape(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], node: bool, recorded: bool) -> Any:
        """Returns a reshape of a value of the log that only adds or drops dimensions of one: deferred too."""
        if len(args) != 2 or kwargs or not isinstance(args[0], TensorData):
            return NOT_TRACED
        number, shape = self._number_of(args[0]), args[1]
        if number is None or not isinstance(shape, (tuple, list)) or any(type(n) is not int or n < 0 for n in shape):
            return NOT_TRACED
        value, shape = self._values[number], tuple(shape)
        if value.axes == _NO_REGION or wide(value.shape) != wide(shape):
            return NOT_TRACED
        key = ("reshape", value.shape, value.dtype, value.requires_grad, shape, node, recorded)
        signature = self.cache.signatures.get(key)
        if signature is None:
            requires = recorded and value.requires_grad
            made = replace(value, shape=shape, requires_grad=requires, node=node, alias=0)
            signature = Signature("reshape", None, node, recorded, (value.requires_grad,), (made,), True)
            self.cache.keep_signature(key, signature)
        return self._logged(signature, [number], [])

    def _logged(self, signature: Signature, refs: list[int], scalars: list[Any]) -> Any:
        """Logs a call and returns its results as deferred tensors."""
        self._calls += 1
        self._log.append(signature)
        self._log += refs
        self._scalars += scalars
        made = []
        for value in signature.results:
            tensor = self._make_deferred(self._inputs[0], len(self._values), value)
            self._values.append(value)
            self._results.append(weakref.ref(tensor))
            made.append(tensor)
        if signature.contraction is not None and self.keeps_products():
            self._kept += made
        return made[0] if signature.single else tuple(made)

    # -- the end of a log ----------------------------------------------------------------------------------------------

    def materialize(self) -> None:
        """Computes the live results of the log; the next call begins another."""
        with lock:
            self._materialize_all()

    def keep(self, tensor: Any) -> None:
        """Has the deferred ``tensor`` computed: another tensor on its storage is made. A reshape is computed at once,
        as it gets the storage of its source.
        """
        deferred = computation_of(tensor)
        assert deferred is not None
        if self._values[deferred[1]].alias is not None:
            self.materialize()
        else:
            self._kept.append(tensor)

    def _materialize_all(self) -> None:
        log, inputs, versions, scalars, values = self._log, self._inputs, self._versions, self._scalars, self._values
        call = self._first if self._calls == 1 else None
        alive = {number: tensor for number, ref in enumerate(self._results) if (tensor := ref()) is not None}
        self._begin()
        if alive:
            try:
                for tensor, version in zip(inputs, versions):
                    if tensor.version != version:
                        raise UnsupportedError(
                            f"a tensor of shape {tensor.shape} was overwritten while a traced function still had to "
                            "read it; write into it through netcl, or outside of the function"
                        )
                key = (*log, *alive)
                steps = self.cache.plans.get(key)
                if steps is None:
                    steps = self.cache.keep_plan(key, self._plan(inputs, log, alive))
                self.run_steps(steps, inputs, scalars, values, alive, call)
            except BaseException as error:
                for tensor in alive.values():
                    if is_deferred(tensor):
                        set_error(tensor, error)
                raise

    def _plan(self, inputs: Sequence[Any], log: Sequence[Any], alive: Mapping[int, Any]) -> list[PlannedCall]:
        """Returns the steps that compute the values ``alive`` of a log."""
        engine = inputs[0].engine
        traced = Traced(
            engine.name == "cpu",
            self.relaxed,
            lambda before, after, alone: self.may_fuse(engine, before, after, alone),
            lambda region, results: self.results(engine, region, results),
            self.is_last_use,
        )
        target = None if self.relaxed else getattr(engine, "target", None)
        steps = [step for (step,) in Fusion(_calls(log, inputs), set(alive), Rules(target, traced)).steps()]
        last = {number: step for step in steps for number in (*step.reads, *step.writes)}
        for number, step in last.items():
            if number >= 0:
                step.last = (*step.last, number)
        return steps

    def results(self, engine: Any, region: Region, alive: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the results to compute if ``alive`` are needed; a subclass may add others."""
        return alive

    def keeps_products(self) -> bool:
        """True if the result of each contraction is computed, referenced or not."""
        return False

    def is_last_use(self, program: Fused, slot: int) -> bool:
        """True if the gradient of a program with one result does not need input ``slot``."""
        return True

    def may_fuse(self, engine: Any, before: Region, after: Region, alone: Region) -> bool:
        """True if a call may be fused into a region; ``alone`` is a region of that call alone."""
        return True

    def abandon(self, error: BaseException) -> None:
        """Materializes after the traced function has raised ``error``: tensors that outlive the function have their
        values. A tensor that cannot be computed raises at its use, so that ``error`` itself is not hidden.
        """
        try:
            self.materialize()
        except (NetclError, RuntimeError, MemoryError) as later:
            error.__context__ = error.__context__ or later


def _calls(log: Sequence[Any], inputs: Sequence[Any]) -> list[LoggedCall]:
    """Returns the calls of a log; their scalars are places among the scalars of the log."""
    calls: list[LoggedCall] = []
    values: list[Value] = []
    at = scalars = 0

    def ref(number: int) -> Ref:
        source = inputs[~number] if number < 0 else values[number]
        return Ref(number, 0, source.shape, source.dtype)

    while at < len(log):
        signature, first = log[at], len(values)
        at += 1 + len(signature.requires)
        refs = tuple([ref(number) for number in log[at - len(signature.requires) : at]])
        values += signature.results
        results = tuple([ref(number) for number in range(first, len(values))])
        if signature.contraction is not None:
            calls.append(_placed(signature.contraction, (*refs, results[0])))
            continue
        method, named = "reshape", dict[str, Any]()
        args: tuple[Any, ...] = (refs[0], results[0].shape)
        if signature.program is not None:
            places = range(scalars, scalars + len(signature.scalars))
            scalars += len(places)
            method, named = "run", {"shapes": signature.program.shapes}
            args = (signature.program.outputs, refs, dict(zip(signature.scalars, places)))
        reads, writes = frozenset([(ref.number, 0) for ref in refs]), frozenset([ref.number for ref in results])
        calls.append(
            LoggedCall(
                method, args, named, results, reads, writes, False, "",
                signature.row, signature.program, signature.node, signature.recorded, signature.requires,
            )
        )  # fmt: skip
    return calls


def _placed(call: LoggedCall, refs: Sequence[Ref]) -> LoggedCall:
    """Returns a contraction with the numbers of ``refs``, its operands and its result, in place of their places."""
    op = call.op
    assert op is not None

    def change(ref: Ref) -> Ref:
        return ref._replace(number=refs[ref.number].number)

    return replace(
        call,
        args=replaced(call.args, change),
        kwargs=replaced(call.kwargs, change),
        results=change(call.results),
        reads=frozenset([(ref.number, 0) for ref in refs[:-1]]),
        writes=frozenset([refs[-1].number]),
        op=op._replace(args=replaced(op.args, change), kwargs=replaced(op.kwargs, change)),
    )


def _numbers(scalars: Mapping[str, Any], args: Sequence[Any]) -> tuple[tuple[int, Any], ...]:
    """Returns launch scalars by their position among the arguments; (-1, value) for a constant."""
    places = {f"v{place}": place for place, value in enumerate(args) if type(value) in _NUMBERS}
    return tuple((places.get(name, -1), value) for name, value in scalars.items())


__all__ = ["NOT_TRACED", "Cache", "Trace", "force"]
