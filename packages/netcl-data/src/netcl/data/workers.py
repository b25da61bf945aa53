"""WorkerPool: starts worker processes, distributes tasks, returns batches in order, and detects dead workers."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import pickle
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from multiprocessing import connection, resource_tracker
from types import ModuleType
from typing import Any

from netcl.data.errors import DataLoaderWorkerError
from netcl.data.fetch import BatchBuilder
from netcl.data.shared_batch import SharedBatchRingBuffer
from netcl.data.tree import map_type
from netcl.data.worker_handles import STOP_S, Resources, WorkerHandle
from netcl.data.worker_process import ArrayPlaceholder, Reply, Task, ring_arrays, worker_main

PING_AFTER_S = 1.0  # of waiting for a batch, and between two pings
SILENCE_S = 3.5  # without an answer to a ping; 5 s together with the wait before it and half a second to detect it
START_S = 120.0  # to import modules and to unpickle the payload


_starting = threading.Lock()

# Per batch: seed, epoch, and its indices or, for a stream, (first, count, fewest).
TaskSource = Iterator["tuple[int, int, Any, tuple[int, int, int] | None]"]


def choose_start_method(start_method: str | None) -> str:
    """Returns ``start_method`` if it is not None, else "forkserver" if it is safe, else "spawn".

    Raises:
        ValueError: the method is unknown on this system, or is "fork" and pyopencl is loaded.
    """
    available = multiprocessing.get_all_start_methods()
    if start_method is None:
        # On macOS the fork server itself breaks system libraries that do not survive a fork.
        return "forkserver" if "forkserver" in available and sys.platform != "darwin" else "spawn"
    if start_method not in available:
        raise ValueError(f"start_method must be None or one of {available} on this system, got {start_method!r}")
    if start_method == "fork" and "pyopencl" in sys.modules:
        raise ValueError(
            "start_method='fork' after pyopencl is loaded would give the workers half a driver, and they may hang: "
            "use 'forkserver' or 'spawn' (or None, which chooses)"
        )
    return start_method


class WorkerPool:
    """``num_workers`` processes that make batches; at most ``num_workers * prefetch`` batches are in flight.

    The first batches come through pipes and determine shapes and dtypes; the ring is created from them. A batch that
    does not fit its slot comes through the pipe.

    A task goes to the worker with the fewest unfinished ones. With ``in_turn`` the workers get tasks in turn, and the
    end of a stream ends one worker only. Without ``in_order`` batches come as they arrive.
    """

    def __init__(
        self,
        builder: BatchBuilder,
        num_workers: int,
        *,
        seed: int,
        prefetch: int,
        timeout: float,
        start_method: str,
        worker_init_fn: Callable[[int], None] | None,
        batch_size: int | None,
        use_shared_mem: bool,
        in_turn: bool = False,
        in_order: bool = True,
    ) -> None:
        self._timeout = timeout
        self._in_turn, self._in_order = in_turn, in_order
        self._turn = 0  # number of the worker that the search for the next one begins at
        self._ended: set[int] = set()  # the workers with streams that have ended
        self._batch_size, self._use_ring = batch_size, use_shared_mem
        self._window = num_workers * prefetch
        self._free_slots: list[int] = []
        self._generation = 0
        self._arrived: dict[int, Reply] = {}
        self._stopped = 0.0  # seconds for which this process was stopped while it waited
        self._resources = Resources()
        self._finalizer = weakref.finalize(self, self._resources.release)
        try:
            self._start(builder, num_workers, seed, start_method, worker_init_fn)
        except BaseException:
            self.close()
            raise

    @property
    def closed(self) -> bool:
        """True after the workers have been stopped."""
        return not self._finalizer.alive

    def close(self) -> None:
        """Stops the workers and frees the shared memory; may be called again."""
        self._finalizer()

    def _start(
        self,
        builder: BatchBuilder,
        num_workers: int,
        seed: int,
        start_method: str,
        worker_init_fn: Callable[[int], None] | None,
    ) -> None:
        context = multiprocessing.get_context(start_method)
        payload: Any = (builder, worker_init_fn)
        if start_method == "fork":
            # A tracker of the child would unlink the ring when the child ends.
            resource_tracker.ensure_running()
        else:
            payload = _pickled(payload, num_workers, start_method)
        for worker_id in range(num_workers):
            pipes = [context.Pipe(duplex=False) for _ in range(3)]
            (task_end, tasks), (results, result_end), (heartbeat, heartbeat_end) = pipes
            process = context.Process(  # type: ignore[attr-defined]
                target=worker_main,
                args=(worker_id, num_workers, seed, payload, task_end, result_end, heartbeat_end),
                name=f"netcl-data-worker-{worker_id}",
                daemon=True,
            )
            try:
                with _main_hidden(payload):
                    process.start()
            finally:
                # Closes this process's copies of the child's ends: while they are open, a dead worker gives no end of
                # file.
                for end in (task_end, result_end, heartbeat_end):
                    end.close()
            self._resources.workers.append(WorkerHandle(worker_id, process, tasks, results, heartbeat, self._now()))

    def run(self, tasks: TaskSource) -> Iterator[Any]:
        """Yields the batches of ``tasks`` (see Task) in their order.

        A new run ends the previous one.

        Raises:
            DataLoaderWorkerError: a worker died, stopped responding, exceeded the timeout or raised.
        """
        self._generation += 1
        for reply in self._arrived.values():
            self._free(reply)
        self._arrived.clear()
        self._turn = 0
        self._ended.clear()
        dealt = self._fill(tasks, self._generation, 0, self._window)
        return self._batches(tasks, self._generation, dealt)

    def _batches(self, tasks: TaskSource, generation: int, dealt: int) -> Iterator[Any]:
        due = 0
        while due < dealt:
            reply = self._await(due if self._in_order else None, generation)
            self._free(reply)
            due += 1
            if reply.kind == "end":
                self._ended.add(reply.worker_id)
                if not self._in_turn or len(self._ended) == len(self._resources.workers):
                    return
                dealt = self._fill(tasks, generation, dealt, due + self._window)
                continue
            if reply.kind == "error":
                raise self._raised(reply)
            batch = self._unpack(reply)
            del reply
            # Before the batch is yielded: the workers continue while it is used.
            dealt = self._fill(tasks, generation, dealt, due + self._window)
            yield batch
            if self.closed or generation != self._generation:
                raise RuntimeError(
                    "this iteration has ended: the DataLoader was closed or iterated anew "
                    "(with num_workers > 0 one iteration runs at a time)"
                )

    def _fill(self, tasks: TaskSource, generation: int, dealt: int, limit: int) -> int:
        """Sends tasks until ``limit`` have been sent or there are no more; returns the number sent."""
        for seed, epoch, indices, stream in itertools.islice(tasks, max(0, limit - dealt)):
            self._dispatch(Task(generation, dealt, seed, epoch, indices, stream, None))
            dealt += 1
        return dealt

    def _dispatch(self, task: Task) -> None:
        """Sends a task to the worker with the fewest unfinished tasks, or to the next one."""
        worker = self._next_worker() if self._in_turn and self._in_order else self._least_busy()
        if self._free_slots:
            task = task._replace(slot=self._free_slots.pop())
        worker.open[task.generation, task.number] = task
        self._send(worker, task)

    def _least_busy(self) -> WorkerHandle:
        active = (worker for worker in self._resources.workers if worker.id not in self._ended)
        return min(active, key=lambda worker: len(worker.open))

    def _next_worker(self) -> WorkerHandle:
        workers = self._resources.workers
        while workers[self._turn].id in self._ended:
            self._turn = (self._turn + 1) % len(workers)
        worker, self._turn = workers[self._turn], (self._turn + 1) % len(workers)
        return worker

    def _await(self, number: int | None, generation: int) -> Reply:
        """Returns the reply to a task, or the first that arrives; replies that arrive earlier are stored."""
        started = self._now()
        while not self._arrived if number is None else number not in self._arrived:
            owners: dict[Any, WorkerHandle] = {}
            for worker in self._resources.workers:
                owners.update({worker.results: worker, worker.heartbeat: worker, worker.process.sentinel: worker})
            before, tick = time.monotonic(), PING_AFTER_S / 2
            signalled = connection.wait(list(owners), tick)
            # This process was stopped by Ctrl-Z or a debugger, and the workers with it: that time does not count as
            # silence.
            late = time.monotonic() - before - tick
            self._stopped += late if late > PING_AFTER_S else 0.0
            for source in signalled:
                if source is owners[source].heartbeat:
                    self._receive_heartbeat(owners[source])
            for worker in {owners[source].id: owners[source] for source in signalled}.values():
                self._receive(worker, generation)
            if number is not None and number not in self._arrived:
                self._check_liveness((generation, number), started)
            elif number is None and not self._arrived:
                self._check_liveness(None, started)
        return self._arrived.pop(next(iter(self._arrived)) if number is None else number)

    def _now(self) -> float:
        """Returns the seconds on a clock that does not advance while this process is stopped."""
        return time.monotonic() - self._stopped

    def _receive_heartbeat(self, worker: WorkerHandle) -> None:
        with contextlib.suppress(EOFError, OSError):
            worker.heartbeat.recv()
        worker.ping_sent = None

    def _receive(self, worker: WorkerHandle, generation: int) -> None:
        """Receives all replies that a worker has sent; raises if it is dead."""
        dead = worker.process.exitcode is not None
        try:
            while worker.results.poll():
                self._take(worker, worker.results.recv(), generation)
        except (EOFError, OSError):
            dead = True
        if dead:
            raise self._dead(worker)

    def _take(self, worker: WorkerHandle, reply: Reply, generation: int) -> None:
        worker.ping_sent = None
        if reply.kind == "ready":
            worker.ready_since = self._now()
            return
        if reply.kind == "failed":
            raise self._failed_at_start(worker, reply)
        worker.open.pop((reply.generation, reply.number))
        if reply.generation != generation:
            self._free(reply)
            return
        if reply.kind == "pickle" and self._use_ring and self._resources.ring is None:
            self._make_ring(reply.value)
        self._arrived[reply.number] = reply

    def _check_liveness(self, due: tuple[int, int] | None, wait_started: float) -> None:
        """Pings the workers; raises if one does not answer, or if the batch exceeds the timeout."""
        now = self._now()
        for worker in self._resources.workers:
            if worker.ready_since is None:
                if now - worker.started > START_S:
                    raise self._silent(worker, f"was not ready after {START_S:.0f} s")
                continue
            waited = now - max(wait_started, worker.ready_since)
            if self._timeout and waited > self._timeout and (worker.open if due is None else due in worker.open):
                raise self._silent(worker, f"gave no batch within timeout={self._timeout} s")
            if not worker.open or waited < PING_AFTER_S:
                continue
            if worker.ping_sent is None:
                if now - worker.last_ping >= PING_AFTER_S:
                    worker.ping_sent = worker.last_ping = now
                    self._send(worker, "ping")
            elif now - worker.ping_sent > max(SILENCE_S, self._timeout):
                raise self._silent(
                    worker,
                    f"has given no sign of life for {now - worker.ping_sent:.0f} s: it is stopped, or a call into C "
                    "holds the interpreter; a longer timeout= allows it more",
                )

    def _send(self, worker: WorkerHandle, message: Any) -> None:
        try:
            worker.tasks.send(message)
            return
        except OSError:
            pass
        # Raised outside of the except block, so that the OSError is not kept as its context: its frames hold
        # io.BytesIO.getbuffer(), and if the garbage collector finds that in a cycle, CPython crashes (3.12.1) or raises
        # BufferError anywhere (3.13.0).
        raise self._dead(worker)

    def _unpack(self, reply: Reply) -> Any:
        if reply.kind == "pickle":
            return reply.value
        ring = self._resources.ring
        assert ring is not None
        assert reply.slot is not None
        skeleton, rows = reply.value
        views = list(ring.slot_view(reply.slot).values())
        return map_type(lambda place: views[place.number][: rows[place.number]].copy(), ArrayPlaceholder, skeleton)

    def _free(self, reply: Reply) -> None:
        if reply.slot is not None:
            self._free_slots.append(reply.slot)

    def _make_ring(self, batch: Any) -> None:
        """Creates a ring for batches like this one and sends it to the workers."""
        _, arrays = ring_arrays(batch)
        specs = {}
        for number, array in enumerate(arrays):
            # A short first batch must not make the slots too small for full batches.
            rows = max(len(array), self._batch_size or 0)
            specs[str(number)] = ((rows, *array.shape[1:]), array.dtype)
        if not specs:
            self._use_ring = False
            return
        try:
            ring = self._resources.ring = SharedBatchRingBuffer(specs, self._window)
        except MemoryError:
            self.close()
            raise
        self._free_slots = list(range(ring.K))
        for worker in self._resources.workers:
            self._send(worker, ring.attach_info())

    def _dead(self, worker: WorkerHandle) -> DataLoaderWorkerError:
        worker.process.join(STOP_S)
        exitcode, indices = worker.process.exitcode, worker.indices()
        advice = ""
        if worker.ready_since is None:
            advice = (
                "; it had not started its work: a script must create and iterate the DataLoader under "
                'if __name__ == "__main__": (its main module is imported by each worker)'
            )
        elif exitcode == -9:
            advice = "; killed from outside, often by the system when memory is short"
        text = f"data worker {worker.id} died, exit code {exitcode}, holding samples {_short(indices)}{advice}"
        self.close()
        return DataLoaderWorkerError(worker.id, exitcode, indices, text)

    def _silent(self, worker: WorkerHandle, what: str) -> DataLoaderWorkerError:
        indices = worker.indices()
        text = f"data worker {worker.id} {what}; it holds samples {_short(indices)}"
        # A process that does not respond would not react to a request to stop.
        worker.process.kill()
        self.close()
        return DataLoaderWorkerError(worker.id, None, indices, text)

    def _failed_at_start(self, worker: WorkerHandle, reply: Reply) -> DataLoaderWorkerError:
        text, pickled, _ = reply.value
        self.close()
        error = DataLoaderWorkerError(
            worker.id, None, [], f"data worker {worker.id} could not start; its traceback:\n\n{text}"
        )
        error.__cause__ = pickle.loads(pickled) if pickled is not None else None
        return error

    def _raised(self, reply: Reply) -> DataLoaderWorkerError:
        text, pickled, index = reply.value
        where, indices = ("", []) if index is None else (f" at sample {index!r}", [index])
        error = DataLoaderWorkerError(
            reply.worker_id, None, indices, f"data worker {reply.worker_id} raised{where}; its traceback:\n\n{text}"
        )
        error.__cause__ = pickle.loads(pickled) if pickled is not None else None
        return error


@contextlib.contextmanager
def _main_hidden(payload: Any) -> Iterator[None]:
    """Hides the main script from new processes within the block, so that they do not run it, unless the pickled payload
    refers to it.
    """
    if not isinstance(payload, bytes) or b"__main__" in payload:
        yield
        return
    with _starting:
        main, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main


def _pickled(payload: Any, num_workers: int, start_method: str) -> bytes:
    try:
        return pickle.dumps(payload, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        raise TypeError(
            f"num_workers={num_workers} with start_method={start_method!r} sends the dataset, collate_fn, transforms, "
            f"augment and worker_init_fn to other processes, but they cannot be pickled: {error}; define functions and "
            "classes at the top of a module (no lambda), or set num_workers=0"
        ) from error


def _short(indices: list[Any]) -> str:
    shown = ", ".join(map(repr, indices[:8]))
    return f"[{shown}, ... {len(indices)} in all]" if len(indices) > 8 else f"[{shown}]"
