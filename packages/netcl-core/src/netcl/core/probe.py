"""What only a try tells of a driver: tried in a child process with a time limit, kept on disk per driver version.

A compiler may end the whole process (LLVM's aborts), and a kernel may hang: nothing in the process can catch that. So
what may do so is tried in a child first, and avoided where the child does not come back with the right result.

A trial is a Python script. It exits with RIGHT or WRONG; when a signal ends it, or it takes longer than allowed, the
verdict is no. Any other end (no such module, say) says nothing about the driver: no, this time, and not kept. A trial
that cannot do harm may be a function instead, and then runs in this process.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import config

__all__ = ["RIGHT", "WRONG", "driver_key", "forget", "verdict"]

RIGHT, WRONG = 0, 10
_QUIET = ("right", "wrong result")
_ABORTED_ON_WINDOWS = 3  # what abort() exits with there; faults have codes from here on:
_FAULTS_ON_WINDOWS = 0xC0000000
# A child that is to die leaves no core file.
_PRELUDE = """\
import sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
except ImportError:
    pass
"""

_known: dict[str, bool] = {}
_locks: dict[str, threading.Lock] = {}
_lock = threading.Lock()


def driver_key(device: Any) -> str:
    """What names a driver and its version: platform, its version, device, driver version."""
    platform = device.platform
    names = (platform.name, platform.version, device.name, device.version, device.driver_version)
    return " | ".join(str(name).strip() for name in names)


def verdict(name: str, key: str, trial: str | Callable[[], bool], timeout: float = 60.0, *arguments: str) -> bool:
    """Whether ``trial`` ends right on the driver ``key``: tried at the first question, then known.

    ``trial`` is a script for a child process, which gets ``arguments`` in ``sys.argv[1:]`` and ``timeout`` seconds, or
    a function for this process. The verdict is kept in NETCL_CACHE_DIR, so that each driver version is tried once; with
    NETCL_CACHE=0, or where nothing can be written, each process tries anew. A new text of the script is a new trial.
    """
    text = trial if isinstance(trial, str) else ""
    digest = hashlib.sha256("\0".join((name, key, text)).encode()).hexdigest()[:24]
    known = _known.get(digest)
    if known is not None:
        return known
    with _lock:
        lock = _locks.setdefault(digest, threading.Lock())
    with lock:
        known = _known.get(digest)
        if known is None:
            path = _folder() / f"{name}-{digest}.json" if config.get("CACHE") else None
            known = None if path is None else _read(path)
            if known is None:
                known = _decide(name, key, trial, timeout, arguments, path)
            _known[digest] = known
    return known


def forget() -> None:
    """Forget what this process knows and what is on disk, so that the next question tries again."""
    _known.clear()
    for path in _folder().glob("*.json"):
        with contextlib.suppress(OSError):
            path.unlink()


def _folder() -> Path:
    return Path(config.get("CACHE_DIR")) / "probes"


def _decide(
    name: str,
    key: str,
    trial: str | Callable[[], bool],
    timeout: float,
    arguments: tuple[str, ...],
    path: Path | None,
) -> bool:
    if isinstance(trial, str):
        right, reason = _in_child(trial, timeout, arguments)
    else:
        right = trial()
        reason = "right" if right else "wrong result"
    log = config.get_logger()
    if right is None:
        log.debug("the probe %s of %s could not be run: %s", name, key, reason)
        return False
    log.log(logging.WARNING if reason not in _QUIET else logging.INFO, "the probe %s of %s: %s", name, key, reason)
    if path is not None:
        _write(path, {"probe": name, "driver": key, "right": right, "reason": reason})
    return right


def _in_child(script: str, timeout: float, arguments: tuple[str, ...]) -> tuple[bool | None, str]:
    """(verdict, reason) of a script; None where its end says nothing about the driver."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    try:
        child = subprocess.run(
            [sys.executable, "-c", _PRELUDE + script, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=timeout,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        return False, f"it did not end within {timeout:g} s"
    except (OSError, ValueError) as error:  # no interpreter of its own, as in a program that embeds Python
        return None, str(error)
    code = child.returncode
    if code == RIGHT:
        return True, "right"
    if code == WRONG:
        return False, "wrong result"
    if code < 0 or (sys.platform == "win32" and (code == _ABORTED_ON_WINDOWS or code >= _FAULTS_ON_WINDOWS)):
        return False, f"the driver ended the process ({_ending(code)})"
    return None, f"exit code {code}: {child.stderr.decode(errors='replace')[-500:]}"


def _ending(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"code {code:#x}"


def _read(path: Path) -> bool | None:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):  # not there, or damaged: tried again
        return None
    right = content.get("right") if isinstance(content, dict) else None
    return right if isinstance(right, bool) else None


def _write(path: Path, content: dict[str, Any]) -> None:
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(content, file)
        os.replace(temporary, path)
    except OSError as error:
        config.get_logger().debug("the verdict is not kept, %s cannot be written: %s", path, error)
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
