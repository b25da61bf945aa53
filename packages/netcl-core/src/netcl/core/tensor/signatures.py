"""Signatures of methods that are made when they are first read, as all of them take 5 ms of an import."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any


class Later(inspect.Signature):
    """The signature that ``make()`` returns, called at the first use."""

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], inspect.Signature]) -> None:
        self._make = make
        self._made: inspect.Signature | None = None

    def _now(self) -> inspect.Signature:
        if self._made is None:
            self._made = self._make()
        return self._made

    @property
    def parameters(self) -> Any:
        """The parameters by name."""
        return self._now().parameters

    @property
    def return_annotation(self) -> Any:
        """The type of the result."""
        return self._now().return_annotation

    def replace(self, **changes: Any) -> Any:
        """Returns another signature with the given parameters and type of the result."""
        return self._now().replace(**changes)

    def __reduce__(self) -> Any:
        return self._now().__reduce__()


def with_first(make: Callable[[], inspect.Signature], name: str) -> Later:
    """Returns the signature that ``make()`` returns, with ``name`` as its first parameter."""

    def renamed() -> inspect.Signature:
        signature = make()
        first, *more = signature.parameters.values()
        return signature.replace(parameters=[first.replace(name=name), *more])

    return Later(renamed)


def as_written(function: FunctionType) -> Callable[[], inspect.Signature]:
    """Returns what makes the signature of a function without the one that it is about to get."""
    known: Mapping[str, Any] = vars(function)
    if "__signature__" in known or "__wrapped__" in known:
        signature = inspect.signature(function)
        return lambda: signature

    def bare() -> inspect.Signature:
        copy = FunctionType(function.__code__, {}, function.__name__, function.__defaults__, function.__closure__)
        copy.__kwdefaults__, copy.__annotations__ = function.__kwdefaults__, function.__annotations__
        return inspect.signature(copy)

    return bare
