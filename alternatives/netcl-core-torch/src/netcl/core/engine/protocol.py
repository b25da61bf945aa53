"""The engine of a queue of PyTorch."""

from __future__ import annotations

from typing import Any

import torch
from netcl_core_kit.engines import EngineBase
from netcl_core_kit.tensor import HostTransfer

from netcl.core.dtypes import TORCH, canonical

__all__ = ["DeviceBackend", "HostTransfer"]


class DeviceBackend(EngineBase):
    """What computes on one queue: allocation, fills, strided copies, and errors that checks have reported."""

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
        self, source: Any, out: Any, shape: Any, source_strides: Any, out_strides: Any, source_offset: int = 0,
        out_offset: int = 0,
    ) -> None:  # fmt: skip
        """Strided copy of a block of ``shape``; strides and offsets in elements, which are counted in C order."""
        shape, given, to = tuple(shape), source._t.contiguous(), out._t.contiguous()
        block = to.as_strided(shape, tuple(out_strides), out_offset + to.storage_offset())
        block.copy_(given.as_strided(shape, tuple(source_strides), source_offset + given.storage_offset()))
        if to is not out._t:
            out._t.copy_(to)

    def report_host(self, holds: Any, code: int, values: Any, size: int) -> None:
        """``report`` of arrays of the host."""
        self.report(torch.from_numpy(holds), code, torch.from_numpy(values), size)

    def failed(self, holds: torch.Tensor, values: torch.Tensor, size: Any) -> tuple[int, Any, int] | None:
        """The position, the value and the size of the first element for which ``holds`` is false."""
        if bool(holds.all()):
            return None
        position = int((~holds.reshape(-1)).nonzero()[0, 0])
        value = values.expand(holds.shape).reshape(-1)[position].item()
        return position, value, int(size.reshape(-1)[0]) if isinstance(size, torch.Tensor) else int(size)
