"""Hooks of modules: removable handles, and the identity ops through which backward hooks see gradients."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import netcl.autograd as ag
from netcl.core import Tensor

_ids = itertools.count()


class RemovableHandle:
    """The handle of a registered hook; ``remove()`` removes the hook, as does the end of a ``with`` block."""

    def __init__(self, hooks: dict[int, Callable[..., Any]], hook: Callable[..., Any]) -> None:
        self._hooks, self._key = hooks, next(_ids)
        hooks[self._key] = hook

    def remove(self) -> None:
        """Removes the hook; may be called again."""
        self._hooks.pop(self._key, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


class BackwardHooks:
    """Calls the backward hooks of a module, for one forward pass, after the gradients of its inputs and outputs are
    known.
    """

    def __init__(self, module: Any, hooks: Sequence[Callable[..., Any]]) -> None:
        self.module: Any = module
        self.hooks: Sequence[Callable[..., Any]] = hooks
        self.grad_output: tuple[Tensor | None, ...] = ()
        self.inputs_watched: bool = False

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Returns the arguments; tensors among them pass through an op whose gradient calls the hooks."""
        at = [i for i, arg in enumerate(args) if isinstance(arg, Tensor)]
        if not ag.is_grad_enabled() or not any(args[i].requires_grad for i in at):
            return args
        self.inputs_watched = True
        passed = _identity([args[i] for i in at], self._call)
        result = list(args)
        for i, value in zip(at, passed):
            result[i] = value
        return tuple(result)

    def outputs(self, result: Any) -> Any:
        """Returns the output or outputs, passed through an op whose gradient records the incoming gradients."""
        values = list(result) if isinstance(result, (tuple, list)) else [result]
        at = [i for i, value in enumerate(values) if isinstance(value, Tensor)]
        if not any(values[i].requires_grad for i in at):
            return result
        for i, value in zip(at, _identity([values[i] for i in at], self._note)):
            values[i] = value
        return type(result)(values) if isinstance(result, (tuple, list)) else values[0]

    def _note(self, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        self.grad_output = grads
        if not self.inputs_watched:
            for hook in self.hooks:
                hook(self.module, (None,), grads)
        return grads

    def _call(self, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        for hook in self.hooks:
            changed = hook(self.module, grads, self.grad_output)
            if changed is not None:
                grads = changed if isinstance(changed, tuple) else (changed,)
        return grads


def _identity(values: Sequence[Tensor], backward: Callable[..., Any]) -> tuple[Tensor, ...]:
    """Returns the values as results of one op whose gradient is ``backward(*grads)``."""

    class Pass(ag.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Tensor) -> tuple[Tensor, ...]:
            return tuple(x.detach() for x in inputs)

        @staticmethod
        def backward(ctx: Any, *grads: Tensor | None) -> Any:
            return call(*grads)

    call = backward
    result = Pass.apply(*values)
    return result if isinstance(result, tuple) else (result,)
