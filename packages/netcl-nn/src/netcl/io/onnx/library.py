"""Imports the optional package onnx when an ONNX function is called."""

from __future__ import annotations

import importlib
from typing import Any


def onnx_library() -> Any:
    """Returns the package; raises ImportError with instructions to install it."""
    try:
        # The import of a subpackage sets it as an attribute.
        importlib.import_module("onnx.numpy_helper")
        return importlib.import_module("onnx")
    except ImportError as error:
        raise ImportError("ONNX files need the package onnx: pip install 'netcl-nn[onnx]'") from error
