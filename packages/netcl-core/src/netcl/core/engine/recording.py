"""A recorded step: the launches of one thread in order, replayed as a flat list.

An engine has at most one open recording for each thread, in this thread's ``engine.recording``. While it is
open, the place where the thread launches work appends a callable without arguments instead of running it; both backends
do so. Other threads compute, record and read on the same engine meanwhile.

``pool`` is the arena: while recording, new tensors come from it alone, and it serves no other allocation. A
tensor that dies while recording thus frees its buffer for a later launch of the same recording, never for other work,
so a replay cannot write into a buffer of another owner. An allocation of another pool (parameters, inputs)
is kept by the recording.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from time import perf_counter
from typing import Any

from netcl.core.engine.profiler_sink import FlopCount, LaunchRecord, ProfilerSink
from netcl.core.errors import CaptureError


class Recording:
    """Launches of one thread in order.

    ``thread`` is the ident of the thread that made it: only its launches belong to the recording. ``guard`` makes the
    context manager around replays; it turns the driver's errors into netcl's. ``owner.sink`` is told of the launches of
    a replay.
    """

    def __init__(
        self,
        pool: Any = None,
        guard: Callable[[], AbstractContextManager[Any]] = nullcontext,
        thread: int | None = None,
        owner: Any = None,
    ) -> None:
        self.pool: Any = pool
        self.owner: Any = owner
        self.thread: int = threading.get_ident() if thread is None else thread
        self._guard = guard
        self._launches: list[Callable[[], object]] = []
        self._records: list[LaunchRecord | None] = []
        self.flop_count: FlopCount | None = None  # the contraction that the launches compute now
        self._kept: dict[int, Any] = {}
        self._marks: dict[Callable[[], object], Callable[[], object]] = {}
        self.merges: bool = False  # True if ``merge`` follows: what it may merge is built there
        self.lasting: Any = None  # the LastingValues of the recording, None for none
        self.waits: bool = True  # False: ``merge`` raises CaptureError if children can build what is missing
        self.marked: int = 0  # times that ``mark`` was called
        self.rng_state: Any = None  # (seed, base) of the random numbers of the step, the engine's while it is open
        self.begins: list[int] = [0]  # of the parts: the numbers of their first launches
        self.recorded: dict[int, Any] = {}  # by number: what a backend knows of a launch that may become part of one

    def built_early(self, prepared: Any, buffers: Any) -> None:
        """Notes a launch with a program that was missing as it was recorded; here it is of no interest."""

    def mark(self, before: Callable[[], object]) -> None:
        """Has ``before()`` called at the beginning of each replay, once however often it is asked for."""
        self._marks[before] = before
        self.marked += 1

    def append(
        self, launch: Callable[[], object], keep: Iterable[Any] = (), record: LaunchRecord | None = None
    ) -> None:
        """Adds a launch; ``keep`` are objects that must live as long as the recording. A profiler is told ``record``.

        A tensor or allocation in ``keep`` stands for its allocation and its storage. Of an allocation of the arena only
        the buffer is kept, so that the recording itself can use the buffer again.
        """
        self._launches.append(launch)
        if record is not None and self.flop_count is not None:
            record = record._replace(flop_count=self.flop_count)
        self._records.append(record)
        for item in keep:
            handle = getattr(item, "pool_handle", item)
            buffer = getattr(item, "buffer", None)
            if handle is not None and (self.pool is None or getattr(handle, "pool", None) is not self.pool):
                self._kept[id(handle)] = handle
            if buffer is not None:
                self._kept[id(buffer)] = buffer

    def exchange(self, buffer: Any) -> list[Callable[[Any], None]] | None:
        """Returns the functions that put another buffer in the place of ``buffer`` in all launches; None if that cannot
        be.
        """
        return None

    def merge(self) -> None:
        """Makes several launches of the last part one, where that is possible and results have the same bits; ends
        ``merges``.
        """
        self.merges = False

    def part(self) -> None:
        """Begins another part, which may be replayed by itself, after those before it."""
        self.begins.append(len(self._launches))

    def replay(self, part: int | None = None) -> None:
        """Runs all launches in order, or the launches of a part."""
        if not part:
            for before in self._marks.values():
                before()
            if self.lasting is not None:
                self.lasting.refresh()
        parts = range(len(self.begins)) if part is None else (part,)
        with self._guard():
            sink = self.owner.sink if self.owner is not None else None
            for number in parts:
                if sink is not None:
                    self._replay_profiled(sink, self._of(number))
                else:
                    self._run(number)

    def _of(self, part: int) -> slice:
        return slice(self.begins[part], self.begins[part + 1] if part + 1 < len(self.begins) else None)

    def _run(self, part: int) -> None:
        for launch in self._launches[self._of(part)]:
            launch()

    def _replay_profiled(self, sink: ProfilerSink, part: slice) -> None:
        start = perf_counter()
        counts: dict[int, FlopCount] = {}
        for launch, record in zip(self._launches[part], self._records[part]):
            began = perf_counter()
            event = launch()
            if record is not None:
                count = record.flop_count
                again = count and counts.setdefault(id(count), FlopCount(count.flops))
                sink.kernel(began, event, record.name, record.args, again)
        sink.replay(start, len(self._launches[part]))

    def __len__(self) -> int:
        return len(self._launches)

    def __repr__(self) -> str:
        return f"<Recording of {len(self)} launches>"


class OpenRecordings:
    """The open recordings of an engine or a launcher, by thread: a thread sets and sees only its own."""

    def __init__(self) -> None:
        self.recordings: dict[int, Recording] = {}  # always this dict, so that a hot path may keep it

    @property
    def recording(self) -> Recording | None:
        """The open recording of the calling thread, which takes its launches; None while its work runs at once."""
        return self.recordings.get(threading.get_ident()) if self.recordings else None

    @recording.setter
    def recording(self, recording: Recording | None) -> None:
        if recording is None:
            self.recordings.pop(threading.get_ident(), None)
        else:
            self.recordings[threading.get_ident()] = recording


def open_here(engine: Any) -> Recording | None:
    """Returns the open recording of ``engine`` if this thread makes it, else None."""
    recording: Recording | None = engine.recording
    return recording if recording is not None and recording.thread == threading.get_ident() else None


@contextmanager
def unrecorded(engine: Any) -> Iterator[None]:
    """Runs work of this thread inside the block at once: the first values of a tensor that outlives the recording."""
    recording = open_here(engine)
    if recording is None:
        yield
        return
    engine.recording = None
    try:
        yield
    finally:
        engine.recording = recording


def rng_state_here(engine: Any) -> Any:
    """Returns the (seed, base) of the step that this thread records on ``engine``; None if there is none."""
    recording = open_here(engine)
    return None if recording is None else recording.rng_state


def host_read_allowed(engine: Any) -> None:
    """Raises CaptureError if this thread records on ``engine``: a replay cannot give Python a value."""
    if open_here(engine) is not None:
        raise CaptureError(
            "a value was read on the host while a step is captured; return the tensor and read it after the replay"
        )
