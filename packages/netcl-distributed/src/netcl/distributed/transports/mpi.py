"""The transport of several hosts: mpi4py with any MPI, all calls non-blocking and with a deadline.

MPI does not define the order of sums, so values are exchanged and reduced here: each rank reduces its piece of all
ranks' arrays, then all pieces are gathered. MPI has no timeouts either: requests are polled. If a rank raises, MPI
waits for ever, and if a rank dies, it ends all ranks; ``mpiexec -n 8 python -m mpi4py train.py`` turns the first case
into the second. Open MPI started with ``--with-ft ulfm`` reports a death instead, as RankFailedError, and ``shrink``
continues without the dead ranks.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from netcl.core.errors import CollectiveMismatchError, CollectiveTimeoutError
from netcl.distributed.errors import RankFailedError, mismatch
from netcl.distributed.group import ProcessGroup, Signature
from netcl.distributed.reductions import Array, even_bounds, reduce_in_order
from netcl.distributed.transports.backoff import Deadline, sleep_with_backoff, yield_processor

_TEXT = 512
_SPIN_S = 1e-3
_SMALL_BYTES = 4096  # every MPI buffers this much before the receiver requests it
# Elements of one exchange: a count of MPI is a C int, and the pieces of all ranks need memory in addition to the array.
_STEP_BYTES = 64 << 20
_HEAD, _BODY = 1, 2


class MPIGroup(ProcessGroup):
    """A rank that is a process of an MPI job; ``comm`` is a communicator of mpi4py, None: a copy of COMM_WORLD."""

    def __init__(self, timeout: float, comm: Any = None) -> None:
        # Importing it calls MPI_Init: only a process that creates this group pays for it, after its workers have
        # started.
        try:
            from mpi4py import MPI
        except ImportError as error:
            raise ImportError(
                "the transport mpi needs mpi4py: pip install 'netcl-distributed[mpich]' brings it with an MPI, [mpi] "
                "without one"
            ) from error
        self._mpi: Any = MPI
        self._ranks: Any = MPI.COMM_WORLD.Dup() if comm is None else comm
        self._ranks.Set_errhandler(MPI.ERRORS_RETURN)
        host = self._ranks.Split_type(MPI.COMM_TYPE_SHARED)
        super().__init__(self._ranks.Get_rank(), self._ranks.Get_size(), timeout, host.Get_rank())
        host.Free()
        self._broken: Exception | None = None
        self._living: Any = None

    def close(self) -> None:
        super().close()
        if self._broken is None and not self._mpi.Is_finalized():
            self._ranks.Free()

    def shrink(self) -> MPIGroup:
        """Returns a group of the remaining ranks, with new numbers, after a RankFailedError; needs an MPI with ULFM.
        All of them must call it.
        """
        if self._living is None:
            self._ranks.Revoke()  # so that ranks that wait for a rank already here come too
            self._living = self._ranks.Shrink()
        return MPIGroup(self.timeout, self._living)

    # -- waiting -------------------------------------------------------------------------------------------------------

    def _wait(self, start: Callable[[], Any], moves: bool = False) -> None:
        """Starts a request and waits for it; a group with a failed or late rank cannot be used again.

        ``moves``: all ranks are here and data moves, but only while it is polled; otherwise others may come late, and
        need the processor until then.
        """
        if self._broken is not None:
            raise self._broken
        try:
            request = start()
            begun, deadline = time.monotonic(), Deadline(self.timeout)
            while not request.Test():
                if deadline.expired():
                    self._broken = CollectiveTimeoutError(
                        f"rank {self.rank} waited {self.timeout:g} s for the others; MPI does not say who is late"
                    )
                    raise self._broken
                waited = time.monotonic() - begun
                if moves or waited < _SPIN_S:
                    yield_processor()
                else:
                    sleep_with_backoff(waited)
        except self._mpi.Exception as error:
            self._broken = self._failure(error)
            raise self._broken from error

    def _failure(self, error: Any) -> Exception:
        gone = (getattr(self._mpi, "ERR_PROC_FAILED", -1), getattr(self._mpi, "ERR_REVOKED", -1))
        if error.Get_error_class() not in gone:
            return RuntimeError(f"MPI: {error.Get_error_string()}")
        ranks = self._dead(error)
        named = ", ".join(f"rank {rank}" for rank in ranks) or "a rank"
        return RankFailedError(ranks[0] if ranks else -1, f"{named} died; MPI says: {error.Get_error_string()}")

    def _dead(self, error: Any) -> list[int]:
        """Returns the dead ranks."""
        whole = self._ranks.Get_group()
        if error.Get_error_class() == self._mpi.ERR_PROC_FAILED:
            failed = self._ranks.Get_failed()
        else:
            # A rank that knew of a death has revoked the group and waits in ``shrink``, which tells which ranks remain.
            self._living = self._ranks.Shrink()
            failed = self._mpi.Group.Difference(whole, self._living.Get_group())
        return list(failed.Translate_ranks(list(range(failed.Get_size())), whole))

    # -- collectives ---------------------------------------------------------------------------------------------------

    def _announce(self, signature: Signature) -> None:
        """Compares at once: MPI returns garbage for another dtype, and Open MPI corrupts its heap for another shape."""
        own = np.zeros(_TEXT, np.uint8)
        text = signature.text.encode()[:_TEXT]
        own[: len(text)] = np.frombuffer(text, np.uint8)
        short = np.array([zlib.crc32(text)], np.int64)
        # Two collectives of eight bytes if all agree; the texts are exchanged only if they differ.
        most = np.array([short[0], -short[0]])
        self._wait(lambda: self._ranks.Iallreduce(self._mpi.IN_PLACE, most, self._mpi.MAX))
        if most[0] != -most[1]:
            every = np.empty((self.size, _TEXT), np.uint8)
            self._wait(lambda: self._ranks.Iallgather(own, every), moves=True)
            self._broken = mismatch([bytes(row).rstrip(b"\0").decode("utf-8", "replace") for row in every])
            raise self._broken

    def _barrier(self) -> None:
        self._wait(self._ranks.Ibarrier)

    def _reduce_range(self, source: Array, out: Array, op: str, low: int, high: int) -> None:
        step = max(_STEP_BYTES // source.dtype.itemsize, 1)
        for start in range(0, source.size, step):
            stop = min(start + step, source.size)
            bounds = even_bounds(start, stop, self.size)
            mine = bounds[self.rank + 1] - bounds[self.rank]
            pieces = np.empty((self.size, mine), source.dtype)
            sent = [bounds[rank + 1] - bounds[rank] for rank in range(self.size)]
            self._exchange(source[start:stop], sent, pieces, [mine] * self.size)
            reduced = np.empty(mine, source.dtype)
            reduce_in_order(list(pieces), op, reduced)
            whole = np.empty(stop - start, source.dtype)
            self._exchange_all(reduced, whole, sent)
            first, last = max(start, low), min(stop, high)
            if first < last:
                out[first - low : last - low] = whole[first - start : last - start]

    def _concatenate(self, own: Array, counts: Sequence[int]) -> Array:
        out = np.empty(sum(counts), own.dtype)
        self._exchange_all(own, out, counts)
        return out

    def _broadcast_range(self, source: Array | None, out: Array, root: int, low: int, total: int) -> None:
        step = max(_STEP_BYTES // out.dtype.itemsize, 1)
        for start in range(0, total, step):
            stop = min(start + step, total)
            chunk = np.empty(stop - start, out.dtype) if source is None else source[start:stop]
            self._wait(lambda chunk=chunk: self._ranks.Ibcast(_bytes(chunk), root), moves=True)  # type: ignore[misc]
            first, last = max(start, low), min(stop, low + out.size)
            if first < last:
                out[first - low : last - low] = chunk[first - start : last - start]

    def _exchange(self, source: Array, sent: Sequence[int], out: Array, taken: Sequence[int]) -> None:
        """Sends a piece of ``source`` to each rank, and receives one of each into ``out``."""
        item = source.dtype.itemsize
        away, back = ([count * item for count in counts] for counts in (sent, taken))
        message = [_bytes(source), (away, _starts(away)), self._mpi.BYTE]
        answer = [_bytes(out.reshape(-1)), (back, _starts(back)), self._mpi.BYTE]
        self._wait(lambda: self._ranks.Ialltoallv(message, answer), moves=True)

    def _exchange_all(self, own: Array, out: Array, counts: Sequence[int]) -> None:
        """Gathers the pieces of all ranks, of these sizes, into ``out``."""
        sizes = [int(count) * own.dtype.itemsize for count in counts]
        answer = [_bytes(out), (sizes, _starts(sizes)), self._mpi.BYTE]
        self._wait(lambda: self._ranks.Iallgatherv(_bytes(own), answer), moves=True)

    # -- messages ------------------------------------------------------------------------------------------------------

    def _send(self, values: Array, to: int, text: str) -> None:
        head = np.frombuffer(text.encode().ljust(_TEXT, b"\0")[:_TEXT], np.uint8)
        # A large message waits until the receiver is here.
        large = values.nbytes > _SMALL_BYTES
        self._wait(lambda: (self._ranks.Issend if large else self._ranks.Isend)(head, to, _HEAD))
        self._wait(lambda: self._ranks.Isend(_bytes(values), to, _BODY), moves=large)

    def _recv(self, out: Array, source: int, text: str) -> None:
        head = np.empty(_TEXT, np.uint8)
        self._wait(lambda: self._ranks.Irecv(head, source, _HEAD))
        sent = bytes(head).rstrip(b"\0").decode("utf-8", "replace")
        if sent != text:
            reason = f"rank {source} sent {sent}, rank {self.rank} expected {text}"
            self._broken = CollectiveMismatchError(reason, op="recv")
            raise self._broken
        self._wait(lambda: self._ranks.Irecv(_bytes(out), source, _BODY), moves=True)


def _bytes(values: Array) -> Array:
    """Returns the same memory as bytes: MPI transfers any NumPy dtype as bytes."""
    return values.view(np.uint8)


def _starts(sizes: Sequence[int]) -> list[int]:
    return [sum(sizes[:rank]) for rank in range(len(sizes))]
