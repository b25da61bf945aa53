"""Runs kernels that are new on a driver in a child process first: a kernel may crash or hang the process.

A kernel that passed in the child, or was measured before, runs in this process from then on; one that did not pass is
excluded, per driver and version of netcl, for all shapes.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from pathlib import Path
from time import perf_counter
from typing import Any

from netcl.core import config
from netcl.core.__about__ import __version__
from netcl.core.device import manager
from netcl.core.device.capabilities import profile_of
from netcl.core.device.drivers import child_probe
from netcl.core.device.profile import device_profile
from netcl.core.engine.registry import engine_for
from netcl.core.errors import KernelBuildError
from netcl.core.tuning import measurements
from netcl.profiling.problems import PROBLEMS

_LIMIT_S = 30.0  # of one child
_BOUND_S = 60.0  # no further child is started after this many seconds
# os._exit skips the driver's shutdown: PoCL may abort there, which is not tested.
_SCRIPT = """
import os, traceback
from netcl.profiling.trials import run_trial
try:
    code = run_trial(*sys.argv[1:])
except BaseException:
    traceback.print_exc()
    code = 1
os._exit(code)
"""


def safe_kernels(engine: Any, op: str, shape: tuple[Any, ...], dtype: str, kernels: Iterable[str]) -> tuple[str, ...]:
    """Returns ``kernels`` without any that killed or hung a process on this driver; new ones are tried at this shape.

    If no child can be started, or it ends for another reason than the kernel, they count as safe for this call.
    """
    kernels = tuple(kernels)
    device = engine.queue.device if engine.name == "cl" else None
    if device is None or profile_of(engine.queue) != device_profile(device):
        return kernels  # no driver, or one that a child would see differently
    key = child_probe.driver_key(device)
    measured = measurements.candidates(engine, op, dtype)
    verdicts = {kernel: kernel in measured or child_probe.stored(_name(op, kernel, dtype), key) for kernel in kernels}
    untried = [kernel for kernel, verdict in verdicts.items() if verdict is None]
    begun = perf_counter()
    while untried and perf_counter() - begun < _BOUND_S:
        for kernel, (right, reason) in _try_in_child(key, op, shape, dtype, untried).items():
            verdicts[kernel] = right is not False
            untried.remove(kernel)
            if right is not None:
                child_probe.store(_name(op, kernel, dtype), key, right, reason)
    return tuple(kernel for kernel in kernels if verdicts[kernel])


def _name(op: str, kernel: str, dtype: str) -> str:
    return f"{op}-{kernel}-{dtype}-{__version__}"


def _try_in_child(
    key: str, op: str, shape: tuple[Any, ...], dtype: str, kernels: list[str]
) -> dict[str, tuple[bool | None, str]]:
    """Returns one child's (verdict, reason) on the kernels, at least on the first, as ``child_probe.run_in_child``."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "begun"
        arguments = (key, op, json.dumps(shape), dtype, ",".join(kernels), str(path))
        right, reason = child_probe.run_in_child(_SCRIPT, _LIMIT_S, *arguments)
        begun = path.read_text(encoding="utf-8").split() if path.exists() else []
    if right:
        return dict.fromkeys(kernels, (True, "right"))
    if right is None or not begun:
        config.get_logger().debug("kernels of %s are not tried in a child process: %s", op, reason)
        return dict.fromkeys(kernels, (None, reason))
    *ended, last = begun
    verdicts: dict[str, tuple[bool | None, str]] = dict.fromkeys(ended, (True, "right"))
    # The kernels before it may have used up the time: it then gets its own child.
    if not ended or reason != child_probe.timeout_reason(_LIMIT_S):
        verdicts[last] = False, reason
    return verdicts


def run_trial(key: str, op: str, shape: str, dtype: str, kernels: str, path: str) -> int:
    """Builds and runs ``kernels`` (comma-separated) on the first device of the driver ``key``; returns the exit code.

    Writes the name of each kernel to ``path`` before it starts. Raises LookupError if there is no such device.
    """
    with config.override(PLATFORM_FILTER=None, AUTOTUNE="off"):
        handles = (handle for handle in manager.select() if handle.backend == "cl")
        handle = next((each for each in handles if child_probe.driver_key(each.device) == key), None)
        if handle is None:
            raise LookupError(f"the child does not find the device {key}")
        problem = PROBLEMS[op](engine_for(handle), measurements.tupled(json.loads(shape)), dtype)
        for kernel in kernels.split(","):
            with open(path, "a", encoding="utf-8") as file:
                file.write(f"{kernel}\n")
            try:
                problem.run(kernel).numpy()
            except KernelBuildError:
                continue  # no crash and no hang; the measurement will raise the same error and report it
    return child_probe.RIGHT
