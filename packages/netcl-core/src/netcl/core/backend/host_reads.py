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
        self._codes: dict[str, int] = {}
        self._lock = threading.Lock()

    def code(self, message: str) -> int:
        """The code of a message, from 1."""
        with self._lock:
            return self._codes.setdefault(message, len(self._codes) + 1)

    def message(self, code: int) -> str:
        """The message of a code."""
        with self._lock:
            return next(text for text, number in self._codes.items() if number == code)


flags: DeviceFlags = DeviceFlags()


def host_read_allowed(engine: DeviceBackend) -> None:
    """Raises CaptureError if this thread records on ``engine``: a replay cannot give Python a value."""
    recording = engine.recording
    if recording is not None and recording.thread == threading.get_ident():
        raise CaptureError(
            "a value was read on the host while a step is captured; return the tensor and read it after the replay"
        )
