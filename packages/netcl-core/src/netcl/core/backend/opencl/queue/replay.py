"""The recording of a command queue: kernels that are joined where they may be, replayed by command buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from netcl.core import config
from netcl.core.backend.opencl.queue.command_buffer import are_used, buffered, is_kernel
from netcl.core.backend.opencl.queue.event_free import without_event
from netcl.core.backend.opencl.queue.horizontal_fusion import independent, joined
from netcl.core.backend.profiler_sink import LaunchRecord
from netcl.core.backend.recording import Recording
from netcl.core.device.health import LaunchLog
from netcl.core.errors import KernelBuildError

__all__ = ["KernelRecording"]


class KernelRecording(Recording):
    """A Recording whose replays tell the watchdog which kernels they launch, by command buffers if the device
    has them.
    """

    def __init__(self, *, launched: LaunchLog, **options: Any) -> None:
        super().__init__(**options)
        self._launched = launched
        self._names: tuple[str, ...] = ()
        self._runs: list[Callable[[], object]] | None = None
        self._uses: dict[int, list[tuple[Any, int]]] = {}  # by address of a buffer: launches that have it as argument
        self._exchanged = False

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
        """The functions that put another buffer in the place of ``buffer`` in all launches; None if one of them is no
        kernel, or command buffers will have the arguments of now.
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

    def replay(self) -> None:
        if not self._names:
            launches: list[Any] = [getattr(launch, "args", ()) for launch in self._launches]
            self._names = tuple(dict.fromkeys(args[1].function_name for args in launches if len(args) > 1))
        self._launched.append(self._names)
        super().replay()

    def join(self, first: int) -> None:
        """Makes neighbours from ``first`` on that do not depend on each other one launch, where that is possible."""
        kept = [(self._launches[n], self._records[n], self.recorded.pop(n, None)) for n in range(first, len(self))]
        groups = {group[0][0]: group for group in independent([(n, one) for n, (_, _, one) in enumerate(kept)])}
        del self._launches[first:], self._records[first:]
        number = 0
        while number < len(kept):
            group = groups.get(number, [])
            if group and self._record_joined([launch for _, launch in group]):
                number += len(group)
                continue
            launch, record, _ = kept[number]
            self._launches.append(launch)
            self._records.append(record)
            number += 1

    def _record_joined(self, launches: Sequence[Any]) -> bool:
        made = joined(self.owner, launches)
        if made is None:
            return False
        whole, buffers = made
        try:
            whole.take()
        except KernelBuildError:  # each alone has been built
            return False
        whole(*buffers)
        return True

    def _run(self) -> None:
        if self._runs is None:
            together = config.get("COMMAND_BUFFER") and not self._exchanged
            runs: list[Any] = buffered(self._launches) if together else self._launches
            self._runs = [(without_event(*run.args) if is_kernel(run) else None) or run for run in runs]
        for run in self._runs:
            run()
