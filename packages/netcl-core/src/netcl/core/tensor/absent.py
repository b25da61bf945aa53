"""Names of PyTorch that are absent, each with the reason or the form to write in its place: modules, members of Tensor
and functions, from the table absent.txt.

The message of AttributeError quotes it. The parity session compares the tables with PyTorch: a member of torch.Tensor
is one of Tensor or is listed here, and so is a function of torch, torch.linalg and torch.special; nothing is listed
that one of both does not lack.
"""

from __future__ import annotations

from pkgutil import get_data
from typing import NoReturn

_TABLES: dict[str, dict[str, str]] = {"modules": {}, "members": {}, "functions": {}}


def _read(text: str) -> None:
    reason = ""
    for line in text.replace("\n    ", " ").splitlines():
        kind, _, names = line.partition(": ")
        if line.startswith("= "):
            reason = line[2:]
        elif kind in _TABLES:
            _TABLES[kind].update(dict.fromkeys(names.split(), reason))


_read((get_data(__name__, "absent.txt") or b"").decode())
ABSENT_MODULES, ABSENT, ABSENT_FUNCTIONS = _TABLES.values()


class AbsentMember:
    """A member of Tensor that raises AttributeError with the reason of ``ABSENT``.

    A descriptor per name, as ``__getattr__`` of a class slows down every access to its attributes.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, tensor: object, kind: type | None = None) -> NoReturn:
        raise AttributeError(f"Tensor has no {self._name!r}: {ABSENT[self._name]}")
