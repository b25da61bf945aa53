"""Samples of the commands: ``main`` takes the arguments of ``netcl`` and returns the exit code."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from pathlib import Path

import numpy as np

import netcl as nc
from netcl import nn
from netcl.io import save_model
from netcl.trainer.cli import main as command


def main(arguments):
    """Runs a command in a folder of its own, without its output."""
    with contextlib.redirect_stdout(io.StringIO()):
        return command(arguments)


os.chdir(tempfile.mkdtemp())
Path("small.toml").write_text("""
[model]
layers = ["Flatten", ["Linear", 64, 10]]

[data]
name = "example_digits"
n = 200
validation = 0.2

[trainer]
epochs = 1
output = "run"
""")
save_model(nn.Sequential(nn.Linear(4, 2)), "model.netcl")
np.save("x.npy", np.ones((3, 4), np.float32))

# %% netcl bench
main(["bench", "--devices", "cpu", "--runs", "1", "--json"])

# %% netcl completion
main(["completion", "bash"])

# %% netcl convert
main(["convert", "model.netcl", "model.safetensors"])

# %% netcl devices
main(["devices", "--json"])

# %% netcl doctor
# netcl doctor; here its parser alone, since the check takes a minute
from netcl.trainer.cli import parser

vars(parser().parse_args(["doctor", "--full"]))["full"]

# %% netcl evaluate
main(["train", "small.toml"])
main(["evaluate", "small.toml", "--json"])

# %% netcl export
main(["export", "model.netcl", "--to", "torch", "--output", "model.pt"])

# %% netcl init
main(["init", "cnn", "first"])
sorted(path.name for path in Path("first").iterdir())

# %% netcl predict
main(["predict", "model.netcl", "x.npy"])

# %% netcl profile
main(["profile", "small.toml", "--steps", "2", "--folder", "profile"])

# %% netcl run
Path("script.py").write_text("import torch\nprint(torch.ones(2).sum())\n")
main(["run", "script.py"])

# %% netcl train
main(["train", "small.toml"])
Path("run/model.netcl").is_file()

# %% netcl tune
main(["tune", "matmul", "32", "32", "32"])
