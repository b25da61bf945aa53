"""The recording of a command queue: kernels that are joined where they may be, replayed by command buffers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from netcl.core import config
from netcl.core.backend.opencl.queue.command_buffer import buffered, is_kernel
from netcl.core.backend.opencl.queue.event_free import without_event
from netcl.core.backend.opencl.queue.horizontal_fusion import independent, joined
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
            runs: list[Any] = buffered(self._launches) if config.get("COMMAND_BUFFER") else self._launches
            self._runs = [(without_event(*run.args) if is_kernel(run) else None) or run for run in runs]
        for run in self._runs:
            run()
