"""Names of torchvision that netcl does not have: they can be imported and subclassed, and raise when called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netcl.torch.placeholders import NotHere
from netcl.torch.table import rows_of

__all__ = ["NotHere", "Refusals", "Weights", "refused"]


class Weights(NotHere):
    """The metaclass of sets of trained weights, of which each member is the text ``<name of the set>.<name>``."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{cls.__name__} has no attribute {name!r}")
        return f"{cls.__name__}.{name}"


_ROWS: dict[str, str] = dict(rows_of("refused.txt", "netcl.torch_vision"))


class Refusals:
    """The names of a module of torchvision that are not here: the row ``place`` of refused.txt."""

    def __init__(self, place: str) -> None:
        reason, _, names = _ROWS[place].partition("|")
        self.module: str = place.partition(" ")[0]
        self.names: list[str] = names.split()
        self.reason: str = reason.strip()
        self.found: dict[str, Any] = {}

    def find(self, name: str) -> Any:
        """Returns the class of a name that is not here.

        Raises:
            AttributeError: the module of torchvision has no such name.
        """
        if name not in self.names:
            raise AttributeError(f"module 'torchvision.{self.module}' has no attribute {name!r} in netcl")
        if name not in self.found:
            text = f"torchvision.{self.module}.{name} is not in netcl: {self.reason}"
            kind = Weights if name.endswith("_Weights") else NotHere
            place = {"reason": text, "__doc__": text, "__module__": f"torchvision.{self.module}"}
            self.found[name] = kind(name, (), place)
        return self.found[name]


def refused(place: str, namespace: dict[str, Any]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns ``__getattr__`` and ``__dir__`` of a module with the global names ``namespace``."""
    refusals = Refusals(place)
    return refusals.find, lambda: sorted([*namespace, *refusals.names])
