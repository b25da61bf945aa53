"""The library that texts name: netcl, or another one in a process that runs a program written for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netcl.core.errors import DTypeError

NETCL = "netcl"
# In front of a dtype, a size and a memory format in its ``repr``.
library = NETCL
# The ``repr`` of a tensor if ``library`` is not netcl; an extension sets it. Without one the text is netcl's.
text_of_tensor: Callable[[Any], str] | None = None
# Called with each new subclass of Tensor; an extension sets it, for programs written for another library.
subclassed: Callable[[type[Any]], None] | None = None


def refuse(text: str) -> None:
    """Raises DTypeError if texts name another library: netcl allows what ``text`` says that it does not."""
    if is_foreign():
        raise DTypeError(text)


def is_foreign() -> bool:
    """Returns True if texts name another library than netcl."""
    return library != NETCL
