"""The engine of a queue of PyTorch, and copies to the host."""

from __future__ import annotations

import threading
from typing import Any

import torch
from netcl_core_kit.tensor import HostTransfer

from netcl.core.device import DeviceHandle
from netcl.core.dtypes import TORCH, canonical

__all__ = ["DeviceBackend", "HostTransfer"]


class DeviceBackend:
    """What computes on one queue: allocation, fills, strided copies, and errors that checks have reported."""

    context: Any = None
    device_label: str
    handle: DeviceHandle
    name: str
    queue: Any

    def __init__(self, handle: DeviceHandle) -> None:
        self.handle = handle
        self.queue = handle.queue
        self.name = handle.backend
        self.place: torch.device = handle.queue.place
        self.device_label = f"{handle.device_name} ({handle.selector})"
        self._codes: list[tuple[str, type[Exception]]] = []
        self._reported: list[tuple[Any, int, Any, Any]] = []
        self._lock = threading.Lock()

    def wrap(self, value: torch.Tensor) -> Any:
        """A tensor of netcl on a tensor of PyTorch."""
        from netcl.core.tensor import Tensor

        return Tensor._of(value, self)

    def empty(self, shape: Any, dtype: str, *, persistent: bool = False, pool: Any = None) -> Any:
        """A new tensor of undefined content."""
        return self.wrap(torch.empty(tuple(shape), dtype=TORCH[canonical(dtype)], device=self.place))

    def zeros(self, shape: Any, dtype: str, *, persistent: bool = False) -> Any:
        """A new tensor of zeros."""
        return self.wrap(torch.zeros(tuple(shape), dtype=TORCH[canonical(dtype)], device=self.place))

    def fill(self, tensor: Any, value: float) -> None:
        """Sets every element to ``value``."""
        tensor._t.fill_(value)

    def copy(
        self,
        source: Any,
        out: Any,
        shape: Any,
        source_strides: Any,
        out_strides: Any,
        source_offset: int = 0,
        out_offset: int = 0,
    ) -> None:
        """Strided copy of a block of ``shape``; strides and offsets in elements."""
        shape = tuple(shape)
        to = out._t.as_strided(shape, tuple(out_strides), out_offset + out._t.storage_offset())
        to.copy_(source._t.as_strided(shape, tuple(source_strides), source_offset + source._t.storage_offset()))

    def describe(self, program: Any, shapes: Any) -> list[Any]:
        """The kernels of a program: none, PyTorch chooses them."""
        return []

    def flag_code(self, message: str, error: type[Exception] = IndexError) -> int:
        """The code under which a check raises ``error(message)`` at the next host read."""
        with self._lock:
            if (message, error) not in self._codes:
                self._codes.append((message, error))
            return self._codes.index((message, error)) + 1

    def report(self, holds: torch.Tensor, code: int, values: torch.Tensor, size: Any) -> None:
        """Notes a check: where ``holds`` is false the error of ``code`` is raised at the next host read."""
        if self.place.type == "cpu" and bool(holds.all()):
            return
        with self._lock:
            self._reported.append((holds, code, values, size))
        if len(self._reported) > 256:
            self.raise_reported()

    def raise_reported(self) -> None:
        """Raises the error of the first check that did not hold."""
        if not self._reported:
            return
        with self._lock:
            reported, self._reported = self._reported, []
        for holds, code, values, size in reported:
            if not bool(holds.all()):
                position = int((~holds.reshape(-1)).nonzero()[0, 0])
                value = values.expand(holds.shape).reshape(-1)[position].item()
                message, error = self._codes[code - 1]
                size = int(size) if not isinstance(size, torch.Tensor) else int(size.reshape(-1)[0])
                raise error(message.format(value=value, position=position, size=size, last=size - 1))
