"""Errors of netcl: each is a NetclError and the built-in error of its kind."""

from __future__ import annotations

import functools
import re
import sys
from typing import Any

__all__ = [
    "BackendMismatchError", "CaptureError", "CollectiveMismatchError", "CollectiveTimeoutError", "ConfigError",
    "DTypeError", "DeviceLostError", "DeviceNotFoundError", "DeviceTimeoutError", "ExpressionError",
    "ForkedProcessError", "ForwardOnlyWarning", "KernelBuildError", "NetclError", "NonFiniteError",
    "OutOfMemoryError", "ShapeError", "SingularMatrixError", "UnsupportedError", "format_bytes", "from_here",
    "shorten_traceback",
]  # fmt: skip


class NetclError(Exception):
    """Base of all errors of netcl. ``op`` names the operation, by default the one that the text begins with, and
    ``parameter`` the argument at fault; or None.
    """

    def __init__(self, message: str = "", *, op: str | None = None, parameter: str | None = None) -> None:
        super().__init__(message)
        named = None if op is not None else re.match(r"([a-z]\w*): ", message)
        self.op = named[1] if named else op
        self.parameter = parameter


def _kind(name: str, base: type[Exception], doc: str) -> Any:
    return type(name, (NetclError, base), {"__doc__": doc, "__module__": "netcl.core.errors"})


BackendMismatchError = _kind("BackendMismatchError", ValueError, "Tensors of one operation are on different devices.")
CaptureError = _kind("CaptureError", RuntimeError, "A step cannot be captured, or its key changed.")
CollectiveMismatchError = _kind("CollectiveMismatchError", RuntimeError, "The ranks called different collectives.")
CollectiveTimeoutError = _kind("CollectiveTimeoutError", TimeoutError, "A collective exceeded its timeout.")
ConfigError = _kind("ConfigError", ValueError, "A NETCL_ variable has an unknown name or an invalid value.")
DTypeError = _kind("DTypeError", TypeError, "A dtype is unknown, or not one that the operation takes.")
DeviceLostError = _kind("DeviceLostError", RuntimeError, "The driver reports the device as lost.")
DeviceNotFoundError = _kind("DeviceNotFoundError", LookupError, "No device matches the selector.")
DeviceTimeoutError = _kind("DeviceTimeoutError", TimeoutError, "A wait for the device exceeded its timeout.")
ExpressionError = _kind("ExpressionError", ValueError, "An expression text cannot be parsed.")
ForkedProcessError = _kind("ForkedProcessError", RuntimeError, "A forked child touched a device of its parent.")
NonFiniteError = _kind("NonFiniteError", FloatingPointError, "A NaN or an infinity appeared.")
ShapeError = _kind("ShapeError", ValueError, "Shapes, axes or sizes do not fit together.")
SingularMatrixError = _kind("SingularMatrixError", RuntimeError, "A matrix has no inverse, or no factorization.")
UnsupportedError = _kind("UnsupportedError", TypeError, "The operation is not defined for this kind of input.")


class KernelBuildError(NetclError, RuntimeError):
    """The driver refused a kernel."""

    source = options = log = device = driver = ""


class OutOfMemoryError(NetclError, MemoryError):
    """The device has no room for a tensor. Sizes are bytes, None if unknown."""

    def __init__(
        self,
        message: str = "",
        *,
        requested: int = 0,
        free: int | None = None,
        largest: int | None = None,
        holders: Any = (),
        op: str | None = None,
    ) -> None:
        super().__init__(message, op=op)
        self.requested, self.free, self.largest, self.holders = requested, free, largest, list(holders)


class ForwardOnlyWarning(UserWarning):
    """A function that is not recorded was called on a tensor that requires grad."""


def format_bytes(nbytes: int) -> str:
    """A number of bytes with a binary unit: ``format_bytes(1536) == "1.5 KiB"``."""
    size = float(nbytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{nbytes} bytes" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def shorten_traceback(error: BaseException) -> None:
    """Cuts the frames of netcl below the caller's off the traceback of an error that netcl raised."""
    if sys.flags.dev_mode or error.__traceback__ is None:
        return
    first = error.__traceback__
    frame: Any = first
    while frame is not None:
        if not str(frame.tb_frame.f_globals.get("__name__", "")).startswith(("netcl.", "netcl_core_kit.")):
            return
        frame = frame.tb_next
    first.tb_next = None


def from_here(function: Any) -> Any:
    """Decorates a public function whose errors show its own frame alone; the globals of a module stay as they are."""
    if isinstance(function, dict):
        return function

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except NetclError as error:
            shorten_traceback(error)
            raise

    return called
