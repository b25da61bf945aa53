"""Advice on drivers."""

from __future__ import annotations

__all__ = ["advice"]


def advice() -> str:
    """What to install so that netcl finds more devices."""
    return "this netcl-core works on PyTorch's devices; install a build of torch for your GPU (https://pytorch.org)"
