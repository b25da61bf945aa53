"""The library that texts name: netcl, or torch in a process that runs a program written for PyTorch."""

from __future__ import annotations

# True under ``netcl.core.device.use_pytorch_names``: tensors, dtypes and sizes print as PyTorch's.
is_pytorch = False


def prefix() -> str:
    """The name in front of a dtype or a size in its ``repr``."""
    return "torch" if is_pytorch else "netcl"
