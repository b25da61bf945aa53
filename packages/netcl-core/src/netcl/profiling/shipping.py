"""Measures the table of kernels that is shipped with the package: ``python -m netcl.profiling.shipping DEVICE...``.

Rule and kernels are measured in turns, so that other load on the machine affects all of them. A kernel replaces the
rule's choice only if it is clearly faster; the rows of other drivers stay unchanged.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter
from typing import Any

from netcl.core import config, manager
from netcl.core.__about__ import __version__
from netcl.core.engine.registry import engine_for
from netcl.core.kernel_selector import get_kernel_selector
from netcl.core.tuning import measurements, shipped
from netcl.core.tuning.candidates import config_of
from netcl.profiling.autotuner import is_right
from netcl.profiling.problems import PROBLEMS
from netcl.profiling.trials import safe_kernels

_ONE, _NONE = (1, 1), (0, 0)
# Products as (M, N, K), convolutions as (N, C, F, H, W, KH, KW, stride, padding).
SHAPES: tuple[tuple[str, tuple[Any, ...]], ...] = (
    *(("matmul", (size, size, size)) for size in (128, 256, 512, 1024, 2048)),
    ("matmul", (256, 512, 512)),
    ("matmul", (1024, 1024, 256)),
    ("matmul", (64, 512, 784)),
    ("matmul", (4096, 1, 4096)),
    ("matmul", (1, 4096, 4096)),
    *(("conv2d", (32, c, c, s, s, 3, 3, _ONE, _ONE)) for c, s in ((64, 32), (128, 16), (256, 8), (512, 4))),
    ("conv2d", (32, 3, 64, 32, 32, 3, 3, _ONE, _ONE)),
    ("conv2d", (32, 64, 128, 32, 32, 1, 1, (2, 2), _NONE)),
)
_SECONDS = 2.0  # of measuring in turns, for each shape
_LEAST = 8  # turns
_GAIN = 1.15  # must be faster by this factor in three of four turns, and by the fastest runs
_HOPELESS = 4.0  # a kernel slower than the rule's choice by this factor in a first run is not measured further


def measured_rows(
    queue: Any = None,
    shapes: Iterable[tuple[str, tuple[Any, ...]]] = SHAPES,
    dtype: str = "float32",
    seconds: float = _SECONDS,
) -> list[dict[str, Any]]:
    """Returns rows of the table for the device of a queue or handle (None: the active one), as ``shipped.rows_for``."""
    engine = engine_for(queue)
    with config.override(AUTOTUNE="off"):
        return [_row(engine, op, shape, dtype, seconds) for op, shape in shapes]


def write(path: Path, driver: dict[str, Any], rows: Sequence[dict[str, Any]]) -> None:
    """Replaces the rows of a driver in the table at ``path``."""
    tables = json.loads(path.read_text(encoding="utf-8"))["drivers"] if path.exists() else []
    kept = [table for table in tables if table["driver"] != driver]
    tables = [*kept, {"driver": driver, "netcl-core": __version__, "rows": rows}]
    tables.sort(key=lambda table: json.dumps(table["driver"]))
    path.write_text(json.dumps({"drivers": tables}, indent=1) + "\n", encoding="utf-8")


def _row(engine: Any, op: str, shape: tuple[Any, ...], dtype: str, seconds: float) -> dict[str, Any]:
    problem = PROBLEMS[op](engine, shape, dtype)
    what = f"{op} {shape} {dtype}"
    # Winograd rounds differently from products: only the rule may choose it.
    kernels = [
        kernel
        for kernel in safe_kernels(engine, op, shape, dtype, problem.kernels)
        if not kernel.startswith("winograd") and is_right(engine, what, dtype, kernel, problem)
    ]
    runs = {kernel: partial(problem.run, kernel) for kernel in kernels}
    times = _interleaved(engine, partial(problem.run, None), runs, seconds)
    ruled = times.pop("")
    gains = {kernel: [a / b for a, b in zip(ruled, taken)] for kernel, taken in times.items()}
    sure = {
        kernel: median(each)
        for kernel, each in gains.items()
        if quantiles(each, n=4)[0] >= _GAIN and min(ruled) / min(times[kernel]) >= _GAIN
    }
    best = max(sure, key=lambda kernel: sure[kernel]) if sure else None
    chosen = None
    if best is not None:
        chosen = config_of(get_kernel_selector(engine.queue).traits, op, best, dtype)
        chosen.extra["kernel"] = best
    return {
        "op": op,
        "shape": shape,
        "dtype": dtype,
        "gains": {kernel: round(median(each), 2) for kernel, each in gains.items()},
        "config": chosen and measurements.row_of(chosen),
    }


def _interleaved(
    engine: Any, rule: Callable[[], Any], runs: Mapping[str, Callable[[], Any]], seconds: float
) -> dict[str, list[float]]:
    """Returns the seconds of each turn of the rule (named "") and of runs in contention, in a new order each time."""

    def once(run: Callable[[], Any]) -> float:
        begun = perf_counter()
        run()
        engine.finish()
        return perf_counter() - begun

    once(rule)
    bound = _HOPELESS * max(once(rule) for _ in range(3))
    all_runs = {"": rule, **{name: run for name, run in runs.items() if min(once(run), once(run)) <= bound}}
    times: dict[str, list[float]] = {name: [] for name in all_runs}
    names = list(all_runs)
    end = perf_counter() + seconds
    while perf_counter() < end or len(times[""]) < _LEAST:
        for name in names:
            times[name].append(once(all_runs[name]))
        names = names[1:] + names[:1]
    return times


def main() -> int:
    """Measures the devices named by the arguments into the table of this checkout."""
    for selector in sys.argv[1:]:
        handle = manager.default(selector)
        if handle is None or handle.backend != "cl":
            print(f"{selector}: no OpenCL device", file=sys.stderr)
            return 1
        rows = measured_rows(handle)
        write(Path(str(shipped.resource())), shipped.driver_of(handle.device), rows)
        for row in rows:
            print(handle.device_name, row["op"], row["shape"], row["gains"], row["config"] and row["config"]["extra"])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
