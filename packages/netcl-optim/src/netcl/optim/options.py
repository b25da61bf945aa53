"""Constructors of optimizers, made from their annotated options."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, InitVar, field
from typing import TYPE_CHECKING, Any, TypeVar

from netcl.autograd.fields import with_constructor
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
    """Adds a constructor with the annotated options of the class and of its bases as parameters.

    An option is a key of parameter groups. It is no attribute of the optimizer, so it is annotated as InitVar, except
    ``lr``.
    """
    return with_constructor(cls, _begin, __name__)


def _begin(optimizer: Declared, values: dict[str, Any]) -> None:
    params = values.pop("params")
    options = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    Optimizer.__init__(optimizer, params, options)
    optimizer._set_up()


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
