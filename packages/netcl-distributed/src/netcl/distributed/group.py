"""ProcessGroup: the interface of all transports; each transport implements five raw collectives on flat host arrays."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from netcl.core import Tensor
from netcl.core.dtypes import canonical, is_floating
from netcl.core.errors import CollectiveMismatchError, ShapeError
from netcl.distributed.captured import refuse_capture
from netcl.distributed.reductions import REDUCED, Array, check_op, even_bounds
from netcl.distributed.work import CommThread, Work

if TYPE_CHECKING:
    from netcl.core.device import DeviceHandle
    from netcl.distributed.staging.exchange import StagedExchange

Value: TypeAlias = Tensor | Array
_CAPTURED = (
    "a collective of tensors begins in Python, which a replay does not run; call it outside of the captured step, or "
    "let DataParallel, DistributedDataParallel or ZeroRedundancyOptimizer call it"
)
_ON_DEVICES_FROM = 1 << 20  # bytes: smaller tensors cost more on the way than the host needs for them


class Signature(NamedTuple):
    """The properties of a collective that all ranks must agree on; ``sequence`` counts the group's collectives."""

    sequence: int
    op: str
    shape: tuple[int | str, ...] = ()
    dtype: str = ""
    reduce: str = ""
    root: int = -1

    @property
    def text(self) -> str:
        """A description; equal on two ranks if and only if the signatures are."""
        words = [f"#{self.sequence} {self.op}"]
        if self.dtype:
            words.append(f"of shape ({', '.join(map(str, self.shape))}) and dtype {self.dtype}")
        if self.reduce:
            words.append(f"op={self.reduce}")
        if self.root >= 0:
            words.append(f"root={self.root}")
        return " ".join(words)


class _Host:
    """The values of a tensor or an array on the host; the copy from a device is started by the constructor."""

    def __init__(self, x: Value) -> None:
        self._x = x
        self._transfer = x.to_host_async() if isinstance(x, Tensor) else None

    def read(self) -> Array:
        """Returns the values, contiguous and read-only for the caller."""
        if self._transfer is not None:
            return np.asarray(self._transfer.wait(), order="C")
        return np.asarray(self._x, order="C")

    def result_array(self, values: Array) -> Array:
        """Returns an array for a result of the same shape: the array itself if possible, else a new one."""
        return values if values is self._x else np.empty_like(values)

    def write(self, values: Array) -> Value:
        """Replaces the values."""
        if isinstance(self._x, Tensor):
            self._x.write(values)
        elif values is not self._x:
            self._x[...] = values.reshape(self._x.shape)
        return self._x

    def new(self, values: Array) -> Value:
        """Returns ``values`` as an array, or as a tensor on the same device and of the same dtype."""
        if isinstance(self._x, Tensor):
            made: Tensor = Tensor.from_host(self._x.queue, values, self._x.dtype)
            return made
        return values


class ProcessGroup(ABC):
    """Ranks that call the same collectives in the same order, each with its own tensors or arrays.

    ``rank`` of ``size``; ``local_rank`` counts the ranks of this host; ``timeout`` is the number of seconds that a rank
    waits for the others. Each collective first compares its signature (number, op, shape, dtype, root) over all ranks
    (CollectiveMismatchError), waits ``timeout`` seconds at most (CollectiveTimeoutError), and ends as soon as a rank is
    known to be gone (RankFailedError). After such an error the group cannot be used again. Values are combined on the
    host in rank order, so all ranks, and all runs, get the same bits.

    With ``async_op=True`` a call returns a Work at once; a thread of the group runs the calls in order.
    """

    def __init__(
        self, rank: int, size: int, timeout: float, local_rank: int | None = None, comm: CommThread | None = None
    ) -> None:
        self.rank: int = rank
        self.size: int = size
        self.timeout = timeout
        self.local_rank: int = rank if local_rank is None else local_rank
        self._sequence = 0
        self.comm: CommThread = comm or CommThread(f"netcl-comm-{rank}")

    # -- collectives ---------------------------------------------------------------------------------------------------

    def all_reduce(self, x: Value, op: str = "sum", *, async_op: bool = False) -> Any:
        """Replaces ``x``, in place, by the ``op`` (sum, mean, max, min, prod) of the ``x`` of all ranks."""
        check_op(op)
        signature = self._signed("all_reduce", x, reduce=op)
        exchange = self._exchange_for(x, op)
        if exchange is not None and isinstance(x, Tensor):
            refuse_capture(x, _CAPTURED)

            def reduced() -> Value:
                self._barrier()  # compares the signatures
                return exchange.reduce(x, op)

            return self._issue(signature._replace(op="all_reduce on devices"), reduced, async_op)
        host = _Host(x)

        def work() -> Value:
            values = host.read()
            out = host.result_array(values)
            self._reduce_range(values.reshape(-1), out.reshape(-1), op, 0, values.size)
            return host.write(out)

        return self._issue(signature, work, async_op)

    def reduce(self, x: Value, root: int = 0, op: str = "sum", *, async_op: bool = False) -> Any:
        """Reduces like ``all_reduce``, but replaces only the ``x`` of rank ``root``."""
        check_op(op)
        self._check_rank(root, "root")
        host = _Host(x)

        def work() -> Value:
            values = host.read()
            mine = self.rank == root
            out = host.result_array(values) if mine else values
            self._reduce_range(values.reshape(-1), out.reshape(-1), op, 0, values.size if mine else 0)
            return host.write(out) if mine else x

        return self._issue(self._signed("reduce", x, reduce=op, root=root), work, async_op)

    def reduce_scatter(self, x: Value, op: str = "sum", *, async_op: bool = False) -> Any:
        """Returns this rank's rows of the ``op`` of the ``x`` of all ranks, as a new tensor; rows are split nearly
        equally.
        """
        check_op(op)
        if not x.shape:
            raise ShapeError("reduce_scatter: x needs an axis 0, this one is 0-d", op="reduce_scatter")
        host = _Host(x)

        def work() -> Value:
            values = host.read()
            low, high = even_bounds(0, values.shape[0], self.size)[self.rank : self.rank + 2]
            row = math.prod(values.shape[1:])
            out = np.empty((high - low, *values.shape[1:]), values.dtype)
            self._reduce_range(values.reshape(-1), out.reshape(-1), op, low * row, high * row)
            return host.new(out)

        return self._issue(self._signed("reduce_scatter", x, reduce=op), work, async_op)

    def broadcast(self, x: Value, root: int = 0, *, async_op: bool = False) -> Any:
        """Writes the ``x`` of rank ``root`` into ``x`` of all others, in place."""
        self._check_rank(root, "root")
        host = _Host(x)

        def work() -> Value:
            values = host.read()
            if self.rank == root:
                self._broadcast_range(values.reshape(-1), values.reshape(-1)[:0], root, 0, values.size)
                return x
            out = host.result_array(values)
            self._broadcast_range(None, out.reshape(-1), root, 0, out.size)
            return host.write(out)

        return self._issue(self._signed("broadcast", x, root=root), work, async_op)

    def scatter(self, x: Value | None, out: Value, root: int = 0, *, async_op: bool = False) -> Any:
        """Writes this rank's rows of the ``x`` of rank ``root`` into ``out``; ``x`` is ignored on other ranks.

        The ``out`` of rank 0 gets the first rows, and so on; together they have as many rows as ``x``.
        """
        self._check_rank(root, "root")
        if self.rank == root and x is None:
            raise ValueError(f"scatter: rank {root} is the root and must give x")
        source = _Host(x) if self.rank == root and x is not None else None
        host = _Host(out)

        def work() -> Value:
            target = host.read()
            values = None if source is None else source.read()
            rows = -1 if values is None else _rows(values)
            if values is not None and (values.shape[1:] != target.shape[1:] or values.dtype != target.dtype):
                rows = -2
            counts = self._concatenate(np.array([_rows(target), rows], np.int64), [2] * self.size)
            held, sent = counts.reshape(-1, 2).T
            if int(held.sum()) != int(sent[root]):
                raise CollectiveMismatchError(
                    f"scatter: the parts have {int(held.sum())} rows in all, the tensor of rank {root} "
                    + (f"has {int(sent[root])}" if sent[root] >= 0 else "has other axes or another dtype"),
                    op="scatter",
                )
            row = math.prod(target.shape[1:])
            low = int(held[: self.rank].sum()) * row
            result = np.empty_like(target)
            flat = None if values is None else values.reshape(-1)
            self._broadcast_range(flat, result.reshape(-1), root, low, int(held.sum()) * row)
            return host.write(result)

        return self._issue(self._signed("scatter", out, root=root, rows="*"), work, async_op)

    def gather(self, x: Value, root: int = 0, *, async_op: bool = False) -> Any:
        """Concatenates the ``x`` of all ranks along axis 0, as a new tensor on rank ``root``; returns None on
        others.
        """
        self._check_rank(root, "root")
        return self._gathered("gather", x, root, async_op)

    def all_gather(self, x: Value, *, async_op: bool = False) -> Any:
        """Concatenates the ``x`` of all ranks along axis 0, as a new tensor; only axis 0 may differ."""
        return self._gathered("all_gather", x, -1, async_op)

    def barrier(self, *, async_op: bool = False) -> Any:
        """Returns once all ranks have called it."""
        return self._issue(Signature(0, "barrier"), self._barrier, async_op)

    def send(self, x: Value, to: int, *, async_op: bool = False) -> Any:
        """Sends ``x`` to rank ``to``, which calls ``recv`` with the same shape and dtype.

        Returns before a small value is received; for large ones it waits for the receiver.
        """
        self._check_peer(to)
        host, text = _Host(x), _message_header(x)

        def work() -> None:
            values = host.read()
            self._send(values.reshape(-1), to, text)

        return self._run(work, async_op, "send")

    def recv(self, x: Value, source: int, *, async_op: bool = False) -> Any:
        """Writes the values sent by rank ``source`` into ``x``; raises CollectiveMismatchError for another shape or
        dtype.
        """
        self._check_peer(source)
        host, text = _Host(x), _message_header(x)

        def work() -> Value:
            values = host.read()
            out = host.result_array(values)
            self._recv(out.reshape(-1), source, text)
            return host.write(out)

        return self._run(work, async_op, "recv")

    def submit(self, work: Callable[[], Any], op: str) -> Work:
        """Runs ``work``, which may call collectives of the group, in the group's thread after all previous calls."""
        return Work(self.comm.submit(work), op)

    def close(self) -> None:
        """Ends the thread of the group and releases its resources; does not wait for the other ranks."""
        self.comm.close()

    def exchange(self, handle: DeviceHandle, always: bool = False) -> StagedExchange | None:
        """Returns this rank's StagedExchange for tensors of the queue of ``handle``, which sums on the devices; None if
        the transport has no memory that the devices of all ranks read, if one of them shares the host's memory
        (NETCL_DIST_STAGING), or if there is not enough of it. All ranks call it together the first time; a group has
        one exchange. ``always``: on other devices too.
        """
        return None

    # -- execution of a collective -------------------------------------------------------------------------------------

    def _exchange_for(self, x: Value, op: str) -> StagedExchange | None:
        """Returns the exchange if a tensor is better summed on the devices than on the host."""
        if not isinstance(x, Tensor) or x.nbytes < _ON_DEVICES_FROM or x.dtype not in REDUCED:
            return None
        suits = op == "sum" or (op == "mean" and is_floating(x.dtype))
        return self.exchange(Tensor.empty((0,), queue=x.queue).device) if suits else None

    def made_exchange(self, x: Value) -> StagedExchange | None:
        """Returns the exchange that ``exchange`` has made, if it passes ``x`` on to all ranks; never makes one."""
        return None

    def _gathered(self, name: str, x: Value, root: int, async_op: bool) -> Any:
        exchange = self.made_exchange(x) if root < 0 else None
        if exchange is not None and isinstance(x, Tensor):
            refuse_capture(x, _CAPTURED)

            def gathered() -> Tensor:
                rows = self._concatenate(np.array([_rows(x)], np.int64), [1] * self.size)
                return exchange.gather(x, [int(count) for count in rows])

            return self._issue(self._signed(f"{name} on devices", x, rows="*"), gathered, async_op)
        host = _Host(x)

        def work() -> Value | None:
            values = host.read()
            counts = self._concatenate(np.array([_rows(values)], np.int64), [1] * self.size)
            row = math.prod(values.shape[1:])
            joined = self._concatenate(values.reshape(-1), [int(count) * row for count in counts])
            if root not in (-1, self.rank):
                return None
            return host.new(joined.reshape(int(counts.sum()), *values.shape[1:]))

        return self._issue(self._signed(name, x, root=root, rows="*"), work, async_op)

    def _signed(self, op: str, x: Value, *, reduce: str = "", root: int = -1, rows: str = "") -> Signature:
        shape: tuple[int | str, ...] = (rows, *x.shape[1:]) if rows else tuple(x.shape)
        # Arrays of halves on the way have a dtype of their own; texts of tensors' dtypes may be PyTorch's.
        dtype = canonical(x.dtype) if isinstance(x, Tensor) else str(x.dtype)
        return Signature(0, op, shape, dtype, reduce, root)

    def _issue(self, signature: Signature, work: Callable[[], Any], async_op: bool) -> Any:
        def signed() -> Any:
            # Numbered when it runs, which is in the same order on all ranks.
            self._sequence += 1
            self._announce(signature._replace(sequence=self._sequence))
            return work()

        return self._run(signed, async_op, signature.op)

    def _run(self, work: Callable[[], Any], async_op: bool, op: str) -> Any:
        if async_op:
            return self.submit(work, op)
        return work() if self.comm.idle or self.comm.here else self.comm.submit(work).result()

    def _check_rank(self, rank: int, name: str) -> None:
        if not 0 <= rank < self.size:
            raise ValueError(f"{name}: expected a rank from 0 to {self.size - 1}, got {rank}")

    def _check_peer(self, rank: int) -> None:
        self._check_rank(rank, "the other")
        if rank == self.rank:
            raise ValueError(f"send and recv: expected two ranks, got rank {rank} with itself")

    def __deepcopy__(self, memo: dict[int, Any]) -> ProcessGroup:
        return self  # a copy of a model that refers to its group is in the same group

    def __repr__(self) -> str:
        return f"<{type(self).__name__} rank {self.rank} of {self.size}>"

    # -- implemented by transports -------------------------------------------------------------------------------------

    @abstractmethod
    def _announce(self, signature: Signature) -> None:
        """Begins a collective: the next exchange compares the signatures."""

    @abstractmethod
    def _barrier(self) -> None:
        """Returns once all ranks have called it."""

    @abstractmethod
    def _reduce_range(self, source: Array, out: Array, op: str, low: int, high: int) -> None:
        """Writes elements ``low`` to ``high`` of the ``op`` of all sources into ``out``. Its first element is ``low``;
        it may be the source.
        """

    @abstractmethod
    def _concatenate(self, own: Array, counts: Sequence[int]) -> Array:
        """Returns the concatenated arrays of all ranks; ``counts`` are their sizes."""

    @abstractmethod
    def _broadcast_range(self, source: Array | None, out: Array, root: int, low: int, total: int) -> None:
        """Fills ``out`` with elements from ``low`` on of the source of rank ``root``, which has ``total`` elements."""

    @abstractmethod
    def _send(self, values: Array, to: int, text: str) -> None:
        """Sends the values; ``text`` is the header that the receiver expects."""

    @abstractmethod
    def _recv(self, out: Array, source: int, text: str) -> None:
        """Receives into ``out`` the values with the same header."""


def _rows(values: Value) -> int:
    return int(values.shape[0]) if values.shape else 1


def _message_header(x: Value) -> str:
    return f"shape {tuple(x.shape)} and dtype {x.dtype}"
