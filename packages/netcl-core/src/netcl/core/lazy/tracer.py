"""The tracer: fuses calls of the op table into a region instead of running them, and materializes it if a value is
used.

A call that fits returns deferred tensors. One that does not fit ends the region: its live results are computed by one
program, and the call starts a new region or is run on ordinary tensors. So a traced function computes the same with
fewer kernels; reading a value, writing in place and other devices end a region too.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from netcl.core.backend.interceptors import interception
from netcl.core.errors import NetclError, UnsupportedError
from netcl.core.lazy.deferred_gemm import Deferral, DeferredContraction, contraction_of
from netcl.core.lazy.legality import alias, extend
from netcl.core.lazy.materialize import Materializer
from netcl.core.lazy.region import Cache, Region, Transition
from netcl.core.ops_table import dispatch
from netcl.core.ops_table.program import Bound, bound
from netcl.core.ops_table.table import TABLE, OpRow
from netcl.core.tensor.data import TensorData
from netcl.core.tensor.deferred import computation_of, force, is_deferred, lock, set_error

NOT_TRACED: Any = object()
_WRITING = ("setitem",)
_NUMBERS = (float, int, bool)
_CONTRACTIONS = frozenset(("matmul", "linear", "conv1d", "conv2d", "conv3d"))


class Trace(Materializer):
    """One run of a traced function. ``call`` is given each call of the op table; ``materialize`` ends the region.

    ``refused`` are names of rows that are not fused. A subclass may override ``compute``.
    """

    relaxed: bool

    def __init__(self, cache: Cache, relaxed: bool = False, refused: Sequence[str] | set[str] = ()) -> None:
        super().__init__(cache, relaxed)
        self._refused = refused
        self._contractions: list[DeferredContraction] = []  # pending ones; the use of a result materializes its own
        self._stand_ins: dict[int, Any] = {}
        self._engine: Any = None
        self._begin()

    def _begin(self) -> None:
        self._engine = None
        self._region: Region | None = None
        self._inputs: list[Any] = []
        self._versions: list[int] = []
        self._known: dict[int, int] = {}
        self._scalars: list[Any] = []
        self._deferred_results: list[tuple[int, Any]] = []
        self._kept: list[Any] = []
        self._first: tuple[OpRow, tuple[Any, ...], Mapping[str, Any]] | None = None

    # -- calls ---------------------------------------------------------------------------------------------------------

    def call(self, row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any], node: bool, recorded: bool) -> Any:
        """Returns the deferred results of the call; or NOT_TRACED if it must be run, on arguments that are materialized
        then.

        ``node``: it is one of the recorded ops. ``recorded``: gradients flow through it.
        """
        with lock:
            result = self._call(row, self._with_stand_ins(args), kwargs, node, recorded)
            if result is NOT_TRACED:
                force(args)
                force(tuple(kwargs.values()))
            return result

    def run_untraced(self, row: OpRow, args: tuple[Any, ...], run: Callable[[], Any]) -> Any:
        """Runs ``run()``, a call on ``args`` that is not fused into a region; a contraction in it is deferred, as
        following ops may become its epilogue.
        """
        if row.name not in _CONTRACTIONS or dispatch._pooled:
            return run()
        engine = next((value.engine for value in args if isinstance(value, TensorData)), None)
        if engine is None or engine.name != "cl":  # NumPy has no epilogues: they would be passes of their own
            return run()
        deferral = Deferral()
        with interception(engine, deferral):
            result = run()
        self._contractions.extend(deferral.deferred)
        return result

    def _with_stand_ins(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Returns the arguments with stand-ins for results of pending contractions: as the trace then holds no
        reference to those results, any other reference can be detected.
        """
        if not self._contractions or not any(is_deferred(value) for value in args):
            return args
        return tuple([self._stand_in(value) if is_deferred(value) else value for value in args])

    def _stand_in(self, tensor: Any) -> Any:
        work = contraction_of(tensor)
        if work not in self._contractions:
            return tensor
        if id(work) not in self._stand_ins:
            self._stand_ins[id(work)] = work.stand_in(tensor)
        return self._stand_ins[id(work)]

    def _call(self, row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any], node: bool, recorded: bool) -> Any:
        if "out" in kwargs or row.name in _WRITING or dispatch._pooled:
            self.materialize()
            return NOT_TRACED
        if row.expression is None:
            if row.name == "reshape":
                alias = self._alias(args, kwargs, node, recorded)
                if alias is not NOT_TRACED:
                    return alias
            return NOT_TRACED
        if not kwargs and row.leading and len(args) == len(row.operands):
            return self._plain(row, args, node, recorded)
        return self._bound(row, args, kwargs, node, recorded)

    def _plain(self, row: OpRow, args: tuple[Any, ...], node: bool, recorded: bool) -> Any:
        """Returns a call of operands alone: looked up without binding its arguments."""
        key: list[Any] = [row, node, recorded]
        fresh: dict[int, Any] = {}
        for value in args:
            if isinstance(value, TensorData):
                ref = self._ref(value, fresh)
                if ref is None:
                    return self._in_next_region(row, args, {}, node, recorded)
                key.append(ref)
                if type(ref) is tuple:
                    key.append((value.shape, value.dtype))
            elif value is None or type(value) in _NUMBERS:
                key.append(type(value))
            else:
                return self._bound(row, args, {}, node, recorded)
        transition_key = tuple(key)
        region = self._region or self._start(fresh)
        if region is None:
            return NOT_TRACED
        if transition_key in region.transitions:
            transition = region.transitions[transition_key]
        else:
            ready = bound(row, args, {})
            refs = [ref for ref in key[3:] if type(ref) is int or (type(ref) is tuple and type(ref[0]) is int)]
            transition = self._new_transition(region, transition_key, row, ready, refs, node, recorded)
            if transition is not None:
                numbers = _numbers(ready.scalars, args)
                transition = region.transitions[transition_key] = Transition(
                    transition.region, transition.results, transition.single, numbers
                )
        if transition is None:
            return self._in_next_region(row, args, {}, node, recorded)
        if not region.stages:
            self._first = row, args, {}
        scalars = [value if place < 0 else args[place] for place, value in transition.numbers]
        return self._apply(transition, fresh, scalars)

    def _bound(self, row: OpRow, args: tuple[Any, ...], kwargs: Mapping[str, Any], node: bool, recorded: bool) -> Any:
        """Returns a call with attributes, keywords or arrays."""
        ready = bound(row, args, kwargs)
        fresh: dict[int, Any] = {}
        refs = [self._ref(tensor, fresh) for tensor in ready.inputs]
        if None in refs:
            return self._in_next_region(row, args, kwargs, node, recorded)
        region = self._region or self._start(fresh)
        if region is None:
            return NOT_TRACED
        key = (ready.program, node, recorded, *refs)
        if key in region.transitions:
            transition = region.transitions[key]
        else:
            transition = self._new_transition(region, key, row, ready, refs, node, recorded)
        if transition is None:
            return self._in_next_region(row, args, kwargs, node, recorded)
        if not region.stages:
            self._first = row, args, kwargs
        return self._apply(transition, fresh, list(ready.scalars.values()))

    def _in_next_region(
        self, row: OpRow, args: tuple[Any, ...], kwargs: Mapping[str, Any], node: bool, recorded: bool
    ) -> Any:
        """Ends the region and begins the next one with this call; a call that fits into no region is run."""
        if self._region is None or not self._region.stages:
            self._begin()
            return NOT_TRACED
        self._materialize_all()
        return self._call(row, args, dict(kwargs), node, recorded)

    def _start(self, fresh: Mapping[int, Any]) -> Region | None:
        for tensor in fresh.values():
            self._engine = tensor.engine
            self._region = self.cache.root(tensor.engine)
            return self._region
        return None

    def _ref(self, value: Any, fresh: dict[int, Any]) -> Any:
        """Returns the key of a tensor: its number in the region, or for a new input (position, requires_grad).

        None for a tensor on another engine than the region, and for one on the storage of a value that it is not.
        """
        deferred = computation_of(value)
        if deferred is not None:
            work = deferred[0]
            if work is self:
                return self._number_of(value)
            if work not in self._contractions:
                work.materialize()
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

    def _number_of(self, tensor: Any) -> int | None:
        """Returns the number of a deferred tensor in the region; None for any other, and for one that is not the value
        itself: detached, or in another shape.
        """
        deferred = computation_of(tensor)
        if deferred is None or deferred[0] is not self or self._region is None:
            return None
        value = self._region.values[deferred[1]]
        same = tensor.shape == value.shape and tensor.requires_grad == value.requires_grad
        return deferred[1] if same else None

    def _new_transition(
        self, region: Region, key: Any, row: OpRow, ready: Bound, refs: Sequence[Any], node: bool, recorded: bool
    ) -> Transition | None:
        transition = None
        if TABLE.get(row.name) is row and row.name not in self._refused:
            engine = ready.inputs[0].engine
            target = None if self.relaxed else getattr(engine, "target", None)
            transition = extend(region, row.name, ready, refs, recorded, node, engine.name == "cpu", target)
            if transition is not None and region.stages:
                fresh = [(place, tensor.requires_grad) for place, tensor in enumerate(ready.inputs)]
                alone = extend(Region(), row.name, ready, fresh, recorded, node, False)
                if alone is not None and not self.may_fuse(engine, region, transition.region, alone.region):
                    transition = None
        self.cache.keep(region, key, transition)
        return transition

    def _alias(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], node: bool, recorded: bool) -> Any:
        """Returns a reshape of a deferred tensor that only adds or drops dimensions of one: deferred too."""
        if len(args) != 2 or kwargs or self._region is None or not isinstance(args[0], TensorData):
            return NOT_TRACED
        number, shape = self._number_of(args[0]), args[1]
        if number is None or not isinstance(shape, (tuple, list)) or any(type(n) is not int or n < 0 for n in shape):
            return NOT_TRACED
        key = ("reshape", number, tuple(shape), node, recorded)
        if key not in self._region.transitions:
            self.cache.keep(self._region, key, alias(self._region, number, tuple(shape), recorded, node))
        transition = self._region.transitions[key]
        return NOT_TRACED if transition is None else self._apply(transition, {}, [])

    def _apply(self, transition: Transition, fresh: Mapping[int, Any], scalars: Sequence[Any]) -> Any:
        """Enters the region after ``transition`` and returns its results as deferred tensors."""
        region = transition.region
        if fresh:
            start = len(self._inputs)
            for place, tensor in enumerate(fresh.values()):
                self._known[id(tensor)] = region.inputs[start + place]
                self._inputs.append(tensor)
                self._versions.append(tensor.version)
        self._region = region
        self._scalars.extend(scalars)
        made = []
        for number, value in transition.results:
            tensor = self._make_deferred(self._inputs[0], number, value)
            self._deferred_results.append((number, weakref.ref(tensor)))
            made.append(tensor)
        return made[0] if transition.single else tuple(made)

    # -- the end of a region -------------------------------------------------------------------------------------------

    def materialize(self) -> None:
        """Computes the live results of the region; the next call begins another."""
        with lock:
            self._materialize_all()

    def keep(self, tensor: Any) -> None:
        """Has the deferred ``tensor`` computed: another tensor on its storage is made. A reshape is computed at once,
        as it gets the storage of its source.
        """
        deferred = computation_of(tensor)
        assert deferred is not None
        assert self._region is not None
        if self._region.values[deferred[1]].alias is not None:
            self.materialize()
        else:
            self._kept.append(tensor)

    def _materialize_all(self) -> None:
        region, inputs, versions, scalars = self._region, self._inputs, self._versions, self._scalars
        call = self._first
        alive = [(number, tensor) for number, ref in self._deferred_results if (tensor := ref()) is not None]
        contractions, self._contractions = self._contractions, []
        self._stand_ins.clear()
        self._begin()
        if region is not None and alive:
            self._materialize_region(region, inputs, versions, dict(zip(region.scalars, scalars)), alive, call)
        for contraction in contractions:
            if contraction.pending and contraction.is_referenced:
                contraction.materialize()

    def _materialize_region(
        self,
        region: Region,
        inputs: Sequence[Any],
        versions: Sequence[int],
        scalars: dict[str, Any],
        alive: Sequence[tuple[int, Any]],
        call: tuple[OpRow, tuple[Any, ...], Mapping[str, Any]] | None,
    ) -> None:
        try:
            for tensor, version in zip(inputs, versions):
                if tensor.version != version:
                    raise UnsupportedError(
                        f"a tensor of shape {tensor.shape} was overwritten while a traced function still had to read "
                        "it; write into it through netcl, or outside of the function"
                    )
            self.compute_region(region, inputs, scalars, alive, call)
        except BaseException as error:
            for _, tensor in alive:
                if is_deferred(tensor):
                    set_error(tensor, error)
            raise

    def abandon(self, error: BaseException) -> None:
        """Materializes after the traced function has raised ``error``: tensors that outlive the function have their
        values.

        A tensor that cannot be computed raises at its use, so that ``error`` itself is not hidden.
        """
        try:
            self.materialize()
        except (NetclError, RuntimeError, MemoryError) as later:
            error.__context__ = error.__context__ or later


def _numbers(scalars: Mapping[str, Any], args: Sequence[Any]) -> tuple[tuple[int, Any], ...]:
    """Returns launch scalars by their position among the arguments; (-1, value) for a constant."""
    places = {f"v{place}": place for place, value in enumerate(args) if type(value) in _NUMBERS}
    return tuple((places.get(name, -1), value) for name, value in scalars.items())


__all__ = ["NOT_TRACED", "Trace", "force"]
