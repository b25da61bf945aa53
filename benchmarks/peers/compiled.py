"""PyTorch through torch.compile, on two threads of the CPU; it needs a C++ compiler."""

from __future__ import annotations

import shutil

from bursts import Work

from peers import pytorch

pytorch.prepared = pytorch.torch.compile


def step(name: str) -> Work | None:
    """A training step, compiled; None without a compiler."""
    return pytorch.step(name) if shutil.which("g++") else None


def infer(name: str, size: int | None, file: str | None) -> Work | None:
    """Inference, compiled; None without a compiler."""
    return pytorch.infer(name, size, file) if shutil.which("g++") else None
