"""The guard of reads on the host during capture, and the messages of deferred device assertions."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from netcl.core.errors import CaptureError

if TYPE_CHECKING:
    from netcl.core.backend.protocol import DeviceBackend


class DeviceFlags:
    """Messages of checks made on devices: a kernel raises the code of a message, the next host read raises the
    message.
    """

    def __init__(self) -> None:
        self._codes: dict[tuple[str, type[Exception]], int] = {}
        self._lock = threading.Lock()

    def code(self, message: str, error: type[Exception] = IndexError) -> int:
        """The code of a message that is raised as ``error``, from 1."""
        with self._lock:
            return self._codes.setdefault((message, error), len(self._codes) + 1)

    def error(self, code: int) -> Exception:
        """The error of a code, with its message."""
        with self._lock:
            text, error = next(entry for entry, number in self._codes.items() if number == code)
        return error(text)


flags: DeviceFlags = DeviceFlags()


def host_read_allowed(engine: DeviceBackend) -> None:
    """Raises CaptureError if this thread records on ``engine``: a replay cannot give Python a value."""
    recording = engine.recording
    if recording is not None and recording.thread == threading.get_ident():
        raise CaptureError(
            "a value was read on the host while a step is captured; return the tensor and read it after the replay"
        )
