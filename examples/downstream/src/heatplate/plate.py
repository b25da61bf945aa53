"""A plate with a temperature in each cell, and the heat that flows between its cells."""

from __future__ import annotations

from typing import Any

import numpy as np

import netcl as nc
from heatplate.kernel import DIFFUSE, GLOW
from netcl.core import DeviceHandle, Tensor, manager
from netcl.core.memory import get_persistent_pool

Array = np.ndarray[Any, Any]


class Plate:
    """Temperatures of shape (rows, columns) on a device; ``device`` is a selector such as "auto", "gpu" or "cpu"."""

    def __init__(self, temperatures: Array, device: str | DeviceHandle = "auto") -> None:
        handle = manager.default(device)
        if handle is None:
            raise LookupError(f"there is no {device!r} device here")
        self._cells = Tensor.from_host(handle, np.asarray(temperatures, np.float32))
        if self._cells.ndim != 2:
            raise ValueError(f"a plate has rows and columns, not shape {self._cells.shape}")
        self.device = handle.device_name
        self._kernel = DIFFUSE.build(handle) if handle.backend == "cl" else None

    def spread(self, steps: int = 1, rate: float = 0.2) -> None:
        """Let ``steps`` time steps pass; ``rate`` is the part of a difference that flows in one, at most 0.25."""
        if not 0 <= rate <= 0.25:
            raise ValueError(f"a rate is between 0 and 0.25, not {rate}")
        if self._kernel is None:
            self._spread_on_host(steps, rate)
            return
        cells = self._cells
        rows, columns = cells.shape
        # A second plate for a while: leased from the pool of the queue, which keeps it for the next call.
        other = get_persistent_pool(cells.queue).allocate(cells.nbytes)
        # Two plates in turn; a last step at rate 0 brings an odd number of steps home.
        rates = [rate] * steps + [0.0] * (steps % 2)
        for i, now in enumerate(rates):
            source, target = (cells, other) if i % 2 == 0 else (other, cells)
            self._kernel.run(cells.queue, (columns, rows), None, source, target, rows, columns, now)
        other.release()

    def _spread_on_host(self, steps: int, rate: float) -> None:
        now = self._cells.to_host()
        for _ in range(steps):
            flow = np.zeros_like(now)
            for axis in (0, 1):
                difference = np.diff(now, axis=axis)
                flow += np.pad(difference, [(0, 1) if axis == a else (0, 0) for a in (0, 1)])
                flow -= np.pad(difference, [(1, 0) if axis == a else (0, 0) for a in (0, 1)])
            now = now + np.float32(rate) * flow
        self._cells.write(now)

    def temperatures(self) -> Array:
        """The temperatures as an array of shape (rows, columns)."""
        return self._cells.to_host()

    def glow(self, limit: float = 600.0) -> Array:
        """The brightness of each cell, from 0 to 1; half of it at ``limit`` degrees."""
        brightness: Tensor = GLOW(self._cells, limit=limit)
        return brightness.to_host()

    def mean(self) -> float:
        """The mean temperature; it never changes."""
        return float(nc.mean(self._cells).item())

    def hottest(self) -> float:
        """The highest temperature."""
        return float(nc.max(self._cells).item())
