"""The levels of the installed netcl-core that the packages above can do without, and the warning about missing ones."""

from __future__ import annotations

import warnings

from netcl.core.errors import UnsupportedError
from netcl.core.process.contract import LEVELS as _DECLARED
from netcl.core.process.user_frame import level_outside

# A region is a program: a core without the level programs has no tracing either, even if it declares it.
LEVELS: frozenset[str] = _DECLARED if "programs" in _DECLARED else _DECLARED - {"tracing"}

_said: set[str] = set()


def without(level: str, instead: str) -> bool:
    """Returns True if the core does not keep ``level``, and warns the first time with ``instead``, what is done."""
    if level in LEVELS:
        return False
    if level not in _said:
        _said.add(level)
        warnings.warn(f"this netcl-core has no level {level!r}: {instead}", UserWarning, stacklevel=level_outside())
    return True


def need(level: str, what: str) -> None:
    """Raises UnsupportedError, which names ``what`` and the level, if the core does not keep ``level``."""
    if level not in LEVELS:
        raise UnsupportedError(
            f"{what} needs the level {level!r} of netcl-core, which the installed one does not declare; "
            "pip install netcl-core has all levels"
        )
