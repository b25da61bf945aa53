"""CompiledGraph: a function and its gradients, captured once for their input shapes and then replayed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any

from netcl.autograd.compiler.compiled_function import CompiledFunction
from netcl.core import Tensor
from netcl.core.errors import CaptureError

if TYPE_CHECKING:
    from netcl.runtime.capture import CapturedStep


class CompiledGraph:
    """``function(*inputs)`` without Python per op: ``compile(inputs)`` once, then ``replay(inputs)``.

    ``params``: tensors that the graph reads, or an object with ``parameters()``. If ``params`` is callable, as is a
    Module, ``function`` may be left out. The function may contain a backward pass and an optimizer step; call it
    eagerly once before, since the first call allocates persistent state. TypeError if there is nothing to call.
    """

    def __init__(self, params: Any, function: Callable[..., Any] | None = None) -> None:
        if function is None:
            if not callable(params):
                raise TypeError(
                    f"CompiledGraph: {type(params).__name__} cannot be called; give the function to compile as the "
                    "second argument"
                )
            function = params
        owned: Any = getattr(params, "parameters", None)
        listed: list[Tensor] = [] if owned is not None or callable(params) else list(_tensors(params))
        self._params: Callable[[], Iterable[Tensor]] = owned if owned is not None else lambda: listed
        self._function = function
        self._captured: CapturedStep | None = None
        self._replay: Callable[..., Any] | None = None

    def compile(self, inputs: Any) -> CompiledGraph:
        """Captures the function for ``inputs``: a tensor, or a tuple or list of tensors and constants. Nothing is
        computed. CaptureError if the function reads a value on the host.
        """
        self._captured = CompiledFunction(self._function, watch=self._watched).capture(*_several(inputs))
        self._replay = self._function if self._captured is None else self._captured.replay
        return self

    def replay(self, inputs: Any) -> Any:
        """Returns the function's result for ``inputs``, with its effects on parameters, gradients and other tensors.
        CaptureError before ``compile``, for other shapes or dtypes, and after a parameter, a mode or a flag changed.
        """
        if self._replay is None:
            raise CaptureError("replay: the graph has not been compiled; call compile(inputs) first")
        return self._replay(*_several(inputs))

    def _watched(self) -> Hashable:
        return tuple([(id(p), p.requires_grad, p.dtype) for p in self._params()])

    def __len__(self) -> int:
        """Returns the number of launches of a replay; 0 before ``compile``."""
        return 0 if self._captured is None else len(self._captured)


def _several(inputs: Any) -> tuple[Any, ...]:
    return tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)


def _tensors(params: Any) -> Iterable[Tensor]:
    tensors = [params] if isinstance(params, Tensor) else list(params.values() if isinstance(params, dict) else params)
    for value in tensors:
        if not isinstance(value, Tensor):
            raise TypeError(f"CompiledGraph: expected tensors as params, got {type(value).__name__}")
    return tensors
