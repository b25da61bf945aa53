"""Probes driver behaviour in a subprocess with a timeout; caches the verdict on disk per driver version.

A compiler may end the whole process (LLVM's aborts), and a kernel may hang: nothing in the process can catch that. Such
a feature is therefore tried in a child process first, and not used if the child does not exit with the right result.

A trial is a Python script. It exits with RIGHT, WRONG or SLOWER; if a signal ends it, or it exceeds the timeout, the
verdict is False. Any other exit (for example a missing module) leaves the driver untested: the verdict is False for
this process and is not stored. A harmless trial may be a function instead, which runs in this process.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from netcl.core import config
from netcl.core.device.drivers.llvm_processor import processor_name
from netcl.core.process import cache_files

RIGHT, WRONG, SLOWER = 0, 10, 11
_REASONS = {RIGHT: "right", WRONG: "wrong result", SLOWER: "right, but slower than without it"}
_ABORTED_ON_WINDOWS = 3  # the exit code of abort(); faults have codes from this value on:
_FAULTS_ON_WINDOWS = 0xC0000000
# A child that crashes leaves no core file.
_PRELUDE = """\
import sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
except ImportError:
    pass
"""

_known: dict[str, bool] = {}
_locks: dict[str, AbstractContextManager[bool]] = {}


@lru_cache(maxsize=64)
def driver_key(device: Any) -> str:
    """Returns the key of a driver: platform, platform version, device, device version, driver version, and the name
    that netcl gave the processor for PoCL; each device is asked once.
    """
    platform = device.platform
    names = [platform.name, platform.version, device.name, device.version, device.driver_version]
    if named := processor_name(device):
        names.append(named)
    return " | ".join(str(name).strip() for name in names)


def verdict(
    name: str,
    key: str,
    trial: str | Callable[[], bool],
    timeout: float = 60.0,
    *arguments: str,
    shares: int = 1,
    unexpected: bool = False,
) -> bool:
    """Returns True if ``trial`` succeeds on the driver ``key``; the trial runs at the first call only.

    ``trial`` is a script for a child process, which gets ``arguments`` in ``sys.argv[1:]`` and ``timeout`` seconds, or
    a function for this process. A script of several cases may run in ``shares`` children at once: each gets the number
    of its share and ``shares`` as two more arguments, and all must be right. The verdict is stored in NETCL_CACHE_DIR,
    so that each driver version is tried once; with NETCL_CACHE=0, or if the directory is not writable, each process
    tries again. A changed script is a new trial. A wrong result is logged as a warning if it is ``unexpected``.
    """
    text = trial if isinstance(trial, str) else ""
    digest = _digest(name, key, text)
    result = _known.get(digest)
    if result is not None:
        return result
    with _locks.setdefault(digest, threading.RLock()):
        result = stored(name, key, text)
        if result is None:
            right, reason = _outcome(trial, timeout, arguments, shares)
            if right is None:
                config.get_logger().debug("the probe %s of %s could not be run: %s", name, key, reason)
                _known[digest] = result = False
            else:
                store(name, key, right, reason, text, unexpected)
                result = right
    return result


def stored(name: str, key: str, text: str = "") -> bool | None:
    """Returns the verdict of an earlier trial ``name`` (with this text of its script), or None if there is none."""
    digest = _digest(name, key, text)
    result = _known.get(digest)
    folder = _folder()
    if result is None and folder is not None:
        result = _read(folder / f"{name}-{digest}.json", digest)
        if result is not None:
            _known[digest] = result
    return result


def store(name: str, key: str, right: bool, reason: str, text: str = "", unexpected: bool = False) -> None:
    """Stores a verdict in memory and (unless NETCL_CACHE=0) on disk, and logs it."""
    quiet = reason in _REASONS.values() and not (unexpected and reason == _REASONS[WRONG])
    level = logging.INFO if quiet else logging.WARNING
    config.get_logger().log(level, "the probe %s of %s: %s", name, key, reason)
    digest = _digest(name, key, text)
    folder = _folder()
    if folder is not None:
        content = {"probe": name, "driver": key, "right": right, "reason": reason}
        _write(folder / f"{name}-{digest}.json", digest, content)
    _known[digest] = right


def clear() -> None:
    """Removes all verdicts from memory and disk, so that the next call tries again."""
    _known.clear()
    folder = _folder()
    for path in folder.glob("*.json") if folder is not None else ():
        cache_files.remove(path)


def _folder() -> Path | None:
    return cache_files.shared_folder("probes")


def _digest(name: str, key: str, text: str) -> str:
    return hashlib.sha256("\0".join((name, key, text)).encode()).hexdigest()[:24]


def _outcome(
    trial: str | Callable[[], bool], timeout: float, arguments: tuple[str, ...], shares: int
) -> tuple[bool | None, str]:
    """Returns the verdict and its reason; with several shares, of a share that is wrong, else of an undecided one."""
    if not isinstance(trial, str):
        right = trial()
        return right, "right" if right else "wrong result"
    if shares == 1:
        return run_in_child(trial, timeout, *arguments)
    with ThreadPoolExecutor(shares) as pool:
        children = [
            pool.submit(run_in_child, trial, timeout, *arguments, str(share), str(shares)) for share in range(shares)
        ]
        outcomes = [child.result() for child in children]
    return min(outcomes, key=lambda outcome: (False, None, True).index(outcome[0]))


@contextmanager
def child_environment(name: str) -> Iterator[dict[str, str]]:
    """Yields the environment of a child process that works for this one: it finds the same modules, builds all programs
    itself, and has a folder for temporary files, with ``name`` in its name, that is removed after the block. A child
    ended by a driver or by os._exit does not remove its own folder.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    environment["NETCL_BUILD_PROCESSES"] = "0"
    with ExitStack() as stack:
        with suppress(OSError):  # the child may not need temporary files
            folder = tempfile.mkdtemp(prefix=f"netcl-{name}-")
            # In a thread that the end of the process stops, too.
            stack.callback(weakref.finalize(stack, shutil.rmtree, folder, ignore_errors=True))
            environment.update(dict.fromkeys(("TMPDIR", "TEMP", "TMP"), folder))
        yield environment


def has_interpreter() -> bool:
    """Returns True if ``sys.executable`` runs scripts; in a frozen program it would start the program once more."""
    return bool(sys.executable) and not getattr(sys, "frozen", False)


def run_in_child(script: str, timeout: float, *arguments: str) -> tuple[bool | None, str]:
    """Runs a script in a child process and returns (verdict, reason); verdict None: the driver is untested."""
    if not has_interpreter():
        return None, "there is no Python interpreter for a child process"
    with child_environment("probe") as environment:
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
            return False, timeout_reason(timeout)
        except (OSError, ValueError) as error:  # sys.executable is no interpreter, as in a program that embeds Python
            return None, str(error)
    code = child.returncode
    if code in _REASONS:
        return code == RIGHT, _REASONS[code]
    if code < 0 or (sys.platform == "win32" and (code == _ABORTED_ON_WINDOWS or code >= _FAULTS_ON_WINDOWS)):
        return False, f"the driver ended the process ({_ending(code)})"
    return None, f"exit code {code}: {child.stderr.decode(errors='replace')[-500:]}"


def timeout_reason(timeout: float) -> str:
    """Returns the reason that ``run_in_child`` gives for a timeout."""
    return f"it did not end within {timeout:g} s"


def _ending(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"code {code:#x}"


def _read(path: Path, digest: str) -> bool | None:
    """Returns the verdict in a file; None if it is missing, damaged or not to be trusted: the driver is tried again."""
    try:
        return bool(json.loads(cache_files.read(path, digest))["right"])
    except (FileNotFoundError, cache_files.DamagedEntryError):
        return None
    except OSError as error:
        cache_files.warn_once(path.parent, error)
        return None


def _write(path: Path, digest: str, content: dict[str, Any]) -> None:
    try:
        cache_files.write(path, digest, json.dumps(content).encode())
    except OSError as error:
        cache_files.warn_once(path.parent, error)
