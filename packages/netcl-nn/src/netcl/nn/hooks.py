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

    def __init__(self, hooks: dict[int, Any], hook: Callable[..., Any], first: bool = False) -> None:
        self._hooks = hooks
        self.id: int = next(_ids)
        others = dict(hooks) if first else {}
        if first:
            hooks.clear()
        hooks[self.id] = hook
        hooks.update(others)

    def remove(self) -> None:
        """Removes the hook; may be called again."""
        self._hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


class Hook:
    """A hook of the forward pass with its options."""

    def __init__(self, function: Callable[..., Any], with_kwargs: bool = False, always: bool = False) -> None:
        self.function = function
        self.with_kwargs: bool = with_kwargs
        self.always: bool = always

    def __call__(self, module: Any, args: Any, kwargs: Any, *result: Any) -> Any:
        if self.with_kwargs:
            return self.function(module, args, kwargs, *result)
        return self.function(module, args, *result)


class _Every:
    """The hooks of all modules."""

    def __init__(self) -> None:
        self.forward_pre: dict[int, Hook] = {}
        self.forward: dict[int, Hook] = {}
        self.backward_pre: dict[int, Callable[..., Any]] = {}
        self.backward: dict[int, Callable[..., Any]] = {}

    @property
    def any(self) -> bool:
        """True if there is a hook."""
        return bool(self.forward_pre or self.forward or self.backward_pre or self.backward)


EVERY = _Every()


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """``Module.register_forward_pre_hook`` of all modules; called before theirs."""
    return RemovableHandle(EVERY.forward_pre, Hook(hook))


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """``Module.register_forward_hook`` of all modules; called before theirs."""
    return RemovableHandle(EVERY.forward, Hook(hook, with_kwargs, always_call))


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """``Module.register_full_backward_hook`` of all modules; called before theirs."""
    return RemovableHandle(EVERY.backward, hook)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """``Module.register_full_backward_pre_hook`` of all modules; called before theirs."""
    return RemovableHandle(EVERY.backward_pre, hook)


class BackwardHooks:
    """Calls the backward hooks of a module, for one forward pass, after the gradients of its inputs and outputs are
    known.
    """

    def __init__(
        self, module: Any, hooks: Sequence[Callable[..., Any]], before: Sequence[Callable[..., Any]] = ()
    ) -> None:
        self.module: Any = module
        self.hooks: Sequence[Callable[..., Any]] = hooks
        self.before: Sequence[Callable[..., Any]] = before
        self.grad_output: tuple[Tensor | None, ...] = ()
        self.inputs_watched: bool = False

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Returns the arguments; tensors among them pass through an op whose gradient calls the hooks."""
        at = [i for i, arg in enumerate(args) if isinstance(arg, Tensor)]
        if not self.hooks or not ag.is_grad_enabled() or not any(args[i].requires_grad for i in at):
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
        for hook in self.before:
            changed = hook(self.module, grads)
            if changed is not None:
                grads = changed if isinstance(changed, tuple) else (changed,)
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
