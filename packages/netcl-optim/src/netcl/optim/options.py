"""Constructors of optimizers, made from their annotated options."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from netcl.core.errors import from_here
from netcl.optim.fused import Rule
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


class OfRule(Declared):
    """Base class of declared optimizers that name the class of their rule, and the options that it reads, as keywords
    of the class: ``class ASGD(WithForms, by=ASGDRule, reads=("lr", ...))``.
    """

    _by: ClassVar[type[Rule]] = Rule
    _reads: ClassVar[tuple[str, ...]] = ("lr",)

    def __init_subclass__(
        cls, by: type[Rule] | None = None, reads: tuple[str, ...] | None = None, **options: Any
    ) -> None:
        super().__init_subclass__(**options)
        cls._by, cls._reads = by or cls._by, reads or cls._reads

    def rule(self, group: Mapping[str, Any]) -> Rule:
        return self._by(group["maximize"])

    def numbers(self, group: Mapping[str, Any]) -> dict[str, float]:
        return {name: float(group[name]) for name in self._reads}


@with_options
class WithForms(OfRule):
    """Base class of optimizers that take PyTorch's choices of an implementation."""

    _: KW_ONLY
    maximize: InitVar[bool] = False
    foreach: InitVar[bool | None] = None
    capturable: InitVar[bool] = False
    differentiable: InitVar[bool] = False
