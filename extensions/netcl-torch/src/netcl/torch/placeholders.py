"""Names of PyTorch that libraries import and seldom use: each raises the reason at its first use.

A placeholder is a class: it can be a base class, a part of an annotation and the second argument of isinstance, and it
has no attributes. A name that a library asks for with ``hasattr``, to take another path, must not be in the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from netcl.core.errors import UnsupportedError
from netcl.torch.table import rows_of


class NotHere(type):
    """The metaclass of placeholders: a call raises UnsupportedError."""

    reason: str

    def __call__(cls, *arguments: Any, **keywords: Any) -> Any:
        raise UnsupportedError(cls.reason, op=cls.__name__)

    def __getitem__(cls, item: Any) -> NotHere:
        return cls


def _table() -> Iterator[tuple[str, tuple[str, str]]]:
    reason = ""
    for place, words in rows_of("placeholders.txt"):
        if place == "=":
            reason = words
        else:
            yield place, (words.strip(), reason)


# Of a module of PyTorch the names, and the reason.
PLACEHOLDERS: Mapping[str, tuple[str, str]] = dict(_table())


@cache
def names_of(place: str) -> frozenset[str]:
    """The names of a module that are placeholders."""
    return frozenset(PLACEHOLDERS.get(place, ("", ""))[0].split())


@cache
def placeholder(place: str, name: str) -> NotHere:
    """Returns the class of a name."""
    text = f"{place}.{name} is not in netcl: {PLACEHOLDERS[place][1]}"
    return NotHere(name, (), {"reason": text, "__doc__": text, "__module__": place})
