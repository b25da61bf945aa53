"""jit_compile: traces a function at each call and runs fused regions by cached programs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from netcl.autograd.levels import LEVELS, without
from netcl.autograd.mode import state
from netcl.autograd.prediction import hint
from netcl.core import Tensor, config
from netcl.core.ops_table.dispatch import pop_hook, push_hook

if TYPE_CHECKING:
    from netcl.core.engine.protocol import KernelText
if TYPE_CHECKING or "tracing" in LEVELS:
    from netcl.autograd.compiler.recorded_trace import Cache, RecordedTrace, Tracer

F = TypeVar("F", bound=Callable[..., Any])


class Jitted:
    """The result of ``jit_compile``, called like the function. ``kernels(*args)`` shows the kernels of a call."""

    def __init__(self, fn: Callable[..., Any], fast_math: bool = False, cache: Cache | None = None) -> None:
        functools.update_wrapper(self, fn)
        self._fn = fn
        self._fast_math = fast_math
        self._owners = [owner for owner in (fn, getattr(fn, "__self__", None)) if hasattr(owner, "training")]
        # A core that cannot trace calls the function.
        self._traced = not without("tracing", "jit_compile calls its functions eagerly")
        self._cache: Any = Cache() if cache is None and self._traced else cache

    @property
    def fast_math(self) -> bool:
        """True if kernels are built with -cl-fast-relaxed-math, by argument or NETCL_FAST_MATH."""
        return self._fast_math or bool(config.get("FAST_MATH"))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if state.anomaly or not self._traced:  # in anomaly mode each op records the line that called it
            return self._fn(*args, **kwargs)
        outer = state.trace
        relaxed = self._fast_math or bool(config.get("FAST_MATH"))
        if outer is not None and outer.relaxed == relaxed:
            return self._fn(*args, **kwargs)
        if not relaxed and state.enabled and hint(self._engine_of_training(args)):  # a captured step will fuse the ops
            return self._fn(*args, **kwargs)
        return self._run(RecordedTrace(self._cache, relaxed), args, kwargs)

    def _engine_of_training(self, args: tuple[Any, ...]) -> Any:
        """Returns the engine of the first tensor among the arguments of a module in training mode, else None."""
        for owner in (*self._owners, *args[:1]):  # of a module, a method, or a function
            if getattr(owner, "training", False) is True:
                return next((value.engine for value in args if isinstance(value, Tensor)), None)
        return None

    def _run(self, trace: RecordedTrace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        outer = state.trace
        if outer is not None:
            outer.materialize()
        hook = push_hook(Tracer(trace), "tracer")
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
        """Returns KernelText of each fused region of a call with these arguments, forward and then backward. Calls the
        function once, side effects included. Returns an empty list for NumPy, which runs no kernels.
        """
        if not self._traced:
            return []
        trace = RecordedTrace(self._cache, self.fast_math)
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
        """Returns ``Jitted.kernels`` of the method."""
        return self.__func__.kernels(self.__self__, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__func__, name)


@overload
def jit_compile(fn: Callable[..., Any], *, fast_math: bool = False) -> Jitted: ...
@overload
def jit_compile(fn: None = None, *, fast_math: bool = False) -> Callable[[Callable[..., Any]], Jitted]: ...
def jit_compile(fn: Callable[..., Any] | None = None, *, fast_math: bool = False) -> Any:
    """Returns ``fn`` with its elementwise, broadcasting and row-reducing ops fused: ``@jit_compile``,
    ``@jit_compile(...)`` or ``jit_compile(model)``.

    The function itself runs at each call, so branches, attributes, printing and nested functions work as usual; its ops
    are deferred and fused, if possible into one kernel forward and one backward, or into a contraction before them.
    Reading values and writing in place end a fused region. In float32 the results equal the results of the unfused ops,
    except that a reduction or the gradient of a broadcast operand may sum in another order; ``fast_math`` allows the
    compiler to change results (-cl-fast-relaxed-math). New shapes are traced again; 256 programs are cached.
    """
    if fn is None:
        return lambda function: Jitted(function, fast_math)
    if not callable(fn):
        raise TypeError(f"jit_compile: expected a function, got {type(fn).__name__}")
    return fn if isinstance(fn, Jitted) and fn._fast_math == fast_math else Jitted(fn, fast_math)
