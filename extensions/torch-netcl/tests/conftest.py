"""The settings of the suite: NumPy's device unless NETCL_DEVICE says another one, and no warning of a fallback."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
os.environ.setdefault("NETCL_DEVICE", "cpu")
os.environ.setdefault("TORCH_NETCL_FALLBACK", "quiet")

import torch

if not hasattr(torch, "ocl"):  # left out next to a GPU that PyTorch itself uses
    from torch_netcl import device

    device.setup()
