"""The place outside of netcl from which it was called."""

from __future__ import annotations

import sys
import traceback
from typing import Any

__all__ = ["call_site", "called_from", "level_outside"]


def _inside(frame: Any) -> bool:
    name = str(frame.f_globals.get("__name__", ""))
    return name == "netcl" or name.startswith(("netcl.", "netcl_core_kit.", "contextlib", "functools"))


def _outside(depth: int) -> tuple[Any, int]:
    frame, level = sys._getframe(depth), 0
    while frame.f_back is not None and _inside(frame):
        frame, level = frame.f_back, level + 1
    return frame, level


def called_from() -> str:
    """The stack down to the last frame outside of netcl, as text."""
    return "".join(traceback.format_stack(_outside(2)[0]))


def call_site() -> tuple[str, int]:
    """The file and the line outside of netcl from which it was called."""
    frame, _ = _outside(2)
    return frame.f_code.co_filename, frame.f_lineno


def level_outside() -> int:
    """The ``stacklevel`` with which ``warnings.warn`` in the caller names the line outside of netcl."""
    return _outside(2)[1] + 1
