"""ONNX export of any model by the ops that it calls, and import of ONNX graphs as trainable modules."""

from __future__ import annotations

from netcl.io.onnx.export import export_onnx
from netcl.io.onnx.model import ONNXModel, import_onnx

__all__ = ["ONNXModel", "export_onnx", "import_onnx"]
