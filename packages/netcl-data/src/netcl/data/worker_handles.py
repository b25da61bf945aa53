"""Handles of the worker processes: process, pipes and shared memory, and their release."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any

from netcl.data.shared_batch import SharedBatchRingBuffer
from netcl.data.worker_process import Task

STOP_S = 1.0  # for each step: request to stop, SIGTERM, SIGKILL


class WorkerHandle:
    """A process with its pipes and its unfinished tasks."""

    def __init__(self, worker_id: int, process: Any, tasks: Any, results: Any, heartbeat: Any, started: float) -> None:
        self.id: int = worker_id
        self.process: Any = process
        self.tasks: Any = tasks
        self.results: Any = results
        self.heartbeat: Any = heartbeat
        self.open: dict[tuple[int, int], Task] = {}
        self.started = started
        self.ready_since: float | None = None
        self.last_ping = started
        self.ping_sent: float | None = None  # sent and not answered yet

    def indices(self) -> list[Any]:
        """Returns the samples of the unfinished tasks; of a stream, their positions."""
        samples: list[Any] = []
        for task in self.open.values():
            samples += (
                list(task.indices) if task.stream is None else range(task.stream[0], task.stream[0] + task.stream[1])
            )
        return [int(sample) if hasattr(sample, "__index__") else sample for sample in samples]


class Resources:
    """Resources to release, separate from the pool so that its finalizer can hold them."""

    def __init__(self) -> None:
        self.pid: int = os.getpid()
        self.workers: list[WorkerHandle] = []
        self.ring: SharedBatchRingBuffer | None = None

    def release(self) -> None:
        """Stops the workers, by a signal after a second each, closes the pipes, unlinks the ring."""
        if os.getpid() != self.pid:
            return  # a fork of the loader's process owns none of them
        workers, self.workers = self.workers, []
        for worker in workers:
            with contextlib.suppress(OSError, ValueError):
                worker.tasks.send(None)
        for end in (None, "terminate", "kill"):
            deadline = time.monotonic() + STOP_S
            for worker in workers:
                if end is not None and worker.process.is_alive():
                    getattr(worker.process, end)()
            for worker in workers:
                worker.process.join(max(0.0, deadline - time.monotonic()))
        for worker in workers:
            for pipe in (worker.tasks, worker.results, worker.heartbeat):
                pipe.close()
            if worker.process.exitcode is not None:
                worker.process.close()
        ring, self.ring = self.ring, None
        if ring is not None:
            ring.unlink()
            ring.close()
