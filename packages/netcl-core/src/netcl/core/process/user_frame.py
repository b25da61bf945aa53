"""The user's frame that called an op, for warnings and anomaly detection."""

from __future__ import annotations

import sys
import traceback
from types import FrameType


def _is_own(frame: FrameType) -> bool:
    # By name, since an editable install has one folder per distribution.
    return str(frame.f_globals.get("__name__", "")).startswith("netcl.")


def _outside(frame: FrameType | None) -> tuple[FrameType | None, int]:
    """Returns the nearest frame from ``frame`` outwards that is not in netcl, and its distance."""
    distance = 0
    while frame is not None and frame.f_back is not None and _is_own(frame):
        frame, distance = frame.f_back, distance + 1
    return frame, distance


def level_outside() -> int:
    """Returns the ``stacklevel`` for ``warnings.warn`` in the calling function to name the line outside of netcl."""
    return _outside(sys._getframe(1))[1] + 1


def call_site() -> tuple[str, int]:
    """Returns the file and the line outside of netcl that called the calling function."""
    frame, _ = _outside(sys._getframe(1))
    return ("", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def called_from() -> str:
    """Returns the stack down to the last frame outside of netcl, as text."""
    frame, _ = _outside(sys._getframe(1))
    return "".join(traceback.format_stack(frame))
