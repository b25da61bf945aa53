"""ONNX files: models written as what they compute, and read as modules that can be trained on."""

from __future__ import annotations

from netcl.io.onnx.export import export_onnx
from netcl.io.onnx.model import ONNXModel, import_onnx

__all__ = ["ONNXModel", "export_onnx", "import_onnx"]
