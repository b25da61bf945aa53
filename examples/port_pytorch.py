"""Takes a model over from PyTorch: the same lines, the same weights through a safetensors file, the same outputs.

    python examples/port_pytorch.py

The last line is the largest difference between the outputs of both.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import netcl as nc
from netcl.core.device import device
from netcl.io import load_safetensors


def make_model(nn: Any) -> Any:
    """The model, with the layers of torch.nn or of netcl.nn."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Flatten(start_dim=2),
        nn.TransformerEncoder(
            nn.TransformerEncoderLayer(64, 4, dim_feedforward=128, activation="gelu", batch_first=True), 2
        ),
        nn.Flatten(),
        nn.Linear(16 * 64, 10),
        nn.Softmax(dim=-1),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", help="auto, cpu (NumPy), pocl, intel, gpu, part of a device's name")
    options = parser.parse_args()
    try:
        import torch
        from safetensors.torch import save_file
    except ImportError:
        raise SystemExit("this example needs PyTorch: pip install torch") from None
    from netcl import nn

    torch.manual_seed(0)
    theirs = make_model(torch.nn)
    for _ in range(5):  # changes the running statistics of fresh layers
        theirs(torch.randn(8, 3, 16, 16) + 1)
    theirs.eval()
    x = torch.randn(4, 3, 16, 16)
    with device(options.device), tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        save_file(theirs.state_dict(), path)
        ours = make_model(nn)
        ours.load_state_dict(load_safetensors(path))
        ours.eval()
        with nc.no_grad(), torch.no_grad():
            outputs, expected = ours(nc.tensor(x.numpy())).numpy(), theirs(x).numpy()
    print(f"{sum(value.numel() for value in theirs.state_dict().values()):,} numbers taken over")
    print(f"largest difference {np.abs(outputs - expected).max():.1e}")


if __name__ == "__main__":
    main()
