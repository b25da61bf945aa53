"""Model files and checkpoints: written atomically, and read without executing anything in them."""

from __future__ import annotations

from netcl.siblings import Checked as _Checked

with _Checked("nn"):
    from netcl.io.budget import Budget
    from netcl.io.checkpoint import (
        latest_checkpoint,
        load_checkpoint,
        load_params,
        save_checkpoint,
        save_params,
        verify,
    )
    from netcl.io.errors import CheckpointError
    from netcl.io.model import load_model, save_model
    from netcl.io.onnx import export_onnx, import_onnx
    from netcl.io.safetensors import load_safetensors, save_safetensors
    from netcl.io.save_load import load, save
    from netcl.io.torch import load_torch
    from netcl.io.torch_writer import save_torch

__all__ = [
    "Budget",
    "CheckpointError",
    "export_onnx",
    "import_onnx",
    "latest_checkpoint",
    "load",
    "load_checkpoint",
    "load_model",
    "load_params",
    "load_safetensors",
    "load_torch",
    "save",
    "save_checkpoint",
    "save_model",
    "save_params",
    "save_safetensors",
    "save_torch",
    "verify",
]


def __dir__() -> list[str]:
    """Returns the public names, for completion."""
    return sorted(__all__)
