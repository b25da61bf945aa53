"""Hooks of modules: removable handles, and the identity ops through which backward hooks see gradients."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import netcl.autograd as ag
from netcl.core import Tensor

_ids = itertools.count()


class RemovableHandle:
    """The handle of a registered hook; ``remove()`` removes the hook, as does the end of a ``with`` block.

    ``hooks`` is the table that the hook is added to, before its others if ``first``. ``options`` are tables with True
    for its key.
    """

    def __init__(
        self,
        hooks: dict[int, Any],
        hook: Any,
        first: bool = False,
        options: Sequence[dict[int, bool]] = (),
    ) -> None:
        self._tables: list[dict[int, Any]] = [hooks, *options]
        self.id: int = next(_ids)
        others = dict(hooks) if first else {}
        if first:
            hooks.clear()
        hooks[self.id] = hook
        hooks.update(others)
        for table in options:
            table[self.id] = True

    def remove(self) -> None:
        """Removes the hook; may be called again."""
        for table in self._tables:
            table.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


class ForwardHook(NamedTuple):
    """A hook of the forward pass with its options."""

    function: Callable[..., Any]
    with_kwargs: bool = False
    always: bool = False

    def __call__(self, module: Any, args: Any, kwargs: Any, *result: Any) -> Any:
        if self.with_kwargs:
            return self.function(module, args, kwargs, *result)
        return self.function(module, args, *result)


class _OfAllModules(NamedTuple):
    kind: str
    hook: Any


# The hooks of all modules. A call of a module costs nothing for them while the table is empty.
EVERY: dict[int, _OfAllModules] = {}

# The hooks that are called when a module registers a parameter, a buffer or a module.
REGISTRATION: dict[str, dict[int, Callable[..., Any]]] = {"parameter": {}, "buffer": {}, "module": {}}


def _every(kind: str, hook: Any) -> RemovableHandle:
    return RemovableHandle(EVERY, _OfAllModules(kind, hook))


def of_all_modules(kind: str) -> list[Any]:
    """Returns the hooks of all modules of a kind: "forward_pre", "forward", "backward_pre" or "backward"."""
    return [each.hook for each in EVERY.values() if each.kind == kind]


def registered(kind: str, module: Any, name: str, value: Any) -> Any:
    """Returns the value that the hooks of a kind of ``REGISTRATION`` put in the place of ``value``."""
    for hook in tuple(REGISTRATION[kind].values()):
        changed = hook(module, name, value)
        if changed is not None:
            value = changed
    return value


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Registers a forward pre-hook of all modules, called before their own."""
    return _every("forward_pre", ForwardHook(hook))


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Registers a forward hook of all modules, called before their own."""
    return _every("forward", ForwardHook(hook, with_kwargs, always_call))


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Registers a full backward hook of all modules, called before their own."""
    return _every("backward", hook)


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls ``register_module_full_backward_hook``: PyTorch's form of this name sees a part of the gradients only."""
    return register_module_full_backward_hook(hook)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Registers a full backward pre-hook of all modules, called before their own."""
    return _every("backward_pre", hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls ``hook(module, name, parameter)`` when a module registers a parameter; its result, if not None, takes the
    place of the parameter.
    """
    return RemovableHandle(REGISTRATION["parameter"], hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls ``hook(module, name, buffer)`` when a module registers a buffer; its result, if not None, takes the place
    of the buffer.
    """
    return RemovableHandle(REGISTRATION["buffer"], hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls ``hook(module, name, child)`` when a module registers another one; its result, if not None, takes the place
    of the child.
    """
    return RemovableHandle(REGISTRATION["module"], hook)


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
        """Returns the arguments; tensors among them pass through an op: its gradient calls the hooks."""
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
        """Returns the output or outputs, passed through an op: its gradient records the incoming gradients."""
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
    """Returns the values as results of one op with ``backward(*grads)`` as gradient."""

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
