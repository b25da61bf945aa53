"""What the loader's side holds of its workers: processes, pipes and shared memory, and how they are given back."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any

from netcl.data.shared_batch import SharedBatchRingBuffer
from netcl.data.worker_process import Task

__all__ = ["STOP_S", "Resources", "WorkerHandle"]

STOP_S = 1.0  # for each of: asked to stop, SIGTERM, SIGKILL


class WorkerHandle:
    """A process with its pipes and the tasks it holds."""

    def __init__(self, worker_id: int, process: Any, tasks: Any, results: Any, pulse: Any, started: float) -> None:
        self.id, self.process = worker_id, process
        self.tasks, self.results, self.pulse = tasks, results, pulse
        self.open: dict[tuple[int, int], Task] = {}
        self.started = started
        self.ready_since: float | None = None
        self.last_ping = started
        self.ping_sent: float | None = None  # and not answered yet

    def indices(self) -> list[Any]:
        """The samples of the open tasks; of a stream, their positions."""
        samples: list[Any] = []
        for task in self.open.values():
            samples += (
                list(task.indices) if task.stream is None else range(task.stream[0], task.stream[0] + task.stream[1])
            )
        return [int(sample) if hasattr(sample, "__index__") else sample for sample in samples]


class Resources:
    """What must be given back: kept apart from the pool so that its finalizer can reach it."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.workers: list[WorkerHandle] = []
        self.ring: SharedBatchRingBuffer | None = None

    def release(self) -> None:
        """Stops the workers, by force after a second each, closes the pipes, unlinks the ring."""
        if os.getpid() != self.pid:
            return  # a fork of the loader's process owns nothing
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
            for pipe in (worker.tasks, worker.results, worker.pulse):
                pipe.close()
            if worker.process.exitcode is not None:
                worker.process.close()
        ring, self.ring = self.ring, None
        if ring is not None:
            ring.unlink()
            ring.close()
