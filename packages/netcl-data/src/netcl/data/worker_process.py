"""The worker process: a loop that turns sample indices into batches until it is stopped or the loader is gone."""

from __future__ import annotations

import os
import pickle
import queue
import signal
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from netcl.data.fetch import BatchBuilder, StreamEnd, StreamReader
from netcl.data.sample_random import sample_keys, seed_globals
from netcl.data.shared_batch import SharedBatchRingBuffer
from netcl.data.tree import map_type


class WorkerInfo(NamedTuple):
    """Describes this worker process: ``id`` from 0 of ``num_workers``, and its own copy of the dataset."""

    id: int
    num_workers: int
    dataset: Any


class Task(NamedTuple):
    """One batch to make: the sample indices, or, for a stream, the first sample, the number of samples, and the
    smallest number that makes a batch; and the slot to write it to, or None.
    """

    generation: int
    number: int
    seed: int
    epoch: int
    indices: Any
    stream: tuple[int, int, int] | None
    slot: int | None


class Reply(NamedTuple):
    """The result of a task. ``kind``: ready, ring, pickle, end (of the stream), error, or failed (at the start).

    ``value``: for ring (the batch with ArrayPlaceholders, rows), for pickle the batch, for errors (text, pickled
    exception or None, failing index or None).
    """

    kind: str
    worker_id: int
    generation: int
    number: int
    slot: int | None
    value: Any


@dataclass(frozen=True)
class ArrayPlaceholder:
    """Placeholder in a batch for the array of ring field ``number``."""

    number: int


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Returns the WorkerInfo in a worker process of a DataLoader, else None."""
    return _info


def _listen(tasks: Connection, heartbeat: Connection, messages: queue.SimpleQueue[Any]) -> None:
    """Receives messages in a thread, independently of the main thread, so that the loader never blocks on sending.

    A ping is answered here: it asks for a live process, not for a finished batch.
    """
    try:
        while True:
            message = tasks.recv()
            if message == "ping":
                heartbeat.send("pong")
            else:
                messages.put(message)
                if message is None:
                    return
    except (EOFError, OSError):
        # The loader's process is gone. The main thread may be inside user code, so only this thread can end the
        # process.
        os._exit(1)


def describe(error: BaseException, index: Any = None) -> tuple[str, bytes | None, Any]:
    """Describes an exception for the pipe: its traceback, the pickled exception if possible, and the sample."""
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    try:
        pickled = pickle.dumps(error)
        pickle.loads(pickled)
    except Exception:  # noqa: BLE001 - any class may fail to pickle in any way; the text is always sent
        return text, None, index
    return text, pickled, index


def worker_main(
    worker_id: int,
    num_workers: int,
    seed: int,
    payload: bytes | tuple[BatchBuilder, Callable[[int], None] | None],
    tasks: Connection,
    results: Connection,
    heartbeat: Connection,
) -> None:
    """Runs one worker: ``payload`` is (builder, worker_init_fn), pickled unless the process was forked."""
    # Ctrl-C reaches the whole foreground process group; the loader's process decides when the workers end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(tasks, heartbeat, messages), daemon=True).start()
    try:
        builder, worker_init_fn = pickle.loads(payload) if isinstance(payload, bytes) else payload
        builder.leaves_globals = False
        global _info
        _info = WorkerInfo(worker_id, num_workers, builder.dataset)
        seed_globals(int(sample_keys(seed, worker_id, [-1])[0]))
        if worker_init_fn is not None:
            worker_init_fn(worker_id)
    except BaseException as error:  # noqa: BLE001 - sent to the loader, which raises it
        results.send(Reply("failed", worker_id, -1, -1, None, describe(error)))
        return
    results.send(Reply("ready", worker_id, -1, -1, None, None))
    _Worker(worker_id, builder, results).serve(messages)


class _Worker:
    def __init__(self, worker_id: int, builder: BatchBuilder, results: Connection) -> None:
        self._id, self._builder, self._results = worker_id, builder, results
        self._ring: SharedBatchRingBuffer | None = None
        self._reader: StreamReader | None = None
        self._reader_key: tuple[int, int, int] | None = None

    def serve(self, messages: queue.SimpleQueue[Any]) -> None:
        """Processes messages: a Task, the attach_info of a ring, or None to stop."""
        while True:
            message = messages.get()
            if message is None:
                break
            if isinstance(message, Task):
                self._send(self._reply(message))
            else:
                self._ring = SharedBatchRingBuffer.attach(message)
        if self._ring is not None:
            self._ring.close()

    def _send(self, reply: Reply) -> None:
        try:
            self._results.send(reply)
        except OSError:
            raise  # an error of the pipe; pickling raises other errors, before anything is sent
        except Exception as error:  # noqa: BLE001 - sent to the loader, which raises it
            self._results.send(reply._replace(kind="error", value=describe(error)))

    def _reply(self, task: Task) -> Reply:
        reply = Reply("pickle", self._id, task.generation, task.number, task.slot, None)
        try:
            if task.stream is None:
                batch = self._builder.build(task.seed, task.epoch, task.indices)
            else:
                samples = self._read_stream(task, *task.stream)
                if not samples:
                    return reply._replace(kind="end")
                batch = self._builder.build_from(samples, task.seed, task.epoch, task.stream[0])
            placed = None if task.slot is None or self._ring is None else _write_to_slot(batch, self._ring, task.slot)
        except StreamEnd:
            return reply._replace(kind="end")
        except Exception as error:  # noqa: BLE001 - sent to the loader, which raises it
            return reply._replace(kind="error", value=describe(error, self._builder.failed_index))
        return reply._replace(value=batch) if placed is None else reply._replace(kind="ring", value=placed)

    def _read_stream(self, task: Task, first: int, count: int, fewest: int) -> list[Any]:
        key = (task.generation, task.seed, task.epoch)
        if self._reader is None or self._reader_key != key:
            self._reader, self._reader_key = StreamReader(self._builder, task.seed, task.epoch), key
        self._reader.skip_to(first)
        samples = self._reader.read(count) if self._reader.position == first else []
        return samples if len(samples) >= fewest else []


def ring_arrays(batch: Any) -> tuple[Any, list[npt.NDArray[Any]]]:
    """Returns the batch with ArrayPlaceholders, and the replaced arrays: arrays with rows and without objects."""
    arrays: list[npt.NDArray[Any]] = []

    def take_out(array: npt.NDArray[Any]) -> Any:
        if array.ndim == 0 or array.dtype.hasobject or not array.dtype.itemsize:
            return array
        arrays.append(array)
        return ArrayPlaceholder(len(arrays) - 1)

    return map_type(take_out, np.ndarray, batch), arrays


def _write_to_slot(batch: Any, ring: SharedBatchRingBuffer, slot: int) -> tuple[Any, list[int]] | None:
    """Copies the arrays of ``batch`` into a slot; returns the rest and their row counts, or None if they do not fit."""
    skeleton, arrays = ring_arrays(batch)
    views = list(ring.slot_view(slot).values())
    if len(arrays) != len(views):
        return None
    for array, view in zip(arrays, views):
        if array.dtype != view.dtype or array.shape[1:] != view.shape[1:] or len(array) > len(view):
            return None
    for array, view in zip(arrays, views):
        view[: len(array)] = array
    return skeleton, [len(array) for array in arrays]
