"""Layer: the base class of layers that differ in constants of their class."""

from __future__ import annotations

from typing import Any, ClassVar

from netcl.nn.module import Module


class Layer(Module):
    """A module with the constants of its class as keywords: ``class MaxPool1d(_MaxPool, rank=1)``.

    ``shown`` are the attributes in its ``repr``.
    """

    shown: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **constants: Any) -> None:
        super().__init_subclass__()
        for name, value in constants.items():
            setattr(cls, name, value)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)}" for name in self.shown)
