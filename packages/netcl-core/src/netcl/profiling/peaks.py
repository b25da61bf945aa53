"""Measures the peak rates of a device: the bandwidth of a copy, and multiply-adds in registers."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from netcl.core import Tensor
from netcl.core.device.capabilities import profile_of
from netcl.core.engine.registry import engine_for
from netcl.core.kernels.primitives import KernelSpec
from netcl.core.ops_table.dispatch import assign

_RUNS = 7
_COPY_ELEMENTS = 8 << 20  # of 4 bytes: larger than the caches of most
_STEPS = 4096
_UNROLLED = 4
_CHAINS = 12  # independent sums of a work-item, which hide the latency of a multiply-add
_MATRIX = 1024


@dataclass(frozen=True)
class Peaks:
    """Peak rates of a device: bytes per second of a copy (read and written both counted), float32 operations per second
    of multiply-adds (two each), and how they were measured.
    """

    bytes_per_second: float
    flops_per_second: float
    how: str


def measure_peaks(q: Any = None) -> Peaks:
    """Measures the peaks of the device of a queue or handle (None: the active one), the best of a few runs."""
    engine = engine_for(q)
    source = Tensor.from_shape(engine.queue, (_COPY_ELEMENTS,), fill=1.0)
    target = Tensor.from_shape(engine.queue, (_COPY_ELEMENTS,))
    moved = 2 * source.nbytes / _fastest(engine, lambda: assign(target, source))
    if engine.name == "cl":
        return Peaks(moved, _multiply_adds(engine), "a copy of 32 MiB, and multiply-adds in registers")
    a = np.ones((_MATRIX, _MATRIX), np.float32)
    product = 2 * _MATRIX**3 / _fastest(engine, lambda: a @ a)
    return Peaks(moved, product, f"a copy of 32 MiB, and NumPy's product of {_MATRIX} x {_MATRIX} matrices")


def _fastest(engine: Any, run: Any) -> float:
    """Returns the seconds of the fastest of a few runs, each waited for; the first does not count."""
    times = []
    for _ in range(_RUNS + 1):
        engine.finish()
        start = perf_counter()
        run()
        engine.finish()
        times.append(perf_counter() - start)
    return min(times[1:])


def _multiply_adds(engine: Any) -> float:
    """Returns operations per second of a kernel that only does multiply-adds on vectors of floats."""
    profile = profile_of(engine.queue)
    lanes = engine.target.width if profile.is_cpu else 4
    group = 1 if profile.is_cpu else min(128, profile.max_work_group_size)
    items = profile.compute_units * (32 if profile.is_cpu else 16 * group)
    value = f"float{lanes}"
    names = [f"s{number}" for number in range(_CHAINS)]
    step = " ".join(f"{name} = {name} * x + x;" for name in names * _UNROLLED)
    lines = [
        f"{value} x = ({value})(out[0]);",
        *(f"{value} {name} = ({value})({number}.0f);" for number, name in enumerate(names)),
        f"for (int k = 0; k < {_STEPS // _UNROLLED}; k++) {{ {step} }}",
        f"{value} sum = {' + '.join(names)};",
        "out[1 + get_global_id(0)] = sum.s0 + sum.s1;",
    ]
    spec = KernelSpec("multiply_adds", ["__global float* out"], "\n    ".join(lines))
    kernel = spec.build(engine.queue)
    out = Tensor.from_shape(engine.queue, (1 + items,), fill=0.5)
    seconds = _fastest(engine, lambda: kernel.run(engine.queue, (items,), (group,), out))
    return 2.0 * lanes * _CHAINS * _STEPS * items / seconds
