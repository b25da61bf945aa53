"""Copies of storages, which share one if their tensors do, addresses, and queues: processes share no tensor."""

from __future__ import annotations

import functools
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch

from torch_netcl import memory


def _unshared(*unused: Any) -> Any:
    raise RuntimeError("a tensor on device 'ocl' cannot be sent to another process: send tensor.cpu()")


def _tell_places() -> None:
    """Makes ``tensor.data_ptr()`` tell storages and offsets on the device from each other, as safetensors asks for."""
    pointer = torch.Tensor.data_ptr

    @functools.wraps(pointer)
    def data_ptr(self: torch.Tensor) -> int:
        if self.device.type == "ocl" and self.numel():
            return self.untyped_storage().data_ptr() + pointer(self)  # which counts from 0
        return pointer(self)

    torch.Tensor.data_ptr = data_ptr  # type: ignore[assignment, method-assign]


def _wrap_storages() -> None:
    """Makes ``TypedStorage`` take a copied storage of the device, whose class it compares with that of the host's."""
    typed = torch.storage.TypedStorage
    wrap = typed._new_wrapped_storage

    @functools.wraps(wrap)
    def new_wrapped(self: Any, storage: Any) -> Any:
        if isinstance(storage, memory.OclStorage):
            return typed(wrap_storage=storage, dtype=self.dtype, _internal=True)
        return wrap(self, storage)

    typed._new_wrapped_storage = new_wrapped  # type: ignore[method-assign, assignment]


def register() -> None:
    """Registers the device with PyTorch's copies, addresses and queues."""
    _wrap_storages()
    ForkingPickler.register(memory.OclStorage, _unshared)
    _tell_places()
    shared = torch.UntypedStorage._new_shared

    def new_shared(cls: Any, size: int, *, device: Any = "cpu") -> Any:
        return _unshared() if torch.device(device).type == "ocl" else shared(size, device=device)

    torch.UntypedStorage._new_shared = classmethod(new_shared)  # type: ignore[assignment, method-assign]
