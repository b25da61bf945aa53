"""A model is never in memory twice: saving and loading add an eighth of it at most, as 256 MB are of 2 GB."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MEGABYTES = 256
CODE = """
import resource, sys
from netcl import nn
from netcl.core import Tensor
from netcl.io import *

form, what, path, megabytes = *sys.argv[1:4], int(sys.argv[4])


@nn.register
class Wide(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.count = count
        for at in range(count):
            value = Tensor.full((1024, 1024), float(at + 1), persistent=True)
            self.register_parameter(f"p{at}", nn.Parameter(value))


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


model = None
small = path + ".small"
loaded = form == "netcl" and what == "load"
saves = {"netcl": save_model, "checkpoint": save_checkpoint, "safetensors": save_safetensors, "torch": save_torch}
loads = {"netcl": None, "checkpoint": load_checkpoint, "safetensors": load_safetensors, "torch": load_torch}
tiny = Wide(1)
saves[form](tiny, small)  # what a first call brings in is no part of it
load_model(small) if loaded else loads[form](small, tiny) if what == "load" else None
if not loaded:
    model = Wide(megabytes // 4)
    for parameter in model.parameters():
        parameter.to_host()  # made by now
before = peak()
if what == "save":
    saves[form](model, path)
else:
    model = load_model(path) if loaded else loads[form](path, model)
print(peak() - before - (megabytes if loaded else 0))
"""


@pytest.mark.deep
@pytest.mark.skipif(sys.platform != "linux", reason="needs ru_maxrss in kilobytes, as Linux counts it")
@pytest.mark.parametrize("form", ["netcl", "checkpoint", "safetensors", "torch"])
def test_saving_and_loading_add_little(form: str, tmp_path: Path) -> None:
    for what in ("save", "load"):
        done = subprocess.run(
            [sys.executable, "-c", CODE, form, what, str(tmp_path / "m"), str(MEGABYTES)],
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, "MALLOC_ARENA_MAX": "2"},
        )
        assert done.returncode == 0, done.stderr
        assert float(done.stdout) < MEGABYTES / 8, (form, what)
