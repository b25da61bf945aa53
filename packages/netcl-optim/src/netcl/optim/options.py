"""Constructors of optimizers, made from their annotated options."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from netcl.core.errors import from_here
from netcl.optim.optimizer import Optimizer

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**options: Any) -> Any:
        """Returns a decorator that changes nothing."""
        return lambda function: function


T = TypeVar("T", bound=type)

# The types that annotations of options name, which are resolved in this module.
OF_ANNOTATIONS = (Iterable, Sequence, Any)


@dataclass_transform(eq_default=False, field_specifiers=(field,))
def with_options(cls: T) -> T:
    """Adds a constructor with the annotated options of the class and of its bases as parameters, in the order of a
    dataclass.

    An option is a key of parameter groups. It is no attribute of the optimizer, so it is annotated as InitVar, except
    ``lr``.
    """
    owner: Any = cls
    types: dict[str, Any] = {
        name: KW_ONLY if text == "KW_ONLY" else text[len("InitVar[") : -1] if text.startswith("InitVar[") else text
        for name, text in inspect.get_annotations(cls).items()
    }
    defaults = {name: vars(cls)[name] for name in types if name in vars(cls)}
    for name in defaults:
        delattr(cls, name)
    bases = (owner._arguments,) if hasattr(owner, "_arguments") else ()
    namespace = {"__annotations__": types, "__module__": __name__, **defaults}
    arguments = owner._arguments = dataclass(eq=False, repr=False)(type(cls.__name__, bases, namespace))
    names = [name for name in inspect.signature(arguments).parameters if name != "params"]

    @wraps(arguments.__init__)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        values = vars(arguments(*args, **kwargs))
        options = {name: tuple(values[name]) if isinstance(values[name], list) else values[name] for name in names}
        Optimizer.__init__(self, values["params"], options)
        self._set_up()

    __init__.__module__ = cls.__module__
    owner.__init__ = from_here(__init__)
    return cls


@with_options
class Declared(Optimizer):
    """Base class of optimizers with a constructor made from their options."""

    params: InitVar[Iterable[Any]]
    lr: float  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

    def _set_up(self) -> None:
        """Completes the optimizer at the end of its constructor."""


@with_options
class WithForms(Declared):
    """Base class of optimizers that take PyTorch's choices of an implementation."""

    _: KW_ONLY
    maximize: InitVar[bool] = False
    foreach: InitVar[bool | None] = None
    capturable: InitVar[bool] = False
    differentiable: InitVar[bool] = False
