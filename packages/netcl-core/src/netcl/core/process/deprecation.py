"""Marks public names for removal, by the rule of docs/reference/stability.md, for each package above netcl-core too."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

Named = TypeVar("Named", bound=Callable[..., Any])

MINOR_VERSIONS = 2  # in which a deprecated name still works


def deprecated(since: str, instead: str) -> Callable[[Named], Named]:
    """Returns a decorator for functions and classes, which warn with DeprecationWarning at each call.

    ``since`` is the version, as "0.2", that first warns; the name is removed two minor versions later:
    tools/check_versions.py fails from then on. ``instead`` says what to write.
    """
    removed = removal(since)

    def mark(named: Named) -> Named:
        name = f"{named.__module__}.{named.__qualname__}"
        text = f"{name} is deprecated since {since} and is removed in {removed}: {instead}"
        plain = named.__init__ if isinstance(named, type) else named  # type: ignore[misc]

        @wraps(plain)
        def warned(*arguments: Any, **keywords: Any) -> Any:
            warnings.warn(text, DeprecationWarning, stacklevel=2)
            return plain(*arguments, **keywords)

        if not isinstance(named, type):
            return warned  # type: ignore[return-value]
        setattr(named, "__init__", warned)  # noqa: B010
        return cast("Named", named)

    return mark


def removal(since: str) -> str:
    """Returns the version that no longer has a name deprecated in ``since``: "0.4" for "0.2"."""
    major, minor = since.split(".")[:2]
    return f"{major}.{int(minor) + MINOR_VERSIONS}"
