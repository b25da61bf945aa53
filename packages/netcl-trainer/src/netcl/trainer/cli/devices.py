"""``netcl doctor`` and ``netcl devices``: lists devices and drivers, checks them against NumPy, and measures their
speed.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from netcl import ops
from netcl.core import DeviceHandle, Tensor, manager
from netcl.core.device import device
from netcl.core.errors import NetclError, format_bytes

_SIDE = 512
_SAMPLES = 1024  # of a training step that compares drivers: kernels take most of its time


def doctor(chosen: argparse.Namespace) -> int:
    """Prints drivers, versions and advice, then checks every kernel family on every device against NumPy."""
    # In a child process, as netcl-core's own command: the installed netcl-core defines the checks.
    command = [sys.executable, "-m", "netcl.core"]
    sys.stdout.flush()
    report = subprocess.call(command)
    print("\nkernels against NumPy", flush=True)
    page = ["--html", chosen.html] if chosen.html else []
    examined = subprocess.call([*command, "doctor", *(["--full"] if chosen.full else []), *page])
    print("\n" + "\n".join(driver_advice(_processor_drivers())))
    return max(report, examined)


def _processor_drivers() -> list[tuple[str, bool, float]]:
    """Returns (selector, whether it is the default, seconds of a training step) of each driver of the processor."""
    from netcl.trainer.cli.measure import digits_step

    default, drivers = manager.default("auto"), []
    for handle in manager.select(device_type="cpu"):
        if handle.backend != "cl":
            continue
        with device(handle), contextlib.suppress(NetclError, RuntimeError):
            drivers.append((str(handle), handle is default, _fastest_call(digits_step(_SAMPLES), handle)))
    return drivers


def _fastest_call(step: Callable[[], None], handle: DeviceHandle) -> float:
    """Returns the seconds of the fastest of some calls, after others that build and choose kernels."""
    seconds = []
    for _ in range(25):
        begin = perf_counter()
        step()
        handle.queue.finish()
        seconds.append(perf_counter() - begin)
    return min(seconds[5:])


def driver_advice(drivers: Sequence[tuple[str, bool, float]]) -> list[str]:
    """Returns the lines on the drivers of the processor, fastest first, with what to write if the default is slower."""
    lines = ["drivers of this processor, by a training step on 1,024 digits"]
    drivers = sorted(drivers, key=lambda driver: driver[2])
    lines += [f"{'*' if default else ' '} {name:<12}{1e3 * seconds:8.2f} ms" for name, default, seconds in drivers]
    if not drivers:
        return [*lines, '  none: pip install "netcl-core[cpu]" (PoCL) or "netcl-core[intel]"']
    fastest, _, least = drivers[0]
    slower = next((seconds for _, default, seconds in drivers if default), least)
    if slower > 1.1 * least:
        lines.append(f"{fastest} is {slower / least:.1f} times as fast as the default here: NETCL_DEVICE={fastest}")
    elif len(drivers) == 1:
        lines.append(
            "there is no other driver to compare with; Intel's is in netcl-core[intel], PoCL in netcl-core[cpu]"
        )
    return lines


@dataclasses.dataclass(frozen=True)
class _Found:
    """A device and its speed of matrix multiplication."""

    selector: str
    type: str
    name: str
    platform: str
    compute_units: int
    memory_bytes: int
    fp16: bool
    fp64: bool
    default: bool
    gflops: float | None
    problem: str = ""


def devices(chosen: argparse.Namespace) -> int:
    """Prints a line per device: selector, type, name, memory, and the speed of a matrix product relative to NumPy."""
    first = manager.default("auto")
    measured = [_look(handle, first) for handle in manager.select()]
    if chosen.json:
        for item in measured:
            print(json.dumps(dataclasses.asdict(item)))
        return 0
    host = next((item.gflops for item in measured if item.selector == "cpu"), None)
    width = max(len(item.selector) for item in measured)
    for item in measured:
        mark = "*" if item.default else " "
        features = ", ".join(name for name, there in (("fp16", item.fp16), ("fp64", item.fp64)) if there)
        print(f"{mark} {item.selector:<{width}}  {item.type:<5}  {item.name} ({item.platform})")
        about = f"{item.compute_units} compute units, {format_bytes(item.memory_bytes)}" + f", {features}" * bool(
            features
        )
        print(f"  {'':<{width}}         {about}; {_speed(item, host)}")
    print(
        f"\n* the default. Choose another with NETCL_DEVICE or --device. Speed: float32 matrices of {_SIDE} x {_SIDE}."
    )
    fastest = max(measured, key=lambda item: item.gflops or 0.0)
    if first is not None and fastest.gflops and not fastest.default:
        print(f"{fastest.selector} is the fastest here: NETCL_DEVICE={fastest.selector}")
    return 0


def _speed(item: _Found, host: float | None) -> str:
    if item.gflops is None:
        return f"not usable: {item.problem}"
    beside = "" if item.selector == "cpu" or not host else f", {item.gflops / host:.2f} times NumPy"
    return f"{item.gflops:.0f} GFLOP/s{beside}"


def _look(handle: DeviceHandle, first: DeviceHandle | None) -> _Found:
    profile = handle.profile
    gflops, problem = None, ""
    try:
        gflops = _matmul_gflops(handle)
    except (NetclError, RuntimeError) as error:
        problem = str(error).splitlines()[0]
    return _Found(
        handle.selector,
        handle.device_type,
        handle.device_name,
        handle.platform_name,
        profile.compute_units,
        profile.global_mem_size,
        profile.has_fp16,
        profile.has_fp64,
        handle is first,
        gflops,
        problem,
    )


def _matmul_gflops(handle: DeviceHandle) -> float:
    rng: Any = np.random.default_rng(0)
    with device(handle):
        a, b = (Tensor.from_host(rng.random((_SIDE, _SIDE), np.float32)) for _ in range(2))
        seconds = []
        for _ in range(7):  # the first two build and choose kernels
            begin = perf_counter()
            ops.matmul(a, b)
            handle.queue.finish()  # Tensor.wait waits for a copy into the tensor alone
            seconds.append(perf_counter() - begin)
    return 2 * _SIDE**3 / min(seconds[2:]) * 1e-9
