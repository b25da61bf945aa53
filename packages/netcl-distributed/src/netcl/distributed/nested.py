"""The devices of all processes as ranks of one group: what the small collectives of layers, such as SyncBatchNorm, meet
in.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from netcl.core.errors import UnsupportedError
from netcl.distributed.folding import Array, fold
from netcl.distributed.group import ProcessGroup, Signature
from netcl.distributed.local import LocalGroup

__all__ = ["NestedGroup"]


class NestedGroup(ProcessGroup):
    """A device of this process as one rank among the devices of all processes, process by process.

    ``member`` is the device's place in its process, ``outer`` the group of the processes, ``counts`` how many devices
    each of them has. The first device of a process speaks for the others. Its collectives stand in one line with those
    that ``member`` (or ``outer``, where there is one device) was given, so that all processes make them in one order.
    Values are gathered before they are folded: right for small ones, and the bits are those of as many single ranks.
    """

    def __init__(self, member: LocalGroup, outer: ProcessGroup, counts: Sequence[int]) -> None:
        first = sum(counts[: outer.rank])
        line = member if member.size > 1 else outer
        super().__init__(first + member.rank, sum(counts), outer.timeout, member.rank, line.comm)
        self._member, self._outer = member, outer
        self._counts, self._first = list(counts), first
        self._speaks = member.rank == 0

    def close(self) -> None:
        """Nothing: what it uses belongs to the groups that it was made of."""

    def _announce(self, signature: Signature) -> None:
        self._member._announce(signature)
        if self._speaks:
            self._outer._announce(signature)

    def _meet(self) -> None:
        self._member._meet()
        if self._speaks:
            self._outer._meet()
        self._member._meet()

    def _collect(self, own: Array, counts: Sequence[int]) -> Array:
        places = np.cumsum([0, *self._counts])
        mine = counts[self._first : self._first + self._member.size]
        part = self._member._collect(own, mine)
        out = np.empty(sum(counts), own.dtype)
        whole = None
        if self._speaks:
            sizes = [sum(counts[low:high]) for low, high in zip(places, places[1:])]
            whole = self._outer._collect(part, sizes)
        self._member._spread(whole, out, 0, 0, out.size)
        return out

    def _fold(self, source: Array, out: Array, op: str, low: int, high: int) -> None:
        parts = self._collect(source, [source.size] * self.size).reshape(self.size, source.size)
        fold(list(parts[:, low:high]), op, out[: high - low])

    def _spread(self, source: Array | None, out: Array, root: int, low: int, total: int) -> None:
        own = np.empty(0, out.dtype) if source is None else source
        out[...] = self._collect(own, [total if rank == root else 0 for rank in range(self.size)])[low : low + out.size]

    def _send(self, values: Array, to: int, text: str) -> None:
        self._member._send(values, self._neighbour(to), text)

    def _recv(self, out: Array, source: int, text: str) -> None:
        self._member._recv(out, self._neighbour(source), text)

    def _neighbour(self, rank: int) -> int:
        """Which device of this process a rank is."""
        place = rank - self._first
        if not 0 <= place < self._member.size:
            raise UnsupportedError(
                f"send and recv reach the devices of one process; rank {rank} is in another one than rank {self.rank}"
            )
        return place
