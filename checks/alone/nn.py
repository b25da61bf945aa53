"""netcl-nn with its two lower layers: a model is saved, loaded, and gives the same answer."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from netcl import io, nn
from netcl.core import Tensor

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
x = Tensor.from_host(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4))
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "model.netcl"
    io.save_model(model, path)
    assert np.array_equal(io.load_model(path)(x).to_host(), model(x).to_host())
