"""Where in the user's program an op was called: for warnings, and for what anomaly detection remembers."""

from __future__ import annotations

import sys
import traceback
from types import FrameType

__all__ = ["called_from", "level_outside"]


def _is_own(frame: FrameType) -> bool:
    # By name, since each distribution has a folder of its own where netcl runs from its sources.
    return str(frame.f_globals.get("__name__", "")).startswith("netcl.")


def _outside(frame: FrameType | None) -> tuple[FrameType | None, int]:
    """The nearest frame from ``frame`` outwards that is not netcl's, and its distance."""
    distance = 0
    while frame is not None and frame.f_back is not None and _is_own(frame):
        frame, distance = frame.f_back, distance + 1
    return frame, distance


def level_outside() -> int:
    """The ``stacklevel`` with which ``warnings.warn``, called where this is, names the line outside of netcl."""
    return _outside(sys._getframe(1))[1] + 1


def called_from() -> str:
    """The stack down to the last frame outside of netcl, as text."""
    frame, _ = _outside(sys._getframe(1))
    return "".join(traceback.format_stack(frame))
