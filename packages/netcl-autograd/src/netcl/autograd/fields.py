"""Constructors made from the annotated fields of a class, as those of dataclasses are."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import wraps
from typing import Any, TypeVar

from netcl.core.errors import from_here

T = TypeVar("T", bound=type)


def with_constructor(cls: T, begin: Callable[[Any, dict[str, Any]], None], module: str) -> T:
    """Adds a constructor that calls ``begin(self, values)`` with the values of the annotated fields, in the order of
    its parameters.

    The parameters are the fields of the class and of its bases with such a constructor, in the order of a dataclass.
    Default values are removed from the class; annotations are resolved in ``module``.
    """
    owner: Any = cls
    annotations = _parameter_types(inspect.get_annotations(cls))
    defaults = {name: vars(cls)[name] for name in annotations if name in vars(cls)}
    for name in defaults:
        delattr(cls, name)
    bases = (owner._arguments,) if hasattr(owner, "_arguments") else ()
    namespace = {"__annotations__": annotations, "__module__": module, **defaults}
    arguments = owner._arguments = dataclass(eq=False, repr=False)(type(cls.__name__, bases, namespace))
    names = list(inspect.signature(arguments).parameters)

    @wraps(arguments.__init__)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        values = vars(arguments(*args, **kwargs))
        begin(self, {name: values[name] for name in names})

    __init__.__module__ = cls.__module__
    owner.__init__ = from_here(__init__)
    return cls


def _parameter_types(annotations: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the types of the parameters for those of fields: none of a ClassVar, that in an InitVar."""
    types: dict[str, Any] = {}
    for name, text in annotations.items():
        if not text.startswith("ClassVar"):
            types[name] = KW_ONLY if text == "KW_ONLY" else text.removeprefix("InitVar[")
            if text.startswith("InitVar["):
                types[name] = types[name].removesuffix("]")
    return types
