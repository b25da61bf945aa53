"""HierarchicalGroup: the devices of all processes as ranks of one group, for small collectives of layers such as
SyncBatchNorm.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from netcl.core.errors import UnsupportedError
from netcl.distributed.group import ProcessGroup, Signature
from netcl.distributed.reductions import Array, reduce_in_order
from netcl.distributed.transports.local import LocalGroup


class HierarchicalGroup(ProcessGroup):
    """A device of this process as one rank among the devices of all processes, process by process.

    ``member`` is the device's rank in its process, ``outer`` the group of the processes, ``counts`` the number of
    devices of each of them. The first device of a process is its leader. Its collectives run in one queue with the
    collectives of ``member`` (or of ``outer``, if there is one device), so that all processes run them in one order.
    Values are gathered before they are reduced: right for small ones, and the bits are as with as many single ranks.
    """

    def __init__(self, member: LocalGroup, outer: ProcessGroup, counts: Sequence[int]) -> None:
        first = sum(counts[: outer.rank])
        line = member if member.size > 1 else outer
        super().__init__(first + member.rank, sum(counts), outer.timeout, member.rank, line.comm)
        self._member, self._outer = member, outer
        self._counts, self._first = list(counts), first
        self._is_leader = member.rank == 0

    def close(self) -> None:
        """Does nothing: its resources belong to the inner and outer groups."""

    def _announce(self, signature: Signature) -> None:
        self._member._announce(signature)
        if self._is_leader:
            self._outer._announce(signature)

    def _barrier(self) -> None:
        self._member._barrier()
        if self._is_leader:
            self._outer._barrier()
        self._member._barrier()

    def _concatenate(self, own: Array, counts: Sequence[int]) -> Array:
        places = np.cumsum([0, *self._counts])
        mine = counts[self._first : self._first + self._member.size]
        part = self._member._concatenate(own, mine)
        out = np.empty(sum(counts), own.dtype)
        whole = None
        if self._is_leader:
            sizes = [sum(counts[low:high]) for low, high in zip(places, places[1:])]
            whole = self._outer._concatenate(part, sizes)
        self._member._broadcast_range(whole, out, 0, 0, out.size)
        return out

    def _reduce_range(self, source: Array, out: Array, op: str, low: int, high: int) -> None:
        parts = self._concatenate(source, [source.size] * self.size).reshape(self.size, source.size)
        reduce_in_order(list(parts[:, low:high]), op, out[: high - low])

    def _broadcast_range(self, source: Array | None, out: Array, root: int, low: int, total: int) -> None:
        own = np.empty(0, out.dtype) if source is None else source
        out[...] = self._concatenate(own, [total if rank == root else 0 for rank in range(self.size)])[
            low : low + out.size
        ]

    def _send(self, values: Array, to: int, text: str) -> None:
        self._member._send(values, self._device_index(to), text)

    def _recv(self, out: Array, source: int, text: str) -> None:
        self._member._recv(out, self._device_index(source), text)

    def _device_index(self, rank: int) -> int:
        """Returns the device index in this process of a rank."""
        place = rank - self._first
        if not 0 <= place < self._member.size:
            raise UnsupportedError(
                f"send and recv reach the devices of one process; rank {rank} is in another one than rank {self.rank}"
            )
        return place
