"""Records the launches of a command queue, merges them where allowed, and replays them by command buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from netcl.core import config
from netcl.core.backend.opencl.queue.event_free import without_event
from netcl.core.backend.opencl.queue.replays.command_buffer import are_used, buffered, is_kernel
from netcl.core.backend.opencl.queue.replays.horizontal_fusion import joined, most_arguments
from netcl.core.backend.opencl.queue.replays.launch_groups import grouped
from netcl.core.device.health import LaunchLog
from netcl.core.engine.profiler_sink import LaunchRecord
from netcl.core.engine.recording import Recording
from netcl.core.errors import KernelBuildError


class KernelRecording(Recording):
    """A Recording that reports the kernels of its replays to the watchdog, and replays by command buffers if the device
    has them.
    """

    def __init__(self, *, launched: LaunchLog, **options: Any) -> None:
        super().__init__(**options)
        self._launched = launched
        self._names: tuple[str, ...] = ()
        self._runs: dict[int, list[Callable[[], object]]] = {}  # by part
        self._uses: dict[int, list[tuple[Any, int]]] = {}  # by address of a buffer: launches that have it as argument
        self._exchanged = False
        self._early: list[tuple[Any, Sequence[Any]]] = []  # launches with programs that were built as it was recorded

    def built_early(self, prepared: Any, buffers: Sequence[Any]) -> None:
        """Notes a launch with a program that was missing: a child can have the driver compile its kernel."""
        self._early.append((prepared, buffers))

    def append(
        self, launch: Callable[[], object], keep: Iterable[Any] = (), record: LaunchRecord | None = None
    ) -> None:
        keep = list(keep)
        super().append(launch, keep, record)
        for position, item in enumerate(keep if is_kernel(launch) else ()):
            address = getattr(getattr(item, "buffer", item), "int_ptr", None)
            if address is not None:
                self._uses.setdefault(address, []).append((launch, position))

    def exchange(self, buffer: Any) -> list[Callable[[Any], None]] | None:
        """Returns the functions that replace ``buffer`` in all launches; None if a launch is not a kernel, or command
        buffers fix the arguments.
        """
        kernels = [launch for launch in self._launches if is_kernel(launch)]
        others = [launch for launch in self._launches if not is_kernel(launch)]
        if not kernels or any(getattr(launch, "__name__", "") != "flush" for launch in others):
            return None
        if not self._exchanged and config.get("COMMAND_BUFFER") and are_used(self.owner.queue):
            return None
        self._exchanged = True
        there = set(map(id, kernels))  # not joined since
        uses = self._uses.get(buffer.int_ptr, ())
        return [partial(launch.args[1].set_arg, position) for launch, position in uses if id(launch) in there]

    def replay(self, part: int | None = None) -> None:
        if not self._names:
            launches: list[Any] = [getattr(launch, "args", ()) for launch in self._launches]
            self._names = tuple(dict.fromkeys(args[1].function_name for args in launches if len(args) > 1))
        self._launched.append(self._names)
        super().replay(part)

    def merge(self) -> None:
        """Merges small launches that are independent, or can run in order in one work-item."""
        super().merge()
        if self.owner.flushes:  # after each launch
            return
        first = self.begins[-1]
        kept = list(zip(self._launches, self._records))[first:]
        recorded = [self.recorded.get(first + number) for number in range(len(kept))]
        groups = grouped(recorded, most_arguments(self.owner.device))
        del self._launches[first:], self._records[first:]
        self.recorded.clear()
        together: list[list[Any]] = [[recorded[number] for number in group] for group in groups]
        merged = [joined(self.owner, launches) if len(launches) > 1 else None for launches in together]
        self.owner.deferred.build(_unbuilt(together, merged), self._early, self.waits)
        for group, launches, whole in zip(groups, together, merged):
            if whole is not None and _recorded(*whole):
                continue
            for number, launch in zip(group, launches):
                if launch is not None and launch.kernel is not None:  # not built yet
                    launch.prepared(*launch.buffers)
                else:
                    self._launches.append(kept[number][0])
                    self._records.append(None)
                self._records[-1] = kept[number][1]

    def _run(self, part: int) -> None:
        runs = self._runs.get(part)
        if runs is None:
            together = config.get("COMMAND_BUFFER") and not self._exchanged
            launches = self._launches[self._of(part)]
            chosen: list[Any] = buffered(launches) if together else launches
            runs = self._runs[part] = [(without_event(*run.args) if is_kernel(run) else None) or run for run in chosen]
        for run in runs:
            run()


def _unbuilt(together: Iterable[Sequence[Any]], merged: Iterable[Any]) -> Iterator[tuple[Any, Sequence[Any]]]:
    """Yields the prepared launches to record, with their buffers: of each group the merged one, or its only one."""
    for launches, whole in zip(together, merged):
        if whole is not None:
            yield whole
        elif launches[0] is not None and launches[0].kernel is not None:
            yield launches[0].prepared, launches[0].buffers


def _recorded(whole: Any, buffers: Sequence[Any]) -> bool:
    """Records a merged launch; returns False if it does not build, as the separate kernels may."""
    try:
        whole(*buffers)
    except KernelBuildError:
        return False
    return True
