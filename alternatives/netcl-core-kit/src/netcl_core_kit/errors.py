"""Errors of netcl: each is a NetclError and the built-in error of its kind."""

from __future__ import annotations

import functools
import re
import sys
from types import FunctionType
from typing import Any

from netcl_core_kit import wrong_arguments

__all__ = [
    "BackendMismatchError", "CaptureError", "CollectiveMismatchError", "CollectiveTimeoutError", "ConfigError",
    "DTypeError", "DeviceLostError", "DeviceNotFoundError", "DeviceTimeoutError", "ExpressionError",
    "ForkedProcessError", "ForwardOnlyWarning", "KernelBuildError", "NetclError", "NonFiniteError",
    "OutOfMemoryError", "ShapeError", "SingularMatrixError", "UnsupportedError", "format_bytes", "from_here",
    "shorten_traceback",
]  # fmt: skip

_OWN = ("netcl.", "netcl_core_kit.", "contextlib")


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
    first = error.__traceback__
    if sys.flags.dev_mode or first is None:
        return
    last = first
    while last.tb_next is not None:
        last = last.tb_next
        if not str(last.tb_frame.f_globals.get("__name__", "")).startswith(_OWN):
            return
    if last.tb_frame.f_code.co_code[last.tb_lasti] == wrong_arguments.RAISE or getattr(error, "_shortened", False):
        first.tb_next = None
        error._shortened = True  # type: ignore[attr-defined]


def from_here(function: Any) -> Any:
    """Decorates a public function, or all public functions and constructors in the globals of a module: their errors
    show their own frame alone. A wrong argument is named if netcl raised no error.
    """
    if isinstance(function, dict):
        _decorate_all(function)
        return function

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            wrong_arguments.name_keyword(error, function, args, kwargs)
            wrong_arguments.name_argument(error, function, args, kwargs)
            shorten_traceback(error)
            raise

    called._decorated = True  # type: ignore[attr-defined]
    return called


def _decorate_all(module: dict[str, Any]) -> None:
    made: dict[Any, Any] = {}  # by function, as some have several names

    def of(function: Any) -> Any:
        if function not in made:
            made[function] = function if hasattr(function, "_decorated") else from_here(function)
        return made[function]

    for name, value in list(module.items()):
        if name.startswith("_") or getattr(value, "__module__", None) != module["__name__"]:
            continue
        if isinstance(value, FunctionType):
            module[name] = of(value)
        elif isinstance(value, type) and isinstance(vars(value).get("__init__"), FunctionType):
            value.__init__ = of(vars(value)["__init__"])  # type: ignore[misc]
