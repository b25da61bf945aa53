"""SharedBufferGroup: collectives over a shared buffer, and over memory that the devices of all ranks read.

Every rank has a window of two halves (double buffering). Data written before barrier k is in half k % 2, and is read
between the barriers k and k + 1; so one barrier between writing and reading suffices, and no data is overwritten while
another rank reads it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from netcl.autograd.levels import LEVELS
from netcl.core import Tensor, config
from netcl.core.errors import OutOfMemoryError
from netcl.distributed.errors import mismatch
from netcl.distributed.group import ProcessGroup, Signature, Value
from netcl.distributed.reductions import REDUCED, Array, even_bounds, reduce_in_order
from netcl.distributed.transports.segment import StagingSegment
from netcl.distributed.transports.shared_buffer import MISMATCHED, SharedBuffer

if TYPE_CHECKING or "staging" in LEVELS:
    from netcl.distributed.staging.exchange import StagedExchange
if TYPE_CHECKING:
    from netcl.core.device import DeviceHandle


class SharedBufferGroup(ProcessGroup):
    """A group with a shared buffer for data exchange between its ranks."""

    def __init__(self, buffer: SharedBuffer, timeout: float) -> None:
        self.buffer = buffer
        super().__init__(buffer.rank, buffer.size, timeout)
        self._unread = False  # signatures that have not been compared yet
        self._exchange: StagedExchange | None = None
        self._exchange_is_known = False

    @property
    def timeout(self) -> float:
        """Seconds that this rank waits for the others in a collective; may be set."""
        return self.buffer.timeout

    @timeout.setter
    def timeout(self, seconds: float) -> None:
        self.buffer.timeout = seconds

    def exchange(self, handle: DeviceHandle, always: bool = False) -> StagedExchange | None:
        if self.size > 1 and not self._exchange_is_known:
            made = self._issue(Signature(0, "exchange"), partial(self._new_exchange, handle, always), False)
            self._exchange, self._exchange_is_known = made, True
        exchange = self._exchange
        return exchange if exchange is not None and exchange.queue == handle.queue else None

    def made_exchange(self, x: Value) -> StagedExchange | None:
        exchange = self._exchange
        if exchange is None or not isinstance(x, Tensor) or x.ndim == 0 or x.dtype not in REDUCED:
            return None
        return exchange if exchange.gathers and exchange.queue == x.queue else None

    def _new_exchange(self, handle: DeviceHandle, always: bool) -> StagedExchange | None:
        staged = config.get("DIST_STAGING") if "staging" in LEVELS else "off"
        wanted = staged == "on" or (staged == "auto" and (always or handle.device_type == "gpu"))
        if not self._all(wanted):
            return None
        segment = self._new_segment()
        if segment is None:
            return None
        exchange, error = None, ""
        try:
            exchange = StagedExchange(self.buffer, segment, handle.queue)
        except (OutOfMemoryError, RuntimeError) as failure:  # a driver that does not lock this memory
            error = str(failure)
        if self._all(exchange is not None):
            return exchange
        config.get_logger().warning("gradients pass over the host: the memory for exchanges was refused %s", error)
        if exchange is not None:
            exchange.close()
        return None

    def _all(self, flag: bool) -> bool:
        """Returns True if the flag of every rank is set."""
        return bool(self._concatenate(np.array([flag], np.uint8), [1] * self.size).all())

    @abstractmethod
    def _new_segment(self) -> StagingSegment | None:
        """Returns memory that all ranks share; None, on all ranks, if there is not enough."""

    def close(self) -> None:
        """Ends the threads of the group and gives its memory back; does not wait for the other ranks."""
        super().close()
        if self._exchange is not None:
            self._exchange.close()
            self._exchange = None

    def _announce(self, signature: Signature) -> None:
        self._unread = True
        self.buffer.post_signature(signature.text)

    def _barrier(self) -> None:
        self.buffer.barrier()
        if self._unread:
            self._unread = False
            if not self.buffer.signatures_match():
                error = mismatch(self.buffer.signatures())
                self.buffer.abort(MISMATCHED, 0, str(error))
                raise error

    def _reduce_range(self, source: Array, out: Array, op: str, low: int, high: int) -> None:
        buffer, dtype, me = self.buffer, source.dtype, self.rank
        step = buffer.window // dtype.itemsize
        for start in range(0, max(source.size, 1), step):
            stop = min(start + step, source.size)
            bounds = even_bounds(start, stop, self.size)
            mine, end = bounds[me], bounds[me + 1]
            # Each rank reduces its part of the chunk; no other rank reads this rank's values of that part.
            shown = buffer.own(dtype)
            shown[: mine - start] = source[start:mine]
            shown[end - start : stop - start] = source[end:stop]
            self._barrier()
            parts = [
                source[mine:end] if rank == me else buffer.read(rank, dtype)[mine - start : end - start]
                for rank in range(self.size)
            ]
            reduce_in_order(parts, op, buffer.own(dtype)[mine - start : end - start])
            self._barrier()
            for rank in range(self.size):
                first, last = max(bounds[rank], low), min(bounds[rank + 1], high)
                if first < last:
                    out[first - low : last - low] = buffer.read(rank, dtype)[first - start : last - start]

    def _concatenate(self, own: Array, counts: Sequence[int]) -> Array:
        buffer, dtype = self.buffer, own.dtype
        out = np.empty(sum(counts), dtype)
        places = np.cumsum([0, *counts])
        step = buffer.window // dtype.itemsize
        for start in range(0, max(*counts, 1), step):
            piece = own[start : start + step]
            buffer.own(dtype)[: piece.size] = piece
            self._barrier()
            for place, count, rank in zip(places, counts, range(self.size)):
                stop = min(start + step, count)
                if start < stop:
                    out[place + start : place + stop] = buffer.read(rank, dtype)[: stop - start]
        return out

    def _broadcast_range(self, source: Array | None, out: Array, root: int, low: int, total: int) -> None:
        buffer, dtype = self.buffer, out.dtype
        step = buffer.window // dtype.itemsize
        for start in range(0, max(total, 1), step):
            stop = min(start + step, total)
            if source is not None:
                buffer.own(dtype)[: stop - start] = source[start:stop]
            self._barrier()
            first, last = max(start, low), min(stop, low + out.size)
            if first < last:
                out[first - low : last - low] = buffer.read(root, dtype)[first - start : last - start]

    def _send(self, values: Array, to: int, text: str) -> None:
        content = values.view(np.uint8)
        for start in range(0, max(content.size, 1), self.buffer.window):
            self.buffer.send_message(to, text, content[start : start + self.buffer.window])

    def _recv(self, out: Array, source: int, text: str) -> None:
        content = out.view(np.uint8)
        for start in range(0, max(content.size, 1), self.buffer.window):
            self.buffer.receive_message(source, text, content[start : start + self.buffer.window])
