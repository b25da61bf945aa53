"""Memory of the host for gradients that a group sums on the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netcl.core import Tensor
from netcl.core.dtypes import canonical
from netcl.distributed.reductions import Array

_LINE = 4096  # bytes at which buckets begin


class BucketMemory:
    """Memory for the gradients of ``params``, divided in ``buckets`` of their indices, each of one dtype; bfloat16 is
    float32 here.

    It is kept from step to step: allocating new memory from the system costs as much as filling it. ``flats`` has an
    array of each bucket.
    """

    def __init__(self, params: Sequence[Tensor], buckets: Sequence[Sequence[int]]) -> None:
        self._params = params
        self._starts: dict[int, int] = {}  # by parameter: its first byte
        ranges: list[tuple[int, int]] = []
        end = 0
        for places in buckets:
            begin = end
            for place in places:
                self._starts[place] = end
                end += params[place].size * _on_host(params[place]).itemsize
            ranges.append((begin, end))
            end = -(-end // _LINE) * _LINE
        room = self._allocated(max(end, 1))
        self.flats: list[Array] = [
            room[begin:end].view(_on_host(params[places[0]])) for (begin, end), places in zip(ranges, buckets)
        ]
        self._parts: dict[int, Array] = {}
        for flat, places in zip(self.flats, buckets):
            start = 0
            for place in places:
                stop = start + params[place].size
                self._parts[place] = flat[start:stop].reshape(params[place].shape)
                start = stop

    def _allocated(self, nbytes: int) -> Array:
        return np.empty(nbytes, np.uint8)

    def receive(self, place: int, grad: Tensor) -> Any:
        """Begins the copy of the gradient of parameter number ``place``; returns it for ``arrive``."""
        return grad.to_host_async()

    def arrive(self, place: int, copy: Any) -> None:
        """Waits until a gradient is in the memory; None for ``copy``: it has zeros there."""
        self._parts[place][...] = 0 if copy is None else copy.wait()

    def send_back(self, place: int) -> Array | Tensor:
        """Returns the sum of parameter number ``place``; an array is valid until ``reuse``."""
        return self._parts[place]

    def reuse(self) -> None:
        """Waits until the memory may change."""


def _on_host(param: Tensor) -> np.dtype[Any]:
    """Returns the dtype of a parameter's gradient on the host."""
    return np.dtype("float32" if param.dtype == "bfloat16" else canonical(param.dtype))
