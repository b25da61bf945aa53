"""The formats that netcl writes: a saver for each, and a check that a file is whole and of one save."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from netcl import io, nn

SIZES = (64, 48)  # 12 KiB of weights: more than one write of every format


def model(value: float) -> nn.Module:
    """Returns a layer with all weights ``value``."""
    layer = nn.Linear(*SIZES)
    for parameter in layer.parameters():
        parameter.write(np.full(parameter.shape, value, np.float32))
    return layer


def _onnx(layer: nn.Module, path: Path) -> None:
    io.export_onnx(layer, np.zeros((1, SIZES[0]), np.float32), path)


SAVERS: dict[str, Callable[[Any, Path], None]] = {
    "model": io.save_model,
    "checkpoint": io.save_checkpoint,
    "params": lambda layer, path: io.save_params(layer.parameters(), path),
    "safetensors": io.save_safetensors,
    "torch": io.save_torch,
    "save": lambda layer, path: io.save(layer.state_dict(), path),
}
if importlib.util.find_spec("onnx") is not None:
    SAVERS["onnx"] = _onnx


def value_of(form: str, path: Path) -> float:
    """Returns the value of a whole file; raises AssertionError if its weights are of two saves, and CheckpointError if
    it cannot be read.
    """
    target = nn.Linear(*SIZES)
    if form in ("model", "onnx"):
        found = io.load_model(path) if form == "model" else io.import_onnx(path)
        arrays = [parameter.to_host() for parameter in found.parameters()]
        arrays = arrays or [tensor.to_host() for tensor in found.state_dict().values()]
    elif form == "params":
        arrays = [tensor.to_host() for tensor in io.load_params(None, None, path)]
    else:
        loaders = {"checkpoint": io.load_checkpoint, "safetensors": io.load_safetensors}
        loaders.get(form, io.load_torch)(path, target)
        arrays = [parameter.to_host() for parameter in target.parameters()]
    values = {float(one) for array in arrays for one in np.unique(array)}
    if len(values) != 1:
        raise AssertionError(f"the weights of one file are {sorted(values)}")
    return values.pop()
