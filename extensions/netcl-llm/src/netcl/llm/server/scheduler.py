"""The thread that generates: jobs begin in the order of their arrival, and are decoded together."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from netcl.llm.decode import CHUNKS, Lanes
from netcl.llm.generation import Writing, in_common
from netcl.llm.sampling import Piece, Sampler, Sampling
from netcl.llm.server.errors import ApiError

__all__ = ["Job", "Scheduler"]

# Posted behind the last result of a job.
END = object()


@dataclass(eq=False)
class Job:
    """Work that has been asked for: a generation, or other ``results`` that are made one by one between its steps.

    ``post`` takes each result, then END or an exception; the scheduler's thread calls it. ``cancelled`` ends the job
    before its next result.
    """

    ids: Sequence[int]
    rule: Sampling = field(default_factory=Sampling)
    results: Iterator[Any] | None = None
    post: Callable[[Any], None] = lambda _: None
    cancelled: bool = False


class _Row:
    """A row of lanes with its job, and the tokens that the model has not read."""

    def __init__(self) -> None:
        self.job: Job | None = None
        self.left: list[int] = []
        self.writing: Any = None

    def take(self, chosen: Piece) -> None:
        """Posts the piece of the next token, which ends the job at its limit or at an end of text."""
        piece = self.writing.piece(chosen)
        self.left = [chosen.id]
        if self.job is not None:
            self.job.post(piece)
        if piece.finish_reason is not None:
            self.end(END)

    def end(self, last: Any) -> None:
        """Ends the job; the lanes keep what they have read for a prompt that begins so."""
        job, self.job = self.job, None
        if job is not None:
            job.post(last)


class _Group:
    """Rows that are decoded together; their lanes are made at the first use, and again after a failure."""

    def __init__(self, model: Any, rows: int) -> None:
        self._model = model
        self._lanes: Lanes | None = None
        self.rows = [_Row() for _ in range(rows)]

    def shared(self, row: _Row, ids: Sequence[int]) -> int:
        """Returns how many first tokens of a prompt a row has read."""
        return in_common(self._lanes.ids[self.rows.index(row)] if self._lanes is not None else [], ids)

    def begin(self, row: _Row, job: Job) -> None:
        """Gives a job to a free row."""
        if self._lanes is None:
            decoder = self._model.decoder
            self._lanes = Lanes(decoder, len(self.rows))
            self._sampler = Sampler(len(self.rows), decoder.config.vocab_size, decoder.queue)
        at, read = self.rows.index(row), self.shared(row, job.ids)
        self._lanes.keep(at, read)
        self._sampler.begin(at, job.rule, job.ids)
        row.job, row.left = job, list(job.ids[read:])
        row.writing = Writing(self._model, job.rule, job.rule.max_tokens)

    def step(self) -> None:
        """Lets the model read the next tokens of all rows: a chunk of a prompt, or the token chosen before."""
        for row in self.rows:
            if row.job is not None and row.job.cancelled:
                row.end(END)
        lengths = [len(row.left) for row in self.rows if row.job is not None]
        if not lengths or self._lanes is None:
            return
        # A long prompt holds up rows that generate: its chunks are shorter then.
        chunks = CHUNKS if 1 not in lengths else CHUNKS[:2]
        width = 1 if max(lengths) == 1 else next((size for size in chunks if size >= max(lengths)), chunks[-1])
        parts = [row.left[:width] if row.job is not None else [] for row in self.rows]
        try:
            ready = [at for at, row in enumerate(self.rows) if row.job is not None and len(row.left) <= width]
            if width == 1:
                pieces = self._lanes.draw(parts, self._sampler, ready)
            else:
                logits = self._lanes.append(parts, width)
                pieces = self._sampler.draw(logits, ready) if ready else []
            for row in self.rows:
                row.left = row.left[width:]
            for at, chosen in zip(ready, pieces):
                self.rows[at].take(chosen)
        except Exception as error:  # noqa: BLE001 (it belongs to these jobs; the thread serves others)
            self._lanes = None
            for row in self.rows:
                row.end(error)


class Scheduler:
    """Runs jobs in one thread, since a device's queue has one user.

    A job that comes alone is decoded alone, which is fastest for it; jobs that come meanwhile form a batch of at most
    ``parallel``. ``waiting`` jobs may wait for their turn; more are refused with status 429.
    """

    def __init__(self, model: Any, parallel: int = 4, waiting: int = 64) -> None:
        self._most = waiting
        self._waiting: deque[Job] = deque()
        self._alone, self._batch = _Group(model, 1), _Group(model, parallel if parallel > 1 else 0)
        self._others: list[Job] = []
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="netcl-llm", daemon=True)
        self._thread.start()

    def submit(self, jobs: Sequence[Job]) -> None:
        """Takes jobs, all or none: a full queue is an ApiError of status 429."""
        with self._changed:
            if self._closed:
                raise ApiError("the server is stopping", status=503)
            if len(self._waiting) + len(jobs) > self._most + len(self._free()):
                raise ApiError(f"expected at most {self._most} waiting generations; try again later", status=429)
            self._waiting.extend(jobs)
            self._changed.notify()

    def cancel(self, jobs: Sequence[Job]) -> None:
        """Ends jobs: waiting ones at once, the others before their next token."""
        with self._changed:
            for job in jobs:
                job.cancelled = True
            self._waiting = deque(job for job in self._waiting if not job.cancelled)

    def counts(self) -> dict[str, int]:
        """Returns the numbers of jobs that run and wait."""
        with self._changed:
            return {"running": len(self._running()), "waiting": len(self._waiting)}

    def close(self) -> None:
        """Ends the thread before its next step; jobs that are left get an error."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _rows(self) -> list[tuple[_Group, _Row]]:
        return [(group, row) for group in (self._batch, self._alone) for row in group.rows]

    def _free(self) -> list[tuple[_Group, _Row]]:
        return [(group, row) for group, row in self._rows() if row.job is None]

    def _running(self) -> list[Job]:
        return [*self._others, *(row.job for _, row in self._rows() if row.job is not None)]

    def _run(self) -> None:
        while self._begin_jobs():
            for group in (self._alone, self._batch):
                group.step()
            self._others = [job for job in self._others if _advanced(job)]
        for job in [*self._waiting, *self._running()]:
            job.post(ApiError("the server is stopping", status=503))

    def _begin_jobs(self) -> bool:
        """Gives waiting jobs a row; waits while there is no job at all. Returns False at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._waiting or self._running())
            while self._waiting and not self._closed:
                job = self._waiting[0]
                if job.results is not None:
                    self._others.append(self._waiting.popleft())
                    continue
                free = self._free()
                if not self._batch.rows or (len(self._waiting) == 1 and not self._running()):
                    free = [(group, row) for group, row in free if group is self._alone]
                if not free:
                    break
                group, row = max(free, key=lambda pair: pair[0].shared(pair[1], job.ids))
                self._waiting.popleft()
                try:
                    group.begin(row, job)
                except Exception as error:  # noqa: BLE001 (it belongs to the job)
                    job.post(error)
            return not self._closed


def _advanced(job: Job) -> bool:
    """Posts the next result of a job; returns False if it has ended."""
    assert job.results is not None
    try:
        result = END if job.cancelled else next(job.results, END)
    except Exception as error:  # noqa: BLE001 (it belongs to the job)
        job.post(error)
        return False
    job.post(result)
    return result is not END
