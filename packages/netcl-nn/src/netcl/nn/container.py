"""Containers: Sequential, ModuleList, ModuleDict and Concat."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.nn.module import Module, text_of


class _ModuleSequence(Module):
    """Base class of containers: an ordered sequence of modules with the names 0, 1, ... or names given by the user."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __getitem__(self, key: int | slice) -> Any:
        modules = list(self._modules.items())
        if isinstance(key, slice):
            part = self._empty()
            part._refill(modules[key])
            return part
        return modules[key][1]

    def __setitem__(self, key: int, module: Module) -> None:
        setattr(self, list(self._modules)[key], module)

    def __delitem__(self, key: int | slice) -> None:
        modules = list(self._modules.items())
        del modules[key]
        self._refill(modules)

    def _empty(self) -> _ModuleSequence:
        """Returns an empty container of the same type."""
        return type(self)()

    def _refill(self, modules: list[tuple[str, Any]]) -> None:
        """Replaces the modules; given names are kept, numbers are assigned again."""
        self._modules.clear()
        for at, (name, module) in enumerate(modules):
            self.add_module(str(at) if name.isdigit() else name, module)

    def append(self, module: Module) -> Any:
        """Adds a module at the end and returns the container."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        """Adds modules at the end and returns the container."""
        for module in modules:
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Any:
        """Inserts a module before position ``index`` and returns the container."""
        modules = list(self._modules.items())
        modules.insert(index, ("0", module))
        self._refill(modules)
        return self

    def pop(self, index: int) -> Any:
        """Removes a module and returns it; numbers are assigned again."""
        module = self[index]
        del self[index]
        return module

    def __iadd__(self, other: Iterable[Module]) -> Any:
        return self.extend(other)

    def __add__(self, other: Iterable[Module]) -> Any:
        both = self._empty()
        both._refill([(str(at), module) for at, module in enumerate([*self, *other])])
        return both


class Sequential(_ModuleSequence):
    """Runs modules one after another: ``Sequential(*layers)``, or ``Sequential({name: layer, ...})`` to give names."""

    def __init__(self, *layers: Any) -> None:
        super().__init__()
        named = (
            layers[0]
            if len(layers) == 1 and isinstance(layers[0], Mapping)
            else {str(at): x for at, x in enumerate(layers)}
        )
        for name, layer in named.items():
            if not isinstance(layer, Module):
                raise TypeError(f"Sequential takes modules; number {name} is a {type(layer).__name__}")
            self.add_module(name, layer)

    def forward(self, x: Any) -> Any:
        for module in self:
            x = module(x)
        return x


class ModuleList(_ModuleSequence):
    """A list of modules; it computes nothing itself."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__()
        self.extend(modules)

    def __repr__(self) -> str:
        """Neighbours with one text are a line: ``(0-2): 3 x Linear(...)``, as in PyTorch."""
        children: list[tuple[str, str]] = []
        at = 0
        for text, same in itertools.groupby(map(repr, self)):
            count = len(list(same))
            last = at + count - 1
            children.append((f"({at}): " if count == 1 else f"({at}-{last}): {count} x ", text))
            at = last + 1
        return text_of(self, children)


class ModuleDict(Module):
    """A dict of modules; it computes nothing itself."""

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] = ()) -> None:
        super().__init__()
        self.update(modules)

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Adds modules under their names."""
        for name, module in dict(modules).items():
            self[name] = module

    def __getitem__(self, name: str) -> Any:
        return self._modules[name]

    def __setitem__(self, name: str, module: Module) -> None:
        self.add_module(name, module)

    def __delitem__(self, name: str) -> None:
        del self._modules[name]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, name: object) -> bool:
        return name in self._modules

    def pop(self, name: str) -> Any:
        """Removes a module and returns it; KeyError if there is none of the name."""
        return self._modules.pop(name)

    def clear(self) -> None:
        """Removes all modules."""
        self._modules.clear()

    def keys(self) -> Iterable[str]:
        """Returns the names."""
        return self._modules.keys()

    def values(self) -> Iterable[Any]:
        """Returns the modules."""
        return self._modules.values()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names and modules."""
        return self._modules.items()


class Concat(_ModuleSequence):
    """Runs every layer on the same input and concatenates their outputs along ``axis``; without layers it concatenates
    its inputs.
    """

    def __init__(self, *layers: Module, axis: int = 1) -> None:
        super().__init__()
        self.axis = axis
        self.extend(layers)

    def forward(self, *inputs: Any) -> Tensor:
        tensors = [module(*inputs) for module in self] if len(self) else list(inputs)
        return ag.cat(tensors, axis=self.axis)

    def _empty(self) -> Concat:
        return Concat(axis=self.axis)

    def extra_repr(self) -> str:
        return f"axis={self.axis}"
