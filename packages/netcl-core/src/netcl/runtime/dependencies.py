"""Finds the Python state that a captured step depends on, starting from the function itself.

An object with ``modules``, ``parameters`` and ``buffers`` counts as a module, one with ``param_groups`` as an
optimizer. They are searched in the function's closure, its defaults, the object it is a method of, and global names in
its code.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Hashable, Iterator
from typing import Any

from netcl.core.ops_table import modes
from netcl.core.tensor import Tensor

_DEPTH = 4


class Dependencies:
    """The modules and optimizers that ``fn`` refers to; as long as ``key()`` is equal, a captured call is valid.

    The key contains identities of parameters and buffers, their requires_grad, dtype and device, training flags,
    parameter groups, and the modes of the thread. Numbers of an optimizer that has a ``rule`` are stored on the device
    and are not part of it.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._modules: dict[int, Any] = {}
        self._optimizers: dict[int, Any] = {}
        self._tensors: dict[int, Tensor] = {}
        self._seen: dict[int, Any] = {}
        self._visit(fn, 0)
        # Keeps references, so that none of these identities is given to another object.
        self._held = [self._modules, self._optimizers, list(self._objects())]
        self._seen.clear()

    def parameters(self) -> list[Tensor]:
        """Returns all tensors that can hold a gradient; an optimizer uses it of frozen ones too."""
        tensors = {id(t): t for t in self._all_tensors() if t.requires_grad or t.grad is not None}
        for optimizer in self._optimizers.values():
            tensors.update((id(p), p) for group in optimizer.param_groups for p in group["params"])
        return list(tensors.values())

    def storages(self) -> list[tuple[Tensor, Any]]:
        """Returns all tensors, each with its storage, which ``x.data = y`` replaces."""
        tensors = {id(t): t for t in (*self._all_tensors(), *self.parameters())}
        return [(tensor, tensor._storage) for tensor in tensors.values()]

    def key(self) -> Hashable:
        """Returns a hashable of all of it."""
        modules = tuple([_state_of(root) for root in self._modules.values()])
        tensors = tuple([(id(t), t.requires_grad, t.dtype, id(t.engine)) for t in self._tensors.values()])
        groups = tuple(
            [_group(optimizer, group) for optimizer in self._optimizers.values() for group in optimizer.param_groups]
        )
        return modes.current(), modules, tensors, groups

    def _objects(self) -> Iterator[Any]:
        for root in self._modules.values():
            yield from root.modules()
        yield from self._all_tensors()

    def _all_tensors(self) -> Iterator[Tensor]:
        for root in self._modules.values():
            yield from root.parameters()
            yield from root.buffers()
        yield from self._tensors.values()

    def _visit(self, value: Any, depth: int) -> None:
        if depth > _DEPTH or id(value) in self._seen or isinstance(value, (type, types.ModuleType, str, int, float)):
            return
        self._seen[id(value)] = value
        if isinstance(value, Tensor):
            self._tensors[id(value)] = value
        elif all(hasattr(value, name) for name in ("modules", "parameters", "buffers", "training")):
            self._modules[id(value)] = value
        elif hasattr(value, "param_groups"):
            self._optimizers[id(value)] = value
        else:
            for inner in _referenced(value):
                self._visit(inner, depth + 1)


def _state_of(root: Any) -> Hashable:
    """Returns the modules and tensors below a module, with what a captured step depends on."""
    own = getattr(root, "_capture_key", None)  # of netcl.nn: in one walk
    if own is not None:
        return own()  # type: ignore[no-any-return]
    tensors = (*root.parameters(), *root.buffers())
    return tuple([(id(m), m.training) for m in root.modules()]), tuple(
        [(id(t), t.requires_grad, t.dtype, id(t.engine)) for t in tensors]
    )


def _referenced(value: Any) -> Iterator[Any]:
    """Yields the objects that a function, a container or a callable object refers to."""
    if isinstance(value, types.FunctionType):
        for cell in value.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # a name that has no value yet
                continue
        yield from value.__defaults__ or ()
        yield from (value.__kwdefaults__ or {}).values()
        if not value.__globals__.get("__name__", "").startswith("netcl."):
            yield from (value.__globals__[name] for name in value.__code__.co_names if name in value.__globals__)
    elif isinstance(value, types.MethodType):
        yield value.__self__
        yield value.__func__
    elif isinstance(value, functools.partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from value
    elif isinstance(value, dict):
        yield from value.values()
    elif not isinstance(value, types.BuiltinFunctionType):
        yield from list(getattr(value, "__dict__", {}).values())


def _group(optimizer: Any, group: Any) -> Hashable:
    members = tuple([(id(p), p.requires_grad) for p in group["params"]])
    rule = getattr(optimizer, "rule", None)
    if rule is not None and getattr(optimizer, "_has_rule", True):
        return members, rule(group), getattr(optimizer, "_bucketed", 0)
    return members, tuple((key, repr(value)) for key, value in group.items() if key != "params")
