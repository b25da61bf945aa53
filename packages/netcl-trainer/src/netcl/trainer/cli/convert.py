"""``netcl export`` and ``netcl convert``: models and weights in the formats of other programs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from netcl import io, nn
from netcl.core import Tensor
from netcl.core.device import device
from netcl.trainer.cli.config import ConfigFileError

_SUFFIX = {"onnx": ".onnx", "safetensors": ".safetensors", "torch": ".pt"}
_FORMATS = {".netcl": "netcl", ".safetensors": "safetensors", ".pt": "torch", ".pth": "torch", ".onnx": "onnx"}


def export(chosen: argparse.Namespace) -> int:
    """Writes a model as ONNX, or its weights as safetensors or a PyTorch state dict."""
    source = Path(chosen.model)
    target = Path(chosen.output) if chosen.output else source.with_suffix(_SUFFIX[chosen.to])
    with device("cpu"):
        model = io.load_model(source)
        _write(model, dict(model.state_dict()), target, chosen.to, chosen.shape)
    print(target)
    return 0


def convert(chosen: argparse.Namespace) -> int:
    """Converts between formats; .netcl and .onnx hold a model, the others weights by name."""
    source, target = Path(chosen.source), Path(chosen.target)
    read, write = _format(source), _format(target)
    with device("cpu"):
        model, state = _read(source, read)
        _write(model, state, target, write, chosen.shape)
    print(target)
    return 0


def _format(path: Path) -> str:
    kind = _FORMATS.get(path.suffix)
    if kind is None:
        raise ConfigFileError(f"{path}: the format goes by the suffix, which is one of {', '.join(_FORMATS)}")
    return kind


def _read(path: Path, kind: str) -> tuple[nn.Module | None, dict[str, Any]]:
    """Returns the model, if the format holds one, and the weights by name."""
    if kind == "netcl":
        if io.verify(path)["type"] == "checkpoint":
            return None, dict(io.load_checkpoint(path, rng=False)["model"])
        model = io.load_model(path)
    elif kind == "onnx":
        model = io.import_onnx(path)
    else:
        return None, dict(io.load_safetensors(path) if kind == "safetensors" else io.load_torch(path))
    return model, dict(model.state_dict())


def _write(
    model: nn.Module | None, state: dict[str, Any], target: Path, kind: str, shape: tuple[int, ...] | None
) -> None:
    if kind in ("netcl", "onnx"):
        if model is None:
            raise ConfigFileError(f"{target}: a {kind} file holds a model, and the source has weights alone")
        if kind == "netcl":
            io.save_model(model, target)
            return
        if shape is None:
            raise ConfigFileError("for ONNX give the shape of an input: --shape 1,3,32,32")
        io.export_onnx(model, Tensor.from_host(np.zeros(shape, np.float32)), target)
    else:
        tensors = {
            name: value if isinstance(value, Tensor) else Tensor.from_host(value) for name, value in state.items()
        }
        (io.save_safetensors if kind == "safetensors" else io.save_torch)(tensors, target)
