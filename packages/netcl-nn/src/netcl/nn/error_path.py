"""Adds the path of the failing layer to the message of an error as it leaves the modules around that layer."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from netcl.core.errors import DTypeError, ShapeError, UnsupportedError

LOCATED = (ShapeError, DTypeError)
_ORIGIN = "_module_and_message"


def refuse_host_data(module: Any, inputs: tuple[Any, ...]) -> None:
    """Raises TypeError if a layer of netcl got something else in place of a tensor; for calls that have failed."""
    if not type(module).forward.__module__.startswith("netcl.nn") or module._modules:
        return
    for value in inputs:
        kind, advice = type(value).__name__, "; write netcl.tensor(...)"
        if isinstance(value, (list, np.ndarray)):
            raise TypeError(f"{type(module).__name__}: expected tensors, got {kind}{advice}") from None
        of_python = isinstance(sys.exc_info()[1], AttributeError)
        if of_python and value is inputs[0] and (value is None or isinstance(value, (int, float, str, dict))):
            raise UnsupportedError(f"{type(module).__name__}: expected tensors, got {kind}") from None


def add_module_path(error: BaseException, module: Any) -> None:
    """Records the innermost module that ``error`` left; if ``module`` is another one, puts the path of the innermost
    module in it before the message.
    """
    origin, message = error.__dict__.setdefault(_ORIGIN, (module, str(error)))
    if origin is module:
        return
    path = next((name for name, inner in module.named_modules() if inner is origin), None)
    if path is not None:
        error.args = (f"{path} in {type(module).__name__}: {message}", *error.args[1:])
