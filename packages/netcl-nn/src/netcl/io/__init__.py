"""Model files and checkpoints: written atomically, and read without executing anything in them."""

from __future__ import annotations

from netcl.siblings import Checked as _Checked

with _Checked("nn"):
    from netcl.io.budget import Budget as Budget
    from netcl.io.checkpoint import latest_checkpoint as latest_checkpoint
    from netcl.io.checkpoint import load_checkpoint as load_checkpoint
    from netcl.io.checkpoint import load_params as load_params
    from netcl.io.checkpoint import save_checkpoint as save_checkpoint
    from netcl.io.checkpoint import save_params as save_params
    from netcl.io.checkpoint import verify as verify
    from netcl.io.errors import CheckpointError as CheckpointError
    from netcl.io.model import load_model as load_model
    from netcl.io.model import save_model as save_model
    from netcl.io.onnx import export_onnx as export_onnx
    from netcl.io.onnx import import_onnx as import_onnx
    from netcl.io.safetensors import load_safetensors as load_safetensors
    from netcl.io.safetensors import save_safetensors as save_safetensors
    from netcl.io.save_load import load as load
    from netcl.io.save_load import save as save
    from netcl.io.torch import load_torch as load_torch
    from netcl.io.torch_writer import save_torch as save_torch

__all__ = [
    name
    for name, value in globals().items()
    if getattr(value, "__module__", "").startswith("netcl.") and name[0] != "_"
]


def __dir__() -> list[str]:
    """Returns the public names, for completion."""
    return sorted(__all__)
