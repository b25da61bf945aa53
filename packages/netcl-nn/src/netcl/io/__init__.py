"""Model files and checkpoints: written atomically, and read without executing anything in them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from netcl.siblings import Checked as _Checked

if TYPE_CHECKING:
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

_NAMES = {
    "Budget": "budget",
    "latest_checkpoint": "checkpoint",
    "load_checkpoint": "checkpoint",
    "load_params": "checkpoint",
    "save_checkpoint": "checkpoint",
    "save_params": "checkpoint",
    "verify": "checkpoint",
    "CheckpointError": "errors",
    "load_model": "model",
    "save_model": "model",
    "export_onnx": "onnx",
    "import_onnx": "onnx",
    "load_safetensors": "safetensors",
    "save_safetensors": "safetensors",
    "load": "save_load",
    "save": "save_load",
    "load_torch": "torch",
    "save_torch": "torch_writer",
}
__all__ = list(_NAMES)


def __getattr__(name: str) -> Any:
    """Imports a name with its module at the first use: a program that reads one format needs no other."""
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with _Checked("nn"):
        value = globals()[name] = getattr(import_module(f"{__name__}.{_NAMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    """Returns the public names, for completion."""
    return sorted(__all__)
