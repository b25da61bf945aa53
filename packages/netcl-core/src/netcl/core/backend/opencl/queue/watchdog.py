"""Names the kernel that hangs: a warning in the log when a wait takes longer than NETCL_WATCHDOG_S; nothing is killed.

API for the waits::

    begin(subject)     before a wait for a cl.Event or a cl.CommandQueue
    end()              after it, in the same thread

A wait costs two dictionary operations. The watching thread starts at the first one and looks now and then; it holds
no event, so of several kernels launched since the last wait it cannot say which one runs, and names them all. A process
that was stopped (SIGSTOP) has not waited in that time: a look that comes far too late lets all waits begin again.
"""

from __future__ import annotations

import contextlib
import threading
import time
from threading import get_ident
from typing import Any

from netcl.core import config
from netcl.core.device import health
from netcl.core.device.health import kernel_names, launch_log
from netcl.core.errors import ConfigError

_LOOK_S = 1.0
_LATE_S = 0.5  # of a look on a loaded machine
_NAMES_SHOWN = 12

_waits: dict[int, tuple[float, Any]] = {}
_watching = False
_lock = threading.RLock()


def begin(subject: Any) -> None:
    """Marks the begin of a wait of this thread. ConfigError for a bad NETCL_WATCHDOG_S, but not at process end."""
    if not _watching and not health.ending:
        _start()
    _waits[get_ident()] = (time.monotonic(), subject)


def end() -> None:
    """Marks the end of the wait of this thread."""
    _waits.pop(get_ident(), None)


def forget() -> None:
    """Forgets all waits in a forked child, as the watching thread stayed with the parent."""
    global _watching
    _watching = False
    _waits.clear()


def _start() -> None:
    global _watching
    if not config.get("WATCHDOG_S"):
        return
    with _lock:
        if not _watching:
            _watching = True  # first, as a signal handler may wait in the middle
            with contextlib.suppress(RuntimeError):  # the interpreter shuts down and starts no more threads
                threading.Thread(target=_watch, name="netcl-watchdog", daemon=True).start()


def _watch() -> None:
    warned: dict[int, float] = {}
    limit = _LOOK_S
    while True:
        with contextlib.suppress(ConfigError):  # changed to a bad value while running: the last good one holds
            limit = config.get("WATCHDOG_S")
        pause = min(_LOOK_S, limit / 4) if limit else _LOOK_S
        before = time.monotonic()
        time.sleep(pause)
        now = time.monotonic()
        if now - before > 2 * pause + _LATE_S:
            _begin_again(now)
            continue
        for thread, (since, subject) in list(_waits.items()):
            if limit and now - since > limit and warned.get(thread) != since:
                warned[thread] = since
                config.get_logger().warning("%s", describe(subject, limit))


def _begin_again(now: float) -> None:
    for thread, wait in list(_waits.items()):
        if _waits.get(thread) is wait:
            _waits[thread] = (now, wait[1])


def describe(subject: Any, seconds: float) -> str:
    """Returns the text of the warning for a wait, for an event or a queue, beyond the limit."""
    queue = getattr(subject, "command_queue", subject)
    names = kernel_names(launch_log(queue))
    device = str(queue.device.name).strip()
    if not names:
        what = "no kernel of netcl was launched on it since the last wait"
    elif len(names) == 1:
        what = f"kernel {names[0]} hangs, or is very slow"
    else:
        more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
        what = f"of the kernels launched since the last wait one hangs: {', '.join(names[:_NAMES_SHOWN])}{more}"
    return (
        f"a wait for {device} has taken more than {seconds:g} s: {what}. Nothing is ended; "
        "NETCL_WATCHDOG_S sets the limit (0: none)"
    )
