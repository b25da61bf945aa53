"""StagedExchange: passes device tensors between the ranks of a host, and sums them on the devices in rank order.

The memory of the host only carries. Up to three ranks read the tensors of all others (all-gather) and sum them when
they use them: with two ranks each element crosses each bus twice, once in each direction, as little as possible. More
ranks sum by reduce-scatter and all-gather: each copies the elements that others reduce into page-locked memory of its
own, adds the others' elements of its part, and copies the sum back into memory for the others to read. That crosses the
bus less often, but its kernels wait for the step's, a millisecond or more each.

A tensor passes in pieces, several in flight, each in a slot of the segment. A thread follows the pieces: it polls the
events of the device's copies and the words of the other ranks, and enqueues the next copies of a piece when both allow
it. Kernels, copies of either direction and sums are on queues of their own, so that all of them overlap.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar

from netcl import ops
from netcl.core import Tensor
from netcl.core.ops_table.dispatch import evaluate
from netcl.distributed.errors import mismatch
from netcl.distributed.reductions import even_bounds
from netcl.distributed.staging.sums import sum_of_ranks
from netcl.distributed.transports.backoff import Deadline
from netcl.distributed.transports.segment import SENT, SUMMED, TAKEN, StagingSegment
from netcl.distributed.transports.shared_buffer import SharedBuffer
from netcl.runtime.staging import Pending, Staging, host_call, mark, order_after

T = TypeVar("T")

_GATHERING_RANKS = 3
_ALIGNED = 64  # elements: the copies of the parts begin at addresses that a bus carries in whole lines
# Between polls, while a thread waits for the exchange, and while it computes and needs the interpreter.
_PAUSE_S, _BUSY_PAUSE_S = 2e-5, 2e-4
# A thread that waits for the interpreter gets it after this time. By default it is 5 ms, which each poll of the
# exchange takes next to a thread that computes in Python, or that replays on a CPU and keeps the interpreter meanwhile.
_SWITCH_S = 1e-4


class _ShortSwitches:
    """The interval after which threads of the interpreter take turns: short while an exchange is under way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before = 0.0

    def begin(self) -> None:
        """Makes the interval short."""
        with self._lock:
            if not self._users:
                self._before = sys.getswitchinterval()
                sys.setswitchinterval(min(self._before, _SWITCH_S))
            self._users += 1

    def end(self) -> None:
        """Restores the interval after the last exchange."""
        with self._lock:
            self._users -= 1
            if not self._users:
                sys.setswitchinterval(self._before)


_short_switches = _ShortSwitches()


class Delivery:
    """Tensors under way. ``enqueued()`` waits for the host's part of it, ``wait()`` for the device's too; ``ended`` is
    the time, in seconds of perf_counter, at which the host's part ended; ``awaited`` is True once a thread waits for
    it.
    """

    def __init__(self, pieces: int) -> None:
        self._left = pieces
        self._enqueued = threading.Event()
        self._error: BaseException | None = None
        self._last: list[Pending] = []
        self.ended: float = 0.0
        self.awaited: bool = False

    def enqueued(self) -> list[Pending]:
        """Returns the last work of it, once it has been enqueued: the tensors have their values after it. Raises the
        error of the exchange, such as RankFailedError.
        """
        self.awaited = True
        self._enqueued.wait()
        if self._error is not None:
            raise self._error
        return self._last

    def wait(self) -> None:
        """Waits until the tensors have their values; raises what ``enqueued`` raises."""
        for pending in self.enqueued():
            pending.wait()

    def piece_enqueued(self, last: Sequence[Pending]) -> None:
        """Adds the last work of one piece."""
        self._last += last
        self._left -= 1
        if self._left <= 0:
            self.ended = time.perf_counter()
            self._enqueued.set()

    def fail(self, error: BaseException) -> None:
        """Ends it with an error."""
        self._error = error
        self._enqueued.set()


class _Way(NamedTuple):
    """The stages of a piece, each a function that returns False if it cannot begin yet; and, by stage, the word of the
    other ranks that it waits for.
    """

    name: str
    stages: tuple[Callable[[_Piece], bool], ...]
    awaited: dict[int, int]


class _Piece:
    """Elements ``first`` to ``last`` of a tensor, which pass in slot ``number % slots``; ``others`` receive the other
    ranks' elements, or the tensor itself receives the sum.
    """

    def __init__(
        self,
        way: _Way,
        number: int,
        delivery: Delivery,
        tensor: Tensor,
        first: int,
        last: int,
        op: str,
        ready: Pending,
        others: Sequence[Tensor] = (),
    ) -> None:
        self.way = way
        self.number = number
        self.others = others
        self.delivery = delivery
        self.tensor = tensor
        self.first, self.last = first, last
        self.op = op
        self.ready = ready
        self.stage = 0
        self.pending: list[Pending] = []
        self.kept: list[Any] = []

    @property
    def text(self) -> str:
        """The description, which must be the same on all ranks."""
        return (
            f"#{self.number} {self.way.name} of elements {self.first} to {self.last} of a tensor of "
            f"{self.tensor.size}, dtype {self.tensor.dtype}, op={self.op}"
        )

    def ended(self) -> bool:
        """Returns True if the copies that were enqueued last have ended."""
        while self.pending and self.pending[-1].done():
            self.pending.pop()
        return not self.pending


class StagedExchange:
    """One rank of an exchange over ``segment``, for tensors of the device of ``queue``; ``buffer`` has the words and
    the errors of the group. All ranks make the same calls for tensors of the same sizes in the same order.
    """

    def __init__(self, buffer: SharedBuffer, segment: StagingSegment, queue: Any) -> None:
        self._buffer, self._segment = buffer, segment
        self._rank, self._size = buffer.rank, buffer.size
        self.queue: Any = queue
        self._staging = Staging(queue, segment.memory)
        self._number = 0
        self._calls: SimpleQueue[_Piece | None] = SimpleQueue()
        self._active: deque[_Piece] = deque()
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._reducing = _Way(
            "all_reduce",
            (self._scatter, self._sent, self._reduce, self._stored, self._gather_sums, self._taken),
            {0: TAKEN, 2: SENT, 4: SUMMED},
        )
        self._gathering = _Way("all_gather", (self._send, self._sent, self._gather, self._taken), {0: TAKEN, 2: SENT})

    @property
    def gathers(self) -> bool:
        """True if each rank should read the tensors of all others by ``all_gather`` and sum them itself."""
        return self._size <= _GATHERING_RANKS

    def all_reduce(self, tensor: Tensor, op: str = "sum", ready: Pending | None = None) -> Delivery:
        """Begins to replace ``tensor`` by the ``op`` (sum, mean) of the tensors of all ranks, after ``ready`` (None:
        the work enqueued so far on its queue). Neither read nor write it before ``order_after(queue,
        delivery.enqueued())``. Raises the error that ended the exchange earlier.
        """
        return self._begin(self._reducing, tensor, op, ready, ())

    def all_gather(self, tensor: Tensor, others: Sequence[Tensor], ready: Pending | None = None) -> Delivery:
        """Begins to copy the tensors of the other ranks, in rank order, into ``others``, which have the size and the
        dtype of ``tensor``, after ``ready``; like ``all_reduce`` otherwise.
        """
        return self._begin(self._gathering, tensor, "", ready, others)

    def _begin(self, way: _Way, tensor: Tensor, op: str, ready: Pending | None, others: Sequence[Tensor]) -> Delivery:
        if self._error is not None:
            raise self._error
        work = mark(tensor.queue) if ready is None else ready
        width = self._segment.slot_bytes // (tensor.nbytes // tensor.size) if tensor.size else 1
        starts = range(0, tensor.size, width)
        delivery = Delivery(max(len(starts), 1))
        if not tensor.size:
            delivery.piece_enqueued(())
        if self._thread is None:
            # A daemon: an exchange that waits for a dead rank must not delay the end of the process.
            self._thread = threading.Thread(target=self._run, name=f"netcl-exchange-{self._rank}", daemon=True)
            self._thread.start()
        for start in starts:
            self._number += 1
            last = min(start + width, tensor.size)
            self._calls.put(_Piece(way, self._number, delivery, tensor, start, last, op, work, others))
        return delivery

    def mark(self) -> Pending:
        """Returns the work enqueued so far on the queue of the tensors."""
        return mark(self.queue)

    def in_rank_order(self, own: T, others: Sequence[T]) -> list[T]:
        """Returns what belongs to each rank: ``own``, and ``others`` before and after it."""
        return [*others[: self._rank], own, *others[self._rank :]]

    def reduce(self, tensor: Tensor, op: str) -> Tensor:
        """Replaces ``tensor`` by the ``op`` (sum, mean) of the tensors of all ranks, and returns it; later work of its
        queue runs after that.
        """
        if not self.gathers:
            delivery = self.all_reduce(tensor, op)
            host_call(lambda reads, out: order_after(self.queue, delivery.enqueued()), (), (tensor,))
            return tensor
        others = self._gathered(tensor)
        outputs = sum_of_ranks(self._size, tensor.dtype, op)
        evaluate(outputs, self.in_rank_order(tensor, others), out=(tensor,))
        return tensor

    def _gathered(self, tensor: Tensor) -> list[Tensor]:
        """Returns the tensors of the other ranks; later work of the queue runs after they have their values."""
        others = [Tensor.empty(tensor.shape, tensor.dtype, queue=self.queue) for _ in range(self._size - 1)]
        # After the work that used their memory before.
        delivery = self.all_gather(tensor, others, mark(self.queue))
        host_call(lambda reads, out: order_after(self.queue, delivery.enqueued()), (), others)
        return others

    def gather(self, x: Tensor, rows: Sequence[int]) -> Tensor:
        """Returns the tensors of all ranks, each with its number of ``rows``, joined along axis 0; later work
        of its queue runs after that.
        """
        shape = (max(rows), *x.shape[1:])
        padding = [(0, max(rows) - x.shape[0]), *((0, 0) for _ in x.shape[1:])]
        own = x if x.shape == shape else ops.pad(x, padding)
        parts = self.in_rank_order(own, self._gathered(own))
        joined: Tensor = ops.cat([part if count == max(rows) else part[:count] for part, count in zip(parts, rows)])
        return joined

    def close(self) -> None:
        """Ends the thread and gives the page-locked memory back."""
        if self._thread is not None:
            self._calls.put(None)
            self._thread.join()
            self._thread = None
        for piece in self._active:
            piece.delivery.fail(RuntimeError("the group was closed while tensors passed between its ranks"))
        self._active.clear()
        if self._staging.array.size:
            self._staging.close()
            self._segment.close()

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while (piece := self._calls.get()) is not None:
            self._active.append(piece)
            del piece
            _short_switches.begin()
            try:
                self._follow()
            except BaseException as error:  # noqa: BLE001 - raised by all that wait for the exchange
                self._fail(error)
            finally:
                _short_switches.end()

    def _follow(self) -> None:
        """Advances pieces until none is left."""
        deadline = None
        while self._active:
            advanced = self._step()
            try:
                piece = self._calls.get_nowait()
            except Empty:
                if advanced:
                    deadline = None
                else:
                    deadline = deadline or Deadline(self._buffer.timeout)
                    self._look(deadline)
                    time.sleep(_PAUSE_S if self._active[0].delivery.awaited else _BUSY_PAUSE_S)
                continue
            if piece is None:  # closed: the pieces under way are dropped
                self._calls.put(None)
                return
            self._active.append(piece)

    def _step(self) -> bool:
        """Advances all pieces as far as they get; True if one did."""
        advanced = False
        newest = self._active[0].number + self._segment.slots
        for piece in list(self._active):
            if piece.number >= newest:  # it waits for a slot
                break
            stages = piece.way.stages
            while piece.stage < len(stages) and stages[piece.stage](piece):
                piece.stage += 1
                advanced = True
            if piece.stage == len(stages):
                self._active.remove(piece)
        return advanced

    def _look(self, deadline: Deadline) -> None:
        """Raises the error of the group if another rank has ended or is late."""
        self._buffer.check()
        oldest = self._active[0]
        which = oldest.way.awaited.get(oldest.stage)
        if which is None:  # it waits for this device
            return
        slot = oldest.number % self._segment.slots
        number = oldest.number - (self._segment.slots if which == TAKEN else 0)
        late = [rank for rank in self._segment.behind(slot, which, number) if rank != self._rank]
        self._buffer.report_missing(late, deadline.expired() if late else False)

    def _fail(self, error: BaseException) -> None:
        self._error = error
        self._buffer.report_error(error)
        for piece in self._active:
            piece.delivery.fail(error)
        self._active.clear()
        while True:
            try:
                waiting = self._calls.get_nowait()
            except Empty:
                return
            if waiting is None:
                self._calls.put(None)
                return
            waiting.delivery.fail(error)

    # -- the stages of a piece; each returns False if it cannot begin yet ----------------------------------------------

    def _has_slot(self, piece: _Piece) -> bool:
        """Returns True, and publishes the description of the piece, if all ranks have read what was in its slot."""
        segment, slot = self._segment, piece.number % self._segment.slots
        if segment.behind(slot, TAKEN, piece.number - segment.slots):
            return False
        segment.sign(self._rank, slot, piece.text)
        return True

    def _send(self, piece: _Piece) -> bool:
        """Copies the elements into the slot."""
        if not self._has_slot(piece):
            return False
        place = self._segment.elements(self._rank, piece.number % self._segment.slots)
        count = piece.last - piece.first
        piece.pending = [self._staging.download(piece.tensor, piece.first, count, place, [piece.ready])]
        return True

    def _sent(self, piece: _Piece) -> bool:
        return self._report(piece, SENT)

    def _gather(self, piece: _Piece) -> bool:
        """Reads the elements of the other ranks, when all have sent theirs."""
        if not self._all_sent(piece):
            return False
        segment, count = self._segment, piece.last - piece.first
        ranks = [rank for rank in range(self._size) if rank != self._rank]
        for rank, other in zip(ranks, piece.others):
            place = segment.elements(rank, piece.number % segment.slots)
            piece.pending.append(self._staging.upload(other, piece.first, count, place, [piece.ready]))
        piece.delivery.piece_enqueued([*piece.pending])
        return True

    def _taken(self, piece: _Piece) -> bool:
        return self._report(piece, TAKEN)

    def _all_sent(self, piece: _Piece) -> bool:
        """Returns True if all ranks have sent their elements; raises CollectiveMismatchError if the pieces differ."""
        segment, slot = self._segment, piece.number % self._segment.slots
        if segment.behind(slot, SENT, piece.number):
            return False
        texts = segment.signatures(slot)
        if texts is not None:
            raise mismatch(texts)
        return True

    def _report(self, piece: _Piece, which: int) -> bool:
        """Reports to the other ranks that the copies of a piece have ended, if they have."""
        if not piece.ended():
            return False
        self._segment.report(self._rank, piece.number % self._segment.slots, which, piece.number)
        return True

    # -- the stages of a sum by reduce-scatter -------------------------------------------------------------------------

    def _bounds(self, piece: _Piece) -> list[int]:
        """Returns the ``size + 1`` bounds of the parts that the ranks reduce."""
        lines = -(-(piece.last - piece.first) // _ALIGNED)
        return [min(piece.first + _ALIGNED * at, piece.last) for at in even_bounds(0, lines, self._size)]

    def _scatter(self, piece: _Piece) -> bool:
        """Copies the elements that others reduce into the slot."""
        if not self._has_slot(piece):
            return False
        size = piece.tensor.nbytes // piece.tensor.size
        at = self._segment.elements(self._rank, piece.number % self._segment.slots)
        bounds = self._bounds(piece)
        for rank, (low, high) in enumerate(zip(bounds, bounds[1:])):
            if rank != self._rank and low < high:
                place = at + (low - piece.first) * size
                piece.pending.append(self._staging.download(piece.tensor, low, high - low, place, [piece.ready]))
        return True

    def _reduce(self, piece: _Piece) -> bool:
        """Adds the elements of this rank's part, when all ranks have sent theirs, and copies the sum into the slot."""
        if not self._all_sent(piece):
            return False
        low, high = self._bounds(piece)[self._rank :][:2]
        if low < high:
            total = self._sum(piece, low, high)
            done = mark(self._staging.stream.queue)
            moved = self._staging.move(total, 0, high - low, piece.tensor, low, [piece.ready])
            place = self._segment.sum(self._rank, piece.number % self._segment.slots)
            piece.pending = [self._staging.download(total, 0, high - low, place, [done])]
            piece.kept = [total, moved]
        return True

    def _sum(self, piece: _Piece, low: int, high: int) -> Tensor:
        """Returns the reduced elements ``low`` to ``high``, on the stream of the staging memory."""
        staging, tensor, segment = self._staging, piece.tensor, self._segment
        slot, size = piece.number % segment.slots, tensor.nbytes // tensor.size
        parts: list[Tensor] = []
        arrived: list[Pending] = []
        with staging.stream:
            for rank in range(self._size):
                part = Tensor.empty((high - low,), tensor.dtype)
                if rank == self._rank:
                    arrived.append(staging.move(tensor, low, high - low, part, 0, [piece.ready]))
                else:
                    place = segment.elements(rank, slot) + (low - piece.first) * size
                    arrived.append(staging.upload(part, 0, high - low, place, [mark(staging.stream.queue)]))
                parts.append(part)
            order_after(staging.stream.queue, arrived)
            total: Tensor = evaluate(sum_of_ranks(self._size, tensor.dtype, piece.op), parts)[0]
        return total

    def _stored(self, piece: _Piece) -> bool:
        return self._report(piece, SUMMED)

    def _gather_sums(self, piece: _Piece) -> bool:
        """Reads the sums of the other ranks, when all are in the slot."""
        segment, slot = self._segment, piece.number % self._segment.slots
        if segment.behind(slot, SUMMED, piece.number):
            return False
        bounds = self._bounds(piece)
        for rank, (low, high) in enumerate(zip(bounds, bounds[1:])):
            if rank != self._rank and low < high:
                place = segment.sum(rank, slot)
                piece.pending.append(self._staging.upload(piece.tensor, low, high - low, place, [piece.ready]))
        piece.delivery.piece_enqueued([*piece.pending, *piece.kept[1:]])
        return True
