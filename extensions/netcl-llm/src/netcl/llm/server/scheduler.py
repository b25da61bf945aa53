"""The thread that generates: jobs in the order of their arrival, a few at a time, one token of each in turn."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from netcl.llm.server.errors import ApiError

__all__ = ["Job", "Scheduler"]


class _End:
    """Marks the end of a job's results."""


@dataclass(eq=False)
class Job:
    """A generation that has been asked for.

    Attributes:
        ids: its prompt, by which a session with the same beginning is chosen.
        results: makes the iterator of results, given a session of the model.
        post: takes each result, then the job's END or an exception; called in the scheduler's thread.
        cancelled: True ends the job before its next token.
    """

    ids: Sequence[int]
    results: Callable[[Any], Iterator[Any]]
    post: Callable[[Any], None]
    cancelled: bool = False
    END = _End()


@dataclass(eq=False)
class _Slot:
    """A session of the model, with the ids of its last job, and the job that runs in it."""

    session: Any
    ids: Sequence[int] = ()
    job: Job | None = None
    iterator: Iterator[Any] = field(default_factory=lambda: iter(()))


class Scheduler:
    """Runs jobs in one thread, since a device's queue has one user.

    Args:
        model: has ``session()``, an object that keeps the keys and values of a prompt for the next.
        parallel: jobs that make tokens in turn; each has a session.
        waiting: jobs that may wait for their turn; more are refused with status 429.
    """

    def __init__(self, model: Any, parallel: int = 4, waiting: int = 64) -> None:
        self._model, self._parallel, self._most = model, parallel, waiting
        self._waiting: deque[Job] = deque()
        self._slots: list[_Slot] = []
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="netcl-llm", daemon=True)
        self._thread.start()

    def submit(self, jobs: Sequence[Job]) -> None:
        """Takes jobs, all or none: a full queue is an ApiError of status 429."""
        with self._changed:
            if self._closed:
                raise ApiError("the server is stopping", status=503)
            free = self._parallel - self._running()
            if len(self._waiting) + len(jobs) > self._most + free:
                raise ApiError(f"expected at most {self._most} waiting generations; try again later", status=429)
            self._waiting.extend(jobs)
            self._changed.notify()

    def cancel(self, jobs: Sequence[Job]) -> None:
        """Ends jobs: those that wait at once, the others before their next token."""
        with self._changed:
            for job in jobs:
                job.cancelled = True
            self._waiting = deque(job for job in self._waiting if not job.cancelled)

    def counts(self) -> dict[str, int]:
        """Returns the numbers of jobs that run and wait."""
        with self._changed:
            return {"running": self._running(), "waiting": len(self._waiting)}

    def close(self) -> None:
        """Ends the thread before its next token; jobs that are left get an error."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _running(self) -> int:
        return sum(slot.job is not None for slot in self._slots)

    def _run(self) -> None:
        while self._begin_jobs():
            for slot in list(self._slots):
                if slot.job is not None:
                    self._advance(slot, slot.job)
        left = [*self._waiting, *(slot.job for slot in self._slots if slot.job is not None)]
        for job in left:
            job.post(ApiError("the server is stopping", status=503))

    def _begin_jobs(self) -> bool:
        """Gives waiting jobs a slot; waits while there is no job at all. Returns False at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._waiting or any(slot.job for slot in self._slots))
            if self._closed:
                return False
            begun = []
            while self._waiting and self._running() < self._parallel:
                job = self._waiting.popleft()
                slot = self._slot_for(job)
                slot.job = job
                begun.append(slot)
        for slot in begun:
            self._begin(slot)
        return True

    def _slot_for(self, job: Job) -> _Slot:
        """Returns the free slot that shares the longest beginning with the prompt; a new one if none shares any."""
        free = [slot for slot in self._slots if slot.job is None]
        best = max(free, key=lambda slot: _shared(slot.ids, job.ids), default=None)
        if best is None or (len(self._slots) < self._parallel and not _shared(best.ids, job.ids)):
            best = _Slot(None)
            self._slots.append(best)
        return best

    def _begin(self, slot: _Slot) -> None:
        assert slot.job is not None
        try:
            slot.session = self._model.session() if slot.session is None else slot.session
            slot.iterator = slot.job.results(slot.session)
            slot.ids = slot.job.ids
        except Exception as error:  # noqa: BLE001 (it belongs to the job; the thread serves others)
            self._end(slot, error)

    def _advance(self, slot: _Slot, job: Job) -> None:
        """Posts the next result of a slot's job, or its end."""
        if job.cancelled:
            self._end(slot, Job.END)
            return
        try:
            result = next(slot.iterator, Job.END)
        except Exception as error:  # noqa: BLE001 (it belongs to the job; the thread serves others)
            slot.session, slot.ids = None, ()
            self._end(slot, error)
            return
        if result is Job.END:
            self._end(slot, Job.END)
        else:
            job.post(result)

    def _end(self, slot: _Slot, last: Any) -> None:
        close = getattr(slot.iterator, "close", None)
        if close is not None:
            close()
        job, slot.iterator = slot.job, iter(())
        with self._changed:
            slot.job = None
        assert job is not None
        job.post(last)


def _shared(left: Sequence[int], right: Sequence[int]) -> int:
    count = 0
    for a, b in zip(left, right, strict=False):
        if a != b:
            break
        count += 1
    return count
