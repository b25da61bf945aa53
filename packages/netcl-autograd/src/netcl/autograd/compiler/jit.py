"""jit_compile: traces a function at each call and runs fused regions by cached programs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any, TypeVar, overload

from netcl.autograd.compiler.primitive import NOT_FUSIBLE
from netcl.autograd.derive.fused_plan import fused_plan
from netcl.autograd.derive.region import overhead, results_kept
from netcl.autograd.grad_node import FLOATING, belongs
from netcl.autograd.mode import state
from netcl.autograd.recorder import step_of
from netcl.autograd.views import track_alias
from netcl.core import Tensor, config
from netcl.core.backend.protocol import KernelText
from netcl.core.dispatch import Bound, OpRow, Program, pop_hook, push_hook
from netcl.core.expr.cost import RECOMPUTE_BUDGET
from netcl.core.lazy.region import Cache, Region, Value
from netcl.core.lazy.tracer import NOT_TRACED, Trace
from netcl.core.tensor.deferred import alias_in_graph

F = TypeVar("F", bound=Callable[..., Any])


class _Trace(Trace):
    """A trace whose regions are nodes of the gradient graph."""

    def __init__(self, cache: Cache, relaxed: bool) -> None:
        super().__init__(cache, relaxed, NOT_FUSIBLE)
        self.seen: list[tuple[Any, Program, list[tuple[int, ...]]]] | None = None
        self._thread = get_ident()

    def results(self, engine: Any, region: Region, alive: tuple[int, ...]) -> tuple[int, ...]:
        """The results to store; on a CPU also values that are expensive to recompute in the gradient."""
        found = region.kept.get(alive)
        if found is None:
            requires = any(region.values[number].requires_grad for number in alive)
            found = region.kept[alive] = results_kept(engine, region, alive) if requires else alive
        return found

    def may_fuse(self, engine: Any, before: Region, after: Region, alone: Region) -> bool:
        """Returns False if the forward and backward kernels would recompute much of each other's values."""
        return overhead(engine, after) - overhead(engine, alone) - overhead(engine, before) <= RECOMPUTE_BUDGET

    def is_last_use(self, program: Program, inputs: Sequence[Any], value: Value, slot: int) -> bool:
        """Returns True if the gradient does not need input ``slot``."""
        if not value.requires_grad:
            return True
        needs = tuple([tensor.requires_grad and tensor.dtype in FLOATING for tensor in inputs])
        plan = fused_plan(program, [tensor.shape for tensor in inputs], needs)
        return plan is None or slot not in plan.inputs

    def compute(
        self,
        ready: Bound,
        values: Sequence[Value],
        tensors: Sequence[Any],
        made: Sequence[Tensor] | None = None,
    ) -> list[Tensor]:
        """Runs a program unless its results are ``made``; results that require grad are outputs of one GradNode."""
        results = super().compute(ready, values, tensors, made)
        if self.seen is not None:
            self.seen.extend(_programs(ready)[made is not None :])
        if any(value.requires_grad for value in values):
            step = step_of(ready, results)
            for index, (value, tensor) in enumerate(zip(values, tensors)):
                if step is not None and tensor is not None and value.requires_grad:
                    belongs(tensor, step, index)
                    if state.tape is not None and get_ident() == self._thread:
                        state.tape.nodes.append(tensor)
        return results

    def arrange(self, tensor: Any, shape: tuple[int, ...]) -> Any:
        """An input in another shape; the reshape is recorded so that gradients flow through it."""
        outer = state.trace, state.enabled
        state.trace, state.enabled = None, True
        try:
            return tensor.reshape(shape)
        finally:
            state.trace, state.enabled = outer

    def make_alias(self, value: Value, tensor: Any, source: Tensor) -> None:
        """A reshape of a value that has been materialized: runs the op, recorded as it was called."""
        outer = state.trace, state.enabled
        state.trace, state.enabled = None, value.requires_grad
        try:
            result = source.reshape(value.shape)
        finally:
            state.trace, state.enabled = outer
        alias_in_graph(tensor, result)
        track_alias(tensor, result)


def _programs(ready: Bound) -> list[tuple[Any, Program, list[tuple[int, ...]]]]:
    """A program and the programs of its gradient, each with its engine and the shapes of its inputs."""
    program, inputs = ready.program, ready.inputs
    engine, shapes = inputs[0].engine, [tensor.shape for tensor in inputs]
    found: list[tuple[Any, Program, list[tuple[int, ...]]]] = [(engine, program, shapes)]
    needs = tuple([tensor.requires_grad and tensor.dtype in FLOATING for tensor in inputs])
    plan = fused_plan(program, shapes, needs) if state.enabled and any(needs) else None
    if plan is not None:
        saved = [shapes[slot] for slot in plan.inputs] + [program.shapes[output] for output in plan.outputs]
        sources = [*saved, *program.shapes]
        for gradient in plan.programs:
            derived: Program = gradient.row.expression()  # type: ignore[operator, misc]
            found.append((engine, derived, [sources[source] for source in gradient.sources]))
            sources.extend(derived.shapes[len(gradient.inputs) :])
    return found


class _Tracer:
    """The hook for calls that are not recorded; the recorder passes recorded calls to the trace."""

    def __init__(self, trace: _Trace) -> None:
        self._trace, self._thread = trace, get_ident()

    def __call__(self, next: Callable[..., Any], row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        trace = state.trace
        if trace is None:
            return next(row, args, kwargs)
        result = trace.call(row, args, kwargs, False, False)
        if result is not NOT_TRACED:
            return result
        state.trace = None
        try:
            return trace.run_untraced(row, (*args, *kwargs.values()), lambda: next(row, args, kwargs))
        finally:
            state.trace = trace

    def before_write(self) -> None:
        """Computes what the trace has deferred; threads that were given a snapshot of the hooks have no part in it."""
        if get_ident() == self._thread:
            self._trace.materialize()


class Jitted:
    """The result of ``jit_compile``, called like the function. ``kernels(*args)`` shows the kernels of a call."""

    def __init__(self, fn: Callable[..., Any], fast_math: bool = False, cache: Cache | None = None) -> None:
        functools.update_wrapper(self, fn)
        self._fn = fn
        self._fast_math = fast_math
        self._cache = Cache() if cache is None else cache

    @property
    def fast_math(self) -> bool:
        """True if kernels are built with -cl-fast-relaxed-math, by argument or NETCL_FAST_MATH."""
        return self._fast_math or bool(config.get("FAST_MATH"))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if state.anomaly:  # each op then records the line that called it
            return self._fn(*args, **kwargs)
        outer = state.trace
        relaxed = self._fast_math or bool(config.get("FAST_MATH"))
        if outer is not None and outer.relaxed == relaxed:
            return self._fn(*args, **kwargs)
        return self._run(_Trace(self._cache, relaxed), args, kwargs)

    def _run(self, trace: _Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        outer = state.trace
        if outer is not None:
            outer.materialize()
        hook = push_hook(_Tracer(trace), "tracer")
        state.trace = trace
        try:
            result = self._fn(*args, **kwargs)
            trace.materialize()
            return result
        except BaseException as error:
            trace.abandon(error)
            raise
        finally:
            state.trace = outer
            pop_hook(hook)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else _Method(self, instance)

    def kernels(self, *args: Any, **kwargs: Any) -> list[KernelText]:
        """The kernels of the fused regions of a call with these arguments, forward and then backward, as KernelText.

        Calls the function once, side effects included. Returns an empty list for NumPy, which runs no kernels.
        """
        trace = _Trace(self._cache, self.fast_math)
        trace.seen, trace.needs_program = [], True
        self._run(trace, args, kwargs)
        return [text for engine, program, shapes in trace.seen for text in engine.describe(program, shapes)]

    def __repr__(self) -> str:
        return f"<jit_compile of {self._fn!r}>"


class _Method:
    """A jitted function as a method of an object."""

    def __init__(self, jitted: Jitted, instance: Any) -> None:
        self.__func__, self.__self__ = jitted, instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__func__(self.__self__, *args, **kwargs)

    def kernels(self, *args: Any, **kwargs: Any) -> list[KernelText]:
        """``Jitted.kernels`` of the method."""
        return self.__func__.kernels(self.__self__, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__func__, name)


@overload
def jit_compile(fn: Callable[..., Any], *, fast_math: bool = False) -> Jitted: ...
@overload
def jit_compile(fn: None = None, *, fast_math: bool = False) -> Callable[[Callable[..., Any]], Jitted]: ...
def jit_compile(fn: Callable[..., Any] | None = None, *, fast_math: bool = False) -> Any:
    """``fn`` with its elementwise, broadcasting and row-reducing ops fused: ``@jit_compile``, ``@jit_compile(...)`` or
    ``jit_compile(model)``.

    The function itself runs at each call, so branches, attributes, printing and nested functions work as usual; its ops
    are deferred and fused, if possible into one kernel forward and one backward. Contractions, reading values and
    writing in place end a fused region. In float32 the results equal those of the unfused ops, except that a reduction
    or the gradient of a broadcast operand may sum in another order; ``fast_math`` allows the compiler to change results
    (-cl-fast-relaxed-math). New shapes are traced again; 256 programs are cached.
    """
    if fn is None:
        return lambda function: Jitted(function, fast_math)
    if not callable(fn):
        raise TypeError(f"jit_compile takes a function, not {type(fn).__name__}")
    return fn if isinstance(fn, Jitted) and fn._fast_math == fast_math else Jitted(fn, fast_math)
