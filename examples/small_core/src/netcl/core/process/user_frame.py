"""The first frame outside of netcl."""

import sys
import traceback


def level_outside():
    """The ``stacklevel`` with which the caller's warning names the line outside of netcl."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith("netcl."):
        frame, level = frame.f_back, level + 1
    return level


def called_from():
    """The stack down to the last frame outside of netcl."""
    return "".join(traceback.format_stack()[: -level_outside()])
