"""Measures the kernels of matrix products and convolutions, and work-group sizes of any kernel, and stores the fastest.

A candidate that is new on a driver runs in a child process first, and must give the same result as the plain kernel
before it may be chosen. The choice is stored on disk per device and driver, and from then on used by
``netcl.core.kernel_selector`` and by the ops, unless NETCL_AUTOTUNE=off.
"""

from __future__ import annotations

import dataclasses
import statistics
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from netcl.core.dtypes import canonical
from netcl.core.engine.registry import engine_for
from netcl.core.errors import DTypeError, KernelBuildError, ShapeError, UnsupportedError
from netcl.core.kernel_selector import KernelConfig, get_kernel_selector
from netcl.core.kernels import work_group_tuner
from netcl.core.memory import opencl_queue
from netcl.core.process.user_frame import level_outside
from netcl.core.tuning import measurements
from netcl.core.tuning.candidates import config_of
from netcl.profiling.problems import PLAIN, PROBLEMS, Problem
from netcl.profiling.timing import format_seconds, timing
from netcl.profiling.trace import profile
from netcl.profiling.trials import safe_kernels

# no new candidate is started after this many seconds of one search
_BOUND_S = 20.0
# Error of a candidate against the plain kernel, relative to the largest result; another order of summation stays far
# below it, a missing product is far above it.
_TOLERANCE = {"float16": 1e-2, "bfloat16": 4e-2, "float32": 2e-4, "float64": 1e-10}


def autotune_matmul(
    M: int,
    N: int,
    K: int,
    dtype: str = "float32",
    queue: Any = None,
    *,
    warmup: int = 3,
    runs: int = 5,
    save: bool = True,
) -> KernelConfig:
    """Returns the fastest kernel for (M, K) @ (K, N) on a queue or handle (None: the active device), as a KernelConfig.

    Every kernel of the device's family for the shape is checked against the plain one and timed: the median of ``runs``
    after ``warmup``, by events if the queue has them, cross-checked by the wall clock. ``extra`` contains ``kernel``
    (its name), ``time_ms``, ``gflops``, and ``candidates``, the milliseconds of each. ``save`` stores the choice on
    disk for this device and driver, and for the selector and the ops of this process.

    Raises ShapeError for a size that is not positive, DTypeError for a dtype without products.
    """
    return _tune(engine_for(queue), "matmul", (M, N, K), dtype, warmup, runs, save)


def autotune_conv2d(
    N: int,
    C: int,
    H: int,
    W: int,
    F: int,
    KH: int,
    KW: int,
    stride: int | tuple[int, int] = 1,
    pad: int | tuple[int, int] = 0,
    dtype: str = "float32",
    queue: Any = None,
    *,
    warmup: int = 3,
    runs: int = 5,
    save: bool = True,
) -> KernelConfig:
    """Returns the fastest kernel for the convolution of (N, C, H, W) by (F, C, KH, KW); see ``autotune_matmul``."""
    shape = (N, C, F, H, W, KH, KW, _pair(stride), _pair(pad))
    return _tune(engine_for(queue), "conv2d", shape, dtype, warmup, runs, save)


def measure(engine: Any, op: str, shape: tuple[Any, ...], dtype: str) -> KernelConfig | None:
    """Tunes a new shape of a selector's ``op`` (NETCL_AUTOTUNE=on); returns None for an op that is not tuned."""
    return _tune(engine, op, shape, dtype, 1, 3, True) if op in PROBLEMS else None


def _pair(value: int | tuple[int, int]) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (int(value[0]), int(value[1]))


def _tune(engine: Any, op: str, shape: tuple[Any, ...], dtype: str, warmup: int, runs: int, save: bool) -> KernelConfig:
    name = canonical(dtype)
    if name not in _TOLERANCE:
        raise DTypeError(f"autotune_{op}: expected a dtype of {', '.join(_TOLERANCE)}, got {name}", parameter="dtype")
    sizes = [size for part in shape[:-1] for size in (part if isinstance(part, tuple) else (part,))]
    if min(sizes) < 1:
        raise ShapeError(f"autotune_{op}: expected positive sizes, got {shape}", op=op)
    problem = PROBLEMS[op](engine, shape, name)
    seconds: dict[str, float] = {}
    kernels = safe_kernels(engine, op, shape, name, problem.kernels)
    begun = perf_counter()
    for kernel in kernels:
        if seconds and perf_counter() - begun > _BOUND_S:
            break
        if is_right(engine, f"{op} {shape} {name}", name, kernel, problem):
            seconds[kernel] = _seconds(engine, partial(problem.run, kernel), warmup, runs)
    if not seconds:
        seconds[PLAIN] = _seconds(engine, partial(problem.run, PLAIN), warmup, runs)
    best = min(seconds, key=lambda kernel: seconds[kernel])
    chosen = _described(engine, op, shape, name, best)
    chosen.extra.update(
        kernel=best,
        time_ms=seconds[best] * 1e3,
        gflops=problem.flops / seconds[best] / 1e9,
        candidates={kernel: taken * 1e3 for kernel, taken in seconds.items()},
    )
    if save and engine.name == "cl":
        measurements.store(engine, op, shape, name, chosen)
    return chosen


def is_right(engine: Any, what: str, dtype: str, kernel: str, problem: Problem) -> bool:
    """True if a kernel's result equals the plain kernel's; warns once if not."""
    try:
        result = problem.run(kernel).numpy().astype(np.float64)[problem.picked]
    except KernelBuildError as failure:
        reason = f"does not build ({failure.log.strip()[:200]})"
    else:
        expected = problem.wanted()
        largest = max(float(np.max(np.abs(expected), initial=0.0)), 1e-30)
        error = float(np.max(np.abs(result - expected), initial=0.0)) / largest
        if error <= _TOLERANCE[dtype]:  # False for NaN
            return True
        reason = f"differs from the plain kernel by {error:.2g} of the largest result"
    warnings.warn(
        f"the kernel {kernel!r} of {what} on {engine.device_label} {reason}; it is not used",
        RuntimeWarning,
        stacklevel=level_outside(),
    )
    return False


def _seconds(engine: Any, run: Callable[[], Any], warmup: int, runs: int) -> float:
    """Returns the median of the wall clock, or of kernels' event times if there are some and it is not shorter."""
    wall = timing(run, warmup, runs, q=engine.queue).median
    by_events = []
    for _ in range(runs):
        with profile(engine.queue) as seen:
            run()
        if not seen.event_times:
            return wall
        by_events.append(sum(launch.end - launch.start for launch in seen.launches))
    return min(wall, statistics.median(by_events) or wall)


def _described(engine: Any, op: str, shape: tuple[Any, ...], dtype: str, kernel: str) -> KernelConfig:
    """Returns the config that describes how a kernel runs; on NumPy the rule's config."""
    selector = get_kernel_selector(engine.queue)
    if engine.name == "cl":
        return config_of(selector.traits, op, kernel, dtype)
    choose: Any = selector.select_matmul_kernel if op == "matmul" else selector.select_conv2d_kernel
    ruled: KernelConfig = choose(*shape, dtype=dtype)
    return dataclasses.replace(ruled, extra={})


class WorkGroupTuner:
    """Finds the fastest work-group for a cl.Kernel with arguments set: ``WorkGroupTuner(kernel, size).tune(q)``.

    The kernel runs several times on its own arguments, so it must allow that; ``KernelSpec.tune`` works on copies and
    compares results. ``best_local_size`` and ``runtime_us`` (its fastest run) are None before ``tune``; ``measured``
    has the microseconds of every candidate that the driver accepted.
    """

    def __init__(self, kernel: Any, global_size: int | Sequence[int]) -> None:
        size = (global_size,) if isinstance(global_size, int) else tuple(int(side) for side in global_size)
        if not 1 <= len(size) <= 3 or min(size) < 1:
            raise ShapeError(
                f"WorkGroupTuner: expected one to three positive numbers as global size, got {global_size}"
            )
        self.kernel: Any = kernel
        self.global_size: tuple[int] | tuple[int, ...] = size
        self.best_local_size: tuple[int, ...] | None = None
        self.runtime_us: float | None = None
        self.measured: dict[tuple[int, ...], float] = {}

    def tune(self, queue: Any = None, candidates: Iterable[int | Sequence[int]] | None = None) -> WorkGroupTuner:
        """Measures ``candidates`` (None: powers of two that divide the first side) and returns self.

        A candidate that does not divide the global size, or is too large for the kernel, is skipped. Raises
        UnsupportedError if none is left.
        """
        opencl = opencl_queue(queue)
        if candidates is None:
            tried = work_group_tuner.local_sizes(self.kernel, opencl.device, self.global_size)
        else:
            tried = [(sizes,) if isinstance(sizes, int) else tuple(sizes) for sizes in candidates]
        self.measured = {}
        for local in tried:
            seconds = work_group_tuner.seconds(self.kernel, opencl, self.global_size, local)
            if seconds is not None:
                self.measured[local] = seconds * 1e6
        if not self.measured:
            raise UnsupportedError(
                f"WorkGroupTuner: none of the local sizes {tried} fits kernel {self.kernel.function_name} "
                f"with global size {self.global_size}"
            )
        self.best_local_size = min(self.measured, key=lambda local: self.measured[local])
        self.runtime_us = self.measured[self.best_local_size]
        return self

    def __repr__(self) -> str:
        if self.runtime_us is None:
            return f"<WorkGroupTuner of {self.kernel.function_name}, not tuned>"
        taken = format_seconds(self.runtime_us * 1e-6)
        return f"<WorkGroupTuner of {self.kernel.function_name}: {self.best_local_size} in {taken}>"
