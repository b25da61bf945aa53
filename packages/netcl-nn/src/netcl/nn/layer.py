"""Layer: the base class of layers that differ in constants of their class."""

from __future__ import annotations

from typing import Any, ClassVar

from netcl.nn.module import Module


class Layer(Module):
    """A module with the constants of its class as keywords: ``class MaxPool1d(_MaxPool, rank=1)``.

    A constant is annotated in the class or one of its bases. ``shown`` are the attributes in its ``repr``.
    """

    shown: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **constants: Any) -> None:
        names = {name for base in cls.__mro__ for name in getattr(base, "__annotations__", ())} if constants else set()
        super().__init_subclass__(**{name: value for name, value in constants.items() if name not in names})
        for name, value in constants.items():
            setattr(cls, name, value)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)}" for name in self.shown)
