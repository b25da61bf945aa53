"""Where in a model an error arose: its message names the path of the layer, once it leaves a module around it."""

from __future__ import annotations

from typing import Any

from netcl.core.errors import DTypeError, ShapeError

LOCATED = (ShapeError, DTypeError)
_ORIGIN = "_module_and_message"


def locate(error: BaseException, module: Any) -> None:
    """Notes the innermost module that ``error`` left, and puts its path in ``module``, if that is another, before the
    message.
    """
    origin, message = error.__dict__.setdefault(_ORIGIN, (module, str(error)))
    if origin is module:
        return
    path = next((name for name, inner in module.named_modules() if inner is origin), None)
    if path is not None:
        error.args = (f"{path} in {type(module).__name__}: {message}", *error.args[1:])
