"""Files: ``torch.save`` writes the elements of a storage, ``torch.load`` puts them on the device again."""

from __future__ import annotations

from typing import Any

import torch

from torch_netcl import memory


def _tag(storage: Any) -> str | None:
    return "ocl" if isinstance(storage, memory.OclStorage) else None


def _on_device(storage: Any, location: str) -> Any:
    if not location.startswith("ocl") or isinstance(storage, memory.OclStorage):
        return None
    raw = torch.empty(0, dtype=torch.uint8).set_(storage)
    return memory.from_cpu(raw).untyped_storage()


def register() -> None:
    """Registers the device with PyTorch's files, before PyTorch's own way for private backends."""
    torch.serialization.register_package(5, _tag, _on_device)
